"""Tests of scripts/bench/bench_pytorch_ddp.py with one and two processes, and of its messages when something is missing."""

import importlib.util
import json
import math
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/bench/bench_pytorch_ddp.py"
QUICK = ["--net", "lenet", "--batch", "4", "--steps", "2", "--warmup", "1", "--repetitions", "2", "--timeout", "60"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class BenchPytorchDdp(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def start(self, *arguments, torch=None, **environment):
        """Starts the script; `torch`, if given, is the source of a module that replaces PyTorch."""
        path = ""
        if torch is not None:
            (self.folder / "torch.py").write_text(torch)
            path = str(self.folder)
        environment = {"PYTHONPATH": path, "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", **environment}
        return subprocess.Popen([sys.executable, SCRIPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=environment)

    def ended(self, process, code=0):
        out, err = process.communicate(timeout=200)
        self.assertEqual(process.returncode, code, out + err)
        return err if code == 2 else out

    def refused(self, *arguments, **environment):
        return self.ended(self.start(*arguments, **environment), code=2)

    def needs_torch(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("no PyTorch")

    def test_refuses_wrong_usage(self):
        self.assertIn("--steps: must be at least 1", self.refused("--steps", "0"))
        self.assertIn("--warmup: must be at least 0", self.refused("--warmup", "-1"))
        self.assertIn("--net", self.refused("--net", "resnet"))
        self.assertIn("--hooks: 'ternary' is refused, expected one of fp32", self.refused("--hooks", "ternary"))
        self.assertIn("--hooks: 'powersgd:rank=0' is refused", self.refused("--hooks", "powersgd:rank=0"))
        self.assertIn("--warmup: must be at least 3", self.refused("--hooks", "powersgd:rank=1", "--warmup", "2"))
        self.assertIn("--batch: has no effect on alexnet_layout", self.refused("--net", "alexnet_layout", "--batch", "4"))
        self.assertIn("--rank and --world_size: go together", self.refused("--rank", "1"))
        self.assertIn("--rank 2: must be below --world_size 2", self.refused("--rank", "2", "--world_size", "2"))
        self.assertIn("--master: 'here' is not ADDRESS:PORT", self.refused("--master", "here"))

    def test_several_processes_need_a_place_to_meet(self):
        for variables in [{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, {"RANK": "0", "WORLD_SIZE": "2"}]:
            self.assertIn("--master: 2 processes need ADDRESS:PORT", self.refused(**variables))

    def test_says_that_there_is_no_pytorch(self):
        missing = "raise ImportError('it is not there')\n"
        out = self.folder / "report.json"
        report = self.ended(self.start("--out", str(out), torch=missing), code=77)
        self.assertEqual(json.loads(report), {"skipped": f"no PyTorch: it is not there for {sys.executable}"})
        self.assertEqual(out.read_text(), report)
        # Only the first process prints it.
        other = {"TERNGRAD_HOST_RANK": "1", "TERNGRAD_HOST_COUNT": "2", "TERNGRAD_HOST_ADDRESSES": "10.0.0.1,10.0.0.2"}
        self.assertEqual(self.ended(self.start(torch=missing, **other), code=77), "")

    def test_the_layout_is_that_of_our_bench(self):
        self.needs_torch()
        sys.path.insert(0, str(SCRIPT.parent))
        self.addCleanup(sys.path.remove, str(SCRIPT.parent))
        spec = importlib.util.spec_from_file_location("bench_pytorch_ddp", SCRIPT)
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        shapes = script.alexnet_shapes()
        self.assertEqual(len(shapes), 26)
        self.assertEqual(sum(math.prod(shape) for shape in shapes), 60969321)  # tests/nets/net_test.cpp

    def test_two_processes_train(self):
        self.needs_torch()
        master = f"127.0.0.1:{free_port()}"
        out = self.folder / "report.json"
        words = [*QUICK, "--master", master, "--hooks", "fp32", "fp16", "bf16", "powersgd:rank=1", "--warmup", "3"]
        second = self.start(*words, OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2")
        first = self.start(*words, "--out", str(out), "--rank", "0", "--world_size", "2")
        printed = self.ended(first)
        self.assertEqual(self.ended(second), "")
        self.assertEqual(out.read_text(), printed)
        report = json.loads(printed)
        self.assertEqual((report["net"], report["processes"], report["batch_per_process"]), ("lenet", 2, 4))
        self.assertEqual([result["hook"] for result in report["results"]], ["fp32", "fp16", "bf16", "powersgd:rank=1"])
        for result in report["results"]:
            if "skipped" in result:
                self.assertEqual(result["hook"], "bf16")
                self.assertIn("does not add bf16", result["skipped"])
                continue
            self.assertEqual(len(result["all_steps_per_s"]), 2)
            self.assertAlmostEqual(result["examples_per_s"], 2 * 4 * result["steps_per_s"])
            self.assertAlmostEqual(result["step_seconds"] * result["steps_per_s"], 1)

    def test_a_process_that_does_not_come_is_an_error(self):
        self.needs_torch()
        words = ["--rank", "0", "--world_size", "2", "--master", f"127.0.0.1:{free_port()}", *QUICK[:-1], "2"]
        process = self.start(*words)
        _, err = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn("bench_pytorch_ddp.py: rank 0: the 2 processes did not meet at 127.0.0.1:", err)


if __name__ == "__main__":
    unittest.main()
