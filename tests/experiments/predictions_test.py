#!/usr/bin/env python3
"""Tests of McNemar's test on the predictions of paired runs."""

import array
import pathlib
import unittest

from scaffold import InFolder
from terngrad_experiments import predictions, statistics

LABELS = bytes([1, 2, 3, 4])


class OfLabels:
    """Replaces labels.Labels."""

    def of(self, dataset):
        return LABELS if dataset == "mnist" else None


class Predictions(InFolder):
    def write(self, name, values, descr="<i4", version=1, shape=None):
        header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape or (len(values),)}, }}\n".encode()
        path = self.folder / name
        path.write_bytes(b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(2 if version == 1 else 4, "little") + header
                         + array.array("i", values).tobytes())
        return str(path)

    def run_of(self, name, *values):
        right = sum(value == label for value, label in zip(values, LABELS))
        return {"final": {"top1": right / len(LABELS)}, "predictions": self.write(name, values)}

    def test_arrays_of_both_versions_are_read(self):
        for version in (1, 2):
            self.assertEqual(list(predictions.read_npy(self.write("a.npy", [3, -1, 2], version=version))), [3, -1, 2])

    def test_other_files_are_refused(self):
        (self.folder / "text").write_text("no array")
        (self.folder / "empty").write_text("")
        for path in (self.write("a", [1], descr="<i8"), self.write("b", [1, 2], shape=(1, 2)), self.write("c", [1], shape=(2,)),
                     self.folder / "text", self.folder / "empty"):
            with self.assertRaisesRegex(predictions.PredictionsError, "is no array of int32 in one dimension, or cut off"):
                predictions.read_npy(path)
        with self.assertRaisesRegex(predictions.PredictionsError, "none: No such file"):
            predictions.read_npy(self.folder / "none")

    def test_paths_are_by_cell_and_seed(self):
        self.assertEqual(str(predictions.path_of("out", "table1/b128-n2-ternary@noclip~1/30", 2)),
                         "out/predictions/table1/b128-n2-ternary@noclip~1-30/seed-2.npy")

    def test_each_seed_has_its_counts_and_seeds_have_signs(self):
        runs = {1: self.run_of("t1", 1, 2, 3, 0), 2: self.run_of("t2", 0, 0, 0, 4), 3: self.run_of("t3", 1, 0, 3, 0)}
        baselines = {1: self.run_of("f1", 1, 0, 0, 4), 2: self.run_of("f2", 1, 2, 0, 0), 3: self.run_of("f3", 0, 2, 3, 0),
                     4: self.run_of("f4", 1, 2, 3, 4)}
        found, problems = predictions.compare(runs, baselines, LABELS)
        self.assertEqual(problems, ())
        self.assertEqual([(one.seed, one.only_cell, one.only_baseline) for one in found.seeds], [(1, 2, 1), (2, 1, 2), (3, 1, 1)])
        self.assertEqual([one.p for one in found.seeds], [statistics.mcnemar(*counts).p for counts in ((2, 1), (1, 2), (1, 1))])
        self.assertEqual((found.signs.num_positive, found.signs.num_negative, found.signs.p), (1, 1, 1.0))

    def test_seeds_without_predictions_are_left_out(self):
        runs = {1: self.run_of("t1", 1, 2, 3, 0), 2: {"final": {"top1": 0.5}}, 3: self.run_of("t3", 1, 2, 3, 4)}
        baselines = {seed: self.run_of(f"f{seed}", 1, 2, 0, 0) for seed in (1, 2, 3)}
        (self.folder / "f3").unlink()
        self.assertEqual([one.seed for one in predictions.compare(runs, baselines, LABELS)[0].seeds], [1])
        self.assertEqual(predictions.compare({2: runs[2]}, baselines, LABELS), (None, ()))

    def test_predictions_that_are_not_the_runs_are_a_problem(self):
        run, baseline = self.run_of("t", 1, 2, 3, 0), self.run_of("f", 1, 2, 3, 4)
        run["final"]["top1"] = 0.5
        found, (problem,) = predictions.compare_if_possible({1: run}, {1: baseline}, "mnist", OfLabels())
        self.assertIsNone(found)
        self.assertRegex(problem, r"^seed 1: .*: 3 of 4 are right, but the result has 50.00 %$")
        run["predictions"] = self.write("t", [1, 2, 3])
        _, (problem,) = predictions.compare_if_possible({1: run}, {1: baseline}, "mnist", OfLabels())
        self.assertIn("3 predictions for 4 test images", problem)

    def test_one_seed_that_cannot_be_used_leaves_the_others(self):
        runs = {seed: self.run_of(f"t{seed}", 1, 2, 3, 0) for seed in (1, 2, 3)}
        baselines = {seed: self.run_of(f"f{seed}", 1, 0, 0, 4) for seed in (1, 2, 3)}
        pathlib.Path(baselines[2]["predictions"]).write_text("no array")
        found, (problem,) = predictions.compare_if_possible(runs, baselines, "mnist", OfLabels())
        self.assertEqual([(one.seed, one.only_cell, one.only_baseline) for one in found.seeds], [(1, 2, 1), (3, 2, 1)])
        self.assertEqual(found.signs.num_positive, 2)
        self.assertRegex(problem, "^seed 2: .*f2: is no array")

    def test_a_file_that_another_run_has_overwritten_is_not_taken(self):
        runs = {seed: self.run_of(f"t{seed}", 1, 2, 3, 0) for seed in (1, 2)}
        for run in runs.values():
            run["predictions_sha256"] = predictions.digest_of(run["predictions"])
        self.assertRegex(runs[1]["predictions_sha256"], "^[0-9a-f]{16}$")
        baselines = {seed: self.run_of(f"f{seed}", 1, 0, 0, 4) for seed in (1, 2)}
        self.write("t1", [0, 2, 3, 4])  # same number of right predictions
        found, (problem,) = predictions.compare_if_possible(runs, baselines, "mnist", OfLabels())
        self.assertEqual([one.seed for one in found.seeds], [2])
        self.assertRegex(problem, "^seed 1: no predictions: .*t1 is of another run, sha256 [0-9a-f]{16} in place of ")

    def test_without_predictions_or_labels_there_is_nothing_to_say(self):
        run, other = self.run_of("t", 1, 2, 3, 0), {"final": {"top1": 0.5}}
        self.assertEqual(predictions.compare_if_possible({1: run}, {1: other}, "mnist", OfLabels()), (None, ()))
        self.assertEqual(predictions.compare_if_possible({1: run}, {1: run}, "folder", OfLabels()), (None, ()))
        self.assertEqual(predictions.compare_if_possible({1: run}, {1: run}, "mnist", None), (None, ()))


if __name__ == "__main__":
    unittest.main()
