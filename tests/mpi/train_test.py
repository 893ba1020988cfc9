"""terngrad_train as several processes of one launch.

Arguments: terngrad_train, the folder of MNIST's files (which may be absent), then the launcher's command up to the number
of ranks, and the name of a test class to run."""

import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

PROGRAM = ""
MNIST = ""
LAUNCHER = []



def small(**others):
    """Options of a small run of eight workers, others added or in place of these."""
    values = {"image_size": 16, "batch_size": 16, "num_nodes": 8, "threads": 1, "device": "cpu", **others}
    return [f"--{name}={value}" for name, value in values.items()]


def ternary(**others):
    return small(grad_bits=1, clip_factor=2.5, **others)


TIMES = re.compile(r"(_seconds|_per_second)$")


def without_times(record):
    return {key: value for key, value in record.items() if not TIMES.search(key)}


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="terngrad_mpi_")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, ranks, options):
        launch = [] if ranks == 0 else [*LAUNCHER, str(ranks)]
        return [*launch, PROGRAM, *options]

    def start(self, ranks, options, **more):
        return subprocess.Popen(self.command(ranks, options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def train(self, ranks, name, *options, env=None):
        """Trains on so many ranks, 0: without a launcher."""
        result = subprocess.run(self.command(ranks, [*options, "--train_dir", self.path(name)]), capture_output=True,
                                text=True, env={**os.environ, **(env or {})})
        return result

    def trained(self, *arguments, **more):
        result = self.train(*arguments, **more)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def checkpoint(self, name):
        """The bytes of the last checkpoint."""
        files = sorted(file for file in os.listdir(self.path(name)) if file.startswith("checkpoint-"))
        with open(os.path.join(self.path(name), files[-1]), "rb") as file:
            return files[-1], file.read()

    def metrics(self, name):
        with open(os.path.join(self.path(name), "metrics.jsonl"), encoding="utf-8") as file:
            return [without_times(json.loads(line)) for line in file]

    def wait_for_steps(self, run, name):
        path = os.path.join(self.path(name), "metrics.jsonl")
        for _ in range(600):
            self.assertIsNone(run.poll(), "the run has ended")
            if os.path.exists(path) and os.path.getsize(path) > 0:
                return
            time.sleep(0.1)
        self.fail("no step was reported")

    def rank_pids(self, launcher):
        """Process numbers of the ranks, in order."""
        pids = {}
        for entry in os.listdir("/proc"):
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    environment = dict(part.split(b"=", 1) for part in file.read().split(b"\0") if b"=" in part)
                with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError):
                continue
            if parent == launcher and b"OMPI_COMM_WORLD_RANK" in environment:
                pids[int(environment[b"OMPI_COMM_WORLD_RANK"])] = int(entry)
        return [pids[rank] for rank in sorted(pids)]

    def assert_same(self, name, other):
        self.assertEqual(self.checkpoint(name), self.checkpoint(other), f"{name} {other}")
        self.assertEqual(self.metrics(name), self.metrics(other), f"{name} {other}")


class SameBits(Run):
    """Contract B3: N workers end with the same bits on any number of processes."""

    def check(self, steps, ranks, *options, env=None):
        options = [*options, "--max_steps", str(steps), "--log_steps", "3"]
        self.trained(0, "alone", *options, env=env)
        for number in ranks:
            self.trained(number, f"ranks{number}", *options, env=env)
            self.assert_same("alone", f"ranks{number}")

    def test_lenet_ternary(self):
        self.check(6, [1, 2, 4, 8], *ternary())

    def test_lenet_fp32(self):
        self.check(6, [2, 4], *small())

    def test_replicas_are_found_equal(self):
        self.check(4, [], *ternary())
        self.trained(2, "checked", *ternary(max_steps=4, log_steps=3, check_replicas=1, rebroadcast_epochs=1))
        self.assert_same("alone", "checked")

    def test_one_example_per_worker(self):
        self.check(4, [2, 4], *ternary(batch_size=8))

    def test_without_avx512(self):
        self.check(4, [2, 4], *ternary(), env={"DNNL_MAX_CPU_ISA": "AVX2"})

    def test_cifar_net(self):
        net = {"dataset": "cifar10", "benchmark_mode": "true", "image_size": 24}
        self.check(3, [2, 4], *ternary(quantize_logits="true", **net))

    def test_cifar_net_fp32(self):
        self.check(3, [2], *small(dataset="cifar10", benchmark_mode="true", image_size=24))

    def test_every_exchange_and_return_codec(self):
        options = ternary(max_steps=4, num_nodes=3, batch_size=12)
        for return_codec in ["fp32", "bf16", "ternary"]:
            self.trained(0, f"alone-{return_codec}", *options, "--return_codec", return_codec)
            for exchange in ["all_gather", "scatter_reduce", "integer_sum"]:
                name = f"{exchange}-{return_codec}"
                self.trained(3, name, *options, "--return_codec", return_codec, "--exchange", exchange)
                self.assertEqual(self.checkpoint(name), self.checkpoint(f"alone-{return_codec}"), name)


class Servers(Run):
    """Parameter servers, of their own or beside workers, end with the bits of replicas that aggregate for themselves."""

    def check(self, launches, options, *of_servers):
        """Compares with replicas, which know nothing of the options of servers."""
        self.trained(0, "replicated", *options)
        for ranks, servers in launches:
            name = f"{servers}of{ranks}"
            placed = ["--num_servers", str(servers)] if ranks > 0 else []
            result = self.trained(ranks, name, *options, "--strategy", "ps", *of_servers, *placed)
            self.assertEqual(self.checkpoint(name), self.checkpoint("replicated"), name)
            self.assertEqual(f"(the last {servers} of them serving)" in result.stderr, servers > 0)
            shutil.rmtree(self.path(name))
        shutil.rmtree(self.path("replicated"))

    def test_they_send_the_mean_gradient(self):
        options = ternary(max_steps=4, num_nodes=4, batch_size=16)
        self.check([(0, 0), (2, 0), (4, 2)], options)
        for return_codec in ["sums", "ternary"]:
            self.check([(3, 1)], [*options, "--return_codec", return_codec])

    def test_they_send_parameters(self):
        options = ternary(max_steps=5, num_nodes=3, batch_size=12, optimizer="adam", save_iter=2)
        self.check([(0, 0), (2, 0), (3, 1), (4, 3)], options, "--pull", "parameters")

    def test_rounded_parameters_are_those_of_one_process(self):
        options = ternary(max_steps=10, num_nodes=4, batch_size=16, log_steps=4, save_iter=4, eval_steps=5, strategy="ps",
                          pull="parameters", return_codec="bf16")
        self.trained(0, "alone", *options)
        self.trained(4, "servers", *options, "--num_servers", "2")
        self.assertEqual(self.checkpoint("servers"), self.checkpoint("alone"))
        # And go on from a checkpoint with other servers.
        for file in os.listdir(self.path("servers")):
            if file.startswith("checkpoint-") and "0000000004" not in file:
                os.unlink(os.path.join(self.path("servers"), file))
        result = self.trained(2, "servers", *options, "--num_servers", "1", "--resume")
        self.assertIn("resumed after step 4", result.stderr)
        self.assertEqual(self.checkpoint("servers"), self.checkpoint("alone"))
        # Replicas that update themselves have other bits, so they do not go on with it.
        result = self.train(0, "servers", *options[:-3], "--resume")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, "pull|return_codec")

    def test_a_server_that_hangs_is_named(self):
        run = self.start(3, [*ternary(max_steps=100000, log_steps=5, exchange_timeout=2, strategy="ps", num_servers=1),
                             "--train_dir", self.path("hangs")])
        self.wait_for_steps(run, "hangs")
        os.kill(self.rank_pids(run.pid)[2], signal.SIGSTOP)
        out, err = run.communicate(timeout=60)
        self.assertNotEqual(run.returncode, 0, out + err)
        self.assertRegex(err, r"(heard nothing from|was taken by) rank 2 \(host \S+\) for 2 seconds")

    def test_launches_that_they_do_not_fit_are_refused(self):
        for ranks, options, words in [(3, ["--num_servers", "3"], "accepted: 0 to 2"),
                                      (4, ["--num_servers", "1", "--num_nodes", "2"], "each of the 3 training processes")]:
            result = self.train(ranks, "refused", "--strategy", "ps", *options)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr)


class Shares(Run):
    """Each process trains on data of its own."""

    OPTIONS = ternary(max_steps=6, log_steps=3, save_iter=3, dataset="folder", data_shares="true")

    SIDE = 16

    def png(self, draw, channels):
        """A drawn image."""
        def chunk(name, content):
            return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

        header = struct.pack(">IIBBBBB", self.SIDE, self.SIDE, 8, 0 if channels == 1 else 2, 0, 0, 0)
        rows = b"".join(b"\0" + draw.randbytes(self.SIDE * channels) for _ in range(self.SIDE))
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")

    def write_share(self, name, count, seed, channels=1):
        """A data set of image files in three classes."""
        draw = random.Random(seed)
        for subset, number in [("train", count), ("test", 6)]:
            for index in range(number):
                folder = os.path.join(self.path(name), subset, f"class{index % 3}")
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, f"{index:03}.png"), "wb") as file:
                    file.write(self.png(draw, channels))

    def setUp(self):
        super().setUp()
        self.write_share("data/worker_0_of_2", 60, 1)
        self.write_share("data/worker_1_of_2", 41, 2)
        self.data = ["--data_dir", self.path("data")]

    def test_a_run_on_shares_is_repeatable_and_goes_on(self):
        self.trained(2, "whole", *self.OPTIONS, *self.data)
        self.trained(2, "again", *self.OPTIONS, *self.data)
        self.assert_same("whole", "again")
        os.unlink(os.path.join(self.path("again"), "checkpoint-0000000006.safetensors"))
        result = self.trained(2, "again", *self.OPTIONS, *self.data, "--resume")
        self.assertIn("resumed after step 3", result.stderr)
        self.assert_same("whole", "again")
        # Servers have no share.
        self.trained(3, "served", *self.OPTIONS, *self.data, "--strategy", "ps", "--num_servers", "1")
        self.assertEqual(self.checkpoint("served"), self.checkpoint("whole"))
        # Nor has the process that evaluates.
        self.trained(3, "evaluated", *self.OPTIONS, *self.data, "--last_rank_evaluates")
        self.assertEqual(self.checkpoint("evaluated"), self.checkpoint("whole"))

    def test_what_a_process_has_decides_the_run(self):
        self.trained(2, "whole", *self.OPTIONS, *self.data)
        os.rename(self.path("data/worker_1_of_2"), self.path("other"))
        self.write_share("data/worker_1_of_2", 41, 3)
        self.trained(2, "changed", *self.OPTIONS, *self.data)
        self.assertNotEqual(self.checkpoint("changed"), self.checkpoint("whole"))
        result = self.train(2, "whole", *self.OPTIONS, *self.data, "--resume")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(len(re.findall("data_fingerprint", result.stderr)), 1, result.stderr)

    def test_shares_that_are_not_there_or_not_alike_are_refused_once(self):
        result = self.train(3, "run", *self.OPTIONS, *self.data)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("terngrad_train: error"), 1, result.stderr)
        self.assertIn("worker_1_of_3", result.stderr)
        os.rename(self.path("data/worker_1_of_2"), self.path("other"))
        self.write_share("data/worker_1_of_2", 41, 3, channels=3)
        result = self.train(2, "run", *self.OPTIONS, *self.data)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(result.stderr.count("terngrad_train: error"), 1, result.stderr)
        self.assertIn("rank 0 has images of 16x16x1 in 3 classes, rank 1 images of 16x16x3 in 3", result.stderr)


class Vendor(Run):
    """The library's own all-reduce trains as well, to last places."""

    def test_it_follows_the_exchange_of_equal_bits(self):
        for codec, bound in [("fp32", 1e-5), ("bf16", 3e-2), ("fp16", 3e-3)]:
            options = small(max_steps=6, log_steps=1, codec=codec)
            self.trained(3, codec, *options, "--exchange", "vendor")
            self.trained(0, f"{codec}-alone", *(small(max_steps=6, log_steps=1)))
            for ours, theirs in zip(self.metrics(f"{codec}-alone"), self.metrics(codec)):
                self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=bound)
                if ours["kind"] == "train":
                    self.assertEqual(theirs["sent_bytes_per_worker"]["scalers"], 0)
                    self.assertGreater(theirs["sent_bytes_per_worker"]["gradient"], 0)


class Overlap(Run):
    """What is exchanged while the backward pass goes on has the bits and bytes of what is exchanged after it."""

    def check(self, *options):
        options = [*options, "--max_steps", "6", "--log_steps", "3"]
        self.trained(0, "alone", *options, "--overlap", "off")
        self.trained(0, "alone-on", *options, "--overlap", "on")
        self.assert_same("alone", "alone-on")
        for ranks in [2, 4]:
            for overlap in ["auto", "on", "off"]:
                name = f"{overlap}{ranks}"
                self.trained(ranks, name, *options, "--overlap", overlap)
                self.assert_same("alone", name)
                # How much is hidden is up to the machine.
                hidden = [line["hidden_seconds"] for line in self.train_lines(name)]
                self.assertTrue(overlap != "off" or not any(hidden), hidden)

    def train_lines(self, name):
        with open(os.path.join(self.path(name), "metrics.jsonl"), encoding="utf-8") as file:
            return [line for line in map(json.loads, file) if line["kind"] == "train"]

    def test_ternary(self):
        self.check(*ternary(bucket_mb=0.1, weight_decay=0.01))

    def test_fp32(self):
        self.check(*small(bucket_mb=0.1, nan_to_zero="true"))

    def test_floating_epochs(self):
        self.check(*ternary(bucket_mb=0.1, floating_grad_epoch=2))

    def test_cifar_net(self):
        self.check(*ternary(bucket_mb=1, dataset="cifar10", benchmark_mode="true", image_size=24))

    def test_any_buckets_end_with_the_same_checkpoint(self):
        options = ternary(max_steps=4)
        self.trained(0, "default", *options)
        for megabytes in [0.000001, 0.1, 1000]:
            name = f"buckets{megabytes}"
            self.trained(2, name, *options, "--bucket_mb", str(megabytes))
            self.assertEqual(self.checkpoint(name), self.checkpoint("default"), name)

    def test_what_needs_whole_gradients_is_exchanged_after_the_backward_pass(self):
        for name, option in [("model", "--scaler_scope=model"), ("norm", "--clip_by_global_norm=1")]:
            options = ternary(max_steps=3, log_steps=3)
            self.trained(0, f"{name}-alone", *options, option)
            self.trained(2, name, *options, option)
            self.assert_same(name, f"{name}-alone")
            self.assertEqual([line["hidden_seconds"] for line in self.train_lines(name)], [0])


class Resume(Run):
    """Contract B4, on another number of processes."""

    OPTIONS = ternary(max_steps=10, log_steps=4, save_iter=4, eval_steps=5)

    def test_a_run_goes_on_with_other_numbers_of_processes(self):
        self.trained(0, "whole", *self.OPTIONS)
        for first, then in [(2, 4), (4, 0), (0, 2)]:
            name = f"from{first}to{then}"
            self.trained(first, name, *self.OPTIONS)
            # As if it had been killed after the step of the first checkpoint.
            for file in os.listdir(self.path(name)):
                if file.startswith("checkpoint-") and "0000000004" not in file:
                    os.unlink(os.path.join(self.path(name), file))
            result = self.trained(then, name, *self.OPTIONS, "--resume")
            self.assertIn("resumed after step 4", result.stderr)
            self.assert_same("whole", name)

    def test_parameters_to_begin_with_reach_all_ranks(self):
        self.trained(0, "other", *small(max_steps=3))
        begin = ["--init_from", os.path.join(self.path("other"), self.checkpoint("other")[0]), "--max_steps", "3"]
        self.trained(0, "alone", *ternary(), *begin)
        self.trained(2, "ranks2", *ternary(), *begin)
        self.assert_same("alone", "ranks2")

    def test_a_signal_saves_the_same_step_everywhere(self):
        options = ternary(max_steps=100000, log_steps=5)
        # A rank's own process, as another one than the launcher may be sent the signal.
        run = self.start(2, [*options, "--train_dir", self.path("stopped")])
        self.wait_for_steps(run, "stopped")
        os.kill(self.rank_pids(run.pid)[1], signal.SIGTERM)
        out, err = run.communicate(timeout=60)
        stopped = re.search(r"stopped after step (\d+) of 100000", out)
        self.assertTrue(stopped, out + err)
        step = int(stopped.group(1))
        self.assertEqual(re.findall(r"stopping after step .*", err),
                         [f"stopping after step {step}: another process of the run was asked to"])
        self.assertEqual(self.checkpoint("stopped")[0], f"checkpoint-{step:010}.safetensors")
        # The schedule depends on the number of steps, so the comparison runs with the same one.
        run = self.start(0, [*options, "--train_dir", self.path("alone"), "--save_iter", str(step)])
        while not os.path.exists(os.path.join(self.path("alone"), f"checkpoint-{step:010}.safetensors")):
            time.sleep(0.1)
            self.assertIsNone(run.poll())
        run.kill()
        run.communicate()
        with open(os.path.join(self.path("alone"), f"checkpoint-{step:010}.safetensors"), "rb") as file:
            self.assertEqual(file.read(), self.checkpoint("stopped")[1])


class Evaluator(Run):
    """The last rank evaluates what the others save."""

    def test_it_evaluates_every_checkpoint_and_ends_with_the_run(self):
        options = ternary(max_steps=9, log_steps=3, save_iter=3)
        self.trained(0, "alone", *options)
        for ranks in [2, 3]:
            name = f"with{ranks}"
            result = self.trained(ranks, name, *options, "--last_rank_evaluates")
            self.assertEqual(self.checkpoint(name), self.checkpoint("alone"))
            # The run's own metrics have no evaluation, the evaluator's have the one of the last step at least.
            self.assertNotIn("test", [line["kind"] for line in self.metrics(name)])
            with open(os.path.join(self.path(name), "eval", "metrics.jsonl"), encoding="utf-8") as file:
                results = [json.loads(line) for line in file]
            self.assertEqual(results[-1]["step"], 9)
            own = [line for line in self.metrics("alone") if line["kind"] == "test"][-1]
            self.assertEqual(results[-1]["top1"], own["top1"])
            self.assertRegex(result.stdout, r"top-1 = \d")

    def test_it_evaluates_a_run_that_was_stopped(self):
        result = self.trained(2, "stopped", *ternary(max_steps=100000, save_iter=100000, stop_after_secs=1),
                              "--last_rank_evaluates")
        step = int(re.search(r"stopped after step (\d+)", result.stdout).group(1))
        self.assertRegex(result.stdout, rf"step {step}, ema weights")

    def test_it_ends_where_the_others_cannot_start(self):
        options = ternary(num_nodes=2, batch_size=8)
        command = self.command(3, [*options, "--last_rank_evaluates", "--resume", "--train_dir", self.path("nowhere")])
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(len(re.findall(r"terngrad_train: error: .*there is no run", result.stderr)), 1, result.stderr)

    def test_what_it_does_not_go_with_is_refused(self):
        for options, words in [(["--num_nodes", "2", "--eval_steps", "3"], "--eval_steps"),
                               (["--num_nodes", "1"], "each of the 2 training processes")]:
            result = self.train(3, "refused", "--last_rank_evaluates", *options)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr)


class Faults(Resume):
    """A rank that is lost ends the run with a message, and nothing is lost that was saved."""

    OPTIONS = {"max_steps": 100000, "log_steps": 5, "save_iter": 10}
    test_a_run_goes_on_with_other_numbers_of_processes = None
    test_parameters_to_begin_with_reach_all_ranks = None
    test_a_signal_saves_the_same_step_everywhere = None

    def saved(self, name):
        return [file for file in os.listdir(self.path(name)) if file.startswith("checkpoint-")]

    def wait_for_checkpoint(self, run, name):
        for _ in range(600):
            self.assertIsNone(run.poll(), "the run has ended")
            if os.path.isdir(self.path(name)) and self.saved(name):
                return
            time.sleep(0.1)
        self.fail("no checkpoint was saved")

    def test_a_rank_that_hangs_is_named_in_time(self):
        for stopped in [0, 2]:
            name = f"hangs{stopped}"
            run = self.start(3, [*ternary(**self.OPTIONS, exchange_timeout=2), "--train_dir", self.path(name)])
            self.wait_for_checkpoint(run, name)
            pid = self.rank_pids(run.pid)[stopped]
            os.kill(pid, signal.SIGSTOP)
            begin = time.monotonic()
            out, err = run.communicate(timeout=60)
            self.assertLess(time.monotonic() - begin, 20)
            self.assertNotEqual(run.returncode, 0, out + err)
            # Nobody else is suspected; ranks that wait for each other because of it say that they do.
            suspects = re.findall(r"\[mpi\] .*(?:heard nothing from|was taken by) (rank .*) for 2 seconds", err)
            self.assertTrue(suspects, err)
            self.assertTrue(all(re.fullmatch(rf"rank {stopped} \(host \S+\)", suspect) for suspect in suspects), err)
            if stopped != 0:
                self.assertRegex(err, r"rank 0 on .* go on from \S+ with --resume")
            last = max(self.saved(name))
            step = int(re.search(r"(\d+)", last).group(1))
            self.assertEqual(step % 10, 0, "only whole checkpoints are there")
            self.goes_on(name, step)

    def test_a_rank_that_hangs_at_the_end_is_named(self):
        # The chief in its last evaluation, which the others wait for.
        run = self.start(3, [*ternary(max_steps=20, log_steps=5), "--exchange_timeout", "3", "--train_dir",
                             self.path("end")])
        path = os.path.join(self.path("end"), "checkpoint-0000000020.safetensors")
        for _ in range(1200):
            if os.path.exists(path):
                break
            self.assertIsNone(run.poll())
            time.sleep(0.05)
        os.kill(self.rank_pids(run.pid)[0], signal.SIGSTOP)
        out, err = run.communicate(timeout=60)
        self.assertNotEqual(run.returncode, 0, out + err)
        self.assertRegex(err, r"barrier: .* heard nothing from rank 0 \(host \S+\) for 3 seconds")

    def test_a_job_that_is_suspended_as_a_whole_goes_on(self):
        options = ternary(max_steps=60, log_steps=10)
        self.trained(0, "alone", *options)
        run = self.start(3, [*options, "--exchange_timeout", "2", "--train_dir", self.path("suspended")])
        self.wait_for_steps(run, "suspended")
        pids = self.rank_pids(run.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(4)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        out, err = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 0, out + err)
        self.assert_same("alone", "suspended")

    def test_a_rank_that_is_killed_ends_the_run(self):
        run = self.start(3, [*ternary(**self.OPTIONS), "--train_dir", self.path("killed")])
        self.wait_for_checkpoint(run, "killed")
        os.kill(self.rank_pids(run.pid)[1], signal.SIGKILL)
        out, err = run.communicate(timeout=60)
        self.assertNotEqual(run.returncode, 0, out + err)
        self.assertRegex(out + err, r"process rank 1 .*exited on signal 9")
        self.goes_on("killed", int(re.search(r"(\d+)", max(self.saved("killed"))).group(1)))

    def goes_on(self, name, step):
        """A resumed run gets to the bits of one that nothing happened to."""
        options = ternary(**self.OPTIONS, stop_after_secs=0.5)
        result = self.trained(2, name, *options, "--resume")
        self.assertIn(f"resumed after step {step}", result.stderr)
        file, content = self.checkpoint(name)
        end = int(re.search(r"(\d+)", file).group(1))
        self.assertGreater(end, step)
        run = self.start(0, [*ternary(**{**self.OPTIONS, "save_iter": end}), "--train_dir", self.path(name + "-whole")])
        path = os.path.join(self.path(name + "-whole"), file)
        for _ in range(1200):
            if os.path.exists(path):
                break
            self.assertIsNone(run.poll())
            time.sleep(0.05)
        run.kill()
        run.communicate()
        with open(path, "rb") as whole:
            self.assertEqual(whole.read(), content)


class RandomFaults(Faults):
    """Ranks that are lost at random moments, from the first step to the last save. TERNGRAD_FAULT_RUNS says how many times
    of each kind (default 1), TERNGRAD_FAULT_SEED from which moments on."""

    TIMEOUT = 2
    test_a_rank_that_hangs_is_named_in_time = None
    test_a_rank_that_hangs_at_the_end_is_named = None
    test_a_job_that_is_suspended_as_a_whole_goes_on = None
    test_a_rank_that_is_killed_ends_the_run = None

    def setUp(self):
        super().setUp()
        self.options = ternary(max_steps=120, log_steps=10, save_iter=7)
        begin = time.monotonic()
        self.trained(3, "whole", *self.options)
        self.seconds = time.monotonic() - begin
        self.runs = int(os.environ.get("TERNGRAD_FAULT_RUNS", "1"))
        seed = os.environ.get("TERNGRAD_FAULT_SEED", str(time.time_ns()))
        print(f"TERNGRAD_FAULT_SEED={seed}")
        self.random = random.Random(seed)

    def lose(self, name, how):
        """Starts a run and sends a rank a signal at some moment. @returns the rank and what was printed, once it had one."""
        for _ in range(100):
            run = self.start(3, [*self.options, "--exchange_timeout", str(self.TIMEOUT), "--train_dir", self.path(name)])
            time.sleep(self.random.uniform(0, self.seconds))
            pids = self.rank_pids(run.pid)
            rank = self.random.randrange(3)
            # Before there is a folder there is no run to lose.
            if len(pids) == 3 and os.path.exists(os.path.join(self.path(name), "config.json")):
                os.kill(pids[rank], how)
                begin = time.monotonic()
                try:
                    out, err = run.communicate(timeout=60)
                except subprocess.TimeoutExpired:
                    # The end of MPI itself has no deadline; before it everything was done and saved.
                    self.assertEqual(self.checkpoint(name), self.checkpoint("whole"))
                    os.kill(pids[rank], signal.SIGCONT)
                    run.communicate(timeout=60)
                    self.seconds *= 0.8
                    shutil.rmtree(self.path(name), ignore_errors=True)
                    continue
                if run.returncode != 0:
                    self.assertLess(time.monotonic() - begin, self.TIMEOUT + 15)
                    return rank, out + err
            else:
                # Runs take as long as the machine is busy: too late, or too early.
                self.seconds *= 0.8 if run.poll() is not None else 1.1
                run.kill()
                run.communicate()
                # The launcher's end ends its ranks, in a moment.
                while any(os.path.exists(f"/proc/{pid}") for pid in pids):
                    time.sleep(0.05)
            shutil.rmtree(self.path(name), ignore_errors=True)
        self.fail("every run was over before a rank could be lost")

    def check(self, how, words):
        for number in range(self.runs):
            name = f"lost{number}"
            rank, text = self.lose(name, how)
            self.assertRegex(text, words(rank))
            self.trained(self.random.choice([0, 1, 2, 3]), name, *self.options, "--resume")
            self.assert_same("whole", name)
            shutil.rmtree(self.path(name))

    def test_killed_ranks(self):
        self.check(signal.SIGKILL, lambda rank: rf"process rank {rank} .*exited on signal 9")

    def test_stopped_ranks(self):
        self.check(signal.SIGSTOP, lambda rank: rf"\[mpi\] .*(heard nothing from|was taken by) rank {rank} \(host \S+\) for")


class Async(Faults):
    """Asynchronous training: rank 0 serves, the others push."""

    test_a_rank_that_hangs_is_named_in_time = None
    test_a_rank_that_hangs_at_the_end_is_named = None
    test_a_job_that_is_suspended_as_a_whole_goes_on = None
    test_a_rank_that_is_killed_ends_the_run = None

    def options(self, **others):
        return ternary(strategy="async", num_nodes=4, **others)

    def train_lines(self, name):
        return [line for line in self.metrics(name) if line["kind"] == "train"]

    def pushes(self, name):
        """Of the last checkpoint, by worker."""
        with open(os.path.join(self.path(name), self.checkpoint(name)[0]), "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        return [int(number) for number in header["__metadata__"]["async_pushes"].split()]

    def test_every_push_is_counted(self):
        for ranks in [2, 3, 5]:
            name = f"ranks{ranks}"
            result = self.trained(ranks, name, *self.options(max_steps=30, log_steps=10))
            lines = self.train_lines(name)
            self.assertEqual([line["step"] for line in lines], [10, 20, 30])
            for line in lines:
                self.assertEqual(sum(line["staleness"].values()), 40)
                self.assertEqual(line["dropped_pushes"], 0)
            self.assertIn("rank 0 serves", result.stderr)
            self.assertRegex(result.stdout, r"staleness +pushes +share\n +0 +\d+")
            self.assertRegex(result.stdout, r"mean staleness [0-9.]+; 120 pushes, 0 dropped")
            self.assertEqual(sum(self.pushes(name)), 120)

    def test_one_worker_has_the_bits_of_a_synchronous_run(self):
        options = ternary(num_nodes=1, max_steps=8, log_steps=4)
        self.trained(0, "sync", *options)
        self.trained(2, "async", *options, "--strategy", "async")
        self.trained(0, "alone", *options, "--strategy", "async")
        sync, ranks, alone = ([line["loss"] for line in self.metrics(name)] for name in ["sync", "async", "alone"])
        self.assertEqual(sync, ranks)
        self.assertEqual(sync, alone)

    def test_alone_it_is_repeatable_and_resumed_exactly(self):
        options = self.options(max_steps=12, log_steps=5, save_iter=4, max_staleness=2)
        for name in ["one", "other"]:
            self.trained(0, name, *options)
        self.assert_same("one", "other")
        for file in os.listdir(self.path("other")):
            if file.startswith("checkpoint-") and "0000000004" not in file:
                os.unlink(os.path.join(self.path("other"), file))
        self.assertIn("resumed after step 4", self.trained(0, "other", *options, "--resume").stderr)
        self.assert_same("one", "other")

    def test_stale_pushes_are_dropped_and_counted(self):
        result = self.trained(5, "dropping", *self.options(max_steps=60, log_steps=60, max_staleness=0))
        line = self.train_lines("dropping")[0]
        stale = sum(count for staleness, count in line["staleness"].items() if staleness != "0")
        self.assertEqual(line["dropped_pushes"], stale)
        self.assertGreater(stale, 0)
        self.assertIn(f"240 pushes, {stale} dropped", result.stdout)

    def test_the_last_rank_may_evaluate(self):
        self.trained(4, "evaluated", *self.options(max_steps=6), "--last_rank_evaluates")
        with open(os.path.join(self.path("evaluated"), "eval", "metrics.jsonl"), encoding="utf-8") as file:
            self.assertEqual([json.loads(line)["step"] for line in file][-1], 6)

    def test_a_signal_saves_and_the_run_goes_on(self):
        for ranks_signalled in [[1], [0], [0, 1, 2]]:
            name = "stopped" + "".join(map(str, ranks_signalled))
            options = self.options(max_steps=100000, log_steps=5)
            run = self.start(3, [*options, "--train_dir", self.path(name)])
            self.wait_for_steps(run, name)
            pids = self.rank_pids(run.pid)
            for rank in ranks_signalled:
                os.kill(pids[rank], signal.SIGTERM)
            out, err = run.communicate(timeout=60)
            stopped = re.search(r"stopped after step (\d+) of 100000", out)
            self.assertTrue(stopped, out + err)
            step = int(stopped.group(1))
            self.assertEqual(self.checkpoint(name)[0], f"checkpoint-{step:010}.safetensors")
            self.assertEqual(sum(self.pushes(name)), 4 * step)
            before = self.pushes(name)
            result = self.trained(2, name, *options, "--resume", "--stop_after_secs", "0.5")
            self.assertIn(f"resumed after step {step}", result.stderr)
            after = self.pushes(name)
            self.assertTrue(all(b > a for a, b in zip(before, after)), f"{before} {after}")
            end = int(re.search(r"stopped after step (\d+)", result.stdout).group(1))
            # The histogram is of the whole run.
            self.assertRegex(result.stdout, rf"; {4 * end} pushes, ")

    def test_a_rank_that_is_stopped_is_named(self):
        for stopped in [0, 2]:
            name = f"hangs{stopped}"
            run = self.start(3, [*self.options(max_steps=100000, save_iter=10, exchange_timeout=4), "--train_dir",
                                 self.path(name)])
            self.wait_for_checkpoint(run, name)
            pids = self.rank_pids(run.pid)
            os.kill(pids[stopped], signal.SIGSTOP)
            begin = time.monotonic()
            out, err = run.communicate(timeout=60)
            self.assertLess(time.monotonic() - begin, 25)
            self.assertNotEqual(run.returncode, 0, out + err)
            suspects = re.findall(r"\[mpi\] mailbox: .*(?:heard nothing from|was taken by) (rank .*) for 4 seconds", err)
            self.assertTrue(suspects, err)
            self.assertTrue(all(re.fullmatch(rf"rank {stopped} \(host \S+\)", suspect) for suspect in suspects), err)
            if stopped != 0:
                self.assertRegex(err, r"rank 0 on .* go on from \S+ with --resume")
            self.trained(3, name, *self.options(max_steps=100000), "--resume", "--stop_after_secs", "0.5")

    def test_a_worker_that_is_killed_ends_the_run(self):
        run = self.start(3, [*self.options(max_steps=100000, save_iter=10), "--train_dir", self.path("killed")])
        self.wait_for_checkpoint(run, "killed")
        os.kill(self.rank_pids(run.pid)[1], signal.SIGKILL)
        out, err = run.communicate(timeout=60)
        self.assertNotEqual(run.returncode, 0, out + err)
        self.assertRegex(out + err, r"process rank 1 .*exited on signal 9")
        self.trained(3, "killed", *self.options(max_steps=100000), "--resume", "--stop_after_secs", "0.5")

    def test_what_it_cannot_do_is_refused(self):
        for ranks, option, words in [(6, [], "each of the 5 training processes needs a worker"),
                                     (3, ["--telemetry_steps", "5"], "--telemetry_steps"),
                                     (3, ["--scaler_sharing", "max"], "--scaler_sharing max"),
                                     (0, ["--reduce", "sum"], "--async_scale")]:
            result = self.train(ranks, "refused", *self.options(max_steps=2), *option)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr)


class Gpus(Resume):
    """Processes with an emulated GPU each, of a program that MPI stands in for NCCL in."""

    OPTIONS = None
    test_a_run_goes_on_with_other_numbers_of_processes = None
    test_parameters_to_begin_with_reach_all_ranks = None
    test_a_signal_saves_the_same_step_everywhere = None

    def options(self, **others):
        return ternary(**{"device": "cuda", "image_size": 8, "batch_size": 8, "num_nodes": 4, "benchmark_mode": "true",
                          "weight_decay": 0.004, "log_steps": 2, "telemetry_steps": 2, "max_steps": 4, "save_iter": 2, **others})

    def on(self, gpus):
        return {"SIMT_DEVICES": str(gpus)}

    def test_processes_have_the_bits_of_one_gpu(self):
        self.trained(0, "alone", *self.options())
        for ranks in [2, 4]:
            name = f"ranks{ranks}"
            result = self.trained(ranks, name, *self.options(), "--check_replicas", "2", "--rebroadcast_epochs", "1",
                                  env=self.on(ranks))
            self.assertIn(f"{ranks} processes of SIMT emulation", result.stderr)
            self.assert_same("alone", name)
            self.assertTrue(self.metrics(name))

    def test_every_exchange_has_the_same_bits(self):
        checkpoints = set()
        for exchange in ["all_gather", "scatter_reduce", "integer_sum"]:
            self.trained(2, exchange, *self.options(max_steps=2, exchange=exchange), env=self.on(2))
            checkpoints.add(self.checkpoint(exchange))
        self.trained(0, "alone", *self.options(max_steps=2))
        self.assertEqual(checkpoints, {self.checkpoint("alone")})

    def test_a_run_goes_on_with_other_numbers_of_gpus(self):
        self.trained(0, "whole", *self.options())
        self.trained(2, "cut", *self.options(), env=self.on(2))
        os.unlink(os.path.join(self.path("cut"), "checkpoint-0000000004.safetensors"))
        result = self.trained(0, "cut", *self.options(), "--resume")
        self.assertIn("resumed after step 2", result.stderr)
        # The kind of GPU is the same, which is what bits depend on.
        self.assertNotIn("the run was on", result.stderr)
        self.assert_same("whole", "cut")

    def test_a_signal_to_one_stops_all_after_the_same_step(self):
        run = self.start(2, [*self.options(max_steps=100000, save_iter=100000), "--train_dir", self.path("stopped")],
                         env={**os.environ, **self.on(2)})
        self.wait_for_steps(run, "stopped")
        os.kill(self.rank_pids(run.pid)[1], signal.SIGTERM)
        out, err = run.communicate(timeout=120)
        stopped = re.search(r"stopped after step (\d+) of 100000", out)
        self.assertTrue(stopped, out + err)
        step = int(stopped.group(1))
        self.assertEqual(re.findall(r"stopping after step .*", err),
                         [f"stopping after step {step}: another process of the run was asked to"])
        self.assertEqual(self.checkpoint("stopped")[0], f"checkpoint-{step:010}.safetensors")

    def hang(self, name, **environment):
        """Stops the process of rank 1 in a run. @returns what the run printed, and after how many seconds it had ended."""
        run = self.start(2, [*self.options(max_steps=100000, exchange_timeout=8), "--train_dir", self.path(name)],
                         env={**os.environ, **self.on(2), **environment})
        self.wait_for_steps(run, name)
        os.kill(self.rank_pids(run.pid)[1], signal.SIGSTOP)
        begin = time.monotonic()
        out, err = run.communicate(timeout=120)
        self.assertNotEqual(run.returncode, 0, out + err)
        return out + err, time.monotonic() - begin

    def test_a_process_that_hangs_is_named_in_time(self):
        text, seconds = self.hang("hangs", NCCL_OVER_MPI_PATIENCE="0.5")
        # Whether it was in a step or between two.
        self.assertRegex(text, r"rank 0 on .*heard nothing from rank 1 \(host \S+\) for (4|8) seconds")
        self.assertLess(seconds, 20)

    def test_a_library_that_hangs_ends_the_run_in_time(self):
        text, seconds = self.hang("hangs")
        self.assertRegex(text, r"rank 0.*(steps \d+ to \d+ have not ended on GPUs in 8 seconds|heard nothing from rank 1)")
        self.assertLess(seconds, 20)

    def test_what_cannot_be_shared_is_refused(self):
        for gpus, options, words in [
            (1, {}, r"2 processes share the 1 GPU of \S+, and each needs one of its own"),
            (3, {}, r"--num_gpus: 2 processes cannot share the 3 GPUs of \S+ evenly; say how many each is to take, 1 to 1"),
            (2, {"num_gpus": 2}, r"--num_gpus 2: 2 processes share 2 GPUs of \S+; accepted: 0 \(an equal part\) to 1"),
            (8, {}, r"--num_gpus 4: each GPU of the 2 processes needs a worker, --num_nodes is 4; accepted: 1 to 2"),
            (2, {"profile": "true"}, r"--profile: the parts of a step are not timed on GPUs"),
        ]:
            result = self.train(2, "refused", *self.options(**options), env=self.on(gpus))
            errors = [line for line in result.stderr.splitlines() if line.startswith("terngrad_train: error: ")]
            self.assertEqual(len(errors), 1, result.stderr)
            self.assertRegex(errors[0], words)
            self.assertEqual(result.returncode, 2)
            self.assertFalse(os.path.exists(self.path("refused")))

    def test_gpus_that_cannot_be_joined_end_the_run(self):
        # What stands in for NCCL has one for each process.
        result = self.train(2, "refused", *self.options(), "--num_gpus", "2", env=self.on(4))
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"\[nccl\] ranks \d to \d of 4: joining the group failed")

    def test_the_rank_that_evaluates_needs_no_gpu(self):
        options = [option for option in self.options(max_steps=2) if "benchmark_mode" not in option]
        self.trained(3, "two", *options, "--last_rank_evaluates", env=self.on(2))
        # Of two ranks one trains, with one GPU, and is connected with none.
        self.trained(2, "one", *options, "--last_rank_evaluates", env=self.on(1))
        self.assertEqual(self.checkpoint("two"), self.checkpoint("one"))


class Usage(Run):
    """What cannot be honoured is said once, by the chief, before any work."""

    def error_of(self, ranks, *options):
        result = self.train(ranks, "refused", *options)
        errors = [line for line in result.stderr.splitlines() if line.startswith("terngrad_train: error: ")]
        self.assertEqual(len(errors), 1, result.stderr)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertFalse(os.path.exists(self.path("refused")))
        return errors[0]

    def test_a_wrong_option_is_said_once(self):
        self.assertIn("--grad_bits: '3' is refused", self.error_of(3, "--grad_bits", "3"))

    def test_every_process_needs_a_worker(self):
        self.assertIn("--num_nodes 2: each of the 3 training processes needs a worker; accepted: 3 or more",
                      self.error_of(3, "--num_nodes", "2"))

    def test_gpus_that_are_not_there_are_refused(self):
        # On a machine with one GPU too: two processes cannot share it.
        self.assertRegex(self.error_of(2, "--num_nodes", "2", "--device", "cuda", "--num_gpus", "1000"),
                         r"--device cuda: rank 0 on \S+ has no GPU \(.+\); accepted: cpu$"
                         r"|--device cuda: 2 processes share |--num_gpus 1000: 2 processes share ")

    def test_ranks_on_other_devices_are_named(self):
        command = [*LAUNCHER, "1", PROGRAM, *small(device="cpu"), "--train_dir", self.path("refused"), ":", "-np", "1", PROGRAM,
                   *small(device="auto"), "--train_dir", self.path("refused")]
        result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r'rank 1 on \S+: --device is "auto" here and "cpu" for rank 0 on \S+; all ranks')

    def test_a_timeout_needs_several_processes(self):
        self.assertIn("--exchange_timeout", self.error_of(0, "--exchange_timeout", "3"))
        self.assertIn("greater than 0", self.error_of(2, "--num_nodes", "2", "--exchange_timeout", "0"))

    def test_ranks_with_other_options_are_named(self):
        command = [*LAUNCHER, "1", PROGRAM, *small(), "--train_dir", self.path("refused"), ":", "-np", "1", PROGRAM,
                   *small(save_iter=7), "--train_dir", self.path("refused")]
        result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r"rank 1 on \S+: --save_iter is 7 here and 1000 for rank 0")

    def test_ranks_that_compute_with_other_instructions_are_named(self):
        command = [*LAUNCHER, "1", PROGRAM, *small(), "--train_dir", self.path("refused"), ":", "-np", "1", "-x",
                   "DNNL_MAX_CPU_ISA=SSE41", PROGRAM, *small(), "--train_dir", self.path("refused")]
        result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r"rank 1 on \S+: \(program\) is .*oneDNN .* here and .*oneDNN .* for rank 0")

    def test_help_of_one_rank_only_is_refused(self):
        command = [*LAUNCHER, "1", PROGRAM, "--help", ":", "-np", "1", PROGRAM, *small()]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--help, --version: are for all processes or for none", result.stderr)

    def test_a_folder_that_one_rank_lacks_is_named(self):
        if not os.path.isdir(MNIST):
            self.skipTest(f"no {MNIST}")
        mnist = [*small(dataset="mnist"), "--train_dir", self.path("refused"), "--data_dir"]
        command = [*LAUNCHER, "1", PROGRAM, *mnist, MNIST, ":", "-np", "1", PROGRAM, *mnist, self.path("nowhere")]
        result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r"terngrad_train: error: rank 1 on \S+: --data_dir \S+/nowhere: there is no such folder")

    def test_help_is_printed_once(self):
        result = subprocess.run(self.command(2, ["--help"]), capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("terngrad_train: trains"), 1)


if __name__ == "__main__":
    PROGRAM, MNIST, *rest = sys.argv[1:]
    LAUNCHER = rest[:-1]
    unittest.main(argv=[sys.argv[0], "-v", rest[-1]])
