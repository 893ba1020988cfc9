"""Two runs on the same test images: McNemar's exact test of their predictions, seed by seed."""

import array
import ast
import dataclasses
import hashlib
import pathlib
import sys

from terngrad_experiments import jobs, statistics
from terngrad_experiments.labels import LabelsError

MAGIC = b"\x93NUMPY"


class PredictionsError(Exception):
    """A file of predictions that cannot be used."""


@dataclasses.dataclass(frozen=True)
class Seed:
    """Numbers of images that only the cell's run and that only the baseline's run classifies correctly, and p of these counts."""

    seed: int
    only_cell: int
    only_baseline: int
    p: float


@dataclasses.dataclass(frozen=True)
class SameImages:
    """McNemar's test of each seed. Over seeds only signs are counted, since they share the images and are not independent."""

    seeds: tuple
    signs: statistics.SignTest  # positive: number of seeds that favour the cell


def path_of(out, cell, seed):
    """Path of a run's predictions, below the folder of its results. @param cell  full name"""
    return pathlib.Path(out) / "predictions" / jobs.folder_name(cell) / f"seed-{seed}.npy"


def digest_of(path):
    """Digest of a file: 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:16]


def fields_of(path, out):
    """Fields of a result for its predictions; empty without the file. @param out  folder of the results file"""
    if not path.exists():
        return {}
    return {"predictions": str(path.relative_to(out)), "predictions_sha256": digest_of(path)}


def read_npy(path):
    """Reads a one-dimensional int32 NumPy array. @throws PredictionsError for another file"""
    path = pathlib.Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise PredictionsError(f"{path}: {error.strerror}") from None
    try:
        is_short = content[6] == 1
        begin = 10 if is_short else 12
        size = int.from_bytes(content[8:begin], "little")
        header = ast.literal_eval(content[begin:begin + size].decode())
        (count,) = header["shape"]
        values = array.array("i")
        values.frombytes(content[begin + size:])
        if content[:6] != MAGIC or header["descr"] != "<i4" or len(values) != count:
            raise ValueError
    except (ValueError, IndexError, KeyError, SyntaxError, TypeError):
        raise PredictionsError(f"{path}: is no array of int32 in one dimension, or cut off") from None
    if sys.byteorder == "big":
        values.byteswap()
    return values


def checked(result, labels, metric="top1"):
    """The predictions of a run, checked against recorded digest and accuracy. @throws PredictionsError"""
    path = result["predictions"]
    # Results of earlier versions have no digest.
    if (recorded := result.get("predictions_sha256")) is not None and (found := digest_of(path)) != recorded:
        raise PredictionsError(f"no predictions: {path} is of another run, sha256 {found} in place of {recorded}")
    predicted = read_npy(path)
    if len(predicted) != len(labels):
        raise PredictionsError(f"{path}: {len(predicted)} predictions for {len(labels)} test images")
    right = sum(map(int.__eq__, predicted, labels))
    if metric in result["final"] and abs(right / len(labels) - result["final"][metric]) > 0.5 / len(labels):
        raise PredictionsError(f"{path}: {right} of {len(labels)} are right, but the result has "
                               f"{100 * result['final'][metric]:.2f} %")
    return predicted


def has(run):
    """True if the file of predictions that a result names exists; recorded results may lack it."""
    return "predictions" in run and pathlib.Path(run["predictions"]).exists()


def compare(runs, baselines, labels):
    """(SameImages of the seeds for which both have valid predictions, None if there are none; texts of the problems with other
    seeds).

    @param runs, baselines  results by seed"""
    seeds, problems = [], []
    for seed in sorted(set(runs) & set(baselines)):
        if has(runs[seed]) and has(baselines[seed]):
            try:
                own, other = checked(runs[seed], labels), checked(baselines[seed], labels)
            except PredictionsError as error:
                problems.append(f"seed {seed}: {error}")
                continue
            found = statistics.mcnemar_of_predictions(own, other, labels)
            seeds.append(Seed(seed, found.only_first, found.only_second, found.p))
    if not seeds:
        return None, tuple(problems)
    signs = statistics.sign_test([one.only_cell - one.only_baseline for one in seeds])
    return SameImages(tuple(seeds), signs), tuple(problems)


def compare_if_possible(runs, baselines, dataset, labels):
    """(SameImages or None, texts of problems with seeds or labels), (None, []) without predictions.

    @param labels  a labels.Labels; None: no comparison"""
    if labels is None or not any(has(runs[seed]) and has(baselines[seed]) for seed in set(runs) & set(baselines)):
        return None, ()
    try:
        of_dataset = labels.of(dataset)
    except LabelsError as error:
        return None, (str(error),)
    return (None, ()) if of_dataset is None else compare(runs, baselines, of_dataset)
