"""A job: one run of a cell with one seed, in its own folder."""

import dataclasses
import fcntl
import os
import pathlib

from terngrad_experiments import recipes, run_folder

# Examples per second of one thread: half of those for two threads in bench/results/README.md (Xeon, one worker, fp32). Used for
# the order of jobs and the estimates of `list` only.
EXAMPLES_PER_SECOND = {"lenet": 5285 / 2, "cifar10_alexnet": 2969 / 2}
# Data sets without files, and folders of data sets below --data.
BUILT_IN = ("synthetic", "synthetic224")
DATA_FOLDERS = {"mnist": ("mnist",), "cifar10": ("cifar10", "cifar-10"), "imagenet": ("imagenet",)}


class DataMissing(Exception):
    """The folder with the files of a data set is missing."""


@dataclasses.dataclass(frozen=True)
class Job:
    cell: recipes.Cell  # already scaled and with its variant's options
    seed: int
    folder: pathlib.Path

    @property
    def name(self):
        return f"{self.cell.full_name} seed {self.seed}"

    @property
    def max_steps(self):
        return int(self.cell.options["max_steps"])

    @property
    def num_examples(self):
        return self.max_steps * int(self.cell.options["batch_size"])

    def seconds(self, threads=1):
        """Estimated duration; None for nets without measurements."""
        speed = EXAMPLES_PER_SECOND.get(self.cell.options.get("net"))
        return None if speed is None else self.num_examples / (speed * threads)

    @property
    def log(self):
        return self.folder.with_name(self.folder.name + ".log")

    def is_finished(self):
        metrics = run_folder.read_metrics(self.folder)
        return any(line.get("kind") == "test" and line["step"] == self.max_steps for line in metrics)


def arguments(job, data, threads, device):
    """Arguments of terngrad_train for the job. @param data  folder of the data set, None for built-in ones"""
    return [*recipes.command_line(job.cell, job.seed, str(job.folder), data), f"--threads={threads}", f"--device={device}"]


def folder_name(full_name):
    """Folder name of a cell, without the slash of its scale."""
    return full_name.replace("~1/", "~1-")


def make_job(cell, seed, out):
    """@param out  folder of all runs"""
    return Job(cell, seed, pathlib.Path(out) / "runs" / folder_name(cell.full_name) / f"seed-{seed}")


def data_folder(data, dataset):
    """The folder of `dataset` below `data`; None for the built-in set.

    @throws DataMissing that says how to get it"""
    if dataset in BUILT_IN:
        return None
    for name in DATA_FOLDERS.get(dataset, (dataset,)):
        if (pathlib.Path(data) / name).is_dir():
            return str(pathlib.Path(data) / name)
    advice = "docs/imagenet.md says how to make it" if dataset == "imagenet" else f"scripts/download_data.sh {dataset} gets it"
    raise DataMissing(f"--data {data}: has no folder {DATA_FOLDERS.get(dataset, (dataset,))[0]}; {advice}")


def expected_data_folder(data, dataset):
    """data_folder(), or the folder where the data are expected; None for built-in sets."""
    try:
        return data_folder(data, dataset)
    except DataMissing:
        return str(pathlib.Path(data) / DATA_FOLDERS.get(dataset, (dataset,))[0])


class RunLock:
    """Lock held by the driver that starts a run and inherited by the run: it is released when both have ended."""

    def __init__(self, job):
        job.folder.parent.mkdir(parents=True, exist_ok=True)
        self.path = job.folder.with_name(job.folder.name + ".lock")
        self.file = None

    def acquire(self):
        """Tries to lock, without waiting. @returns True if successful"""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self.file = descriptor
        return True

    def fileno(self):
        return self.file

    def release(self):
        """Closes the driver's handle; a run that inherited it keeps the lock."""
        if self.file is not None:
            os.close(self.file)
            self.file = None
