"""Runs jobs: several at a time, longest first. An interrupted job resumes from its checkpoint, a failed one is retried once, and
a finished one is recorded and evaluated for its predictions."""

import errno
import fcntl
import os
import pathlib
import signal
import socket
import subprocess
import time

from terngrad_experiments import gpus, importing
from terngrad_experiments import jobs as job_module
from terngrad_experiments import predictions, results, run_folder, store

CHECKPOINTS = "*.safetensors"  # in a run's folder
MAX_ATTEMPTS = 2
POLL_SECONDS = 0.1


class RunnerError(Exception):
    """An error that prevents all jobs from running."""


class OutFolder:
    """The output folder of a driver, locked against a second driver during this process's lifetime."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.file = open(self.path / "lock", "a+", encoding="utf-8")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.file.seek(0)
            raise RunnerError(f"--out {self.path}: in use by {self.file.read().strip() or 'another driver'}; wait for it, or name "
                              "another folder") from None
        self.file.truncate(0)
        self.file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self.file.flush()

    @property
    def results(self):
        return self.path / "results.jsonl"

    def close(self):
        self.file.close()


class Running:
    """A job whose run, or the evaluation after it, is in progress."""

    def __init__(self, job, lock, environment, gpu):
        self.job = job
        self.lock = lock
        self.environment = environment
        self.gpu = gpu
        self.process = None
        self.is_evaluation = False
        self.began = time.monotonic()

    def spawn(self, command):
        with open(self.job.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                            pass_fds=[self.lock.fileno()],
                                            env={**os.environ, "OMP_WAIT_POLICY": "passive", **self.environment})


class Runner:
    def __init__(self, programs, data, out, num_jobs=1, threads=1, device="cpu", say=print, jobs_per_gpu=1):
        self.programs = programs
        self.data = data
        self.out = out
        self.num_jobs = num_jobs
        self.threads = threads
        self.device = device
        self.say = say
        visible = gpus.visible_gpus() if device == "cuda" else []
        most = jobs_per_gpu * len(visible)
        if visible and num_jobs > most:
            raise RunnerError(f"--jobs {num_jobs}: {len(visible)} GPUs take {jobs_per_gpu} each (--jobs_per_gpu); accepted: auto or "
                              f"1 to {most}")
        self.gpus = gpus.Pool(visible, jobs_per_gpu)
        self.commit = programs.commit()
        self.predicts = programs.has("terngrad_eval") and "predictions" in programs.options("terngrad_eval")
        self.failures = []
        self.signal = 0
        self.seconds = {}  # duration of each job's runs in this driver
        self.begun_before = set()  # jobs begun by an earlier driver, whose total duration is unknown

    def command(self, job):
        data = self.data_of(job)
        command = [self.programs.path("terngrad_train"), *job_module.arguments(job, data, self.threads, self.device)]
        if (job.folder / "config.json").exists():
            command.append("--resume")
        return command

    def predictions_of(self, job):
        return predictions.path_of(self.out.path, job.cell.full_name, job.seed)

    def data_of(self, job):
        return job_module.data_folder(self.data, job.cell.options["dataset"])

    def wants_predictions(self, job):
        """True if a finished run needs predictions and they can be computed: its checkpoints and data exist."""
        try:
            self.data_of(job)
        except job_module.DataMissing:
            return False
        return self.predicts and any(job.folder.glob(CHECKPOINTS)) and not self.predictions_of(job).exists()

    def evaluate(self, item):
        """Starts terngrad_eval to write the predictions of a finished run, in the run's slot."""
        job, path = item.job, self.predictions_of(item.job)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = self.data_of(job)
        item.is_evaluation = True
        item.spawn([self.programs.path("terngrad_eval"), f"--checkpoint_dir={job.folder}", f"--predictions={path}",
                    f"--threads={self.threads}", f"--device={self.device}", *([] if data is None else [f"--data_dir={data}"])])

    def run(self, jobs):
        """@returns the exit code: 0, 1 if a job failed, 128 + signal
        @throws DataMissing before any job is started"""
        for job in jobs:
            if not job.is_finished():
                self.data_of(job)
        # Jobs without an estimate come first: seconds and numbers of examples cannot be compared.
        waiting = sorted(jobs, key=lambda job: (job.seconds() is not None, -(job.seconds() or job.num_examples), job.name))
        attempts = {job.name: 0 for job in waiting}
        running = []
        told = set()
        previous = {number: signal.signal(number, self.on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while waiting or running:
                if self.signal:
                    break
                for job in list(waiting):
                    if len(running) >= self.num_jobs:
                        break
                    started = self.start(job, told)
                    if started is not None:
                        waiting.remove(job)
                        attempts[job.name] += 1
                        if started:
                            running.append(started)
                for item in [item for item in running if item.process.poll() is not None]:
                    self.note_seconds(item)
                    # Record first: the driver may be stopped during the evaluation.
                    if (not item.is_evaluation and self.has_succeeded(item) and self.record(item.job)
                            and self.wants_predictions(item.job)):
                        self.evaluate(item)
                        continue
                    running.remove(item)
                    if self.end(item, attempts[item.job.name]):
                        waiting.append(item.job)
                time.sleep(POLL_SECONDS)
            self.stop(running)
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        if self.signal:
            return 128 + self.signal
        return 1 if self.failures else 0

    def on_signal(self, number, _frame):
        self.signal = number

    def start(self, job, told):
        """@returns the started job; False if there is nothing to run; None if another process runs it"""
        lock = job_module.RunLock(job)
        if not lock.acquire():
            if job.name not in told:
                self.say(f"{job.name}: its run is under way in another process; waiting for it")
                told.add(job.name)
            return None
        is_finished = job.is_finished()
        if is_finished and not (self.record(job) and self.wants_predictions(job)):
            lock.release()
            return False
        command = self.command(job)
        item = Running(job, lock, *self.gpus.take())
        if is_finished:
            self.evaluate(item)
            doing = "evaluated"
        else:
            self.predictions_of(job).unlink(missing_ok=True)  # predictions of an earlier run in this folder
            if "--resume" in command and job.name not in self.seconds:
                self.begun_before.add(job.name)
            item.spawn(command)
            doing = "resumed" if "--resume" in command else "started"
        self.say(f"{job.name}: {doing}{'' if item.gpu is None else f' on GPU {item.gpu}'}")
        return item

    def has_succeeded(self, item):
        return item.process.returncode == 0 and item.job.is_finished()

    def note_seconds(self, item):
        """Adds the duration of a training; evaluations do not count."""
        if not item.is_evaluation:
            self.seconds[item.job.name] = self.seconds.get(item.job.name, 0.0) + time.monotonic() - item.began

    def end(self, item, attempt):
        """@returns True to retry"""
        item.lock.release()
        self.gpus.give_back(item.gpu)
        job = item.job
        if item.is_evaluation:
            if item.process.returncode != 0:
                self.say(f"{job.name}: FAILED to evaluate, no predictions: {last_line(job.log) or item.process.returncode}")
                self.failures.append(job.name)
            else:
                self.record(job)
            return False
        if self.has_succeeded(item):
            return False
        message = last_line(job.log) or f"exit code {item.process.returncode}"
        if attempt < MAX_ATTEMPTS:
            self.say(f"{job.name}: failed ({message}); trying again")
            return True
        self.say(f"{job.name}: FAILED: {message}")
        self.failures.append(job.name)
        cell = job.cell
        store.append(self.out.results, results.failed_result(cell.base_name, cell.scale, job.seed, cell.options,
                                                             self.commit, message,
                                                             "gpu" if self.device == "cuda" else "cpu"))
        return False

    def record(self, job):
        """Appends the line of a finished run, and again with its predictions when they exist. An error fails this job only.
        @returns True if the run is recorded"""
        try:
            self.add_line(job)
        except Exception as error:  # a run's folder may contain anything
            self.say(f"{job.name}: FAILED to record: {error or repr(error)}")
            self.failures.append(job.name)
            return False
        return True

    def add_line(self, job):
        cell, seconds = job.cell, None if job.name in self.begun_before else self.seconds.get(job.name)
        self.check_options(job)
        known = store.read(self.out.results)
        result = results.make_result(job.folder, cell.base_name, cell.scale, job.seed, cell.options,
                                     None if seconds is None else round(seconds, 1), known=known)
        predicted = predictions.fields_of(self.predictions_of(job), self.out.path)
        if any(line is result for line in known):
            if any(result.get(name) != value for name, value in predicted.items()):
                store.append(self.out.results, result | predicted)
                self.say(f"{job.name}: predictions recorded")
            return
        store.append(self.out.results, result | predicted)
        self.say(f"{job.name}: top-1 {100 * result['final']['top1']:.2f} % after {result['steps']} steps")

    def check_options(self, job):
        """Checks that a finished run has the options of the cell in the current recipe. @throws RunFolderError"""
        config = run_folder.read_config(job.folder)
        identity = config.get("identity")
        if not isinstance(identity, dict):
            return  # make_result() rejects it
        wrong = importing.differences(job.cell, config)
        if int(identity["max_steps"]) != job.max_steps:
            wrong.append(f"--max_steps {identity['max_steps']} in place of {job.max_steps}")
        if wrong:
            raise run_folder.RunFolderError(f"{job.folder} has a run of other options, {', '.join(wrong)}; move it away")

    def stop(self, running):
        """Signals the runs to save and end."""
        for item in running:
            try:
                item.process.send_signal(signal.SIGTERM)
            except OSError as error:
                if error.errno != errno.ESRCH:
                    raise
        for item in running:
            item.process.wait()
            item.lock.release()


def last_line(path):
    """Last line of a log; progress lines that end in a carriage return count."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.replace("\r", "\n").split("\n") if line.strip()]
    return lines[-1][:300] if lines else ""


def default_num_jobs(threads, device="cpu", jobs_per_gpu=1):
    """Default number of jobs: limited by processors, or by the GPUs' capacity."""
    if device == "cuda":
        return max(1, jobs_per_gpu * len(gpus.visible_gpus()))
    return max(1, len(os.sched_getaffinity(0)) // threads)
