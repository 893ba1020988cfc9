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
    """Discordant images: those that only the cell's run classifies correctly, those that only the baseline's does; and p of these
    counts."""

    seed: int
    only_cell: int
    only_baseline: int
    p: float


@dataclasses.dataclass(frozen=True)
class SameImages:
    """McNemar's test of each seed. Over seeds only signs are counted: they share the images, and are no independent samples of
    them."""

    seeds: tuple
    signs: statistics.SignTest  # positive: seeds that favour the cell


def path_of(out, cell, seed):
    """Where predictions of a run are, below the folder of its results. @param cell  full name"""
    return pathlib.Path(out) / "predictions" / jobs.folder_name(cell) / f"seed-{seed}.npy"


def digest_of(path):
    """Of a file: 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:16]


def fields_of(path, out):
    """What a result has of its predictions, nothing without the file. @param out  folder of the results file"""
    if not path.exists():
        return {}
    return {"predictions": str(path.relative_to(out)), "predictions_sha256": digest_of(path)}


def read_npy(path):
    """The int32 values of a NumPy array of one dimension. @throws PredictionsError for another file"""
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
    """The predictions of a run, which must be those that were recorded and make its accuracy. @throws PredictionsError"""
    path = result["predictions"]
    # Lines of earlier versions have no digest.
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
    """Whether the predictions that a result names are there; recorded results may have gone without."""
    return "predictions" in run and pathlib.Path(run["predictions"]).exists()


def compare(runs, baselines, labels):
    """(SameImages of the seeds that both have usable predictions of, None if there are none; what is wrong with those of other
    seeds, a text each).

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
    """(SameImages or None, what is wrong with seeds or labels, a text each). Without predictions there is nothing to say.

    @param labels  a labels.Labels, None to leave it"""
    if labels is None or not any(has(runs[seed]) and has(baselines[seed]) for seed in set(runs) & set(baselines)):
        return None, ()
    try:
        of_dataset = labels.of(dataset)
    except LabelsError as error:
        return None, (str(error),)
    return (None, ()) if of_dataset is None else compare(runs, baselines, of_dataset)
