"""Tests of scripts/gpu/gpu_check.sh: against the build without a GPU, and against programs that only pretend.

Arguments: the build folder."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from few_digits import write_digits  # noqa: E402

BUILD = None

BENCH = """
case "$*" in
  --gpu) echo "Some GPU, driver 13.0" ;;
  --version) echo "terngrad_bench 0.1.0 (abc)" ;;
  *)
    for word in "$@"; do
      if [[ $word == --benchmark_out=* ]]; then
        echo '{"benchmarks": [{"name": "scale/cuda/f32/n:1024/cache/iterations:25/manual_time", "of_target": 0.5}]}' \\
          >"${word#*=}"
      fi
    done ;;
esac
"""
TESTS = """
for word in "$@"; do
  if [[ $word == --gtest_list_tests ]]; then
    echo "Cuda$(basename "$0")."
    exit
  fi
  if [[ $word == --gtest_output=json:* ]]; then
    echo '{"testsuites": [{"name": "CudaX", "testsuite": [{"name": "Y", "status": "RUN", "result": "COMPLETED"}]}]}' \\
      >"${word#--gtest_output=json:}"
  fi
done
echo "[       OK ] CudaX.Y, in $PWD"
"""
TRAIN = r"""
if [[ $1 == --help ]]; then
  echo "  --device auto|cpu|cuda"
  exit
fi
if [[ "$1" != --device ]]; then exit 1; fi
words=" $* "
while [[ $1 != --train_dir ]]; do shift; done
mkdir -p "$2"
record() { echo "{\"kind\": \"$1\", \"step\": $2, $3}" >>"$folder/metrics.jsonl"; }
folder=$2
rm -f "$folder/metrics.jsonl"
if [[ $words == *" --resume "* ]]; then echo "resumed after step $(ls "$folder" | sed -nE 's/checkpoint-(.*).safetensors/\1/p')"; fi
for step in 100 200; do
  record train $step '"loss": 0.1, "examples_per_second": 5000'
  echo bits >"$folder/checkpoint-$step.safetensors"
done
record test 200 '"top1": 0.995'
"""
# The real one, on the CPU and for a single step, or for two of which each is saved.
REAL_TRAIN = """
arguments=()
steps=1
if [[ " $* " == *" --save_iter "* ]]; then steps=2; fi
while (($# > 0)); do
  case $1 in
    cuda) arguments+=(cpu) ;;
    --max_steps)
      arguments+=("$1" "$steps")
      shift
      ;;
    --save_iter | --log_steps)
      arguments+=("$1" 1)
      shift
      ;;
    --math) shift ;;  # which is for GPUs
    *) arguments+=("$1") ;;
  esac
  shift
done
exec PROGRAM "${arguments[@]}"
"""
SANITIZER = """
echo "$@"
tool=$2
while [[ $1 != */*_test ]]; do shift; done
"$@"
echo "========= ERROR SUMMARY: 0 errors, by $tool"
"""


# Says which GPUs there are.
SMI = 'if [[ $1 == -L ]]; then for i in $(seq GPUS); do echo "GPU $((i - 1)): Some GPU"; done; fi'
# Starts one process, whatever it is asked for.
MPIRUN = """
[[ $OMPI_ALLOW_RUN_AS_ROOT == 1 && $1 == --bind-to && $3 == -np ]]
ranks=$4
shift 4
echo "launched $ranks"
exec "$@"
"""
LDD = 'echo "libmpi.so.40 => /usr/lib/libmpi.so.40"'


class WithoutAGpu(unittest.TestCase):
    def test_says_why_there_is_no_gpu(self):
        bench = subprocess.run([BUILD / "bin" / "terngrad_bench", "--gpu"], capture_output=True, text=True)
        if bench.returncode == 0:
            self.skipTest(f"there is one: {bench.stdout}")
        self.assertEqual(bench.returncode, 2)
        reason = bench.stderr.strip().removeprefix("terngrad_bench: error: no GPU: ")
        self.assertTrue(reason)
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run([SCRIPTS / "gpu/gpu_check.sh", "--build", BUILD, "--out", f"{folder}/out"],
                                    capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertEqual(result.stderr, f"gpu_check.sh: no GPU to check on: {reason}\n")
            self.assertFalse(pathlib.Path(folder, "out").exists())


class Pretended(unittest.TestCase):
    """A checkout whose programs are shell scripts."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name) / "root"
        (self.root / "scripts/gpu").mkdir(parents=True)
        for name in ("gpu_check.sh", "gpu_report.py"):
            shutil.copy(SCRIPTS / "gpu" / name, self.root / "scripts/gpu")
        self.bin = self.root / "build" / "release" / "bin"
        for name, text in {"terngrad_bench": BENCH, "terngrad_train": TRAIN, "kernels_test": TESTS,
                           "contracts_test": TESTS, "nets_test": TESTS, "resume_test": TESTS}.items():
            self.write(self.bin / name, text)
        self.tools = self.root / "tools"
        for name, text in {"compute-sanitizer": SANITIZER, "nvidia-smi": SMI.replace("GPUS", "1"), "mpirun": MPIRUN,
                           "ldd": LDD}.items():
            self.write(self.tools / name, text)

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/usr/bin/env bash\nset -euo pipefail\n" + text)
        path.chmod(0o755)

    def check(self, *arguments, code=0, out=True):
        environment = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"}
        options = ["--out", self.root / "out"] if out else []
        self.result = subprocess.run([self.root / "scripts/gpu/gpu_check.sh", *options, *arguments],
                                     capture_output=True, text=True, env=environment, timeout=120)
        self.assertEqual(self.result.returncode, code, self.result.stdout + self.result.stderr)
        report = self.root / "out" / "report.json"
        return json.loads(report.read_text()) if report.exists() else None

    def statuses(self, report):
        return {part["name"]: part["status"] for part in report["parts"]}

    def test_runs_all_parts(self):
        report = self.check()
        passed = ["start", "kernels_test", "contracts_test", "nets_test", "lenet_ternary", "lenet_fp32", "cifarnet_ternary",
                  "resume_test", "unmoved_gpu", "unmoved_cpu", "from_gpu_to_cpu", "from_cpu_to_gpu"]
        for run in ("lenet_tf32", "cifarnet_tf32", "lenet_fp32", "cifarnet_fp32"):
            passed += [f"repeated_{run}_first", f"repeated_{run}"]
        passed += ["processes_one", "processes_overlap", "processes_served", "processes_launched", "processes_two_served"]
        passed += ["bench_targets", "bench_steps", "memcheck_kernels_test", "memcheck_nets_test", "racecheck_kernels_test",
                   "racecheck_nets_test", "initcheck_kernels_test", "bench"]
        absent = dict.fromkeys(["compress_test", "datasets_test", "trainers_test", "nccl_one_rank", "processes_two"], "absent")
        self.assertEqual(self.statuses(report), {**dict.fromkeys(passed, "passed"), **absent})
        self.assertEqual(report["machine"]["gpu"], "Some GPU, driver 13.0")
        self.assertEqual(report["machine"]["programs"], "terngrad_bench 0.1.0 (abc)")
        self.assertEqual(sorted(path.name for path in (self.root / "out").iterdir()),
                         ["bench.json", "bench_steps.json", "bench_targets.json", "log.txt", "report.json", "report.md"])
        log = (self.root / "out" / "log.txt").read_text()
        self.assertIn("===== kernels_test: exit code 0", log)
        self.assertIn(f"in {self.root}\n", log)
        self.assertIn("ERROR SUMMARY: 0 errors, by racecheck", log)
        self.assertIn("passed", self.result.stdout.splitlines()[-1])

    def test_pieces_are_all_parts_in_their_order(self):
        whole = list(self.statuses(self.check()))
        shutil.rmtree(self.root / "out")
        of_pieces = []
        for piece in range(1, 7):
            report = self.check("--piece", str(piece))
            of_pieces += list(self.statuses(report))
            self.assertTrue(all(float(part["limit"]) <= 570 for part in report["parts"]), report["parts"])
        self.assertEqual(of_pieces, whole)
        for wrong, text in {("--piece", "7"): "'7' is refused, expected a number from 1 to 6",
                            ("--piece", "1", "--parts", "tests"): "leave out --parts"}.items():
            self.check(*wrong, code=2)
            self.assertIn(text, self.result.stderr)

    def test_runs_nccl_with_one_rank(self):
        self.write(self.bin / "compress_test", TESTS.replace("Cuda$(basename", "CudaNcclOneRank$(basename"))
        report = self.check("--parts", "nccl")
        self.assertEqual(self.statuses(report), {"nccl_one_rank": "passed"})
        self.assertIn("--gtest_filter=CudaNcclOneRank.*", report["parts"][0]["text"])

    def test_quick_and_chosen_parts(self):
        self.assertEqual(list(self.statuses(self.check("--quick", "--parts", "sanitizers,bench,tests"))),
                         ["memcheck_kernels_test", "memcheck_nets_test", "kernels_test", "contracts_test", "compress_test",
                          "nets_test", "datasets_test", "trainers_test"])

    def test_a_failure_stops_nothing(self):
        self.write(self.bin / "kernels_test", 'if [[ $1 == --gtest_out* ]]; then exit 3; fi\n' + TESTS)
        self.write(self.bin / "terngrad_bench", 'if [[ $1 == --benchmark_out* ]]; then exit 1; fi\n' + BENCH)
        report = self.check("--parts=tests,targets,bench", code=1)
        of_tests = {"kernels_test": "failed", "contracts_test": "passed", "nets_test": "passed"}
        statuses = self.statuses(report)
        self.assertEqual({name: statuses[name] for name in of_tests}, of_tests)
        self.assertEqual((statuses["bench_targets"], statuses["bench"]), ("failed", "passed"))

    def test_a_build_with_tests_is_preferred(self):
        shutil.copytree(self.bin, self.bin.parents[1] / "ci" / "bin")
        (self.bin / "kernels_test").unlink()
        self.assertEqual(self.statuses(self.check("--parts", "tests"))["kernels_test"], "passed")

    def test_a_missing_program_is_a_failure(self):
        (self.bin / "kernels_test").unlink()
        self.assertEqual(self.statuses(self.check("--parts", "tests", code=1))["kernels_test"], "failed")

    def test_tests_that_were_left_out_are_a_failure(self):
        self.write(self.bin / "kernels_test", 'if [[ $1 == --gtest_list* ]]; then exit; fi\n' + TESTS)
        report = self.check("--parts", "tests", code=1)
        self.assertEqual({name: self.statuses(report)[name] for name in ("kernels_test", "contracts_test")},
                         {"kernels_test": "failed", "contracts_test": "passed"})
        self.assertIn("-DTERNGRAD_GPU_TESTS=ON", report["parts"][0]["detail"])

    def test_trainings_that_are_not_built(self):
        refusal = "terngrad_train: error: --device cuda: this program was built without CUDA; accepted: auto, cpu"
        for text in (f'if [[ $1 != --help ]]; then echo "{refusal}" >&2; exit 2; fi\n' + TRAIN, "echo --help\n"):
            self.write(self.bin / "terngrad_train", text)
            report = self.check("--parts", "trainings")
            self.assertEqual(set(self.statuses(report).values()), {"absent"})
            self.assertIn("trainings on a GPU are not built", report["parts"][0]["detail"])

    def real_train(self):
        program = BUILD / "bin" / "terngrad_train"
        if not program.exists():
            self.skipTest("trainings are not built")
        return REAL_TRAIN.replace("PROGRAM", str(program))

    def few_digits(self):
        """The option of a folder with a small set of digits."""
        folder = self.root / "few_digits"
        folder.mkdir()
        write_digits(folder)
        return ["--mnist", folder]

    def test_options_of_trainings_are_accepted(self):
        self.write(self.bin / "terngrad_train", self.real_train())
        # Which are failures, for after a few steps LeNet is not where it should be.
        for part in self.check("--quick", "--parts", "trainings", code=1)["parts"]:
            self.assertTrue(part["detail"].startswith("step 1, loss "), part)

    def test_runs_move_and_repeat(self):
        self.write(self.bin / "terngrad_train", self.real_train())
        parts = {part["name"]: part for part in self.check("--parts", "moves,repeats", *self.few_digits())["parts"]}
        for name in ("from_gpu_to_cpu", "from_cpu_to_gpu"):
            self.assertIn("resumed after step 1; of 1 losses none is more than 0.0 %", parts[name]["detail"])
        self.assertEqual(sum("two runs end with the same" in part["detail"] for part in parts.values()), 4)

    def test_runs_that_do_not_repeat(self):
        self.write(self.bin / "terngrad_train", TRAIN.replace("echo bits", "echo $RANDOM $RANDOM"))
        statuses = self.statuses(self.check("--parts", "repeats", code=1))
        self.assertEqual({name: status for name, status in statuses.items() if not name.endswith("_first")},
                         dict.fromkeys((f"repeated_{net}_{math}" for net in ("lenet", "cifarnet")
                                        for math in ("tf32", "fp32")), "failed"))

    def test_several_gpus_are_used_by_one_process_and_by_several(self):
        self.write(self.tools / "nvidia-smi", SMI.replace("GPUS", "4"))
        parts = {part["name"]: part for part in self.check("--parts", "processes")["parts"]}
        self.assertEqual({name: part["status"] for name, part in parts.items()},
                         dict.fromkeys(["processes_one", "processes_overlap", "processes_two_gpus", "processes_served",
                                        "processes_launched", "processes_two", "processes_two_served"], "passed"))
        self.assertIn("two runs end with the same", parts["processes_two"]["detail"])
        self.assertRegex(parts["processes_two"]["text"], "mpirun --bind-to none -np 2 .*--num_gpus 1")
        self.assertRegex(parts["processes_launched"]["text"], "mpirun --bind-to none -np 1 ")
        self.assertNotIn("mpirun", parts["processes_two_gpus"]["text"])
        # Other bits on several processes.
        self.write(self.bin / "terngrad_train", TRAIN.replace("echo bits", "echo ${OTHER_BITS-}"))
        self.write(self.tools / "mpirun", "export OTHER_BITS=1\n" + MPIRUN)
        statuses = self.statuses(self.check("--parts", "processes", code=1))
        self.assertEqual([name for name, status in statuses.items() if status == "failed"],
                         ["processes_launched", "processes_two", "processes_two_served"])

    def test_processes_need_a_launcher_and_a_build_for_it(self):
        self.write(self.tools / "ldd", "echo libc.so.6")
        self.assertEqual(self.statuses(self.check("--parts", "processes")),
                         {"processes_one": "passed", "processes_overlap": "passed", "processes_served": "passed",
                          "processes_launched": "absent"})

    def test_options_of_processes_are_accepted(self):
        self.write(self.bin / "terngrad_train", self.real_train())
        parts = self.check("--parts", "processes", *self.few_digits())["parts"]
        self.assertEqual([part["status"] for part in parts], [*["passed"] * 5, "absent"])

    def test_resumes_on_the_gpu(self):
        self.write(self.bin / "resume_test", '[[ $TERNGRAD_TEST_DEVICE == cuda && $* == *=Kill.\\** ]]\n' + TESTS)
        self.assertEqual(self.statuses(self.check("--parts", "resume")), {"resume_test": "passed"})
        (self.bin / "resume_test").unlink()
        self.assertEqual(self.statuses(self.check("--parts", "resume")), {"resume_test": "absent"})

    def test_data_is_named_by_the_caller(self):
        (self.root / "digits").mkdir()
        report = self.check("--parts", "trainings", "--mnist", os.path.relpath(self.root / "digits"))
        of_digits = report["parts"][0]
        self.assertIn(f"--dataset mnist --data_dir {(self.root / 'digits').resolve()} ", of_digits["text"])
        # The recipe to its end, of which more is expected.
        self.assertIn("--max_steps 10000", of_digits["text"])
        self.write(self.bin / "terngrad_train", TRAIN.replace("0.995", "0.98"))
        statuses = self.statuses(self.check("--parts", "trainings", "--mnist", str(self.root / "digits"), code=1))
        self.assertEqual(statuses["lenet_ternary"], "failed")
        self.assertEqual(set(self.statuses(self.check("--parts", "trainings")).values()), {"passed"})
        self.assertIn("--dataset cifar10 --benchmark_mode", report["parts"][2]["text"])
        (self.root / "data" / "cifar10").mkdir(parents=True)
        report = self.check("--parts", "trainings")
        self.assertIn("--dataset synthetic", report["parts"][0]["text"])
        self.assertIn(f"--dataset cifar10 --data_dir {(self.root / 'data' / 'cifar10').resolve()} ", report["parts"][2]["text"])

    def test_time_runs_out(self):
        self.write(self.bin / "contracts_test", "if [[ $* == *--gtest_list_tests* ]]; then echo CudaHangs.; exit; fi\nsleep 1000\n")
        started = time.monotonic()
        report = self.check("--parts", "tests,targets", "--time_limit", "6", code=1)
        self.assertLess(time.monotonic() - started, 60)
        statuses = self.statuses(report)
        self.assertEqual((statuses["kernels_test"], statuses["contracts_test"], statuses["bench_targets"]),
                         ("passed", "timed out", "not run"))

    def test_refuses_wrong_usage(self):
        for arguments, reason in {
            ("--fast",): "unknown option '--fast'",
            ("--parts", "tests,speed"): "'speed' is unknown",
            ("--time_limit", "soon"): "'soon' is refused",
            ("--build", "/nowhere"): "'/nowhere' has no bin/",
            ("--mnist", "/nowhere"): "there is no folder '/nowhere'",
            ("--build",): "--build: needs a value",
        }.items():
            self.assertIsNone(self.check(*arguments, code=2))
            self.assertIn(reason, self.result.stderr)

    def test_help(self):
        self.check("--help", out=False)
        self.assertTrue(self.result.stdout.startswith("Usage: scripts/gpu/gpu_check.sh"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("gpu_check_test.py: the build folder is missing")
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
