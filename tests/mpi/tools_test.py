"""terngrad_exchange_bench, terngrad_advise and terngrad_train --profile with several processes of one launch.

Arguments: the folder of the programs, then the launcher's command up to the number of ranks."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = ""
LAUNCHER = []


class Tool(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="terngrad_tools_")
        self.addCleanup(shutil.rmtree, self.folder)
        self.json = os.path.join(self.folder, "numbers.json")

    def run_tool(self, ranks, name, *options):
        command = [*LAUNCHER, str(ranks), os.path.join(PROGRAMS, name), "--threads", "1", *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def ran(self, ranks, name, *options):
        result = self.run_tool(ranks, name, *options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.progress = [line for line in result.stderr.splitlines() if line.startswith("measuring ")]
        return result.stdout

    def refused(self, ranks, name, *options):
        result = self.run_tool(ranks, name, *options)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        errors = [line for line in result.stderr.splitlines() if line.startswith(f"{name}: error: ")]
        self.assertEqual(len(errors), 1, result.stderr)
        self.assertEqual(result.stdout, "")
        return errors[0]

    def numbers(self):
        with open(self.json, encoding="utf-8") as file:
            return json.load(file)


class ExchangeBench(Tool):
    NAME = "terngrad_exchange_bench"

    def test_the_chief_prints_what_all_measured(self):
        out = self.ran(2, self.NAME, "--repetitions", "2", "--json", self.json)
        self.assertEqual(out.count("lenet: 1256080 elements in 8 tensors, 2 workers in 2 processes"), 1)
        numbers = self.numbers()
        self.assertEqual([f"{result['codec']} {result['exchange']}" for result in numbers["results"]],
                         ["fp32 all_gather", "bf16 all_gather", "t2 all_gather", "t5 all_gather", "fp32 vendor", "bf16 vendor",
                          "fp16 vendor"])
        for result in numbers["results"]:
            self.assertEqual(len(result["ranks"]), 2)
            first, second = result["ranks"]
            # Two workers with equal messages: each process receives the bytes that the other sends.
            self.assertEqual(first["sent_bytes"], second["received_bytes"])
            self.assertEqual(second["sent_bytes"], first["received_bytes"])
            self.assertGreater(result["slowest"]["bits_per_second"], 0)
        fp32, bf16, t2, t5, *vendor = [result["slowest"]["sent_bytes"] for result in numbers["results"]]
        self.assertGreater(fp32, 4 * 1256080)
        self.assertLess(fp32, 4 * 1256080 + 2000)
        self.assertTrue(fp32 > bf16 > t2 > t5)
        # A reduce-scatter and an all-gather of half of the elements each.
        self.assertEqual(vendor, [4 * 1256080, 2 * 1256080, 2 * 1256080])

    def test_predicted_bytes_are_those_sent(self):
        for ranks, workers in [(2, 3), (3, 3)]:
            out = self.ran(ranks, self.NAME, "--repetitions", "1", "--num_nodes", str(workers), "--codec", "t2", "--codec",
                           "bf16", "--exchange", "all_gather", "--predict", "--json", self.json)
            self.assertIn("predicted", out)
            for result in self.numbers()["results"]:
                self.assertEqual(result["predicted"]["wire_bytes"], result["slowest"]["sent_bytes"])

    def test_every_algorithm(self):
        out = self.ran(2, self.NAME, "--repetitions", "1", "--num_nodes", "4", "--codec", "t2", "--exchange", "all_gather",
                       "--exchange", "scatter_reduce", "--exchange", "integer_sum")
        for algorithm in ["all_gather", "scatter_reduce", "integer_sum"]:
            self.assertIn(f"t2         {algorithm}", out)

    def test_refusals_are_said_once(self):
        self.assertIn("--num_nodes 1: each of the 2 processes needs a worker", self.refused(2, self.NAME, "--num_nodes", "1"))
        self.assertIn("--exchange integer_sum", self.refused(2, self.NAME, "--exchange", "integer_sum"))

    def test_ranks_with_other_options_are_named(self):
        program = os.path.join(PROGRAMS, self.NAME)
        command = [*LAUNCHER, "1", program, ":", "-np", "1", program, "--repetitions", "3"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r"rank 1 on \S+: --repetitions is 3 here and 5 for rank 0")


class Advise(Tool):
    NAME = "terngrad_advise"

    def test_it_measures_the_link_of_its_launch(self):
        out = self.ran(2, self.NAME, "--image_size", "8", "--repetitions", "1", "--json", self.json)
        self.assertEqual(out.count("lenet: 131080 elements in 8 tensors, 2 workers, each in its own process"), 1)
        self.assertIn("link of each process, measured: ", out)
        self.assertEqual(out.count("recommendation: "), 1)
        self.assertEqual(self.progress, ["measuring the link between 2 processes", "measuring what a step computes"] +
                         [f"measuring {row} ({i} of 7)" for i, row in
                          enumerate(["fp32 by all_gather", "bf16 by all_gather", "t2 by all_gather", "t5 by all_gather",
                                     "fp32 by vendor", "bf16 by vendor", "fp16 by vendor"], 1)])
        numbers = self.numbers()
        self.assertTrue(numbers["link"]["measured"])
        self.assertGreaterEqual(len(numbers["link"]["samples"]), 2)
        self.assertEqual([f"{codec['codec']} {codec['exchange']}" for codec in numbers["codecs"]],
                         ["fp32 all_gather", "bf16 all_gather", "t2 all_gather", "t5 all_gather", "fp32 vendor", "bf16 vendor",
                          "fp16 vendor"])
        self.assertEqual(numbers["compress"], numbers["recommended"] != "fp32")
        compute = numbers["compute"]
        self.assertEqual(compute["measured_batch"], 64)
        self.assertGreater(compute["seconds"], 0)
        for codec in numbers["codecs"]:
            self.assertGreater(codec["wire_bytes_per_process"], 0)
            self.assertAlmostEqual(codec["step_seconds"], codec["exchange_seconds"] + compute["seconds"])
        # The baseline is the faster of our exchange and the library's. The recommendation is the fastest codec by the
        # listed seconds, or fp32 if the gain is small.
        seconds = {(codec["codec"], codec["exchange"]): codec["step_seconds"] for codec in numbers["codecs"]}
        for codec in ["fp32", "bf16"]:
            baseline = numbers["baselines"][codec]
            self.assertEqual(seconds[codec, baseline], min(seconds[codec, "all_gather"], seconds[codec, "vendor"]))
        best = min(seconds, key=seconds.get)
        fp32 = ("fp32", numbers["baselines"]["fp32"])
        self.assertEqual((numbers["recommended"], numbers["recommended_exchange"]),
                         best if seconds[best] < 0.95 * seconds[fp32] else fp32)

    def test_workers_are_spread_over_the_processes(self):
        out = self.ran(2, self.NAME, "--image_size", "8", "--repetitions", "1", "--num_nodes", "5")
        self.assertIn("5 workers in 2 processes", out)

    def test_groups_are_measured_beside(self):
        out = self.ran(4, self.NAME, "--image_size", "8", "--repetitions", "1", "--compute_ms", "0", "--workers_per_group", "2",
                       "--codec", "t2", "--json", self.json)
        rows = ["fp32", "bf16", "t2"]
        self.assertEqual(self.progress[4:], [
            f"measuring {row} ({i} of 9)" for i, row in
            enumerate([f"{row} by groups of 2" for row in rows] + ["fp32 by vendor", "bf16 by vendor", "fp16 by vendor"], 4)])
        self.assertEqual(out.count(" groups of 2 "), 3)
        codecs = self.numbers()["codecs"]
        grouped = codecs[3:6]
        self.assertEqual([(codec["codec"], codec["workers_per_group"]) for codec in grouped], [(row, 2) for row in rows])
        for of_workers, of_groups in zip(codecs, grouped):
            self.assertLess(of_groups["wire_bytes_per_process"], 0.8 * of_workers["wire_bytes_per_process"])

    def test_a_measured_link_is_not_given(self):
        self.assertIn("--bandwidth_mbit 100: needs one process: the link between those of a launch",
                      self.refused(2, self.NAME, "--bandwidth_mbit", "100"))
        self.assertIn("--latency_us 5: needs one process", self.refused(2, self.NAME, "--latency_us", "5"))


class Profile(Tool):
    def test_the_chief_prints_it_once(self):
        out = self.ran(2, "terngrad_train", "--benchmark_mode", "--image_size", "8", "--num_nodes", "2", "--batch_size", "4",
                       "--max_steps", "6", "--profile", "--train_dir", os.path.join(self.folder, "run"))
        self.assertEqual(out.count("ms per step, mean of 3 (the first 3 are left out)"), 1)
        self.assertEqual(out.count("  - wire  "), 1)


class DumpedGradients(Tool):
    def test_the_chief_writes_all_workers_whatever_the_number_of_processes(self):
        written = []
        for ranks in (1, 2):
            run = os.path.join(self.folder, f"run-{ranks}")
            self.ran(ranks, "terngrad_train", "--benchmark_mode", "--image_size", "8", "--num_nodes", "4", "--batch_size", "4",
                     "--max_steps", "3", "--dump_gradients", "2", "--train_dir", run)
            self.assertEqual(os.listdir(os.path.join(run, "gradients")), ["step-0000000002.safetensors"])
            with open(os.path.join(run, "gradients", "step-0000000002.safetensors"), "rb") as file:
                written.append(file.read())
        self.assertIn(b'"worker-0003/conv1/weights"', written[0])
        self.assertTrue(written[0] == written[1])

    def test_async_over_processes_is_refused(self):
        self.assertIn("--dump_gradients 2", self.refused(3, "terngrad_train", "--strategy", "async", "--num_nodes", "2",
                                                         "--dump_gradients", "2"))


class Dump(Tool):
    def test_every_process_writes_what_it_sends(self):
        dump = os.path.join(self.folder, "dump")
        self.ran(2, "terngrad_train", "--benchmark_mode", "--image_size", "8", "--num_nodes", "4", "--batch_size", "4",
                 "--max_steps", "2", "--bucket_mb", "0.2", "--exchange", "all_gather", "--dump_messages", dump, "--train_dir",
                 os.path.join(self.folder, "run"))
        names = os.listdir(dump)
        # Each rank has two workers and sends the sum of their floats.
        self.assertTrue({"step-000000-rank-0-0000-scalers-worker-0.msg", "step-000000-rank-1-0000-scalers-worker-2.msg",
                         "step-000000-rank-1-0001-scalers-worker-3.msg"} <= set(names), sorted(names))
        self.assertTrue(any(name.endswith("sum-worker-2.msg") for name in names), sorted(names))
        self.assertFalse(any(name.startswith("step-000001") for name in names))
        with open(os.path.join(dump, "layout.json"), encoding="utf-8") as file:
            layouts = json.load(file)["layouts"]
        self.assertGreater(len(layouts), 1)
        self.assertEqual(sum(len(tensors) for tensors in layouts.values()), 8)


if __name__ == "__main__":
    PROGRAMS, *LAUNCHER = sys.argv[1:]
    unittest.main(argv=[sys.argv[0], "-v"])
