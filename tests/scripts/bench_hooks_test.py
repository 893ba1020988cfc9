"""Tests of scripts/bench/bench_hooks.py with a fake and with a real slow link, and of scripts/bench/ddp_hooks_rank.py.

Argument: a class of tests."""

import contextlib
import importlib
import io
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.made_up_link import MadeUpLink  # noqa: E402

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
RANK_SCRIPT = SCRIPTS / "bench/ddp_hooks_rank.py"
SKIPPED = 77
sys.path.insert(0, str(SCRIPTS / "bench"))

# Replaces slow_link.sh and writes a result as the command would. It appends each call to the file `calls`; a step takes
# 1 s at the first call and 0.1 s more at each further one. Hooks listed in the file `fails` fail.
FAKE_LINK = f"#!{sys.executable}\n" + r'''
import json, pathlib, sys
here = pathlib.Path(__file__).parents[1]
words = sys.argv[1:]
rate, command = words[words.index("--") - 2], words[words.index("--") + 1:]
def after(name):
    return command[command.index(name) + 1]
with open(here / "calls", "a+") as calls:
    calls.write(f"{rate} {after('--hook')}\n")
    calls.seek(0)
    second = 0.9 + len(calls.readlines()) / 10
hook = after("--hook")
if (here / "fails").exists() and hook in (here / "fails").read_text():
    print("ddp_hooks_rank.py: rank 1: error: it broke\nslow_link.sh: host 0 sent nothing")
    sys.exit(1)
if "--python_part" in command:
    result = {"hook": hook, "buckets": 3, "hook_seconds_per_bucket": 0.0002, "communicator_seconds_per_bucket": 0.0001}
else:
    result = {"hook": hook, "seconds_of_steps": [second, second, 9.0], "interface_sent_bytes_per_step": [2e6, 2.1e6],
              "interface_received_bytes_per_step": [2.1e6, 2e6]}
    if hook.startswith("ternary"):
        result |= {"reported_sent_bytes": 2000000, "reported_received_bytes": 2000000}
pathlib.Path(after("--out")).write_text(json.dumps(result))
pathlib.Path(words[words.index("--counters") + 1]).write_text(json.dumps(
    {"rate": rate, "iperf3_mbit_per_s": 95.0, "seconds": 5.0, "hosts": [{"sent_bytes": 1}, {"sent_bytes": 2}]}))
'''
FAKE_PYTHON = '''#!/bin/sh
case "$*" in
  *--version) ;;
  *) exit 3 ;;
esac
case "$*" in
  *tern\\ *) echo "ddp_hooks_rank.py: error: argument --hook: unknown codec 'tern'" >&2; exit 2 ;;
esac
echo "terngrad 1.2, PyTorch 3.4"
'''


class OnALinkMadeUp(MadeUpLink, unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.out = self.folder / "out"
        for path, text in (("scripts/hosts/slow_link.sh", FAKE_LINK), ("python", FAKE_PYTHON)):
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)
        sys.modules.pop("link_launch", None)
        sys.modules.pop("bench_hooks", None)
        self.module = importlib.import_module("bench_hooks")
        launches = self.module.link_launch
        launches.SCRIPTS = self.folder / "scripts"
        launches.SAMPLE_SECONDS = 0

    def words(self):
        return ["bench_hooks.py", "--python", str(self.folder / "python"), "--out", str(self.out), "--max_stolen", "100"]

    def test_rounds_of_all_rows_make_a_table(self):
        copy = self.folder / "copy.json"
        code, output = self.run_script("--mbit", "100", "--hooks", "none", "ternary:clip_factor=2.5", "--rounds", "2", "--json",
                                       str(copy))
        self.assertEqual(code, 0, output)
        self.assertEqual(self.calls(), 2 * ["100mbit none", "100mbit ternary:clip_factor=2.5"] + ["none ternary:clip_factor=2.5"])
        report = json.loads(copy.read_text())
        self.assertEqual(report, json.loads((self.out / "results.json").read_text()))
        self.assertEqual(report["version"], "terngrad 1.2, PyTorch 3.4")
        none, ternary = report["rows"]
        self.assertEqual([round(seconds, 6) for seconds in none["rounds"] + ternary["rounds"]], [1.0, 1.2, 1.1, 1.3])
        self.assertEqual(ternary["interface_sent_bytes"], 2.1e6)  # maximum over the hosts
        self.assertAlmostEqual(ternary["step_seconds"], 1.3)  # median of 1.1, 1.1, 9, 1.3, 1.3, 9
        text = (self.out / "results.md").read_text()
        self.assertIn("## 100mbit", text)
        self.assertIn("| none | 1.2 | 1, 1.2 | 0.833 | 1 | 2.1 | - | - | - | - | 95 |", text)
        self.assertIn("| ternary:clip_factor=2.5 | 1.3 | 1.1, 1.3 | 0.769 | 0.923 | 2.1 | 2 | 1.050 | 0.2 | 0.1 | 95 |", text)
        self.assertIn(text.partition("## Commands")[0], output)
        self.assertNotIn(str(self.folder / "scripts"), text)

    def test_the_same_command_continues(self):
        only = ["--mbit", "100", "--hooks", "none", "efsignsgd", "--rounds", "1"]
        (self.folder / "scripts" / "fails").write_text("efsignsgd")
        code, output = self.run_script(*only)
        self.assertEqual(code, 1)
        self.assertIn("100mbit.efsignsgd.1: error: exit code 1: ddp_hooks_rank.py: rank 1: error: it broke", output)
        self.assertIn("- none.efsignsgd.python_part: exit code 1", (self.out / "results.md").read_text())
        (self.folder / "scripts" / "fails").unlink()
        self.assertEqual(self.run_script(*only)[0], 0)
        self.assertEqual(self.calls()[3:], ["100mbit efsignsgd", "none efsignsgd"])
        self.assertNotIn("## Failed", (self.out / "results.md").read_text())
        code, output = self.run_script(*only, "--steps", "7")
        self.assertEqual(code, 2)
        self.assertIn("has rows of another commit, other versions, --steps", output)

    def test_a_dry_run_runs_nothing(self):
        code, output = self.run_script("--dry_run", "--mbit", "none", "--rounds", "1", "--steps", "4")
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count(" --no-mpi none 2 -- "), 9)
        self.assertEqual(output.count(" --steps 4 --warmup 3 --batch_size 8 --width 64 --threads 1 "), 9)
        self.assertEqual(output.count(" --python_part"), 3)
        self.assertEqual(self.calls(), [])
        self.assertFalse(self.out.exists())

    def test_refuses_wrong_usage(self):
        for words, message in [(["--mbit", "fast"], "'fast' is refused"), (["--mbit", "0"], "'0' is refused"),
                               (["--rounds", "0"], "--rounds: must be at least 1"), (["--mbit", "100", "100"], "has one twice"),
                               (["--json", str(self.folder / "not/there")], "is in no folder"),
                               (["--hooks", "none", "tern"], "argument --hook: unknown codec 'tern'")]:
            code, output = self.run_script(*words)
            self.assertEqual(code, 2, words)
            self.assertIn(message, output)
        self.assertEqual(self.calls(), [])


class Rank(unittest.TestCase):
    def setUp(self):
        self.module = importlib.import_module("ddp_hooks_rank")

    def test_seconds_are_those_of_the_innermost_kind(self):
        clock = [0.0]
        self_times = self.module.SelfTimes()

        def work(seconds, *inner):
            clock[0] += seconds
            for each in inner:
                each()
            clock[0] += seconds

        collective = self_times.timed("collective", lambda: work(50))
        inner = self_times.timed("hook", lambda: work(1, collective))
        library = self_times.timed("library", lambda: work(5, inner, lambda: work(2)))
        with mock.patch.object(self.module.time, "perf_counter", lambda: clock[0]):
            self_times.timed("hook", lambda: work(1, library, library))()
            clock[0] += 1000  # between calls
            with self.assertRaises(ZeroDivisionError):
                self_times.timed("hook", lambda: (work(1), 1 / 0))()
            self.assertEqual(self_times.seconds, {"hook": 2 + 2 * 2 + 2, "library": 2 * (10 + 4), "collective": 2 * 100})
            self.assertEqual(self_times.calls, {"hook": 4, "library": 2, "collective": 2})
            stands = self_times.stands_for("library", mock.Mock(answer=42, Kind=int, ask=lambda: work(3)))
            stands.ask()
            self.assertEqual((stands.answer, stands.Kind, self_times.calls["library"]), (42, int, 3))

    def start(self, *arguments, rank, size, port):
        return subprocess.Popen([sys.executable, str(RANK_SCRIPT), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size),
                                                "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1",
                                                "MASTER_PORT": str(port)})

    def needs_packages(self):
        if (reason := self.module.unavailable_reason()) is not None:
            self.skipTest(reason)

    def test_refuses_wrong_usage(self):
        for words, message in [(["--hook", "powersgd"], "'powersgd' is refused, expected powersgd:rank=R"),
                               (["--hook", "powersgd:rank=0"], "'powersgd:rank=0' is refused"),
                               (["--warmup", "2"], "--warmup: must be at least 3"),
                               (["--steps", "0"], "--steps: must be at least 1"),
                               (["--python_part", "--hook", "fp16"], "--python_part: is of our hook, 'fp16' is PyTorch's")]:
            said = io.StringIO()
            with mock.patch.object(sys, "argv", ["ddp_hooks_rank.py", *words]), contextlib.redirect_stderr(said):
                with self.assertRaises(SystemExit) as end:
                    self.module.parse()
            self.assertEqual(end.exception.code, 2, words)
            self.assertIn(message, said.getvalue())

    def test_two_processes_train_with_powersgd_in_one_bucket(self):
        self.needs_packages()
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        words = ["--hook", "powersgd:rank=2", "--width", "4", "--batch_size", "2", "--steps", "2", "--timeout", "60"]
        processes = [self.start(*words, rank=rank, size=2, port=port) for rank in range(2)]
        said = [process.communicate(timeout=100) for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0], said)
        result = json.loads(said[0][0])
        self.assertEqual((result["processes"], len(result["seconds_of_steps"])), (2, 2))
        self.assertNotIn("interface_sent_bytes_per_step", result)  # not a host of slow_link.sh


class Real(unittest.TestCase):
    def test_a_small_net_on_a_real_link(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        module = importlib.import_module("ddp_hooks_rank")
        if (reason := module.unavailable_reason()) is not None:
            self.skipTest(reason)
        with tempfile.TemporaryDirectory() as folder:
            words = ["--out", folder, "--mbit", "100", "--hooks", "ternary:clip_factor=2.5", "--rounds", "1", "--steps", "3",
                     "--batch_size", "2", "--width", "16", "--max_stolen", "100"]
            result = subprocess.run([sys.executable, str(SCRIPTS / "bench/bench_hooks.py"), *words], capture_output=True, text=True,
                                    timeout=280, check=False)
            if "slow_link.sh: needs" in result.stderr:
                self.skipTest(result.stderr.strip())
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            (row,) = json.loads((pathlib.Path(folder) / "results.json").read_text())["rows"]
        num_parameters = sum(parameter.numel() for parameter in module.ddp_cifar10.ResNet18(16).parameters())
        # Two bits per element, and fp32 for small tensors.
        self.assertGreater(row["reported_sent_bytes"], num_parameters / 4)
        self.assertLess(row["reported_sent_bytes"], num_parameters / 4 * 1.2)
        # Interfaces also count headers, and the statistics of batch norm, which DDP sends.
        self.assertGreater(row["interface_sent_bytes"], row["reported_sent_bytes"])
        self.assertLess(row["interface_sent_bytes"], row["reported_sent_bytes"] * 1.5)
        self.assertGreater(row["hook_seconds_per_bucket"], 0)
        self.assertGreater(row["communicator_seconds_per_bucket"], 0)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    skipped_all = program.result.wasSuccessful() and len(program.result.skipped) == program.result.testsRun
    sys.exit(SKIPPED if skipped_all else not program.result.wasSuccessful())
