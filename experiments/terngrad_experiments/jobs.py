"""A job: one run of a cell with one seed, in its own folder."""

import dataclasses
import fcntl
import os
import pathlib

from terngrad_experiments import recipes, run_folder

# Examples per second of one thread: half of what bench/results/README.md has for two threads of a Xeon, one worker, fp32. Only the
# order of jobs and the estimates of `list` use them.
EXAMPLES_PER_SECOND = {"lenet": 5285 / 2, "cifar10_alexnet": 2969 / 2}
# Where a data set's files are below --data.
BUILT_IN = ("synthetic", "synthetic224")
DATA_FOLDERS = {"mnist": ("mnist",), "cifar10": ("cifar10", "cifar-10"), "imagenet": ("imagenet",)}


class DataMissing(Exception):
    """No folder with the files of a data set."""


@dataclasses.dataclass(frozen=True)
class Job:
    cell: recipes.Cell  # scaled, with its variant's options
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
        """What the job takes by experience; None for a net without."""
        speed = EXAMPLES_PER_SECOND.get(self.cell.options.get("net"))
        return None if speed is None else self.num_examples / (speed * threads)

    @property
    def log(self):
        return self.folder.with_name(self.folder.name + ".log")

    def is_finished(self):
        metrics = run_folder.read_metrics(self.folder)
        return any(line.get("kind") == "test" and line["step"] == self.max_steps for line in metrics)


def arguments(job, data, threads, device):
    """Of terngrad_train, to start the job. @param data  folder of the data set, None for the built-in one"""
    return [*recipes.command_line(job.cell, job.seed, str(job.folder), data), f"--threads={threads}", f"--device={device}"]


def folder_name(full_name):
    """Of a cell, where it names a folder: a scale's slash would be another level."""
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
    """data_folder(), or where it would be; None for the built-in set."""
    try:
        return data_folder(data, dataset)
    except DataMissing:
        return str(pathlib.Path(data) / DATA_FOLDERS.get(dataset, (dataset,))[0])


class RunLock:
    """Held by the driver that starts a run and inherited by the run itself: it is free when both have ended, however."""

    def __init__(self, job):
        job.folder.parent.mkdir(parents=True, exist_ok=True)
        self.path = job.folder.with_name(job.folder.name + ".lock")
        self.file = None

    def acquire(self):
        """Does not wait. @returns whether it is held now"""
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
        """Closes the driver's handle; a run that has inherited it keeps the lock."""
        if self.file is not None:
            os.close(self.file)
            self.file = None
