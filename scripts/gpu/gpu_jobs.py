"""Runs commands within time limits, several at once, and keeps what a failure or a hang needs to be understood."""

import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import time

POLL_SECONDS = 0.1
# What has less time left than this is not begun.
MIN_SECONDS = 5
# A program that is asked to stop has this long to write what it has.
GRACE_SECONDS = 3
STACKS_SECONDS = 25
TIMED_OUT = "timed out"
NO_TIME = "no time"


@dataclasses.dataclass
class Job:
    """A command with its limit. `rc` is its exit code, minus the signal that ended it, TIMED_OUT or NO_TIME."""

    kind: str
    name: str
    limit: float  # seconds
    command: list
    environment: dict = dataclasses.field(default_factory=dict)
    silence: float = float("inf")  # a command that prints nothing for so many seconds hangs
    rc: object = None
    seconds: float = 0.0

    @property
    def text(self):
        return " ".join([*(f"{name}={value}" for name, value in self.environment.items()), *map(str, self.command)])


class Runner:
    """Runs jobs with their output in FOLDER/NAME.log. All jobs together end by `deadline` (time.monotonic(); None: no limit)."""

    def __init__(self, folder, environment, directory, deadline=None):
        self.folder = pathlib.Path(folder)
        self.environment = environment
        self.directory = directory
        self.deadline = deadline

    def seconds_left(self):
        return float("inf") if self.deadline is None else self.deadline - time.monotonic()

    def run(self, job):
        """Runs a job to its end or its limit. Fills in `rc` and `seconds`. May be called from several threads."""
        job.rc, job.limit = None, min(job.limit, self.seconds_left())
        if job.limit < MIN_SECONDS:
            job.rc = NO_TIME
            return job
        log = self.folder / f"{job.name}.log"
        began = time.monotonic()
        with log.open("ab") as file:
            # A session of its own, so that what the command starts can be stopped with it.
            process = subprocess.Popen([str(word) for word in job.command], stdin=subprocess.DEVNULL, stdout=file,
                                       stderr=subprocess.STDOUT, start_new_session=True, cwd=self.directory,
                                       env={**self.environment, **job.environment})
        heard, length = began, 0
        while process.poll() is None:
            now = time.monotonic()
            if log.stat().st_size != length:
                heard, length = now, log.stat().st_size
            if now - began >= job.limit or now - heard >= job.silence:
                self.write_stacks(job, process.pid)
                stop_group(process)
                break
            time.sleep(POLL_SECONDS)
        else:
            job.rc = process.returncode
        job.rc = TIMED_OUT if job.rc is None else job.rc
        job.seconds += time.monotonic() - began
        return job

    def run_together(self, jobs):
        return at_once(self.run, jobs)

    def write_stacks(self, job, pid):
        """FOLDER/NAME.hang.txt: where the threads of a process and the kernels that it started are, as a debugger sees them."""
        stacks = self.folder / f"{job.name}.hang.txt"
        debugger = find_tool("cuda-gdb") or find_tool("gdb")
        with stacks.open("a") as file:
            if debugger:
                commands = ["thread apply all bt 14"]
                if debugger.endswith("cuda-gdb"):
                    commands.insert(0, "info cuda kernels")
                words = [word for command in commands for word in ("-ex", command)]
                print(f"{debugger} -p {pid}:", file=file, flush=True)
                try:
                    subprocess.run([debugger, "-p", str(pid), "-batch", *words], stdin=subprocess.DEVNULL, stdout=file,
                                   stderr=subprocess.STDOUT, timeout=STACKS_SECONDS, start_new_session=True)
                except subprocess.TimeoutExpired:
                    print("the debugger did not end either", file=file)
            # The kernel's view needs no debugger: a thread in an ioctl waits for the driver.
            for thread in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
                seen = [read_line(thread / name) for name in ("comm", "wchan", "syscall")]
                print(f"thread {thread.name}: {', '.join(seen)}", file=file)


def at_once(function, items):
    """[function(item) for item in items], all at the same time."""
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
    """Ends a process and all that it started: by SIGINT, on which trainings save, then by SIGKILL."""
    for number, wait in ((signal.SIGINT, GRACE_SECONDS), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
            process.wait(wait)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def find_tool(name):
    """A tool of CUDA's toolkit, from the PATH or where the toolkit is; "" if there is none."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which(name) or shutil.which(name, path=f"{home}/bin") or ""
