#!/usr/bin/env python3
"""Checks programs built with CUDA on a machine with a GPU: tests, trainings, benchmarks, sanitizers, and a report.

Runs from a bundle (scripts/gpu/bundle.sh), packed or not, or from a build folder. A phase that fails or hangs does not stop
the others, except `start`, without which nothing else can pass. Phases, in the order in which what they tell decides most:

  start      the GPU, libraries, and two short trainings
  tests      tests of GPUs, of all programs at once; what fails is run again under compute-sanitizer
  repeats    trainings run twice, which must end with equal bits
  accuracy   LeNet with 8 workers and with fp32 gradients
  speed      the benchmarks that have a target
  steps      training steps and their parts
  memcheck   compute-sanitizer over the tests of GPUs; so do racecheck and initcheck
  nccl       NCCL with one rank
  package    the Python package under PyTorch: bits, and times of a step
  pytorch    PyTorch's steps on the same GPU
  ncu        Nsight Compute on the kernels of encoding and summing, and on all kernels of a step
  moves      trainings that continue on the CPU, and from the CPU on the GPU
  resume     trainings killed at random moments
  processes  GPUs of one process and of several
  bench      all benchmarks; with --seconds those of 25 million elements

DIR gets three files: report.md, report.json, and results.tar.xz, below 16 MiB, with everything that a failure needs to be
understood: logs, metrics, stacks of what hung, tensors that differ. They are kept up to date from phase to phase; what they are
made of, with the checkpoints, is in a temporary folder. gpu_report.py makes the report from that archive on any machine.

Exit codes: 0 all passed, 1 something failed, 2 wrong usage, no GPU, or a library that is missing.
"""

import argparse
import hashlib
import itertools
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback

import gpu_report
import gpu_results
from gpu_jobs import NO_TIME, SILENT, TIMED_OUT, Job, Runner, at_once, find_tool

ROOT = pathlib.Path(__file__).resolve().parents[2]
PHASES = ("start", "tests", "repeats", "accuracy", "speed", "steps", "memcheck", "nccl", "package", "pytorch", "racecheck", "ncu",
          "moves", "resume", "processes", "initcheck", "bench")
# Filter for tests that use a GPU or its libraries. NCCL tests have a separate phase.
GPU_TESTS = "*Cuda*:ConvolutionPlan*:CudnnGraph*:Libraries*:-CudaNcclOneRank*"
TEST_PROGRAMS = ("kernels", "contracts", "compress", "nets", "datasets", "trainers")
TERNARY = ("--grad_bits", "1", "--clip_factor", "2.5", "--quantize_logits")
STEPS = ("--max_steps", "300", "--log_steps", "1")
SPEED = (r"^(encode_tensor|encode_blocks|aggregate8_t2|statistics|ternarize_t2)/cuda/(f32|bf16)/n:67108864/memory"
         r"|^(encode_tensor|aggregate8_t2)/cuda/f32/n:[0-9]+/cache|^encode_model/cuda/f32/(lenet|cifar10_alexnet)/")
NCU_METRICS = ("dram__throughput.avg.pct_of_peak_sustained_elapsed",
               "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
               "smsp__issue_active.avg.pct_of_peak_sustained_active",
               "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "gpu__time_duration.sum")
# Time reserved within --seconds for stopping the last programs and packing.
RESERVE_SECONDS = 20
# Maximum characters of a command in the report.
MAX_TEXT = 600
# CPU runs with 10,000 steps of MNIST reach 0.9923 to 0.9935 over three seeds.
MIN_TOP1 = {True: 0.9905, False: 0.9}


class Check:
    """A check: options, folders and results."""

    def __init__(self, options):
        self.options = options
        self.root = unpacked(options.bundle) if options.bundle else ROOT
        self.is_bundle = (self.root / "MANIFEST").exists()
        self.bin = self.root / "bin" if self.is_bundle else find_build(options.build) / "bin"
        self.out = options.out
        # A later call with the same output folder resumes, if its archive still exists.
        key = hashlib.sha256(str(self.out).encode()).hexdigest()[:16]
        self.folder = pathlib.Path(tempfile.gettempdir()) / f"terngrad-gpu-check-{key}"
        deadline = None if options.seconds is None else options.began + max(1, options.seconds - RESERVE_SECONDS)
        # The programs read documents by their paths from here.
        self.runner = Runner(self.folder, self.environment(), self.root, deadline)
        mnist, cifar10 = self.data("mnist"), self.data("cifar10")
        self.on_mnist = mnist is not None
        self.digits = ["--dataset", "mnist", "--data_dir", mnist] if mnist else ["--dataset", "synthetic"]
        self.images = ["--dataset", "cifar10", *(["--data_dir", cifar10] if cifar10 else ["--benchmark_mode"])]

    def environment(self):
        """Environment variables for programs. In a bundle it searches for CUDA's libraries once."""
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
        if self.is_bundle:
            found = subprocess.run([self.root / "run", "--library_path", "terngrad_train"], capture_output=True, text=True)
            if found.returncode != 0:
                refuse(found.stderr.strip())
            environment["LD_LIBRARY_PATH"] = found.stdout.strip()
            environment["TERNGRAD_TRAIN_PROGRAM"] = str(self.bin / "terngrad_train")
            environment["TERNGRAD_FAIL_POINT_LIBRARY"] = str(self.root / "lib" / "libterngrad_fail_point.so")
        return environment

    def data(self, name):
        """The folder of a data set, or None: from the option, scripts/download_data.sh or the bundle."""
        folder = getattr(self.options, name) or self.root / "data" / name
        return folder.resolve() if folder.is_dir() else None

    def note(self, job, **more):
        """Records the result of a job for the report, and prints a line."""
        # Without the temporary folders that it ran in.
        text = job.text.replace(f"{self.folder}/", "").replace(f"{self.root}/", "")
        record = {"kind": job.kind, "name": job.name, "rc": job.rc, "seconds": round(job.seconds, 1), "limit": job.limit,
                  "text": text[:MAX_TEXT], **more}
        gpu_results.add_part(self.folder, record)
        part = gpu_report.judged(record, self.folder)
        line = f"{time.monotonic() - self.options.began:4.0f} s  {part['name']}: {part['status']}, {part['detail']}"
        print(line, flush=True)
        return part["status"] == "passed"

    def absent(self, kind, name, reason):
        """Records a part that cannot run here, which is not a failure."""
        job = Job(kind, name, 0, [])
        self.note(job, absent=reason)

    def has(self, program):
        return (self.bin / program).exists()

    # Trainings

    def training(self, name, limit, *arguments, device="cuda", kind="training", launcher=()):
        run = ["--device", device, "--train_dir", self.folder / f"{name}.run", "--tensorboard=false", "--telemetry_steps", "0",
               "--histogram_steps", "0"]
        gpu_results.clear_part(self.folder, name, keeps_run=kind == "move")
        return Job(kind, name, limit, [*launcher, self.bin / "terngrad_train", *run, *arguments])

    def train(self, *arguments, **options):
        """Runs one training alone. @returns True if it passed"""
        expected = {key: options.pop(key) for key in ("min_top1", "other") if key in options}
        return self.note(self.runner.run(self.training(*arguments, **options)), **expected)

    def run_start(self):
        if not self.train("first_lenet", 90, *self.digits, *TERNARY, "--num_nodes", 8, "--max_steps", 20):
            return False
        self.train("first_cifarnet", 60, *self.images, *TERNARY, "--num_nodes", 2, "--max_steps", 2000, "--log_steps", 200)
        return True

    def run_repeats(self):
        """Runs all eight trainings concurrently, since correctness does not need an idle GPU."""
        nets = {"lenet": self.digits, "cifarnet": self.images}
        jobs = [self.training(f"{net}_{math}_{turn}", 90, *nets[net], *TERNARY, "--num_nodes", 4, "--math", math, *STEPS,
                              kind="repeat" if turn == 2 else "training")
                for net, math, turn in itertools.product(nets, ("tf32", "fp32"), (1, 2))]
        self.runner.run_together(jobs)
        for first, second in zip(jobs[::2], jobs[1::2]):
            self.note(first)
            gpu_results.write_difference(self.folder, first.name, second.name)
            self.note(second, other=first.name)

    def run_accuracy(self):
        steps = ["--max_steps", 10000 if self.on_mnist else 1000]
        bound = MIN_TOP1[self.on_mnist]
        self.train("lenet_ternary", 120, *self.digits, *TERNARY, "--num_nodes", 8, *steps, min_top1=bound)
        self.train("lenet_fp32", 120, *self.digits, "--num_nodes", 8, *steps, min_top1=bound)

    def run_moves(self):
        """Uses float32 exchanges and products, so that devices differ in the order of sums only."""
        run = [*self.digits, "--num_nodes", 4, "--max_steps", 200, "--save_iter", 100, "--keep_checkpoints", 0, "--log_steps", 10]
        options = {"cpu": run, "cuda": [*run, "--math", "fp32"]}
        for device in options:
            self.train(f"stayed_{device}", 60, *options[device], device=device)
        for stayed, device in (("cuda", "cpu"), ("cpu", "cuda")):
            name = f"from_{stayed}_to_{device}"
            gpu_results.copy_run_to_first_checkpoint(self.folder, f"stayed_{stayed}", name)
            self.train(name, 60, *options[device], "--resume", device=device, kind="move", other=f"stayed_{stayed}")

    def run_resume(self):
        if not self.has("resume_test"):
            return self.absent("resume", "resume_test", "it is not built")
        return self.test("resume", "resume_test", "resume_test", "Kill.*", 600, {"TERNGRAD_TEST_DEVICE": "cuda"})

    def run_processes(self):
        """One process with one GPU, with overlapped exchange, on two GPUs, and with a launcher. NCCL rejects ranks that share a
        GPU; with exchanges in host memory two processes share one."""
        run = [*self.digits, *TERNARY, "--num_nodes", 4, "--max_steps", 300, "--log_steps", 50]
        served = ["--strategy", "ps", "--pull", "parameters"]

        def same(other, name, *arguments, **options):
            job = self.runner.run(self.training(name, 60, *arguments, kind="repeat", **options))
            gpu_results.write_difference(self.folder, other, name)
            self.note(job, other=other)

        gpus = len(read_output("nvidia-smi", "-L").split("GPU ")) - 1
        if os.environ.get("CUDA_VISIBLE_DEVICES"):
            gpus = len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))
        self.train("processes_one", 60, *run)
        same("processes_one", "processes_overlap", *run, "--overlap", "on")
        if gpus > 1:
            same("processes_one", "processes_two_gpus", *run, "--num_gpus", 2)
        self.train("processes_served", 60, *run, *served)
        if not find_tool("mpirun"):
            return self.absent("repeat", "processes_launched", "mpirun is not present on this machine")
        if "libmpi" not in read_output("ldd", self.bin / "terngrad_train"):
            return self.absent("repeat", "processes_launched", "terngrad_train is built without MPI")
        # Open MPI needs both variables to run as root, the usual user in containers.
        mpi = ["env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun", "--bind-to", "none", "-np"]
        same("processes_one", "processes_launched", *run, launcher=[*mpi, 1])
        if gpus > 1:
            same("processes_one", "processes_two", *run, "--num_gpus", 1, "--check_replicas", 50, launcher=[*mpi, 2])
        same("processes_served", "processes_two_served", *run, *served, launcher=[*mpi, 2])
        return gpus > 1 or self.absent("repeat", "processes_two", "there is one GPU, and each process needs one of its own")

    # Tests

    def test(self, kind, name, program, tests, limit, environment=None):
        """Runs all tests of a program, given as a list of names or a filter, also those after a test that crashes or hangs.
        @returns the tests that did not pass"""
        names = tests if isinstance(tests, list) else self.names_of_tests(program, tests)
        if names is None:
            return []
        gpu_results.clear_part(self.folder, name)
        # Killed runs print nothing for minutes.
        silence = float("inf") if kind == "resume" else self.options.silence
        job = Job(kind, name, limit, [], dict(environment or {}), silence)
        results, left, began, rc = {}, names, time.monotonic(), None
        while left:
            job.command = [self.bin / program, f"--gtest_filter={':'.join(left)}"]
            self.runner.run(job)
            if job.rc == NO_TIME:
                break
            rc = job.rc
            seen = gpu_results.read_tests(self.folder / f"{name}.log")
            results.update({test: seen[test] for test in left if test in seen})
            ended_in = next((test for test in left if results.get(test) == "running"), None)
            if rc in (0, 1) or ended_in is None:
                break
            results[ended_in] = {SILENT: "hung", TIMED_OUT: "was cut off"}.get(rc, f"ended the program ({rc})")
            left = [test for test in left if test not in results]
            job.limit = limit - (time.monotonic() - began)
        job.rc = job.rc if rc is None else rc
        job.command = [self.bin / program, f"--gtest_filter=({len(names)} tests)"]
        job.limit = limit
        gpu_results.write_json(self.folder / f"{name}.tests.json", {"planned": names, "results": results})
        self.note(job)
        return [(program, test) for test, result in results.items() if result not in ("passed", "skipped", "was cut off")]

    def names_of_tests(self, program, tests):
        """Names of a program's tests that match a filter. A program that does not list them is recorded as a failure."""
        command = [self.bin / program, "--gtest_list_tests", f"--gtest_filter={tests}"]
        try:
            listed = subprocess.run(command, capture_output=True, text=True, timeout=60, env=self.runner.environment,
                                    cwd=self.root)
            problem = "" if listed.returncode == 0 else (listed.stderr.strip() or f"exit code {listed.returncode}")
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        if problem:
            self.note(Job("tests", program, 0, [], rc=127), reason=f"{program} lists no tests: {problem[-300:]}")
            return None
        names, suite = [], ""
        for line in listed.stdout.splitlines():
            word = line.split("#")[0].strip()
            if line.startswith("  "):
                names.append(suite + word)
            elif re.fullmatch(r"[\w/]+\.", word):
                suite = word
        return names

    def run_tests(self):
        shards = []
        for name in TEST_PROGRAMS:
            program = f"{name}_test"
            names = self.names_of_tests(program, GPU_TESTS) if self.has(program) else []
            if names is None:
                continue
            if not any("Cuda" in test for test in names):
                reason = "has no tests of a GPU: configure with -DTERNGRAD_GPU_TESTS=ON" if self.has(program) else "is not built"
                self.note(Job("tests", program, 0, [], rc=127), reason=f"{program} {reason}")
                continue
            # Halves of consecutive tests, since neighbours share expensive set-up.
            half = (len(names) + 1) // 2
            shards += [(f"{name}_{i}", program, part) for i, part in enumerate((names[:half], names[half:])) if part]
        environment = {"TERNGRAD_RANDOM_LAYOUTS": os.environ.get("TERNGRAD_RANDOM_LAYOUTS", "300"),
                       "OMP_NUM_THREADS": str(max(1, 2 * (os.cpu_count() or 1) // max(1, len(shards))))}
        failed = at_once(lambda shard: self.test("tests", *shard, 150, environment), shards)
        # Repeat the first failures, each alone, under the most informative tool.
        sanitizer = find_tool("compute-sanitizer")
        again = list(itertools.chain(*failed))[:4] if sanitizer else []
        jobs = [self.sanitized(sanitizer, "memcheck", "again_" + re.sub(r"\W+", "_", test), program, test, 40, environment)
                for program, test in again]
        for job in self.runner.run_together(jobs):
            self.note(job)

    def sanitized(self, sanitizer, tool, name, program, tests, limit, environment=None):
        gpu_results.clear_part(self.folder, name)
        # Tests of error handling make failing calls on purpose.
        command = [sanitizer, "--tool", tool, "--error-exitcode", 9, "--print-limit", 20, "--report-api-errors", "no"]
        # Kernels of cuDNN synchronize in ways that racecheck does not know.
        command += ["--kernel-name", "kernel_substring=terngrad"] if tool == "racecheck" else []
        command += [self.bin / program, f"--gtest_filter={tests}"]
        return Job("sanitizer", name, limit, command, dict(environment or {}), may_be_cut=True)

    def sanitize(self, tool, programs):
        sanitizer = find_tool("compute-sanitizer")
        if not sanitizer:
            return self.absent("sanitizer", tool, "compute-sanitizer is not present on this machine")
        jobs = []
        limit = 70 if self.options.seconds else 600
        for name in programs:
            program = f"{name}_test"
            shards = 4 if name == "kernels" else 1
            names = (self.names_of_tests(program, "*Cuda*") if self.has(program) else None) or []
            jobs += [self.sanitized(sanitizer, tool, f"{tool}_{name}_{i}", program, ":".join(names[i::shards]), limit)
                     for i in range(shards) if names[i::shards]]
        for job in self.runner.run_together(jobs):
            self.note(job)
        return None

    def run_memcheck(self):
        self.sanitize("memcheck", ("kernels", "nets", "datasets", "trainers"))

    def run_racecheck(self):
        self.sanitize("racecheck", ("kernels", "nets", "datasets", "trainers"))

    def run_initcheck(self):
        # Not for tests with toolkit libraries, whose kernels read unused memory.
        self.sanitize("initcheck", ("kernels", "datasets"))

    def run_nccl(self):
        names = self.names_of_tests("compress_test", "CudaNcclOneRank.*") if self.has("compress_test") else []
        if names is None:
            return None
        if not names:
            return self.absent("tests", "nccl_one_rank", "compress_test is not built with NCCL's tests of one rank")
        return self.test("tests", "nccl_one_rank", "compress_test", names, 120)

    # Speed, with nothing else on the GPU

    def bench(self, name, limit, rows):
        command = [self.bin / "terngrad_bench", f"--benchmark_out={self.folder / name}.bench.json", f"--benchmark_filter={rows}"]
        gpu_results.clear_part(self.folder, name)
        self.note(self.runner.run(Job("bench", name, limit, command, may_be_cut=True)))

    def script(self, name, limit, command, environment=None):
        gpu_results.clear_part(self.folder, name)
        self.note(self.runner.run(Job("script", name, limit, command, dict(environment or {}))))

    def run_speed(self):
        self.bench("bench_targets", 180, SPEED)

    def run_steps(self):
        self.bench("bench_steps", 180, "^train_step/cuda/tf32/" if self.options.seconds else "^train_step/cuda/")

    def run_bench(self):
        if self.options.seconds:
            self.bench("bench", 480, "/cuda/.*n:25000000/memory")
        else:
            self.bench("bench", 7200, "/cuda/")

    def run_package(self):
        site = self.root / "site" if self.is_bundle else self.bin.parent / "python"
        if not (site / "terngrad").is_dir():
            return self.absent("script", "package", "the Python package is not there")
        # PyTorch brings libraries of its own.
        path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
        script = self.root / "scripts" / "gpu" / "check_package.py"
        return self.script("package", 150, [sys.executable, script, "--device", "cuda", "--out", self.folder / "package.json"],
                           {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""), "PYTHONPATH": path})

    def run_pytorch(self):
        script = self.root / "scripts" / "bench" / "bench_pytorch_gpu.py"
        if not script.exists():
            script = ROOT / "scripts" / "bench" / "bench_pytorch_gpu.py"
        for mode in ("eager", "compiled"):
            # PyTorch brings libraries of its own.
            self.script(f"pytorch_{mode}", 120, [
                sys.executable, script, "--net", "cifar10_alexnet", "--mode", mode, "--math", "tf32", "--repetitions", 3],
                {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")})

    def run_ncu(self):
        ncu = find_tool("ncu")
        if not ncu:
            return self.absent("script", "ncu", "ncu is not present on this machine")
        # ncu replays every launch and would set clocks: profile a few launches per row, at the current clocks.
        for row in ("encode_tensor", "encode_blocks", "aggregate8_t2"):
            self.script(f"ncu_{row}", 40, [
                ncu, "--clock-control", "none", "--launch-count", 4, "--kill", "yes", "--metrics", ",".join(NCU_METRICS),
                "--kernel-name", "regex:chunk_statistics|ternarize_whole|encode_blocks|code_sum",
                self.bin / "terngrad_bench", f"--benchmark_filter=^{row}/cuda/f32/n:67108864/memory"])
        # The last of a few steps is a whole one that was replayed from a graph.
        profiler = [ncu, "--clock-control", "none", "--csv", "--print-units", "base", "--metrics", "gpu__time_duration.sum"]
        for (net, data), workers in itertools.product((("lenet", self.digits), ("cifarnet", self.images)), (1, 8)):
            codec = TERNARY if workers > 1 else ()
            job = self.training(f"kernels_{net}_{workers}", 60, *data, *codec, "--num_nodes", workers, "--max_steps", 3,
                                kind="profile", launcher=profiler)
            self.note(self.runner.run(job))
        return None


def read_output(*command):
    """The output of a command; empty if it is missing or fails."""
    try:
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def refuse(reason):
    print(f"gpu_check.py: {reason}", file=sys.stderr)
    sys.exit(2)


def unpacked(bundle):
    """The folder of a bundle. A packed bundle is unpacked to the temporary folder, once per content."""
    if bundle.is_dir():
        return bundle.resolve()
    if not bundle.is_file():
        refuse(f"--bundle: there is no '{bundle}'")
    key = hashlib.sha256(bundle.read_bytes()).hexdigest()[:16]
    folder = pathlib.Path(tempfile.gettempdir()) / f"terngrad-bundle-{key}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as new:
            try:
                with tarfile.open(bundle, "r|*") as archive:
                    # Keeps permissions of programs, which the filter "data" would remove.
                    archive.extractall(new, **({"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}))
            except (tarfile.TarError, EOFError, OSError) as error:
                refuse(f"--bundle: '{bundle}' is damaged: {error}")
            os.rename(new, folder)
            os.mkdir(new)  # so that removing the temporary folder succeeds
    found = next(folder.glob("*/MANIFEST"), None)
    return found.parent if found else refuse(f"--bundle: '{bundle}' holds no bundle")


def find_build(build):
    """The given build folder, or the first of the usual ones with tests."""
    folders = [build] if build else [ROOT / "build" / name for name in ("gpu-check", "release", "ci")]
    found = [folder for folder in folders if (folder / "bin" / "terngrad_bench").exists()]
    if not found:
        refuse(f"--build: {', '.join(map(str, folders))}: no bin/terngrad_bench; build there first")
    return next((folder for folder in found if (folder / "bin" / "kernels_test").exists()), found[0]).resolve()


def find_gpu(check):
    """The GPU's name. Without a GPU the program exits with the driver's message, with a missing library with the loader's."""
    program = check.bin / "terngrad_bench"
    try:
        found = subprocess.run([program, "--gpu"], capture_output=True, text=True, timeout=120, env=check.runner.environment)
    except subprocess.TimeoutExpired:
        refuse("no GPU to check on: terngrad_bench --gpu has not ended in 120 s")
    if found.returncode != 0:
        reason = found.stderr.strip()
        if "error while loading" in reason:
            loader = subprocess.run([program, "--gpu"], capture_output=True, text=True, timeout=120,
                                    env={**check.runner.environment, "LD_DEBUG": "libs"})
            reason += "\n" + "\n".join(loader.stderr.splitlines()[-40:])
        refuse(f"no GPU to check on: {reason.removeprefix('terngrad_bench: error: no GPU: ')}")
    return found.stdout.strip()


def machine_of(check, gpu):
    """The report's data on the machine and the checked build."""
    processor = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal: *(\d+)", pathlib.Path("/proc/meminfo").read_text())
    query = "--query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit"
    version = subprocess.run([check.bin / "terngrad_bench", "--version"], capture_output=True, text=True,
                             env=check.runner.environment)
    machine = {"gpu": gpu, "programs": "; ".join(version.stdout.split("\n")).strip("; "),
               "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "system": f"{platform.system()} {platform.release()}",
               "processor": f"{processor[1] if processor else 'unknown'}, {os.cpu_count()} threads",
               "memory": f"{int(memory[1]) >> 20} GiB" if memory else "unknown",
               "nvidia-smi": read_output("nvidia-smi", "--format=csv,noheader", query).strip().replace("\n", "; "),
               "command": " ".join(sys.argv)}
    if check.is_bundle:
        source = re.search(r"^source: *(.*)$", (check.root / "MANIFEST").read_text(), re.M)
        machine["bundle of"] = source[1] if source else "unknown"
    return machine


def parse(arguments):
    parser = argparse.ArgumentParser(prog="gpu_check.py", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)

    def add(name, metavar, text, **more):
        parser.add_argument(f"--{name}", metavar=metavar, help=text, **more)

    add("bundle", "FILE|DIR", "a bundle, packed or unpacked (default: that of this script)", type=pathlib.Path)
    add("build", "DIR", "a build folder (default: build/gpu-check, release or ci)", type=pathlib.Path)
    add("phases", "LIST", "which, separated by commas, in this order (default: all)", default=",".join(PHASES))
    add("seconds", "N", "for all phases together; what is left then is cut off or not run (default: no limit)", type=int)
    add("silence", "N", "a test that prints nothing for N seconds hangs (default: 60)", type=int, default=60)
    add("out", "DIR", "default: runs/gpu-check-DATE", type=pathlib.Path)
    for name, title in (("mnist", "MNIST"), ("cifar10", "CIFAR-10")):
        add(name, "DIR", f"folder with {title} (default: data/{name} where there is one)", type=pathlib.Path)
    parser.add_argument("--require_targets", action="store_true", help="a benchmark that misses its target is a failure too")
    options = parser.parse_args(arguments)
    options.phases = options.phases.split(",")
    for phase in options.phases:
        if phase not in PHASES:
            refuse(f"--phases: '{phase}' is unknown; accepted: {', '.join(PHASES)}")
    for name in ("seconds", "silence"):
        value = getattr(options, name)
        if value is not None and value < 1:
            refuse(f"--{name}: '{value}' is refused, expected a positive number")
    for name in ("mnist", "cifar10"):
        if getattr(options, name) and not getattr(options, name).is_dir():
            refuse(f"--{name}: there is no folder '{getattr(options, name)}'")
    if options.build and (options.bundle or (ROOT / "MANIFEST").exists()):
        refuse("--build: a bundle has its own programs")
    options.out = (options.out or ROOT / "runs" / time.strftime("gpu-check-%Y%m%d-%H%M%S")).absolute()
    return options


def main(arguments):
    began = time.monotonic()
    options = parse(arguments)
    options.began = began
    check = Check(options)
    gpu = find_gpu(check)
    if not (check.out / "results.tar.xz").exists():
        shutil.rmtree(check.folder, ignore_errors=True)
    for folder in (check.folder, check.out):
        folder.mkdir(parents=True, exist_ok=True)
    gpu_results.write_json(check.folder / "machine.json", machine_of(check, gpu))
    for phase in options.phases:
        may_continue = True
        try:
            may_continue = getattr(check, f"run_{phase}")() is not False
        except Exception:  # a bug in this script only affects one phase
            check.note(Job("script", phase, 0, []), reason=traceback.format_exc())
        try:
            gpu_report.write(check.folder, check.out, options.require_targets)
            gpu_results.pack(check.folder, check.out / "results.tar.xz")
        except Exception:  # or one report, which the next phase writes again
            traceback.print_exc()
        if not may_continue:
            print(f"gpu_check.py: {phase} failed, without which nothing else can pass", flush=True)
            break
    report = gpu_report.make_report(check.folder, options.require_targets)
    print(gpu_report.summary(report, check.out))
    return 0 if report["passed"] and may_continue else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
