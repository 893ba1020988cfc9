import re
import subprocess

from launched_training import ERROR, LaunchedTraining, digits, main, small


class Usage(LaunchedTraining):
    """The chief alone reports invalid usage, before any work."""

    def ran(self, command):
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def refused_apart(self, first, second, *of_launcher):
        """Two ranks with different options, which are refused; `of_launcher` is for the second rank. @returns stderr"""
        result = self.ran([*self.command(1, first), ":", "-np", "1", *of_launcher, self.program, *second])
        self.assertEqual(result.returncode, 2, result.stderr)
        return result.stderr

    def options(self, **others):
        return small(train_dir=self.path("refused"), **others)

    def test_a_wrong_option_is_said_once(self):
        self.assertIn("--grad_bits: '3' is refused", self.refused(3, "--grad_bits", "3"))

    def test_every_process_needs_a_worker(self):
        self.assertIn("--num_nodes 2: each of the 3 training processes needs a worker; accepted: 3 or more",
                      self.refused(3, "--num_nodes", "2"))

    def test_gpus_that_are_not_there_are_refused(self):
        # Also on a machine with one GPU: two processes cannot share it.
        self.assertRegex(self.refused(2, "--num_nodes", "2", "--device", "cuda", "--num_gpus", "1000"),
                         r"--device cuda: rank 0 on \S+ has no GPU \(.+\); accepted: cpu$"
                         r"|--device cuda: 2 processes share |--num_gpus 1000: 2 processes share ")

    def test_memory_is_measured_of_every_process(self):
        for strategy in ("auto", "async"):
            text = self.ran(self.command(3, ["--memory", *small(strategy=strategy, num_nodes=3, batch_size=15)])).stdout
            peaks = [float(row.split()[-1]) for row in text.splitlines() if re.match(r" +[012] ", row)]
            self.assertEqual(len(peaks), 3, text)
            self.assertGreater(min(peaks), 10, text)
            total = re.search(r"all 3 processes together ([0-9.]+) MB", text)
            self.assertAlmostEqual(float(total[1]), sum(peaks), delta=0.02)

    def test_the_peak_of_memory_is_not_that_of_the_process_that_began_the_run(self):
        ballast = b"x" * 600_000_000
        text = self.ran(self.command(0, ["--memory", *small()])).stdout
        (peak,) = [float(row.split()[-1]) for row in text.splitlines() if row.startswith("      0 ")]
        self.assertLess(peak, len(ballast) / 1e6)

    def test_a_timeout_needs_several_processes(self):
        self.assertIn("--exchange_timeout", self.refused(0, "--exchange_timeout", "3"))
        self.assertIn("at least 0.1", self.refused(2, "--num_nodes", "2", "--exchange_timeout", "0"))

    def test_ranks_on_other_devices_are_named(self):
        self.assertRegex(self.refused_apart(self.options(device="cpu"), self.options(device="auto")),
                         r'rank 1 on \S+: --device is "auto" here and "cpu" for rank 0 on \S+; all ranks')

    def test_ranks_with_other_options_are_named(self):
        self.assertRegex(self.refused_apart(self.options(), self.options(save_iter=7)),
                         r"rank 1 on \S+: --save_iter is 7 here and 1000 for rank 0")

    def test_ranks_that_compute_with_other_instructions_are_named(self):
        self.assertRegex(self.refused_apart(self.options(), self.options(), "-x", "DNNL_MAX_CPU_ISA=SSE41"),
                         r"rank 1 on \S+: \(program\) is .*oneDNN .* here and .*oneDNN .* for rank 0")

    def test_a_cluster_of_the_environment_that_disagrees_is_refused(self):
        cluster = {"PS_HOSTS": "a:2222", "WORKER_HOSTS": "b:2222", "JOB_NAME": "worker", "TASK_INDEX": "0"}
        exported = [word for name, value in cluster.items() for word in ("-x", f"{name}={value}")]
        self.assertRegex(self.refused_apart(self.options(), self.options(), *exported),
                         r"rank 1 on \S+: PS_HOSTS, WORKER_HOSTS: make this process worker 0, rank 0 of a launch")

    def test_help_of_one_rank_only_is_refused(self):
        self.assertIn("--help, --version: are for all processes or for none", self.refused_apart(["--help"], small()))

    def test_a_folder_that_one_rank_lacks_is_named(self):
        self.assertRegex(self.refused_apart(self.options(dataset="mnist", data_dir=digits().name),
                                            self.options(dataset="mnist", data_dir=self.path("nowhere"))),
                         rf"{ERROR}rank 1 on \S+: --data_dir \S+/nowhere: there is no such folder")

    def test_help_is_printed_once(self):
        result = self.ran(self.command(2, ["--help"]))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("terngrad_train: trains"), 1)


if __name__ == "__main__":
    main()
