"""Runs commands with time limits, several at once, and saves diagnostics of failures and hangs."""

import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

POLL_SECONDS = 0.1
# Minimum remaining time to start a job.
MIN_SECONDS = 5
# Time for a program to save its state after a request to stop, and again to end after being killed.
GRACE_SECONDS = 3
STACKS_SECONDS = 25
# Number of hanging jobs that a debugger inspects, sequentially.
MAX_DEBUGGED = 3
MAX_LOG_BYTES = 64 << 20
# Values instead of an exit code.
TIMED_OUT = "timed out"
SILENT = "silent"
NO_TIME = "no time"
TOO_LONG_LOG = f"printed more than {MAX_LOG_BYTES >> 20} MiB"


@dataclasses.dataclass
class Job:
    """A command with its limit. `rc` is its exit code, the negative signal that ended it, or one of the words above."""

    kind: str
    name: str
    limit: float  # seconds
    command: list
    environment: dict = dataclasses.field(default_factory=dict)
    silence: float = float("inf")  # a command without output for this many seconds counts as hanging
    may_be_cut: bool = False  # reaching the time limit does not count as hanging
    rc: object = None
    seconds: float = 0.0

    @property
    def text(self):
        return " ".join([*(f"{name}={value}" for name, value in self.environment.items()), *map(str, self.command)])


class Runner:
    """Runs jobs with output to FOLDER/NAME.log. All jobs end by `deadline` (time.monotonic(); None: no limit)."""

    def __init__(self, folder, environment, directory, deadline=None):
        self.folder = pathlib.Path(folder)
        self.environment = environment
        self.directory = directory
        self.deadline = deadline
        self.debugger = threading.Lock()
        self.num_debugged = 0

    def seconds_left(self):
        return float("inf") if self.deadline is None else self.deadline - time.monotonic()

    def run(self, job):
        """Runs a job until it ends or reaches its limit. Sets `rc` and `seconds`. Thread-safe."""
        job.rc, job.limit = None, min(job.limit, self.seconds_left())
        if job.limit < MIN_SECONDS:
            job.rc = NO_TIME
            return job
        log = self.folder / f"{job.name}.log"
        began = time.monotonic()
        try:
            with log.open("ab") as file:
                # A separate session, so that all processes started by the command can be stopped.
                process = subprocess.Popen([str(word) for word in job.command], stdin=subprocess.DEVNULL, stdout=file,
                                           stderr=subprocess.STDOUT, start_new_session=True, cwd=self.directory,
                                           env={**self.environment, **job.environment})
        except OSError as error:
            log.write_text(f"{error}\n")
            job.rc = 127
            return job
        try:
            job.rc = self.watch(job, process, log)
            if job.rc in (TIMED_OUT, SILENT) and not job.may_be_cut:
                self.write_stacks(job, process.pid)
        finally:
            # Processes started by the command may outlive it.
            stop_group(process)
            job.seconds += time.monotonic() - began
        return job

    def watch(self, job, process, log):
        """Waits for a process. @returns its exit code, or the reason to stop it"""
        began = heard = time.monotonic()
        length = log.stat().st_size
        while process.poll() is None:
            now, size = time.monotonic(), log.stat().st_size
            if size != length:
                heard, length = now, size
            if size > MAX_LOG_BYTES:
                return TOO_LONG_LOG
            if now - began >= job.limit:
                return TIMED_OUT
            if now - heard >= job.silence:
                return SILENT
            time.sleep(POLL_SECONDS)
        return process.returncode

    def run_together(self, jobs):
        return at_once(self.run, jobs)

    def write_stacks(self, job, pid):
        """Writes FOLDER/NAME.hang.txt: stacks of a process's threads and of its kernels, from a debugger."""
        with (self.folder / f"{job.name}.hang.txt").open("a") as file:
            # Kernel stacks need no debugger: a thread in an ioctl waits for the driver.
            for thread in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
                seen = [read_line(thread / name) for name in ("comm", "wchan", "syscall")]
                print(f"thread {thread.name}: {', '.join(seen)}", file=file, flush=True)
            debugger = find_tool("cuda-gdb") or find_tool("gdb")
            with self.debugger:
                self.num_debugged += 1
                if debugger and self.num_debugged <= MAX_DEBUGGED:
                    ask_debugger(debugger, pid, file)


def ask_debugger(debugger, pid, file):
    commands = ["thread apply all bt 14"]
    if debugger.endswith("cuda-gdb"):
        commands.insert(0, "info cuda kernels")
    words = [word for command in commands for word in ("-ex", command)]
    print(f"{debugger} -p {pid}:", file=file, flush=True)
    process = subprocess.Popen([debugger, "-p", str(pid), "-batch", *words], stdin=subprocess.DEVNULL, stdout=file,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        process.wait(STACKS_SECONDS)
    except subprocess.TimeoutExpired:
        print("the debugger did not end either", file=file, flush=True)
    finally:
        stop_group(process)


def at_once(function, items):
    """[function(item) for item in items], computed concurrently."""
    items = list(items)
    if not items:
        return []
    with concurrent.futures.ThreadPoolExecutor(len(items)) as threads:
        return list(threads.map(function, items))


def read_line(path):
    try:
        return path.read_text().strip() or "-"
    except OSError as error:
        return error.strerror


def stop_group(process):
    """Ends a process and its children: by SIGINT, on which trainings save, if it still runs; then by SIGKILL. Processes stuck in
    the driver cannot be killed, and are not waited for."""
    numbers = [signal.SIGINT, signal.SIGKILL] if process.poll() is None else [signal.SIGKILL]
    for number in numbers:
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def find_tool(name):
    """Path of a CUDA toolkit tool, from PATH or the toolkit's folder; "" if missing."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which(name) or shutil.which(name, path=f"{home}/bin") or ""
