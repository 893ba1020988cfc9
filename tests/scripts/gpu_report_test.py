"""Tests of scripts/gpu/gpu_report.py on small samples of what scripts/gpu/gpu_check.sh leaves."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/gpu/gpu_report.py"

ENCODE = "encode_tensor/cuda/f32/n:67108864/memory"
AGGREGATE = "aggregate8_t2/cuda/f32/n:67108864/memory"
LENET = "encode_model/cuda/f32/lenet/cache"


def case(suite, name, result="COMPLETED", failures=()):
    return suite, {"name": name, "status": "RUN", "result": result, **({"failures": list(failures)} if failures else {})}


def gtest(*cases):
    suites = {}
    for suite, entry in cases:
        suites.setdefault(suite, []).append(entry)
    return json.dumps({"testsuites": [{"name": name, "testsuite": entries} for name, entries in suites.items()]})


def row(name, **counters):
    return {"name": f"{name}/iterations:25/manual_time", "real_time": 1.0, "time_unit": "us", **counters}


def bench(*rows):
    return json.dumps({"context": {"gpu": "some"}, "benchmarks": rows}, indent=2)


GOOD_ROWS = (
    row(ENCODE, of_copy=0.93, median_us=140.0, moved_GBps=3950.0, copy_GBps=4250.0, floor_us=2.0),
    row(AGGREGATE, of_copy=0.91, median_us=100.0, moved_GBps=3900.0, copy_GBps=4250.0, floor_us=2.0),
    row(LENET, of_target=0.97, of_copy=0.4, median_us=12.5, moved_GBps=800.0, copy_GBps=4250.0, floor_us=6.0),
)


class GpuReport(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.state = pathlib.Path(temporary.name) / "state"
        self.out = pathlib.Path(temporary.name) / "out"
        self.state.mkdir()
        self.out.mkdir()
        (self.state / "machine.tsv").write_text("gpu\tNVIDIA H200, driver 13.0, runtime 13.0\nprograms\tterngrad_bench 0.1.0 (abc)\n")
        self.parts = []

    def add(self, kind, name, rc=0, log="", limit=60, text="program", **files):
        self.parts.append("\t".join(map(str, (kind, name, rc, 3, limit, text))) + "\n")
        (self.state / f"{name}.log").write_text(log)
        for suffix, content in files.items():
            (self.state / f"{name}.{suffix}.json").write_text(content)

    def report(self, *options, code=0):
        (self.state / "parts.tsv").write_text("".join(self.parts))
        result = subprocess.run([sys.executable, SCRIPT, *options, self.state, self.out], capture_output=True, text=True)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.markdown = (self.out / "report.md").read_text()
        return json.loads((self.out / "report.json").read_text())

    def only_part(self, code):
        """Status and detail of the one part there is."""
        part = self.report(code=code)["parts"][0]
        return part["status"], part["detail"]

    def add_kernels(self, *cases, rc=0):
        self.add("tests", "kernels_test", rc, tests=gtest(case("Layout", "A"), case("CudaCopy", "B"), *cases))

    def test_all_good(self):
        self.add_kernels()
        self.add("sanitizer", "memcheck", log="[       OK ] CudaCopy.B\n========= ERROR SUMMARY: 0 errors\n")
        self.add("bench", "bench_targets", bench=bench(*GOOD_ROWS))
        report = self.report("--require_targets")
        self.assertTrue(report["passed"])
        self.assertEqual([part["status"] for part in report["parts"]], ["passed"] * 3)
        self.assertEqual([target["met"] for target in report["targets"]], [True] * 4)
        self.assertEqual([r["name"] for r in report["benchmarks"]], [ENCODE, AGGREGATE, LENET])
        self.assertIn("NVIDIA H200", self.markdown)
        self.assertIn(f"| {ENCODE} | 140.00 | 3950.0 | 4250.0 | 93.0 % | 2.00 |  |", self.markdown)
        self.assertIn("2 tests, 1 of them on the GPU, 0 skipped", self.markdown)

    def test_nothing_run_is_no_success(self):
        self.assertFalse(self.report(code=1)["passed"])

    def test_failed_tests(self):
        self.add_kernels(case("CudaLanes", "Wrong", failures=["!"]), rc=1)
        status, detail = self.only_part(1)
        self.assertEqual(status, "failed")
        self.assertIn("failed: CudaLanes.Wrong", detail)

    def test_skipped_tests_of_the_gpu_are_failures(self):
        self.add_kernels(case("CudaLanes", "Skipped", "SKIPPED"))
        status, detail = self.only_part(1)
        self.assertEqual(status, "failed")
        self.assertIn("skipped though there is a GPU: CudaLanes.Skipped", detail)

    def test_tests_of_the_gpu_that_lack_published_data_are_no_failure(self):
        log = "[ RUN      ] CudaSets.Mnist\nfile.cpp:288: Skipped\nno mnist in ../data/mnist\n\n[  SKIPPED ] CudaSets.Mnist (0 ms)\n"
        for reason, code in {"no mnist in ../data/mnist": 0, "no GPU: none in this machine": 1}.items():
            self.parts = []
            tests = gtest(case("CudaCopy", "B"), case("CudaSets", "Mnist", "SKIPPED"))
            self.add("tests", "datasets_test", log=log.replace("no mnist in ../data/mnist", reason), tests=tests)
            self.only_part(code)

    def test_killed_runs_need_no_test_of_that_name(self):
        for result, code in {"COMPLETED": 0, "SKIPPED": 1}.items():
            self.parts = []
            self.add("resume", "resume_test", tests=gtest(case("Kill", "AtRandomMoments", result)))
            self.only_part(code)

    def test_other_skipped_tests_are_none(self):
        self.add_kernels(case("Simd", "Skipped", "SKIPPED"))
        self.assertEqual(self.only_part(0)[0], "passed")

    def test_kernels_without_a_gpu_are_not_tested(self):
        self.add("tests", "kernels_test", tests=gtest(case("Layout", "A")))
        self.assertIn("nothing was tested", self.only_part(1)[1])

    def test_a_program_that_crashes_leaves_no_results(self):
        self.add("tests", "kernels_test", 139, "[ RUN      ] CudaCopy.B\n")
        self.assertEqual(self.only_part(1), ("failed", "exit code 139; no results; last line: [ RUN      ] CudaCopy.B"))
        self.parts = []
        self.add("tests", "kernels_test", 0, "nothing\n")
        self.assertEqual(self.only_part(1), ("failed", "no results: nothing"))

    def test_a_program_that_fails_after_good_tests(self):
        self.add_kernels(rc=139)
        self.assertIn("exit code 139", self.only_part(1)[1])

    def test_a_missing_program(self):
        self.add("tests", "kernels_test", 127, text="bin/kernels_test is not there")
        self.assertEqual(self.only_part(1)[0], "failed")

    def test_what_a_sanitizer_finds(self):
        summaries = {
            "========= Invalid __global__ write of size 4 bytes\n": "ERROR SUMMARY: 1 error",
            "========= Error: Race reported between Write access\n": "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)",
            "========= Uninitialized __global__ memory read of size 4 bytes\n": "ERROR SUMMARY: 2 errors",
        }
        for finding, summary in summaries.items():
            self.parts = []
            self.add("sanitizer", "memcheck", 9, f"[       OK ] CudaCopy.B\n{finding}========= {summary}\n")
            status, detail = self.only_part(1)
            self.assertEqual((status, detail), ("failed", f"{finding.strip('= ' + chr(10))} ({summary})"))

    def test_a_sanitizer_that_finds_nothing(self):
        self.add("sanitizer", "racecheck", 0, "[       OK ] CudaCopy.B\n"
                 "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n")
        self.assertEqual(self.only_part(0)[0], "passed")

    def test_a_sanitizer_that_is_cut_off(self):
        ran = "[       OK ] CudaCopy.B\n"
        self.add("sanitizer", "memcheck", 124, ran)
        self.assertEqual(self.only_part(0), ("cut off", "after 60 s: 1 tests ran, nothing found"))
        self.parts = []
        self.add("sanitizer", "memcheck", 124, f"{ran}========= Invalid __global__ read of size 4 bytes\n")
        self.assertEqual(self.only_part(1)[0], "failed")

    def test_a_sanitizer_that_does_not_work_here(self):
        self.add("sanitizer", "memcheck", 1, "========= Error: Device not supported\n")
        self.assertEqual(self.only_part(0)[0], "absent")
        self.parts = []
        self.add("sanitizer", "memcheck", 0, "no tests at all\n")
        self.assertEqual(self.only_part(1)[0], "failed")

    def test_missed_targets(self):
        slow = [row(ENCODE, of_copy=0.5), row(LENET, of_target=1.4, median_us=20.0)]
        self.add("bench", "bench", bench=bench(*slow))
        report = self.report()
        self.assertEqual([target["met"] for target in report["targets"]], [False, None, False, False])
        self.assertIn(f"0 of 1; furthest off: {LENET}", report["targets"][3]["benchmark"])
        self.assertFalse(self.report("--require_targets", code=1)["passed"])

    def test_wrong_results_and_broken_off_benchmarks(self):
        self.add("bench", "bench", 1, bench=bench(*GOOD_ROWS, row("scale/cuda", error_occurred=True, error_message="wrong result")))
        status, detail = self.only_part(1)
        self.assertEqual((status, detail), ("failed", "4 benchmarks; wrong results: scale/cuda"))
        self.assertIn("| scale/cuda | wrong result |", self.markdown)
        self.parts = []
        whole = bench(*GOOD_ROWS)
        self.add("bench", "bench", 124, bench=whole[: whole.index(LENET) + 5])
        report = self.report(code=1)
        self.assertEqual(report["parts"][0]["status"], "timed out")
        self.assertEqual([r["name"] for r in report["benchmarks"]], [ENCODE, AGGREGATE])

    def test_training_steps_have_a_table(self):
        parts = {"examples_us": 4.0, "compute_us": 60.0, "decay_us": 6.0, "encode_us": 20.0, "decode_us": 10.0, "update_us": 20.0}
        steps = [row("train_step/cuda/tf32/lenet/batch:64/workers:8", **parts, sum_us=120.0, graph_us=110.0, no_exchange_us=80.0,
                     step_us=115.0, steps_per_s=8695.6),
                 row("train_step/cuda/fp32/lenet/batch:64/workers:8", error_occurred=True, error_message="wrong result")]
        self.add("bench", "bench_steps", 1, bench=bench(*steps))
        self.assertEqual(self.only_part(1), ("failed", "2 benchmarks; wrong results: train_step/cuda/fp32/lenet/batch:64/workers:8"))
        self.assertIn("| tf32/lenet/batch:64/workers:8 | 8696 | 115.0 | 4.0 | 60.0 | 6.0 | 20.0 | 10.0 | 20.0 | 120.0 | 110.0 | 80.0 "
                      "| compute, 50.0 % |", self.markdown)
        self.assertRegex(self.markdown, r"fp32/lenet.*\| wrong result \|")
        self.assertEqual(self.markdown.count("tf32/lenet"), 1)

    def test_the_first_measurement_counts(self):
        self.add("bench", "bench_targets", bench=bench(row(ENCODE, of_copy=0.8)))
        self.add("bench", "bench", bench=bench(row(ENCODE, of_copy=0.99)))
        self.assertEqual(self.report()["targets"][0]["measured"], 0.8)

    def add_training(self, name, rc=0, log="", top1=None, kind="training", losses=(0.5, 0.5, 0.5), **options):
        self.add(kind, name, rc, log, **options)
        records = [{"kind": "train", "step": step, "loss": loss, "examples_per_second": 1000.0 * step}
                   for step, loss in enumerate(losses, 1)]
        if top1 is not None:
            records.append({"kind": "test", "step": 3, "top1": top1})
        folder = self.state / f"{name}.run"
        folder.mkdir(exist_ok=True)
        (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        return folder

    def test_trainings(self):
        self.add_training("lenet_ternary", top1=0.99)
        self.assertEqual(self.only_part(0), ("passed", "step 3, loss 0.5, 2000 examples/s, top-1 0.9900"))
        (self.state / "lenet_ternary.min_top1").write_text("0.99\n")
        self.assertEqual(self.only_part(0)[0], "passed")
        for top1 in (0.9899, None):
            self.parts = []
            self.add_training("lenet_ternary", top1=top1)
            status, detail = self.only_part(1)
            self.assertEqual(status, "failed")
            self.assertIn("where top-1 of at least 0.99 is expected", detail)
        self.parts = []
        self.add_training("cifarnet_ternary")
        self.assertEqual(self.only_part(0), ("passed", "step 3, loss 0.5, 2000 examples/s"))
        self.parts = []
        self.add_training("cifarnet_ternary", 1, "terngrad_train: error: [cuda] out of memory\n")
        self.assertEqual(self.only_part(1)[0], "failed")

    def test_a_run_that_moves(self):
        log = "resumed after step 1\n"
        self.parts = []
        self.add_training("stayed", top1=0.98)
        (self.state / "moved.other").write_text("stayed\n")
        stayed, = self.parts
        for losses, top1, told, code, words in (
            ((9.0, 0.51, 0.5), 0.975, log, 0, "of 2 losses none is more than 2.0 % from"),
            ((0.5, 0.56, 0.5), 0.98, log, 1, "more than 12.0 %"),
            ((0.5, 0.5, float("nan")), 0.98, log, 1, "of 2 losses"),
            ((0.5, None, 0.5), 0.98, log, 1, "exit code 0; what it left cannot be read"),
            ((0.5, 0.5, 0.5), 0.95, log, 1, "top-1 0.0300"),
            ((0.5, 0.5), 0.98, log, 1, "metrics after step 1 are of steps [2], expected [2, 3]"),
            ((0.5, 0.5, 0.5), None, log, 1, "no evaluation"),
            ((0.5, 0.5, 0.5), 0.98, "training\n", 1, "it did not continue from a checkpoint"),
        ):
            self.parts = [stayed]
            self.add_training("moved", kind="move", log=told, losses=losses, top1=top1)
            part = self.report(code=code)["parts"][1]
            self.assertEqual(part["status"], "failed" if code else "passed")
            self.assertIn(words, part["detail"])
        self.parts = [stayed]
        self.add_training("moved", 2, "terngrad_train: error: --resume\n", kind="move")
        self.assertIn("exit code 2", self.report(code=1)["parts"][1]["detail"])

    def test_a_run_that_is_repeated(self):
        folders = [self.add_training("first", top1=0.98), self.add_training("again", kind="repeat", top1=0.98)]
        (self.state / "again.other").write_text("first\n")
        for folder in folders:
            (folder / "checkpoint-90.safetensors").write_bytes(b"other")
            (folder / "checkpoint-100.safetensors").write_bytes(b"bits")
        (folders[1] / "checkpoint-90.safetensors").write_bytes(b"not looked at")
        part = self.report()["parts"][1]
        self.assertEqual(part["detail"], "two runs end with the same 4 bytes of checkpoint-100.safetensors and 4 equal records")
        (folders[1] / "checkpoint-100.safetensors").write_bytes(b"bats")
        self.assertIn("different bits in checkpoint-100.safetensors", self.report(code=1)["parts"][1]["detail"])
        for folder in folders:
            (folder / "checkpoint-200.safetensors").write_bytes(b"bits")
        self.assertEqual(self.report()["parts"][1]["status"], "passed")
        (folders[1] / "metrics.jsonl").write_text('{"kind": "train", "step": 1, "loss": 0.4}\n')
        self.assertIn("different metrics", self.report(code=1)["parts"][1]["detail"])
        for folder in folders:
            (folder / "metrics.jsonl").write_text("")
        self.assertEqual(self.report(code=1)["parts"][1]["status"], "failed")
        for path in folders[0].glob("checkpoint*"):
            path.unlink()
        self.assertIn("left no checkpoint", self.report(code=1)["parts"][1]["detail"])

    def test_a_training_that_is_killed_while_it_writes(self):
        self.add_training("lenet_ternary", 124, "step 3\n")
        with (self.state / "lenet_ternary.run" / "metrics.jsonl").open("a") as file:
            file.write('{"kind": "tr')
        self.assertEqual(self.only_part(1), ("timed out", "after 60 s; step 3, loss 0.5, 2000 examples/s; last line: step 3"))

    def test_trainings_that_are_not_built(self):
        refused = "terngrad_train: error: --device cuda: this program was built without CUDA; accepted: auto, cpu\n"
        self.add("training", "lenet_ternary", 2, refused)
        status, detail = self.only_part(0)
        self.assertEqual(status, "absent")
        self.assertIn("built without CUDA", detail)
        self.parts = []
        self.add("training", "lenet_ternary", 2, "terngrad_train: error: --num_nodes 3: must divide\n")
        self.assertEqual(self.only_part(1)[0], "failed")

    def test_parts_that_were_not_run(self):
        self.add("sanitizer", "sanitizers", "-", text="compute-sanitizer is not present")
        self.assertEqual(self.only_part(0), ("absent", "compute-sanitizer is not present"))
        self.add("bench", "bench", "late", text="no time")
        self.assertEqual(self.report(code=1)["parts"][1]["status"], "not run")

    def test_wrong_usage(self):
        for arguments in ([], ["a"], ["a", "b", "c"], ["--fast", "a", "b"]):
            result = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
            self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
    unittest.main()
