import subprocess

from launched_training import main, small, ternary
from signalled_training import SignalledTraining


def on(gpus, **environment):
    """Environment in which processes see `gpus` emulated GPUs."""
    return {"SIMT_DEVICES": str(gpus), **environment}


class Gpus(SignalledTraining):
    """Processes with an emulated GPU each; NCCL is replaced by MPI."""

    def options(self, **others):
        return ternary(**{"device": "cuda", "image_size": 8, "batch_size": 8, "num_nodes": 4, "benchmark_mode": "true",
                          "weight_decay": 0.004, "log_steps": 2, "telemetry_steps": 2, "max_steps": 4, "save_iter": 2, **others})

    def test_processes_have_the_bits_of_one_gpu(self):
        self.trained(0, "alone", *self.options())
        result = self.trained(2, "ranks2", *self.options(), "--check_replicas", "2", "--rebroadcast_epochs", "1", env=on(2))
        self.assertIn("2 processes of SIMT emulation", result.stderr)
        self.assert_same("alone", "ranks2")
        self.assertTrue(self.metrics("ranks2"))

    def test_groups_of_workers_have_the_bits_of_one_gpu(self):
        options = self.options(workers_per_group=2, codec_memory="ef", bucket_mb=0.01)
        self.trained(0, "alone", *options)
        for ranks, overlap in [(2, "off"), (4, "on")]:
            self.trained(ranks, f"ranks{ranks}", *options, f"--overlap={overlap}", env=on(ranks))
            self.assert_same("alone", f"ranks{ranks}")

    def test_factors_are_those_of_one_gpu_and_continue_with_another_number(self):
        options = self.options(codec_for="*weights=powersgd:rank=1,min_ratio=1", error_feedback="true")
        self.trained(0, "alone", *options)
        self.trained(2, "ranks2", *options, env=on(2))
        self.assert_same("alone", "ranks2")
        self.keep_checkpoint("ranks2", 2)
        self.trained(0, "ranks2", *options, "--resume")
        self.assert_same("alone", "ranks2")

    def test_directions_have_the_bits_of_one_gpu_and_of_gradients_that_cpus_exchange(self):
        options = self.options(optimizer="zero_one_adam", variance_update_scaler=1, max_steps=9)
        self.trained(0, "alone", *options)
        self.trained(2, "ranks2", *options, "--overlap=on", env=on(2))
        self.trained(3, "cpus", *options, "--strategy=ps", "--num_servers=1", env=on(1))
        self.assert_same("alone", "ranks2")
        self.assertEqual(self.checkpoint("alone"), self.checkpoint("cpus"))

    def test_a_warm_up_of_sparse_codes_has_the_bits_of_one_that_cpus_exchange(self):
        options = [option for option in self.options(codec="dgc:density=0.02,stage_steps=2", optimizer="gd", max_steps=6)
                   if not option.startswith(("--grad_bits", "--clip_factor"))]
        self.trained(3, "cpus", *options, "--strategy=ps", "--num_servers=1", env=on(1))
        self.trained(0, "alone", *options)
        self.trained(2, "ranks2", *options, env=on(2))
        self.assertEqual(self.checkpoint("alone"), self.checkpoint("cpus"))
        self.assert_same("alone", "ranks2")
        first, last = (self.train_records("alone")[i]["wire_bytes_per_worker"]["sent"]["gradient"] for i in (0, -1))
        self.assertLess(5 * last, first)
        self.keep_checkpoint("ranks2", 2)  # the second of three stages
        self.trained(0, "ranks2", *options, "--resume")
        self.assert_same("alone", "ranks2")

    def test_gradients_that_cpus_exchange_have_the_same_bits(self):
        """Several GPUs per process, and several processes per GPU; the rows of launch_table.py have one GPU per process."""
        self.trained(0, "alone", *self.options(max_steps=2))
        parameters = {"strategy": "ps", "pull": "parameters"}
        for name, ranks, gpus, options in [
            ("of_one_process", 0, 2, {**parameters, "num_gpus": 2}),
            ("two_each", 2, 4, {**parameters, "num_gpus": 2}),
            ("one_gpu", 2, 1, parameters),
            ("apart", 3, 1, {**parameters, "num_servers": 1}),
        ]:
            result = self.trained(ranks, name, *self.options(max_steps=2, **options), env=on(gpus))
            self.assertIn("GPUs compute gradients, which are encoded, exchanged and applied by the CPU", result.stderr)
            self.assertEqual(self.checkpoint(name), self.checkpoint("alone"), name)

    def test_gpus_add_gradients_by_the_librarys_all_reduce(self):
        options = small(device="cuda", image_size=8, batch_size=8, num_nodes=4, benchmark_mode="true", max_steps=2, log_steps=2)
        self.trained(0, "alone", *options)
        for name, more in [("whole", ["--overlap=off", "--bucket_mb=100"]), ("buckets", ["--overlap=on", "--bucket_mb=0.1"])]:
            result = self.trained(2, name, *options, "--exchange=vendor", *more, env=on(2))
            self.assertNotIn("by the CPU", result.stderr)
            # The library sums in its own order, which changes the last digits.
            for ours, of_library in zip(self.metrics("alone"), self.metrics(name), strict=True):
                self.assertAlmostEqual(ours["loss"], of_library["loss"], places=4)

    def test_processes_that_only_serve_need_no_gpu(self):
        self.trained(0, "alone", *self.options(max_steps=2))
        for device, servers_gpus in [("auto", 0), ("cuda", 0), ("auto", 1)]:
            name = f"{device}{servers_gpus}"
            command = [*self.options(max_steps=2, strategy="ps", num_servers=1, device=device), "--train_dir", self.path(name)]
            self.launch_apart(command, 2, 1, servers_gpus)
            self.assertEqual(self.checkpoint(name), self.checkpoint("alone"), name)
        # A server with a GPU does not use it if the workers have none.
        options = self.options(max_steps=2, strategy="ps", num_servers=1, device="auto")
        self.launch_apart([*options, "--train_dir", self.path("on_cpus")], 2, 0, 1)
        self.trained(0, "cpu", *self.options(max_steps=2, device="cpu"))
        self.assertEqual(self.checkpoint("on_cpus"), self.checkpoint("cpu"))

    def test_asynchronous_workers_share_a_gpu(self):
        options = [option for option in self.options(strategy="async", max_steps=12) if "telemetry" not in option]
        for gpus in [1, 8]:
            result = self.trained(3, f"async{gpus}", *options, env=on(gpus))
            self.assertIn("rank 0 serves, 4 workers on ranks 1 to 2 push", result.stderr)
            self.assertIn("staleness of all pushes", result.stdout)
        self.assertRegex(self.refused(3, *options, "--num_gpus", "2", env=on(8)),
                         "--num_gpus 2: needs 0 or 1 with --strategy async and several processes, whose workers take turns")
        # In a single process the workers use several GPUs.
        losses = []
        for gpus in [1, 2]:
            self.trained(0, f"alone{gpus}", *options, "--num_gpus", str(gpus), env=on(2))
            losses.append([record["loss"] for record in self.train_records(f"alone{gpus}")])
        self.assertEqual(losses[0], losses[1])

    def test_a_run_goes_on_with_other_numbers_of_gpus(self):
        self.trained(0, "whole", *self.options())
        self.trained(2, "cut", *self.options(), env=on(2))
        self.keep_checkpoint("cut", 2)
        result = self.trained(0, "cut", *self.options(), "--resume")
        self.assertIn("resumed after step 2", result.stderr)
        # Bits depend on the kind of GPU, which is the same.
        self.assertNotIn("the run was on", result.stderr)
        self.assert_same("whole", "cut")

    def test_a_signal_to_one_stops_all_after_the_same_step(self):
        self.assert_one_stops_all(2, "stopped", *self.options(max_steps=100000, save_iter=100000), env=on(2))

    def hang(self, name, **environment):
        """Makes rank 1 of a run hang. @returns the run's output, and seconds until it ended"""
        run = self.start(2, name, *self.options(max_steps=100000, exchange_timeout=4), env=on(2, **environment))
        self.wait_for_steps(run, name)
        out, err, seconds = self.hung(run, 1, timeout=120)
        return out + err, seconds

    def test_a_process_that_hangs_is_named_in_time(self):
        text, seconds = self.hang("hangs", NCCL_OVER_MPI_PATIENCE="0.5")
        # Rank 1 may hang in a step or between two.
        self.assertRegex(text, r"rank 0 on .*heard nothing from rank 1 \(host \S+\) for (2|4) seconds")
        self.assertLess(seconds, 20)

    def test_a_library_that_hangs_ends_the_run_in_time(self):
        text, seconds = self.hang("hangs")
        self.assertRegex(text, r"rank 0.*(steps \d+ to \d+ have not ended on GPUs in 4 seconds|heard nothing from rank 1)")
        self.assertLess(seconds, 20)

    def test_what_cannot_be_shared_is_refused(self):
        for gpus, options, words in [
            (1, {}, r"2 processes share the 1 GPU of \S+, and each needs one of its own"),
            (3, {}, r"--num_gpus: 2 processes cannot share the 3 GPUs of \S+ evenly; say how many each is to take, 1 to 1"),
            (2, {"num_gpus": 2}, r"--num_gpus 2: 2 processes share 2 GPUs of \S+; accepted: 0 \(an equal part\) to 1"),
            (8, {}, r"--num_gpus 4: each GPU of the 2 processes needs a worker, --num_nodes is 4; accepted: 1 to 2"),
            (3, {"strategy": "ps", "pull": "parameters", "num_gpus": 2},
             r"--num_gpus 2: 2 processes share the 3 GPUs of \S+; accepted: 0 or 1 \(in turn\) to 1"),
            (2, {"strategy": "ps", "num_servers": 1, "overlap": "on"}, r"--overlap on: .*needs --num_servers 0 on GPUs"),
            (8, {"strategy": "ps", "pull": "parameters", "num_gpus": 3},
             r"--num_gpus 3: each GPU of the 2 processes needs a worker, --num_nodes is 4; accepted: 1 to 2"),
            (2, {"codec_for": "*=topk", "error_feedback": "true", "downlink_codec": "sparse"}, r"--downlink_codec sparse: has no kernels for GPUs"),
            (2, {"profile": "true"}, r"--profile=true: needs --device cpu: the parts of a step are not timed on GPUs"),
        ]:
            self.assertRegex(self.refused(2, *self.options(**options), env=on(gpus)), words)

    def test_gpus_that_cannot_be_joined_end_the_run(self):
        # The replacement of NCCL has one GPU per process.
        result = self.train(2, "refused", *self.options(), "--num_gpus", "2", env=on(4))
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"\[nccl\] ranks \d to \d of 4: joining the group failed")

    def launch_apart(self, command, ranks, gpus, gpus_of_last):
        """Starts `ranks` processes that see `gpus` GPUs, and a last one that sees `gpus_of_last`."""
        first = [*self.launcher, str(ranks), "-x", f"SIMT_DEVICES={gpus}", self.program, *command]
        last = [":", "-n", "1", "-x", f"SIMT_DEVICES={gpus_of_last}", self.program, *command]
        result = subprocess.run([*first, *last], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_the_rank_that_evaluates_needs_no_gpu(self):
        options = [option for option in self.options(max_steps=2) if "benchmark_mode" not in option]
        for training, strategy in [(1, ["replicated"]), (2, ["replicated"]), (2, ["ps"]), (1, ["ps", "--pull=parameters"])]:
            name = f"{''.join(strategy)}{training}"  # a single process that trains has no group
            command = [*options, "--strategy", *strategy, "--last_rank_evaluates", "--train_dir", self.path(name)]
            self.launch_apart(command, training, training, 0)
            self.assertEqual(self.checkpoint(name), self.checkpoint("replicated1"))


if __name__ == "__main__":
    main()
