"""Tests of scripts/gpu/gpu_check.py with the build on a machine without a GPU, and with fake programs.

Arguments: the build folder."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
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
# A fake GoogleTest program with passing tests, or with the tests in NAMES.
TESTS = r"""
names=(${NAMES-CudaX.Passes CudaX.AlsoPasses})
for word in "$@"; do
  if [[ $word == --gtest_filter=* ]]; then filter=${word#*=}; fi
done
if [[ " $* " == *" --gtest_list_tests "* ]]; then
  for name in ${names[@]+"${names[@]}"}; do printf '%s.\n  %s\n' "${name%.*}" "${name#*.}"; done
  exit
fi
status=0
IFS=: read -ra tests <<<"$filter"
for test in "${tests[@]}"; do
  echo "[ RUN      ] $test"
  case $test in
    *.Fails*) echo "in $PWD"; echo "[  FAILED  ] $test (1 ms)"; status=1 ;;
    *.Hangs*) sleep 1000 ;;
    *.IsKilled*) kill -9 $$ ;;
    *) echo "[       OK ] $test (1 ms)" ;;
  esac
done
exit $status
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
# Runs the real terngrad_train on the CPU for one step, or for two steps with a checkpoint each.
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


# Replaces ncu: prints what it makes of two steps.
NCU = """
echo '"ID","1","2","3","4","5","6","7","Kernel Name","Metric Unit","Metric Value"'
for i in 0 1; do echo "\\"$i\\",1,2,3,4,5,6,7,end_step_kernel,ns,1000"; done
"""
# Replaces nvidia-smi: lists GPUS GPUs.
SMI = 'if [[ $1 == -L ]]; then for i in $(seq GPUS); do echo "GPU $((i - 1)): Some GPU"; done; fi'
# Replaces mpirun: starts one process for any number of ranks.
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
            result = subprocess.run([SCRIPTS / "gpu/gpu_check.py", "--build", BUILD, "--out", f"{folder}/out"],
                                    capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertEqual(result.stderr, f"gpu_check.py: no GPU to check on: {reason}\n")


class Pretended(unittest.TestCase):
    """A checkout whose programs are shell scripts."""

    maxDiff = None

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name) / "root"
        (self.root / "scripts/gpu").mkdir(parents=True)
        for path in (SCRIPTS / "gpu").glob("gpu_*.py"):
            shutil.copy(path, self.root / "scripts/gpu")
        self.bin = self.root / "build" / "release" / "bin"
        self.out = self.root / "out"
        self.temporary = self.root / "tmp"
        for name, text in {"terngrad_bench": BENCH, "terngrad_train": TRAIN, "kernels_test": TESTS, "contracts_test": TESTS,
                           "compress_test": TESTS, "nets_test": TESTS, "datasets_test": TESTS, "trainers_test": TESTS,
                           "resume_test": TESTS}.items():
            self.write(self.bin / name, text)
        self.write_names("compress_test", "CudaX.Passes CudaNcclOneRank.Sums")
        self.tools = self.root / "tools"
        for name, text in {"compute-sanitizer": SANITIZER, "nvidia-smi": SMI.replace("GPUS", "1"), "mpirun": MPIRUN,
                           "ldd": LDD, "ncu": NCU, "cuda-gdb": 'echo "stacks of $2"'}.items():
            self.write(self.tools / name, text)
        self.write(self.root / "scripts/bench/bench_pytorch_gpu.py", "")
        (self.root / "scripts/bench/bench_pytorch_gpu.py").write_text("raise SystemExit(77)\n")

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/usr/bin/env bash\nset -euo pipefail\n" + text)
        path.chmod(0o755)

    def write_names(self, program, names):
        """Replaces the tests of a fake program."""
        self.write(self.bin / program, f"NAMES='{names}'\n" + TESTS)

    def check(self, *arguments, code=0):
        self.temporary.mkdir(exist_ok=True)
        environment = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}", "TMPDIR": str(self.temporary)}
        self.result = subprocess.run([self.root / "scripts/gpu/gpu_check.py", "--out", self.out, *arguments],
                                     capture_output=True, text=True, env=environment, timeout=120)
        self.assertEqual(self.result.returncode, code, self.result.stdout + self.result.stderr)
        report = self.out / "report.json"
        return json.loads(report.read_text()) if report.exists() else None

    def statuses(self, report):
        return {part["name"]: part["status"] for part in report["parts"]}

    def archived(self):
        """Text of each file in the archive."""
        with tarfile.open(self.out / "results.tar.xz") as archive:
            return {member.name.removeprefix("results/"): archive.extractfile(member).read().decode()
                    for member in archive if member.isfile()}

    def test_runs_all_phases(self):
        report = self.check()
        halves = [f"{name}_{i}" for name in ("kernels", "contracts", "compress", "nets", "datasets", "trainers") for i in (0, 1)]
        passed = ["first_lenet", "first_cifarnet", *halves, "lenet_ternary", "lenet_fp32", "bench_targets", "bench_steps",
                  "nccl_one_rank", "ncu_encode_tensor", "ncu_encode_blocks", "ncu_aggregate8_t2", "kernels_lenet_1",
                  "kernels_lenet_8", "kernels_cifarnet_1", "kernels_cifarnet_8", "stayed_cpu", "stayed_cuda",
                  "from_cuda_to_cpu", "from_cpu_to_cuda", "resume_test", "processes_one", "processes_overlap", "processes_served",
                  "processes_launched", "processes_two_served", "bench"]
        passed += [f"{net}_{math}_{turn}" for net in ("lenet", "cifarnet") for math in ("tf32", "fp32") for turn in (1, 2)]
        for tool, programs in {"memcheck": ("nets", "datasets", "trainers"), "racecheck": ("nets", "datasets", "trainers"),
                               "initcheck": ("datasets",)}.items():
            passed += [f"{tool}_{name}_0" for name in programs] + [f"{tool}_kernels_{i}" for i in (0, 1)]
        absent = dict.fromkeys(["package", "pytorch_eager", "pytorch_compiled", "processes_two"], "absent")
        self.assertEqual(self.statuses(report), {**dict.fromkeys(passed, "passed"), **absent})
        self.assertEqual(report["machine"]["gpu"], "Some GPU, driver 13.0")
        self.assertEqual(report["machine"]["programs"], "terngrad_bench 0.1.0 (abc)")
        self.assertIn("ERROR SUMMARY: 0 errors, by racecheck", self.archived()["racecheck_kernels_0.log"])
        self.assertIn("passed", self.result.stdout.splitlines()[-1])

    def test_the_package_is_checked_with_the_one_of_the_build(self):
        (self.root / "build/release/python/terngrad").mkdir(parents=True)
        (self.root / "scripts/gpu/check_package.py").write_text(
            "import os, pathlib, sys\npathlib.Path(sys.argv[4]).write_text('{}')\nprint(os.environ['PYTHONPATH'].split(':')[0])\n")
        report = self.check("--phases", "start,package")
        part, = (part for part in report["parts"] if part["name"] == "package")
        self.assertEqual((part["status"], part["detail"]), ("passed", str(self.root / "build/release/python")))
        self.assertEqual(self.archived()["package.json"], "{}")

    def test_the_archive_has_what_failures_need(self):
        self.write_names("kernels_test", "CudaX.Passes CudaX.Fails CudaX.Hangs CudaX.IsKilled CudaX.PassesThen CudaX.PassesToo")
        self.write_names("nets_test", "CudaX.Passes")
        report = self.check("--phases", "tests", "--silence", "1", code=1)
        statuses = self.statuses(report)
        self.assertEqual({name: statuses[name] for name in ("kernels_0", "kernels_1", "nets_0")},
                         {"kernels_0": "failed", "kernels_1": "failed", "nets_0": "passed"})
        details = {part["name"]: part["detail"] for part in report["parts"]}
        # Tests after one that hangs or ends the program still run.
        self.assertEqual(details["kernels_0"], "3 tests, 3 of them on the GPU, 0 skipped; failed: CudaX.Fails, CudaX.Hangs hung; "
                                               "kernels_0.hang.txt has what it hung in")
        self.assertEqual(details["kernels_1"],
                         "3 tests, 3 of them on the GPU, 0 skipped; failed: CudaX.IsKilled ended the program (-9)")
        files = self.archived()
        self.assertIn(f"in {self.root}\n", files["kernels_0.log"])
        self.assertRegex(files["kernels_0.hang.txt"], r"^thread (\d+): \w+, [^$]*cuda-gdb -p \1:\nstacks of \1\n$")
        self.assertEqual(json.loads(files["kernels_1.tests.json"])["results"],
                         {"CudaX.IsKilled": "ended the program (-9)", "CudaX.PassesThen": "passed", "CudaX.PassesToo": "passed"})
        # Each failing test runs again, alone, under the sanitizer.
        self.assertEqual({name for name in statuses if name.startswith("again")},
                         {"again_CudaX_Fails", "again_CudaX_Hangs", "again_CudaX_IsKilled"})
        self.assertIn("--tool memcheck", files["again_CudaX_Fails.log"])
        self.assertIn("bundle of" if (self.root / "MANIFEST").exists() else "command", json.loads(files["machine.json"]))
        # The report can be made from the archive elsewhere.
        elsewhere = self.root / "elsewhere"
        result = subprocess.run([self.root / "scripts/gpu/gpu_report.py", self.out / "results.tar.xz", elsewhere], capture_output=True,
                                text=True)
        self.assertEqual(result.returncode, 1, result.stderr)
        for name in ("report.md", "report.json"):
            self.assertEqual((elsewhere / name).read_bytes(), (self.out / name).read_bytes())

    def test_a_long_log_leaves_the_archive_small(self):
        self.write(self.bin / "nets_test", TESTS.replace("exit $status", "head -c 40000000 /dev/urandom"))
        self.check("--phases", "tests")
        self.assertLess((self.out / "results.tar.xz").stat().st_size, 16 << 20)
        with tarfile.open(self.out / "results.tar.xz") as archive:
            log = archive.extractfile("results/nets_0.log").read()
        self.assertTrue(log.startswith(b"[ RUN      ] CudaX.Passes"))
        self.assertRegex(log, rb"\n\[\d+ bytes are left out\]\n")

    def test_a_packed_bundle_is_unpacked_once(self):
        bundle = self.root / "bundle" / "terngrad-bundle"
        shutil.copytree(self.bin, bundle / "bin")
        (bundle / "MANIFEST").write_text("source:     abc\n")
        shutil.copy(SCRIPTS / "gpu/bundle_run.sh", bundle / "run")
        packed = self.root / "bundle.tar.xz"
        with tarfile.open(packed, "w:xz") as archive:
            archive.add(bundle, bundle.name)
        for _ in range(2):
            report = self.check("--bundle", packed, "--phases", "nccl")
            self.assertEqual(self.statuses(report), {"nccl_one_rank": "passed"})
            self.assertEqual(report["machine"]["bundle of"], "abc")
            self.assertEqual(len(list(self.temporary.glob("terngrad-bundle-*"))), 1)
        for damaged, words in ((packed.read_bytes()[:500], "is damaged"), (None, "there is no")):
            wrong = self.root / "wrong.tar.xz"
            if damaged:
                wrong.write_bytes(damaged)
            else:
                wrong.unlink()
            self.check("--bundle", wrong, code=2)
            self.assertIn(words, self.result.stderr)

    def test_a_second_call_goes_on_in_the_same_folder(self):
        self.check("--phases", "accuracy")
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["report.json", "report.md", "results.tar.xz"])
        whole = ["lenet_ternary", "lenet_fp32", "nccl_one_rank"]
        self.assertEqual(list(self.statuses(self.check("--phases", "nccl"))), whole)
        # A repeated part starts from an empty folder.
        self.write(self.bin / "terngrad_train", 'ls "$4" && exit 1\n' + TRAIN)
        report = self.check("--phases", "accuracy")
        self.assertEqual(set(self.statuses(report)), set(whole))
        self.assertTrue(report["passed"])
        shutil.rmtree(self.out)
        self.assertEqual(list(self.statuses(self.check("--phases", "nccl"))), ["nccl_one_rank"])

    def test_without_a_first_training_nothing_else_is_run(self):
        self.write(self.bin / "terngrad_train", "echo no engine; exit 1")
        report = self.check("--phases", "start,tests", code=1)
        self.assertEqual(self.statuses(report), {"first_lenet": "failed"})
        self.assertIn("start failed, without which nothing else can pass", self.result.stdout)

    def test_trainings_that_cannot_use_the_gpu_are_a_failure(self):
        self.write(self.bin / "terngrad_train", 'echo "terngrad_train: error: --device cuda: cuDNN does not load; accepted: auto, cpu"; exit 2')
        self.assertEqual(self.statuses(self.check("--phases", "start,tests", code=1)), {"first_lenet": "failed"})

    def test_a_hang_is_named_where_no_time_is_left_for_the_rest(self):
        self.write_names("kernels_test", "CudaX.Hangs CudaX.Passes")
        parts = {part["name"]: part for part in self.check("--phases", "tests", "--silence", "2", "--seconds", "28", code=1)["parts"]}
        self.assertIn("CudaX.Hangs hung", parts["kernels_0"]["detail"])

    def test_a_program_that_does_not_start_is_a_failure(self):
        self.write(self.bin / "compress_test", "echo no libnccl.so.2 >&2; exit 127")
        parts = self.check("--phases", "nccl", code=1)["parts"]
        self.assertEqual([part["detail"] for part in parts], ["compress_test lists no tests: no libnccl.so.2"])

    def test_what_a_command_leaves_behind_is_ended(self):
        self.write(self.bin / "terngrad_bench", 'if [[ $1 == --benchmark* ]]; then sleep 1000 & echo $! >"$(dirname "$0")/child"; fi\n' + BENCH)
        self.check("--phases", "speed")
        child = int((self.bin / "child").read_text())
        state = pathlib.Path(f"/proc/{child}/status")
        self.assertTrue(not state.exists() or "Z (zombie)" in state.read_text())

    def test_a_failure_stops_nothing(self):
        self.write(self.bin / "terngrad_bench", 'if [[ $1 == *bench_targets* ]]; then exit 1; fi\n' + BENCH)
        statuses = self.statuses(self.check("--phases=speed,bench", code=1))
        self.assertEqual(statuses, {"bench_targets": "failed", "bench": "passed"})

    def test_a_build_with_tests_is_preferred(self):
        shutil.copytree(self.bin, self.bin.parents[1] / "ci" / "bin")
        (self.bin / "kernels_test").unlink()
        self.assertEqual(self.statuses(self.check("--phases", "tests"))["kernels_0"], "passed")

    def test_missing_tests_are_a_failure(self):
        (self.bin / "kernels_test").unlink()
        self.write_names("nets_test", "Simd.Adds")
        parts = {part["name"]: part for part in self.check("--phases", "tests", code=1)["parts"]}
        for name, words in {"kernels_test": "is not built", "nets_test": "-DTERNGRAD_GPU_TESTS=ON"}.items():
            self.assertEqual(parts[name]["status"], "failed")
            self.assertIn(words, parts[name]["detail"])

    def real_train(self):
        program = BUILD / "bin" / "terngrad_train"
        if not program.exists():
            self.skipTest("trainings are not built")
        return REAL_TRAIN.replace("PROGRAM", str(program))

    def few_digits(self):
        """Options for a folder with a small set of digits."""
        folder = self.root / "few_digits"
        folder.mkdir()
        write_digits(folder)
        return ["--mnist", folder]

    def test_options_of_trainings_are_accepted(self):
        self.write(self.bin / "terngrad_train", self.real_train())
        # Expected to fail: after a few steps the accuracy of LeNet is too low.
        for part in self.check("--phases", "start,accuracy", code=1)["parts"]:
            self.assertTrue(part["detail"].startswith("step 1, loss "), part)

    def test_runs_move_and_repeat(self):
        self.write(self.bin / "terngrad_train", self.real_train())
        parts = {part["name"]: part for part in self.check("--phases", "moves,repeats", *self.few_digits())["parts"]}
        for name in ("from_cuda_to_cpu", "from_cpu_to_cuda"):
            self.assertIn("resumed after step 1; of 1 losses none is more than 0.0 %", parts[name]["detail"])
        self.assertEqual(sum("two runs end with the same" in part["detail"] for part in parts.values()), 4)

    def test_runs_that_do_not_repeat(self):
        self.write(self.bin / "terngrad_train", TRAIN.replace("echo bits", "echo $RANDOM $RANDOM"))
        parts = {part["name"]: part for part in self.check("--phases", "repeats", code=1)["parts"]}
        self.assertEqual({name for name, part in parts.items() if part["status"] == "failed"},
                         {f"{net}_{math}_2" for net in ("lenet", "cifarnet") for math in ("tf32", "fp32")})
        self.assertIn("different bits in checkpoint-200.safetensors", parts["lenet_tf32_2"]["detail"])

    def test_several_gpus_are_used_by_one_process_and_by_several(self):
        self.write(self.tools / "nvidia-smi", SMI.replace("GPUS", "4"))
        parts = {part["name"]: part for part in self.check("--phases", "processes")["parts"]}
        self.assertEqual({name: part["status"] for name, part in parts.items()},
                         dict.fromkeys(["processes_one", "processes_overlap", "processes_two_gpus", "processes_served",
                                        "processes_launched", "processes_two", "processes_two_served"], "passed"))
        self.assertIn("two runs end with the same", parts["processes_two"]["detail"])
        self.assertRegex(parts["processes_two"]["text"], "mpirun --bind-to none -np 2 .*--num_gpus 1")
        self.assertRegex(parts["processes_launched"]["text"], "mpirun --bind-to none -np 1 ")
        self.assertNotIn("mpirun", parts["processes_two_gpus"]["text"])
        # Several processes give other bits.
        self.write(self.bin / "terngrad_train", TRAIN.replace("echo bits", "echo ${OTHER_BITS-}"))
        self.write(self.tools / "mpirun", "export OTHER_BITS=1\n" + MPIRUN)
        statuses = self.statuses(self.check("--phases", "processes", code=1))
        self.assertEqual([name for name, status in statuses.items() if status == "failed"],
                         ["processes_launched", "processes_two", "processes_two_served"])

    def test_processes_need_a_launcher_and_a_build_for_it(self):
        self.write(self.tools / "ldd", "echo libc.so.6")
        self.assertEqual(self.statuses(self.check("--phases", "processes")),
                         {"processes_one": "passed", "processes_overlap": "passed", "processes_served": "passed",
                          "processes_launched": "absent"})

    def test_options_of_processes_are_accepted(self):
        self.write(self.bin / "terngrad_train", self.real_train())
        parts = self.check("--phases", "processes", *self.few_digits())["parts"]
        self.assertEqual([part["status"] for part in parts], [*["passed"] * 5, "absent"])

    def test_resumes_on_the_gpu(self):
        self.write(self.bin / "resume_test", '[[ $1 == --gtest_list* || $TERNGRAD_TEST_DEVICE == cuda ]]\nNAMES=Kill.AtRandom\n' + TESTS)
        self.assertEqual(self.statuses(self.check("--phases", "resume")), {"resume_test": "passed"})
        (self.bin / "resume_test").unlink()
        self.assertEqual(self.statuses(self.check("--phases", "resume")), {"resume_test": "absent"})

    def test_data_is_named_by_the_caller(self):
        (self.root / "digits").mkdir()
        digits = self.check("--phases", "accuracy", "--mnist", os.path.relpath(self.root / "digits"))["parts"][0]
        self.assertIn("--dataset mnist --data_dir digits ", digits["text"])
        # The whole recipe, with a higher required accuracy.
        self.assertIn("--max_steps 10000", digits["text"])
        self.write(self.bin / "terngrad_train", TRAIN.replace("0.995", "0.99"))
        self.assertEqual(self.statuses(self.check("--phases", "accuracy", "--mnist", self.root / "digits", code=1))["lenet_ternary"],
                         "failed")
        report = self.check("--phases", "start,accuracy")
        self.assertEqual(set(self.statuses(report).values()), {"passed"})
        texts = {part["name"]: part["text"] for part in report["parts"]}
        self.assertIn("--dataset cifar10 --benchmark_mode", texts["first_cifarnet"])
        self.assertIn("--dataset synthetic", texts["lenet_ternary"])
        (self.root / "data" / "cifar10").mkdir(parents=True)
        texts = {part["name"]: part["text"] for part in self.check("--phases", "start")["parts"]}
        self.assertIn("--dataset cifar10 --data_dir data/cifar10 ", texts["first_cifarnet"])

    def test_time_runs_out(self):
        self.write_names("contracts_test", "CudaX.Hangs")
        started = time.monotonic()
        report = self.check("--phases", "tests,speed", "--seconds", "45", code=1)
        self.assertLess(time.monotonic() - started, 90)
        statuses = self.statuses(report)
        self.assertEqual((statuses["kernels_0"], statuses["contracts_0"], statuses["bench_targets"]), ("passed", "failed", "not run"))

    def test_refuses_wrong_usage(self):
        for arguments, reason in {
            ("--fast",): "unrecognized arguments: --fast",
            ("--phases", "tests,fast"): "'fast' is unknown",
            ("--seconds", "soon"): "argument --seconds: invalid int value: 'soon'",
            ("--seconds", "0"): "--seconds: '0' is refused",
            ("--build", "/nowhere"): "/nowhere: no bin/terngrad_bench",
            ("--build", "/nowhere", "--bundle", "/nowhere"): "--build: a bundle has its own programs",
            ("--mnist", "/nowhere"): "there is no folder '/nowhere'",
            ("--build",): "argument --build: expected one argument",
        }.items():
            self.assertIsNone(self.check(*arguments, code=2))
            self.assertIn(reason, self.result.stderr)

    def test_help(self):
        self.check("--help")
        self.assertTrue(self.result.stdout.startswith("usage: gpu_check.py"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("gpu_check_test.py: the build folder is missing")
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
