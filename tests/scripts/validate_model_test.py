"""Tests of scripts/bench/validate_model.py: on links that a script of this test makes up, and on a real one.

Arguments: the folder of the programs, then a class of tests."""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.made_up_link import MadeUpLink  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
PROGRAMS = ""
SKIPPED = 77

# Stands in for slow_link.sh: writes what terngrad_exchange_bench would have. A link has 1 ms latency for each other host, and
# the bandwidth of its rate. Its folder's file `calls` has a line for each call; its file `fails`, if there is one, numbers of
# hosts that fail; `stat` is the machine's, and `stolen` has the percentage of processor time that calls to come lose.
FAKE_LINK = f"#!{sys.executable}\n" + r'''
import json, pathlib, sys
here = pathlib.Path(__file__).parents[1]
words = sys.argv[1:]
split = words.index("--")
rate, hosts, command = words[split - 2], int(words[split - 1]), words[split + 1:]
with open(here / "calls", "a") as calls:
    calls.write(" ".join([rate, str(hosts), *command]) + "\n")
thefts = (here / "stolen").read_text().split() if (here / "stolen").exists() else []
times = [int(field) for field in (here / "stat").read_text().split()[1:]]
stolen = int(thefts[0]) if thefts else 0
times = [times[0] + 100 - stolen, *times[1:7], times[7] + stolen, *times[8:]]
(here / "stat").write_text(" ".join(["cpu", *map(str, times)]) + "\n")
(here / "stolen").write_text(" ".join(thefts[1:]))
if str(hosts) in ((here / "fails").read_text().split() if (here / "fails").exists() else []):
    print("terngrad_exchange_bench: error: it broke\nslow_link.sh: host 0 sent nothing")
    sys.exit(3)
def after(name):
    return [value for key, value in zip(command, command[1:]) if key == name]
BYTES = {"fp32": 8e6, "bf16": 4e6, "t2": 5e5, "t5": 4e5}
FACTORS = {"fp32": 1.0, "bf16": 1.25, "t2": 0.9, "t5": 1.0}  # predicted / measured
link = {"latency_seconds": 1e-3 * (hosts - 1), "bytes_per_second": {"100mbit": 1.25e7, "1gbit": 1.25e8}.get(rate)}
results = []
for exchange in after("--exchange"):
    for codec in after("--codec"):
        rounds = {"all_gather": 2, "scatter_reduce": 3}[exchange]
        size = BYTES[codec] * (hosts - 1)
        wire = rounds * link["latency_seconds"] + (size / link["bytes_per_second"] if link["bytes_per_second"] else 0)
        predicted = {"encode_seconds": 0.01, "wire_seconds": wire, "decode_seconds": 0.01, "total_seconds": wire + 0.02,
                     "wire_bytes": size, "rounds": rounds}
        total = (wire + 0.02) / FACTORS[codec]
        measured = {"measure_seconds": 0.001, "encode_seconds": 0.009, "wire_seconds": total - 0.02, "decode_seconds": 0.01,
                    "total_seconds": total}
        results.append({"codec": codec, "exchange": exchange, "slowest": measured, "predicted": predicted,
                        "samples": [{**measured, "total_seconds": total + 0.001 * i} for i in (-1, 1, 0)]})
def write(path, value):
    pathlib.Path(path).write_text(json.dumps(value) + "\n")
write(*after("--json"), {"commit": "abc-dirty", "version": "1.2", "repetitions": int(*after("--repetitions")), "link": link,
                         "results": results})
write(words[words.index("--counters") + 1], {"rate": rate, "iperf3_mbit_per_s": 94.0, "seconds": 5.0, "exit_code": 0, "hosts": []})
'''


def load():
    sys.path.insert(0, str(SCRIPTS / "bench"))
    try:
        spec = importlib.util.spec_from_file_location("validate_model", SCRIPTS / "bench/validate_model.py")
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
        self.write_program("programs/terngrad_exchange_bench", "#!/bin/sh\necho 'terngrad_exchange_bench 1.2 (abc)'\n")
        self.write_program("scripts/hosts/slow_link.sh", FAKE_LINK)
        self.module = load()
        launches = self.module.link_launch
        launches.SCRIPTS = self.folder / "scripts"
        launches.PROC_STAT = self.folder / "scripts" / "stat"
        launches.PROC_STAT.write_text("cpu 7 0 0 0 0 0 0 50 0 0\n")
        launches.PAUSE_SECONDS = launches.SAMPLE_SECONDS = 0

    def words(self):
        return ["validate_model.py", "--programs", str(self.folder / "programs"), "--out", str(self.out)]

    def report(self):
        return json.loads((self.out / "results.json").read_text())

    def rows(self):
        return {(row["hosts"], row["rate"], row["exchange"], row["codec"]): row for row in self.report()["rows"]}

    def test_every_exchange_of_a_launch_is_a_row(self):
        code, output = self.run_script("--hosts", "2", "4", "--rates", "1gbit")
        self.assertEqual(code, 0, output)
        self.assertEqual(len(self.calls()), 2)
        self.assertEqual(self.calls()[1].split(" ", 2)[:2], ["1gbit", "4"])
        self.assertIn("--layout cifar10_alexnet --codec fp32 --codec bf16 --codec t2 --codec t5 --exchange all_gather --exchange "
                      "scatter_reduce --quantize_logits --threads 1 --repetitions 5 --predict", self.calls()[0])
        rows = self.rows()
        self.assertEqual(len(rows), 16)
        row = rows[4, "1gbit", "scatter_reduce", "bf16"]
        # 3 rounds of 3 ms, 12 MB at 125 MB/s and 20 ms of work; 80 % of it was measured.
        self.assertAlmostEqual(row["predicted_seconds"], 0.009 + 0.096 + 0.02)
        self.assertAlmostEqual(row["measured_seconds"], 0.1)
        self.assertAlmostEqual(row["error"], 0.25)
        # Two hosts have 1 ms of latency.
        self.assertAlmostEqual(row["predicted_by_two_seconds"], 0.003 + 0.096 + 0.02)
        self.assertAlmostEqual(row["samples_seconds"][1], 0.101)
        self.assertEqual((row["iperf3_mbit_per_s"], row["stolen_percent"], row["busy_before_percent"]), (94.0, 0, 0))
        self.assertEqual((row["commit"], row["dirty"], row["repetitions"]), ("abc", True, 5))
        self.assertIn("2.1gbit.cifar10_alexnet: 8 rows, errors from -10.0 % to +25.0 %", output)
        self.assertIn("12 of 16 rows (75 %) are within 15 %.", output)

    def test_tables_the_record_and_the_figure_are_written(self):
        self.assertEqual(self.run_script("--hosts", "2", "4", "--rates", "1gbit")[0], 0)
        text = (self.out / "results.md").read_text()
        self.assertIn("- Not accepted (asked for: 90 % of the rows within 15 %", text)
        self.assertIn("| cifar10_alexnet | 4 | 1gbit | scatter_reduce | bf16 | 100 | 125 | +25.0 % | +19.0 % | 10 / 10 | "
                      "80 / 105 | 10 / 10 |", text)
        self.assertIn("| cifar10_alexnet | 4 | 1gbit | 3000 | 1000 | 94 | 0.0 % | 0 % | 6 of 8 |", text)
        self.assertIn("terngrad_exchange_bench --layout", text)
        self.assertNotIn(str(self.folder), text)
        record = self.out / "model-validation.jsonl"
        rows = self.module.validation.read(record)
        self.assertEqual(len(rows), 16)
        self.assertEqual("".join(map(self.module.store.to_line, rows)), record.read_text())
        self.assertIn("cpu", rows[0]["machine"])
        xml.etree.ElementTree.parse(self.out / "model-validation.svg")
        self.assertFalse((self.out / "scratch").exists())

    def test_rows_are_in_order_whatever_was_measured_when(self):
        for hosts, rates in (("8", "1gbit"), ("2", "none"), ("2", "1gbit")):
            words = ["--hosts", hosts, "--rates", rates, "--codecs", "t2", "fp32", "--exchanges", "all_gather"]
            self.assertEqual(self.run_script(*words)[0], 0)
        self.assertEqual(list(self.rows()), [(2, "1gbit", "all_gather", "fp32"), (2, "1gbit", "all_gather", "t2"),
                                             (2, "none", "all_gather", "fp32"), (2, "none", "all_gather", "t2"),
                                             (8, "1gbit", "all_gather", "fp32"), (8, "1gbit", "all_gather", "t2")])
        self.assertIn("| cifar10_alexnet | 2 | none | 1000 | unlimited |", (self.out / "results.md").read_text())

    def test_without_two_hosts_nothing_is_said_of_their_link(self):
        self.assertEqual(self.run_script("--hosts", "4", "--rates", "1gbit", "--codecs", "fp32")[0], 0)
        self.assertNotIn("predicted_by_two_seconds", self.rows()[4, "1gbit", "all_gather", "fp32"])
        self.assertNotIn("as two hosts measured it", (self.out / "results.md").read_text())
        self.assertNotIn("--quantize_logits", self.calls()[0])  # which the program refuses with fp32 alone

    def test_continues_where_it_was(self):
        words = ["--hosts", "2", "4", "--rates", "1gbit"]
        (self.folder / "scripts" / "fails").write_text("4")
        code, output = self.run_script(*words)
        self.assertEqual(code, 1)
        self.assertIn("4.1gbit.cifar10_alexnet: error: exit code 3: terngrad_exchange_bench: error: it broke", output)
        self.assertEqual(self.report()["failed"],
                         {"4.1gbit.cifar10_alexnet": "exit code 3: terngrad_exchange_bench: error: it broke"})
        self.assertIn("- 4.1gbit.cifar10_alexnet: exit code 3", (self.out / "results.md").read_text())
        self.assertEqual(len(self.rows()), 8)
        (self.folder / "scripts" / "fails").unlink()
        self.assertEqual(self.run_script(*words)[0], 0)
        self.assertEqual(len(self.calls()), 3)  # only what had failed
        self.assertEqual((len(self.rows()), self.report()["failed"]), (16, {}))
        self.assertEqual(self.run_script(*words, "--dry_run"), (0, ""))
        for other in (["--repetitions", "7"], ["--codecs", "t2"], ["--exchanges", "all_gather"]):
            code, output = self.run_script(*words, *other)
            self.assertEqual(code, 2)
            self.assertIn("has rows of another build or machine, other --codecs, --exchanges or --repetitions", output)

    def test_nothing_but_failures_is_said(self):
        (self.folder / "scripts" / "fails").write_text("2")
        code, output = self.run_script("--hosts", "2", "--rates", "1gbit")
        self.assertEqual(code, 1)
        self.assertIn("No row was measured.", output)
        self.assertEqual((self.out / "model-validation.jsonl").read_text(), "")

    def test_launches_that_lose_time_to_other_machines_are_made_again(self):
        words = ["--hosts", "2", "--rates", "1gbit"]
        stolen = self.folder / "scripts" / "stolen"
        stolen.write_text("8 5 6")
        self.assertEqual(self.run_script(*words)[0], 0)
        self.assertEqual(len(self.calls()), 3)
        self.assertAlmostEqual(self.rows()[2, "1gbit", "all_gather", "t2"]["stolen_percent"], 5)
        stolen.write_text("1")
        self.assertEqual(self.run_script(*words)[0], 0)
        self.assertEqual(len(self.calls()), 4)
        self.assertIn("| 1.0 % | 0 % |", (self.out / "results.md").read_text())

    def test_a_launch_that_takes_too_long_is_an_error(self):
        self.write_program("scripts/hosts/slow_link.sh", "#!/bin/sh\nexec sleep 60\n")
        code, output = self.run_script("--hosts", "2", "--rates", "1gbit", "--limit", "1")
        self.assertEqual(code, 1)
        self.assertIn("2.1gbit.cifar10_alexnet: error: not done after 1 s", output)

    def test_what_is_missing_for_all_launches_ends_it(self):
        self.write_program("scripts/hosts/slow_link.sh",
                           "#!/bin/sh\necho 'slow_link.sh: needs root, to make networks' >&2\nexit 2\n")
        self.assertEqual(self.run_script(), (2, "validate_model.py: slow_link.sh: needs root, to make networks\n"))

    def test_a_dry_run_runs_nothing(self):
        code, output = self.run_script("--dry_run")
        self.assertEqual(code, 0)
        self.assertEqual([tuple(line.split(" -- ")[0].split()[-2:]) for line in output.splitlines()],
                         [(rate, hosts) for hosts in "248" for rate in ("100mbit", "1gbit", "10gbit")])
        self.assertEqual(self.calls(), [])
        self.assertFalse(self.out.exists())

    def test_refuses_wrong_usage(self):
        for words, message in [(["--rates", "fast"], "'fast' is refused"), (["--hosts", "1"], "'1' is refused, expected 2 to 64"),
                               (["--hosts", "65"], "'65' is refused"), (["--hosts", "two"], "'two' is refused"),
                               (["--hosts", "2", "4", "2"], "--hosts: 2 4 2 has one twice"), (["--codecs", "fp16"], "--codecs"),
                               (["--exchanges", "vendor"], "--exchanges"), (["--layouts", "resnet"], "--layouts"),
                               (["--repetitions", "0"], "--repetitions: must be at least 1"), (["--limit", "0"], "--limit"),
                               (["--max_stolen", "101"], "--max_stolen"),
                               (["--programs", str(self.out)], "has no program terngrad_exchange_bench")]:
            code, output = self.run_script(*words)
            self.assertEqual(code, 2, words)
            self.assertIn(message, output)


class Real(unittest.TestCase):
    def test_what_the_script_knows_of_the_program_is_so(self):
        text = subprocess.run([f"{PROGRAMS}/terngrad_exchange_bench", "--help"], capture_output=True, text=True,
                              check=True).stdout
        module = load()
        for option, names in (("layout", module.LAYOUTS), ("exchange", module.EXCHANGES)):
            accepted = "".join(re.search(rf"\n  --{option}\s([^(]*)\(=", text)[1].split()).split("|")  # a long list has several lines
            self.assertEqual(set(names) - set(accepted), set())
        codecs = re.search(r"\n  --codec TEXT \(=([^)]*)\)", text)[1].split()  # measured by default
        self.assertEqual(set(module.CODECS) - set(codecs), set())

    def test_two_hosts_on_a_real_link(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        with tempfile.TemporaryDirectory() as folder:
            words = ["--programs", PROGRAMS, "--out", folder, "--hosts", "2", "--rates", "100mbit", "--layouts", "lenet",
                     "--codecs", "fp32", "t2", "--exchanges", "all_gather", "--repetitions", "1", "--max_stolen", "100"]
            result = subprocess.run([sys.executable, SCRIPTS / "bench/validate_model.py", *words], capture_output=True, text=True,
                                    timeout=280, check=False)
            if "slow_link.sh: needs" in result.stderr:
                self.skipTest(result.stderr.strip())
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            fp32, t2 = json.loads((pathlib.Path(folder) / "results.json").read_text())["rows"]
            for row in (fp32, t2):
                self.assertGreater(row["iperf3_mbit_per_s"], 10)
                self.assertEqual(len(row["samples_seconds"]), row["repetitions"])
                # All on the wire is the link's time and that of checksums, which is far below a latency more.
                rest = row["predicted"]["wire_seconds"] - load().link_seconds(row["link"], row["predicted"])
                self.assertTrue(0 <= rest < 0.5 * row["predicted"]["wire_seconds"], row)
                self.assertAlmostEqual(row["predicted_by_two_seconds"], row["predicted_seconds"])
            self.assertGreater(fp32["predicted"]["wire_bytes"] / t2["predicted"]["wire_bytes"], 14)
            self.assertGreater(fp32["measured_seconds"], t2["measured_seconds"])
            self.assertGreater(fp32["predicted_seconds"], t2["predicted_seconds"])


if __name__ == "__main__":
    PROGRAMS, *names = sys.argv[1:]
    program = unittest.main(argv=[sys.argv[0], *names], exit=False)
    skipped_all = program.result.wasSuccessful() and len(program.result.skipped) == program.result.testsRun
    sys.exit(SKIPPED if skipped_all else not program.result.wasSuccessful())
