#!/usr/bin/env python3
"""Tests what scripts/bench/make_cluster_file.py makes of reports written here, and that terngrad_advise reads it.

Usage: make_cluster_file_test.py TERNGRAD_ADVISE
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/bench/make_cluster_file.py"
sys.path.insert(0, str(SCRIPT.parent))

import make_cluster_file  # noqa: E402

ADVISE = None
CLUSTER = """// Two hosts; "a // in quotes" stays.
{
  "schema": 1, "name": "two // hosts", "machines": 2, "gpus_per_machine": 1, "measured_workers": 2, /* of
  one core */ "links": {"network": {"latency_us": 50, "gbits_per_second": 1, "source": "given"}},
  "nets": [{"name": "lenet", "examples_per_worker": 64,
            "buckets": [{"elements": 1000, "plain_elements": 0, "tensors": 1, "ready_fraction": 0.5},
                        {"elements": 500, "plain_elements": 0, "tensors": 1, "ready_fraction": 1}]}]
}
"""
PROFILE = """step 30 test top-1 = 0.3506
profile: 48.049 ms per step, mean of 27 (the first 3 are left out)
  data                   4.310 ms    9.0 %
  compute               {:.3f} ms   75.9 %
  update                 {:.3f} ms   10.7 %
  - decode               0.000 ms    0.0 %
"""


def benchmark(name, elements, seconds, threads=1, kind="f32", **more):
    return {"name": f"{name}/cpu/{kind}/n:{elements}/threads:{threads}/manual_time", "run_type": "iteration",
            "real_time": 1e6 * seconds, "time_unit": "us", **more}


def bench_report(*benchmarks, commit="0deef5ef876b"):
    return {"context": {"terngrad": f"0.1.0 ({commit})"}, "benchmarks": list(benchmarks)}


# From 1 Mi to 4 Mi elements.
T2 = (benchmark("encode_tensor", 1 << 20, 0.001), benchmark("encode_tensor", 1 << 22, 0.004),
      benchmark("encode_tensor", 1 << 10, 0.5), benchmark("aggregate8_t2", 1 << 20, 0.0008),
      benchmark("aggregate8_t2", 1 << 22, 0.0032))


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.write("cluster.json", CLUSTER)

    def write(self, name, content):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return str(path)

    def run_script(self, *arguments, machine="a Xeon"):
        command = [sys.executable, str(SCRIPT), str(self.folder / "cluster.json"), "-o", str(self.folder / "out.json"),
                   "--machine", machine, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def made(self, *arguments):
        done = self.run_script(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads((self.folder / "out.json").read_text(encoding="utf-8"))

    def refused(self, *arguments, code=1):
        done = self.run_script(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertFalse((self.folder / "out.json").exists())
        return done.stderr


class Codecs(Case):
    def test_have_the_smallest_and_the_largest_size(self):
        made = self.made("--codecs", self.write("bench.json", bench_report(*T2)))
        (codec,) = made["codecs"]
        self.assertEqual(codec["name"], "t2")
        self.assertEqual(codec["encode"], {"source": "measured", "points": [{"elements": 1 << 20, "seconds": 0.001},
                                                                             {"elements": 1 << 22, "seconds": 0.004}]})
        # Of one message of eight.
        self.assertAlmostEqual(codec["decode"]["points"][0]["seconds"], 0.0001)
        self.assertEqual(made["calibration"], {"commit": "0deef5ef876b", "machine": "a Xeon"})

    def test_parts_add_up(self):
        report = bench_report(benchmark("statistics", 1 << 20, 0.001), benchmark("statistics", 1 << 20, 0.5, kind="bf16"),
                              benchmark("ternarize_t5", 1 << 20, 0.002), benchmark("aggregate8_t5", 1 << 20, 0.008))
        (codec,) = make_cluster_file.codecs_of(report, "cpu", 1)
        self.assertEqual(codec["name"], "t5")
        self.assertAlmostEqual(codec["encode"]["points"][0]["seconds"], 0.003)
        self.assertAlmostEqual(codec["decode"]["points"][0]["seconds"], 0.001)

    def test_floats_are_not_encoded(self):
        (codec,) = make_cluster_file.codecs_of(bench_report(benchmark("aggregate8_fp32", 1 << 20, 0.008)), "cpu", 1)
        self.assertEqual((codec["name"], codec["encode"]["source"]), ("fp32", "given"))

    def test_are_of_the_threads_and_the_device_asked_for(self):
        other = benchmark("encode_tensor", 1 << 21, 9, threads=2)
        found = make_cluster_file.seconds_by_size(bench_report(*T2, other), "cpu", 1)
        self.assertNotIn(1 << 21, found["encode_tensor"])
        self.assertEqual(make_cluster_file.seconds_by_size(bench_report(*T2), "cuda", 1), {})
        cuda = {"name": "encode_tensor/cuda/f32/n:2048", "run_type": "iteration", "real_time": 2, "time_unit": "ms"}
        self.assertEqual(make_cluster_file.seconds_by_size(bench_report(cuda), "cuda", 1), {"encode_tensor": {2048: 0.002}})
        self.assertIn("no codec has all", self.refused("--codecs", self.write("b.json", bench_report(*T2)), "--threads", "2"))

    def test_of_repetitions_the_median_counts(self):
        lines = [benchmark("statistics", 2048, 1, run_type="aggregate", aggregate_name=name) for name in ("mean", "median")]
        lines[1]["real_time"] = 5.0
        self.assertEqual(make_cluster_file.seconds_by_size(bench_report(*lines), "cpu", 1), {"statistics": {2048: 5.0 * 1e-6}})

    def test_that_take_less_for_more_are_refused(self):
        report = bench_report(*T2[:1], benchmark("encode_tensor", 1 << 22, 0.0001), *T2[3:])
        self.assertIn("encode_tensor: 4194304 elements take less time than 1048576; measure again",
                      self.refused("--codecs", self.write("b.json", report)))

    def test_other_files_are_refused(self):
        self.assertIn("is no output of terngrad_bench", self.refused("--codecs", self.write("b.json", {"benchmarks": []})))
        self.assertIn("is not JSON", self.refused("--codecs", self.write("b.json", "{")))
        self.assertIn("No such file", self.refused("--codecs", str(self.folder / "none.json")))


class Links(Case):
    def test_of_terngrad_advise_have_samples(self):
        samples = [{"bytes": 1024, "seconds": 0.001, "spread": [0.001, 0.002]}, {"bytes": 4096, "seconds": 0.002}]
        report = {"command": "terngrad_advise", "commit": "abc1234",
                  "link": {"measured": True, "latency_seconds": 0.001, "bytes_per_second": 3e6, "samples": samples}}
        made = self.made("--link", "network=" + self.write("advise.json", report))
        self.assertEqual(made["links"]["network"], {"samples": samples})
        self.assertEqual(made["calibration"]["commit"], "abc1234")

    def test_of_terngrad_exchange_bench_have_a_fit(self):
        report = {"command": "terngrad_exchange_bench", "commit": "abc1234",
                  "link": {"latency_seconds": 2e-6, "bytes_per_second": 3e9}}
        made = self.made("--link", "gpu=" + self.write("bench.json", report))
        self.assertEqual(made["links"]["gpu"], {"latency_us": 2, "gbytes_per_second": 3, "source": "measured"})
        self.assertEqual(made["links"]["network"]["source"], "given")  # as it was

    def test_that_nobody_measured_are_refused(self):
        given = {"command": "terngrad_advise", "commit": "a", "link": {"latency_seconds": 0, "bytes_per_second": 1e6}}
        self.assertIn("was given, not measured", self.refused("--link", "network=" + self.write("a.json", given)))
        self.assertIn("has no measured link", self.refused("--link", "network=" + self.write("a.json", {})))
        self.assertIn("expected gpu=FILE", self.refused("--link", "wan=a.json", code=2))

    def test_of_another_commit_are_refused(self):
        link = {"command": "terngrad_exchange_bench", "commit": "abc1234",
                "link": {"latency_seconds": 0, "bytes_per_second": 3e9}}
        said = self.refused("--link", "network=" + self.write("a.json", link),
                            "--codecs", self.write("b.json", bench_report(*T2)))
        self.assertIn("several commits", said)


class Profiles(Case):
    def test_of_two_batches_make_a_line(self):
        made = self.made("--profile", "lenet:64=" + self.write("p64", PROFILE.format(70, 4)), "--commit", "abc1234",
                         "--profile", "lenet:32=" + self.write("p32", PROFILE.format(36.5, 6)))
        self.assertEqual(made["nets"][0]["compute"], {"source": "measured", "points": [{"examples": 32, "seconds": 0.0365},
                                                                                       {"examples": 64, "seconds": 0.07}]})
        self.assertEqual(made["nets"][0]["update"], {"source": "measured", "points": [{"elements": 1500, "seconds": 0.005}]})

    def test_need_a_net_and_a_commit(self):
        file = self.write("p", PROFILE.format(70, 4))
        self.assertIn("--commit is missing", self.refused("--profile", f"lenet:64={file}"))
        self.assertIn("has no such net", self.refused("--profile", f"vgg_a:64={file}", "--commit", "abc1234"))
        self.assertIn("expected NET:EXAMPLES=FILE", self.refused("--profile", f"lenet={file}", code=2))
        self.assertIn("at most two, of different batches",
                      self.refused("--profile", f"lenet:64={file}", "--profile", f"lenet:64={file}", "--commit", "a"))
        less = self.write("q", PROFILE.format(60, 4))
        self.assertIn("128 examples take less time than 64",
                      self.refused("--profile", f"lenet:64={file}", "--profile", f"lenet:128={less}", "--commit", "a"))
        self.assertIn("is not what terngrad_train --profile prints",
                      self.refused("--profile", "lenet:64=" + self.write("r", "step 30\n"), "--commit", "a"))

    def test_nothing_measured_is_wrong_usage(self):
        self.assertIn("nothing is measured", self.refused(code=2))


class Made(Case):
    def test_is_read_by_terngrad_advise(self):
        self.made("--codecs", self.write("bench.json", bench_report(*T2)),
                  "--profile", "lenet:64=" + self.write("p64", PROFILE.format(70, 4)))
        done = subprocess.run([ADVISE, "--cluster", str(self.folder / "out.json")], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("two // hosts: 2 machines of 1 GPU, 2 workers; measured by commit 0deef5ef876b on a Xeon\n", done.stdout)
        # 1500 elements at a nanosecond each, which takes a microsecond and a half.
        self.assertRegex(done.stdout, r"\nt2    -     all_gather +1   70.00  0.001 ")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    ADVISE = sys.argv.pop(1)
    unittest.main()
