"""Tests of scripts/bench/bench_slow_link.py and its tables, with a fake and with a real slow link.

Arguments: the folder of the programs, then a class of tests."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.made_up_link import MadeUpLink  # noqa: E402

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
PROGRAMS = ""
SKIPPED = 77

# Replaces slow_link.sh and writes a result as the command would. Files in its folder: it appends each call to `calls`;
# commands with a word of `fails` fail; `stat` replaces /proc/stat; `stolen` lists the stolen processor time in percent
# of the next calls, 0 at its end.
FAKE_LINK = f"#!{sys.executable}\n" + r'''
import json, pathlib, sys
here = pathlib.Path(__file__).parents[1]
words = sys.argv[1:]
command = words[words.index("--") + 1:]
rate = words[words.index("--") - 2]
with open(here / "calls", "a") as calls:
    calls.write(" ".join(command) + "\n")
thefts = (here / "stolen").read_text().split() if (here / "stolen").exists() else []
times = [int(field) for field in (here / "stat").read_text().split()[1:]]
stolen = int(thefts[0]) if thefts else 0
times = [times[0] + 100 - stolen, *times[1:7], times[7] + stolen, *times[8:]]
(here / "stat").write_text(" ".join(["cpu", *map(str, times)]) + "\n")
(here / "stolen").write_text(" ".join(thefts[1:]))
fails = (here / "fails").read_text().split() if (here / "fails").exists() else []
if any(word in command for word in fails):
    print("terngrad_train: error: it broke\nslow_link.sh: host 0 sent nothing")
    sys.exit(3)
def after(name):
    return command[command.index(name) + 1]
def write(path, value):
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_text(json.dumps(value) + "\n")
SECONDS = {"fp32": 2.0, "bf16": 1.0, "t2": 0.25, "t5": 0.2, "fp16": 1.1, "ternary:clip_factor=2.5,format=trans": 0.3,
           "qsgd:bits=4": 0.4, "topk:density=0.01": 0.3, "dgc": 0.3, "powersgd:rank=4": 0.3}  # on the wire
codec = after("--codec") if "--codec" in command else "fp32"
if "terngrad_advise" in command[0]:
    codecs = [{"codec": c, "exchange": "all_gather", "step_seconds": SECONDS[c]} for c in
              ["fp32", "bf16", *(word for before, word in zip(command, command[1:]) if before == "--codec")]]
    write(after("--json"), {"recommendation": "recommendation: t5 (so)", "recommended": "t5",
                            "recommended_exchange": "all_gather", "codecs": codecs})
elif "terngrad_exchange_bench" in command[0]:
    factor = 0.5 if after("--exchange") == "vendor" and codec == "fp32" else 1
    wire = SECONDS[codec] * factor
    times = {"total_seconds": wire + 0.1, "wire_seconds": wire, "sent_bytes": 1e6, "bits_per_second": 90e6}
    write(after("--json"), {"results": [{"codec": codec, "exchange": "all_gather", "slowest": times}]})
elif "--hooks" in command:
    hook = after("--hooks")
    if hook == "bf16":
        write(after("--out"), {"results": [{"hook": hook, "skipped": "Gloo does not"}]})
    else:
        write(after("--out"), {"results": [{"hook": hook, "steps_per_s": 3.0, "step_seconds": 1 / 3, "examples_per_s": 300.0}]})
else:
    write(pathlib.Path(after("--train_dir")) / "metrics.jsonl",
          {"kind": "train", "examples_per_second": 256.0 if "--grad_bits" in command else 128.0, "wire_seconds": 0.5,
           "exposed_seconds": 0.25, "wire_bytes_per_worker": {"sent": {"scalers": 10.0, "gradient": 20.0, "mean": 0.0}}})
write(words[words.index("--counters") + 1],
      {"rate": rate, "iperf3_mbit_per_s": 100.0, "seconds": 5.0, "exit_code": 0,
       "hosts": [{"sent_bytes": 2100000}, {"sent_bytes": 2000000}]})
'''


def load(name):
    sys.path.insert(0, str(SCRIPTS / "bench"))
    try:
        spec = importlib.util.spec_from_file_location(name, SCRIPTS / "bench" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(SCRIPTS / "bench"))


class OnALinkMadeUp(MadeUpLink, unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.out = self.folder / "out"
        for name in ("terngrad_train", "terngrad_advise", "terngrad_exchange_bench"):
            self.write_program(f"programs/{name}", "#!/bin/sh\necho \"$0 1.2 (abc)\" | sed 's,.*/,,'\n")
        self.write_program("scripts/hosts/slow_link.sh", FAKE_LINK)
        self.module = load("bench_slow_link")
        launches = self.module.link_launch
        launches.SCRIPTS = self.folder / "scripts"
        launches.PROC_STAT = self.folder / "scripts" / "stat"
        launches.PROC_STAT.write_text("cpu 7 0 0 0 0 0 0 50 0 0\n")
        launches.PAUSE_SECONDS = 0

    def words(self):
        return ["bench_slow_link.py", "--programs", str(self.folder / "programs"), "--out", str(self.out)]

    def results(self):
        report = json.loads((self.out / "results.json").read_text())
        return {row["row"]: row for row in report["rows"]}

    def test_a_layout_has_exchanges_and_a_table(self):
        code, output = self.run_script("--rates", "100mbit", "--nets", "alexnet_layout")
        self.assertEqual(code, 0, output)
        self.assertIn("terngrad_advise", self.calls()[0])  # first of all
        rows = self.results()
        self.assertEqual(list(rows), ["advise", "fp32", "bf16", "t2", "t5", "trans", "qsgd-4", "topk-1", "dgc-0.1", "powersgd-4",
                                      "vendor-fp32", "vendor-bf16", "vendor-fp16", "ddp-fp32", "ddp-fp16", "ddp-bf16",
                                      "ddp-powersgd-4"])
        self.assertIn("--codec qsgd:bits=4 ", rows["qsgd-4"]["command"])
        self.assertIn("--warmup 3 ", rows["ddp-powersgd-4"]["command"] + " ")
        self.assertAlmostEqual(rows["t2"]["steps_per_s"], 1 / 0.35)
        self.assertEqual(rows["t2"]["num_exchanges"], 2)
        self.assertEqual(rows["t2"]["iperf3_mbit_per_s"], 100.0)
        self.assertEqual(rows["t2"]["interface_sent_bytes"], [2100000, 2000000])
        self.assertEqual(rows["ddp-bf16"]["skipped"], "Gloo does not")
        self.assertNotIn(str(self.folder), rows["t2"]["command"])
        text = (self.out / "results.md").read_text()
        self.assertIn("## alexnet_layout, 100mbit", text)
        # fp32 of the library takes 1.1 s; t2 0.35 s, 3.14 times as fast. Interfaces: 2.1 MB for two exchanges of 1 MB.
        self.assertIn("| t2 | 2.86 | - | 0.25 | 1 | 3.14 | 3.14 | 0.952 | pays | pays | 100 | 90 % | 1.050 | 0.0 % |", text)
        self.assertIn("| t5 | 3.33 | - | 0.2 | 1 | 3.67 | 3.67 | 1.11 | pays | pays (recommended) |", text)
        self.assertIn("- Wire time of t2, scalers included: 1/4.0 of fp32's, 1/4.0 of bf16's, the faster of ours and", text)
        self.assertIn("- Fastest of ours and vendor's: t5. Recommended beforehand: t5, which reaches 100 % of it.", text)
        self.assertIn("- ddp-bf16: skipped: Gloo does not", text)

    def test_a_net_is_trained_with_and_without_overlap(self):
        code, output = self.run_script("--rates", "none", "--nets", "cifar10_alexnet", "--steps", "5", "--seconds", "1")
        self.assertEqual(code, 0, output)
        rows = self.results()
        self.assertEqual(len(rows), 21)
        self.assertIn("--codec ternary:clip_factor=2.5,format=trans --quantize_logits --overlap on ", rows["trans"]["command"])
        self.assertIn("--codec dgc --quantize_logits --optimizer gd ", rows["dgc-0.1"]["command"])
        self.assertIn("--hooks powersgd:rank=4 ", rows["ddp-powersgd-4"]["command"])
        self.assertEqual(rows["qsgd-4"]["num_steps"], 10)
        self.assertEqual(rows["fp32"]["steps_per_s"], 2)
        self.assertEqual(rows["vendor-fp32"]["steps_per_s"], 1)
        self.assertEqual(rows["fp32"]["sent_bytes"], 30)
        self.assertIn("--overlap on ", rows["t2"]["command"])
        self.assertIn("--overlap off ", rows["t2-no-overlap"]["command"])
        self.assertIn("--max_steps 10 --log_steps 5 ", rows["t2"]["command"])
        self.assertIn("--exchange vendor --codec bf16 ", rows["vendor-bf16"]["command"])
        self.assertIn("--batch 64 --steps 5 ", rows["ddp-fp32"]["command"])
        text = (self.out / "results.md").read_text()
        self.assertIn("## cifar10_alexnet, Unlimited", text)
        # Rows without an entry in the advice have '-'.
        self.assertIn("| vendor-bf16 | 1 | 128 | 0.5 | 3e-05 | 0.5 | 0.5 | 0.333 | loses | - |", text)
        self.assertIn("| t2 | 2 | 256 | 0.5 | 3e-05 | 1 | 1 | 0.667 | even | pays |", text)

    def test_the_net_for_imagenet_has_two_workers_on_each_host(self):
        code, output = self.run_script("--rates", "1gbit", "--nets", "alexnet", "--steps", "5", "--seconds", "1")
        self.assertEqual(code, 0, output)
        rows = self.results()
        self.assertEqual(len(rows), 17)  # without PyTorch's rows
        for row in ("advise", "t2"):
            self.assertIn("--dataset imagenet --net alexnet ", rows[row]["command"])
            self.assertIn("--num_nodes 4 ", rows[row]["command"])
            self.assertIn("--batch_size 32 ", rows[row]["command"])

    def test_rows_with_fast_steps_are_launched_again_for_more_of_them(self):
        code, output = self.run_script("--rates", "none", "--nets", "cifar10_alexnet", "--steps", "5", "--seconds", "4",
                                       "--rows", "t2", "vendor-fp32", "ddp-fp32")
        self.assertEqual(code, 0, output)
        rows = self.results()
        self.assertIn("--max_steps 16 --log_steps 8 ", rows["t2"]["command"])  # 2 steps/s
        self.assertIn("--max_steps 10 --log_steps 5 ", rows["vendor-fp32"]["command"])  # 1 step/s
        self.assertIn("--steps 12 --repetitions 1 --warmup 12", rows["ddp-fp32"]["command"])  # 3 steps/s
        self.assertEqual(len(self.calls()), 5)

    def test_rows_that_lose_time_to_other_machines_are_launched_again(self):
        stolen = self.folder / "scripts" / "stolen"
        only = ["--rates", "1gbit", "--nets", "alexnet_layout", "--rows"]
        stolen.write_text("8 5 1 9")
        self.assertEqual(self.run_script(*only, "t2")[0], 0)
        self.assertAlmostEqual(self.results()["t2"]["stolen_percent"], 1)
        self.assertEqual(len(self.calls()), 3)
        self.assertEqual(stolen.read_text(), "9")
        # All launches lose too much: the least counts, until a later command measures a better one.
        stolen.write_text("9 7 8")
        self.assertEqual(self.run_script(*only, "t5")[0], 0)
        self.assertAlmostEqual(self.results()["t5"]["stolen_percent"], 7)
        stolen.write_text("9 9 9")
        self.assertEqual(self.run_script(*only, "t?")[0], 0)
        self.assertAlmostEqual(self.results()["t5"]["stolen_percent"], 7)
        self.assertEqual(len(self.calls()), 9)
        self.assertIn("| 7.0 % |", (self.out / "results.md").read_text())
        stolen.write_text("2")
        self.assertEqual(self.run_script(*only, "t?")[0], 0)
        self.assertAlmostEqual(self.results()["t5"]["stolen_percent"], 2)
        self.assertEqual(len(self.calls()), 10)
        stolen.write_text("90")
        self.assertEqual(self.run_script(*only, "fp32", "--max_stolen", "100")[0], 0)
        self.assertAlmostEqual(self.results()["fp32"]["stolen_percent"], 90)

    def test_goes_on_where_it_was(self):
        only = ["--rates", "1gbit", "--nets", "alexnet_layout", "--rows", "fp32", "t?"]
        (self.folder / "scripts" / "fails").write_text("t2")
        code, output = self.run_script(*only)
        self.assertEqual(code, 1)
        self.assertIn("1gbit.alexnet_layout.t2: error: exit code 3: terngrad_train: error: it broke", output)
        self.assertIn("- t2: error: exit code 3", (self.out / "results.md").read_text())
        self.assertEqual(len(self.calls()), 3)
        (self.folder / "scripts" / "fails").unlink()
        self.assertEqual(self.run_script(*only)[0], 0)
        self.assertEqual(len(self.calls()), 4)  # only the failed row
        self.assertEqual(list(self.results()), ["fp32", "t2", "t5"])
        self.assertEqual(self.results()["t2"]["num_exchanges"], 6)
        self.assertEqual(self.run_script(*only, "--dry_run"), (0, ""))
        code, output = self.run_script(*only, "--steps", "7")
        self.assertEqual(code, 2)
        self.assertIn("has rows of another build, other --steps or --seconds", output)

    def test_a_row_that_takes_too_long_is_an_error(self):
        self.write_program("scripts/hosts/slow_link.sh", "#!/bin/sh\nexec sleep 60\n")
        code, output = self.run_script("--rates", "none", "--nets", "alexnet_layout", "--rows", "t2", "--limit", "1")
        self.assertEqual(code, 1)
        self.assertIn("none.alexnet_layout.t2: error: not done after 1 s", output)

    def test_what_is_missing_for_all_rows_ends_it(self):
        self.write_program("scripts/hosts/slow_link.sh", "#!/bin/sh\necho 'slow_link.sh: needs root, to make networks' >&2\nexit 2\n")
        code, output = self.run_script("--nets", "alexnet_layout")
        self.assertEqual((code, output), (2, "bench_slow_link.py: slow_link.sh: needs root, to make networks\n"))

    def test_a_dry_run_runs_nothing(self):
        code, output = self.run_script("--dry_run", "--rates", "500kbit", "--nets", "alexnet_layout", "--rows", "vendor-*")
        self.assertEqual(code, 0)
        self.assertEqual(output.count("--exchange vendor"), 3)
        self.assertIn(" 500kbit 2 -- ", output)
        self.assertEqual(self.calls(), [])
        self.assertFalse(self.out.exists())

    def test_refuses_wrong_usage(self):
        for words, message in [(["--rates", "fast"], "'fast' is refused"), (["--rates", "0mbit"], "'0mbit' is refused"),
                               (["--nets", "resnet"], "--nets"), (["--steps", "0"], "--steps: must be at least 1"),
                               (["--seconds", "0"], "--seconds: must be at least 1"),
                               (["--rows", "t3"], "--rows: none of advise fp32"), (["--limit", "0"], "--limit"),
                               (["--max_stolen", "101"], "--max_stolen"),
                               (["--programs", str(self.out)], "has no program terngrad_train")]:
            code, output = self.run_script(*words)
            self.assertEqual(code, 2, words)
            self.assertIn(message, output)


class Report(unittest.TestCase):
    def setUp(self):
        self.report = load("slow_link_report")

    def row(self, name, codec, steps_per_s, system="terngrad"):
        return {"row": name, "codec": codec, "system": system, "steps_per_s": steps_per_s}

    def test_verdicts_are_against_the_faster_baseline(self):
        rows = [self.row("fp32", "fp32", 10), self.row("vendor-fp32", "fp32", 20, "vendor"), self.row("bf16", "bf16", 30),
                self.row("t2", "t2", 20.5), self.row("t5", "t5", 19), self.row("ddp-fp32", "fp32", 100, "ddp")]
        words = {row["row"]: self.report.verdict(row, rows) for row in rows}
        self.assertEqual(words, {"fp32": "-", "vendor-fp32": "-", "bf16": "pays", "t2": "even, loses to bf16",
                                 "t5": "loses, loses to bf16", "ddp-fp32": "-"})

    def test_advice_is_put_in_the_same_words(self):
        def entry(codec, exchange, seconds):
            return {"codec": codec, "exchange": exchange, "step_seconds": seconds}

        advice = {"recommended": "fp32", "recommended_exchange": "vendor",
                  "codecs": [entry("fp32", "all_gather", 1.0), entry("fp32", "vendor", 0.5), entry("bf16", "all_gather", 0.45),
                             entry("bf16", "vendor", 0.7), entry("t2", "all_gather", 0.49)]}
        words = {(codec, system): self.report.advised(self.row("", codec, 1, system), advice)
                 for codec, system in [("bf16", "terngrad"), ("bf16", "vendor"), ("t2", "terngrad"), ("t5", "terngrad"),
                                       ("fp32", "vendor"), ("fp16", "ddp")]}
        self.assertEqual(words, {("bf16", "terngrad"): "pays", ("bf16", "vendor"): "loses",
                                 ("t2", "terngrad"): "even, loses to bf16", ("t5", "terngrad"): "-", ("fp32", "vendor"): "-",
                                 ("fp16", "ddp"): "-"})

    def test_tables_need_not_be_whole(self):
        report = {"machine": {"processor": "one", "processors": 1, "kernel": "6"}, "version": "x", "written": "now", "rows": [
            {**self.row("t2", "t2", 5.0), "rate": "1gbit", "net": "alexnet", "command": "a command"}]}
        text = self.report.to_markdown(report)
        self.assertIn("| t2 | 5 | - | - | - | - | - | - | - | - | - | - | - | - |", text)
        self.assertIn("a command", text)


class Real(unittest.TestCase):
    def test_a_small_net_on_a_real_link(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        with tempfile.TemporaryDirectory() as folder:
            words = ["--programs", PROGRAMS, "--out", folder, "--rates", "100mbit", "--nets", "lenet", "--rows", "fp32", "t2",
                     "--steps", "3", "--seconds", "1", "--max_stolen", "100"]
            result = subprocess.run([sys.executable, SCRIPTS / "bench/bench_slow_link.py", *words], capture_output=True, text=True,
                                    timeout=280)
            if "slow_link.sh: needs" in result.stderr:
                self.skipTest(result.stderr.strip())
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            report = json.loads((pathlib.Path(folder) / "results.json").read_text())
            fp32, t2 = report["rows"]
            self.assertGreater(fp32["sent_bytes"] / t2["sent_bytes"], 14)
            self.assertGreater(t2["steps_per_s"], fp32["steps_per_s"])
            for row in (fp32, t2):
                # Interfaces count the messages of all steps, headers, and traffic outside steps.
                self.assertGreater(min(row["interface_sent_bytes"]), 6 * row["sent_bytes"])
                self.assertGreater(row["iperf3_mbit_per_s"], 10)


if __name__ == "__main__":
    PROGRAMS, *names = sys.argv[1:]
    program = unittest.main(argv=[sys.argv[0], *names], exit=False)
    skipped_all = program.result.wasSuccessful() and len(program.result.skipped) == program.result.testsRun
    sys.exit(SKIPPED if skipped_all else not program.result.wasSuccessful())
