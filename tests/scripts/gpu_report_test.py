"""Tests of scripts/gpu/gpu_report.py on small samples of the output of scripts/gpu/gpu_check.py."""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/gpu/gpu_report.py"
sys.path.append(str(SCRIPT.parent))
import gpu_results  # noqa: E402

ENCODE = "encode_tensor/cuda/f32/n:67108864/memory"
AGGREGATE = "aggregate8_t2/cuda/f32/n:67108864/memory"
LENET = "encode_model/cuda/f32/lenet/cache"


def gtest(planned=(), **results):
    """JSON of test results. In keyword names, __ stands for a point."""
    results = {name.replace("__", "."): result for name, result in results.items()}
    return json.dumps({"planned": [*results, *planned], "results": results})


def safetensors(**tensors):
    """Bytes of a safetensors file of float32 tensors."""
    header, body = {}, b""
    for name, values in tensors.items():
        data = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


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
        (self.state / "machine.json").write_text('{"gpu": "NVIDIA H200, driver 13.0", "programs": "terngrad_bench 0.1.0 (abc)"}')
        self.parts = []

    def add(self, kind, name, rc=0, log="", more={}, **files):
        part = {"kind": kind, "name": name, "rc": rc, "seconds": 3, "limit": 60, "text": "program", **more}
        self.parts.append(json.dumps(part) + "\n")
        (self.state / f"{name}.log").write_text(log)
        for suffix, content in files.items():
            (self.state / f"{name}.{suffix}.json").write_text(content)

    def report(self, *options, code=0):
        (self.state / "parts.jsonl").write_text("".join(self.parts))
        result = subprocess.run([sys.executable, SCRIPT, *options, self.state, self.out], capture_output=True, text=True)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.markdown = (self.out / "report.md").read_text()
        return json.loads((self.out / "report.json").read_text())

    def only_part(self, code):
        """Status and detail of the only part."""
        part = self.report(code=code)["parts"][0]
        return part["status"], part["detail"]

    def add_kernels(self, rc=0, log="", planned=(), **results):
        self.add("tests", "kernels_test", rc, log, tests=gtest(planned, Layout__A="passed", CudaCopy__B="passed", **results))

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
        self.add_kernels(1, CudaLanes__Wrong="failed", CudaLanes__Slow="hung")
        self.assertEqual(self.only_part(1), ("failed", "4 tests, 3 of them on the GPU, 0 skipped; failed: CudaLanes.Wrong, "
                                                       "CudaLanes.Slow hung"))

    def test_skipped_tests_of_the_gpu_are_failures(self):
        self.add_kernels(CudaLanes__Skipped="skipped")
        self.assertEqual(self.only_part(1), ("failed", "2 tests, 1 of them on the GPU, 1 skipped; skipped though there is a GPU: "
                                                       "CudaLanes.Skipped"))

    def test_tests_of_the_gpu_that_lack_published_data_are_no_failure(self):
        log = "[ RUN      ] CudaSets.Mnist\nfile.cpp:288: Skipped\nREASON\n\n[  SKIPPED ] CudaSets.Mnist (0 ms)\n"
        for reason, code in {"no mnist in ../data/mnist": 0, "no GPU: none in this machine": 1}.items():
            self.parts = []
            self.add_kernels(log=log.replace("REASON", reason), CudaSets__Mnist="skipped")
            self.only_part(code)

    def test_killed_runs_need_no_test_of_that_name(self):
        for result, code in {"passed": 0, "skipped": 1}.items():
            self.parts = []
            self.add("resume", "resume_test", tests=gtest(Kill__AtRandomMoments=result))
            self.only_part(code)

    def test_other_skipped_tests_are_none(self):
        self.add_kernels(Simd__Skipped="skipped")
        self.assertEqual(self.only_part(0)[0], "passed")

    def test_tests_that_were_not_run(self):
        self.add_kernels("timed out", planned=["CudaLanes.Late"])
        self.assertEqual(self.only_part(1), ("failed", "2 tests, 1 of them on the GPU, 0 skipped; not run: CudaLanes.Late"))
        self.parts = []
        self.add("tests", "kernels_test", 127, more={"reason": "kernels_test is not built"})
        self.assertEqual(self.only_part(1), ("failed", "kernels_test is not built"))

    def test_a_program_that_fails_after_good_tests(self):
        self.add_kernels(-11)
        self.assertIn("exit code -11", self.only_part(1)[1])

    def test_a_hang_is_named(self):
        (self.state / "kernels_test.hang.txt").touch()
        self.add_kernels()
        self.assertIn("kernels_test.hang.txt has what it hung in", self.only_part(0)[1])

    def test_kernels_of_a_step(self):
        def launches(*rows):
            header = ",".join(f'"{name}"' for name in ("ID", *"abcdefgh", "Kernel Name", "Metric Unit", "Metric Value"))
            lines = [",".join(f'"{cell}"' for cell in (i, *"abcdefgh", kernel, "ns", ns)) for i, (kernel, ns) in enumerate(rows)]
            return "\n".join(["==PROF== Connected", header, *lines])

        end = ("end_step_kernel(StepRingMemory)", "1,000")
        self.add("profile", "kernels_lenet_1", log=launches(("first", "9"), end, ("sum<float, 2>", "2,000"), ("gemm", "2,500"),
                                                            ("sum<float, 2>", "1,500"), end, ("next", "7")))
        self.add("profile", "kernels_lenet_8", log=launches(("first", "9"), end))
        report = self.report(code=1)
        self.assertEqual([part["status"] for part in report["parts"]], ["passed", "failed"])
        self.assertEqual(report["parts"][0]["detail"], "a step has 4 kernels, 7.0 us by themselves")
        self.assertEqual(report["kernels"], {"kernels_lenet_1": [["sum<float, 2>", 2, 3.5], ["gemm", 1, 2.5],
                                                                 ["end_step_kernel(StepRingMemory)", 1, 1.0]]})
        self.assertIn("| sum<float, 2> | 2 | 3.5 |", self.markdown)

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
        self.add("sanitizer", "memcheck", "timed out", ran)
        self.assertEqual(self.only_part(0), ("cut off", "after 60 s: 1 tests ran, nothing found"))
        self.parts = []
        # Output of the sanitizer for a program that was stopped.
        self.add("sanitizer", "memcheck", "timed out", f"{ran}========= Error: process didn't terminate successfully\n")
        self.assertEqual(self.only_part(0)[0], "cut off")
        self.parts = []
        self.add("sanitizer", "memcheck", "timed out", f"{ran}========= Invalid __global__ read of size 4 bytes\n")
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
        self.add("bench", "bench", "timed out", bench=whole[: whole.index(LENET) + 5])
        report = self.report()
        self.assertEqual(report["parts"][0]["detail"], "after 60 s: 2 benchmarks, all with right results")
        self.assertEqual(report["parts"][0]["status"], "cut off")
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
        self.parts = []
        expected = {"min_top1": 0.99}
        self.add_training("lenet_ternary", top1=0.99, more=expected)
        self.assertEqual(self.only_part(0)[0], "passed")
        for top1 in (0.9899, None):
            self.parts = []
            self.add_training("lenet_ternary", top1=top1, more=expected)
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
            self.add_training("moved", kind="move", log=told, losses=losses, top1=top1, more={"other": "stayed"})
            part = self.report(code=code)["parts"][1]
            self.assertEqual(part["status"], "failed" if code else "passed")
            self.assertIn(words, part["detail"])
        self.parts = [stayed]
        self.add_training("moved", 2, "terngrad_train: error: --resume\n", kind="move", more={"other": "stayed"})
        self.assertIn("exit code 2", self.report(code=1)["parts"][1]["detail"])

    def test_a_run_that_is_repeated(self):
        folders = [self.add_training("first", top1=0.98), self.add_training("again", kind="repeat", top1=0.98, more={"other": "first"})]
        self.assertIn("left no checkpoint", self.report(code=1)["parts"][1]["detail"])

        def detail(code):
            gpu_results.write_difference(self.state, "first", "again")
            return self.report(code=code)["parts"][1]["detail"]

        for folder in folders:
            (folder / "checkpoint-90.safetensors").write_bytes(b"not looked at")
            (folder / "checkpoint-100.safetensors").write_bytes(safetensors(bias=[1, 2], weight=[3, 4, 5]))
        size = (folders[0] / "checkpoint-100.safetensors").stat().st_size
        self.assertEqual(detail(0), f"two runs end with the same {size} bytes of checkpoint-100.safetensors and 4 equal records")
        (folders[1] / "checkpoint-100.safetensors").write_bytes(safetensors(bias=[1, 2], weight=[3, 4.5, 5]))
        metrics = folders[1] / "metrics.jsonl"
        metrics.write_text(metrics.read_text().replace('"step": 2, "loss": 0.5', '"step": 2, "loss": 0.4'))
        self.assertEqual(detail(1), "two runs with the same options end with different bits in checkpoint-100.safetensors: weight (1 of 3 "
                                    "from 1 on); metrics differ from step 2 on")
        (folders[1] / "checkpoint-100.safetensors").write_bytes(b"no such file")
        self.assertIn("no safetensors file", detail(1))
        for folder in folders:
            (folder / "checkpoint-200.safetensors").write_bytes(b"bits")
        self.assertEqual(detail(1), "two runs with the same options have different metrics; metrics differ from step 2 on")
        for folder in folders:
            (folder / "metrics.jsonl").write_text("")
        self.assertIn("different metrics", detail(1))

    def test_scripts(self):
        self.add("script", "pytorch", log='{"steps_per_s": 1000}\n')
        self.add("script", "skips", 77, "no PyTorch\n")
        self.add("script", "fails", 1, "Traceback\n")
        self.add("script", "refused", 1, "==ERROR== ERR_NVGPUCTRPERM - no permission\n")
        self.add("script", "empty", 0, "==WARNING== No kernels were profiled.\n")
        self.assertEqual([(part["status"], part["detail"]) for part in self.report(code=1)["parts"]],
                         [("passed", '{"steps_per_s": 1000}'), ("absent", "no PyTorch"),
                          ("failed", "exit code 1; ; last line: Traceback"),
                          ("absent", "ERR_NVGPUCTRPERM - no permission"), ("failed", "no kernels were profiled")])

    def test_of_a_part_that_was_run_again_the_last_counts(self):
        self.add_kernels(1, CudaLanes__Wrong="failed")
        self.add_kernels(CudaLanes__Wrong="passed")
        self.assertEqual(self.only_part(0)[0], "passed")

    def test_a_training_that_is_killed_while_it_writes(self):
        self.add_training("lenet_ternary", "timed out", "step 3\n")
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
        self.add("sanitizer", "sanitizers", more={"absent": "compute-sanitizer is not present"})
        self.assertEqual(self.only_part(0), ("absent", "compute-sanitizer is not present"))
        self.add("bench", "bench", "no time")
        self.assertEqual(self.report(code=1)["parts"][1]["status"], "not run")

    def test_a_damaged_archive(self):
        (self.state / "results.tar.xz").write_bytes(b"no archive")
        result = subprocess.run([sys.executable, SCRIPT, self.state / "results.tar.xz", self.out], capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("cannot be read", result.stderr)

    def test_wrong_usage(self):
        for arguments in ([], ["a"], ["a", "b", "c"], ["--fast", "a", "b"]):
            result = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
            self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
    unittest.main()
