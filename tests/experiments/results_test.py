"""Tests of the record of a run's folder."""

import json
import pathlib
import tempfile
import unittest

import scaffold  # noqa: F401  (puts the package on the path)
from terngrad_experiments import jobs, predictions, results, run_folder


class Results(unittest.TestCase):
    def test_of_a_resumed_run_commit_and_time_are_those_of_its_last_start(self):
        history = [{"time": "2026-01-01T00:00:00Z", "commit": "aaaa"}, {"time": "2026-02-01T00:00:00Z", "commit": "bbbb-dirty"}]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "config.json").write_text(json.dumps({"identity": {"max_steps": "1"}, "history": history}))
            (folder / "metrics.jsonl").write_text(json.dumps({"step": 1, "kind": "test", "top1": 0.5}) + "\n")
            made = results.make_result(folder, "table1/a", "1", 1, {})
        self.assertEqual((made["started"], made["commit"], made["dirty"]), ("2026-02-01T00:00:00Z", "bbbb", True))

    def test_of_a_run_that_failed_too_it_is_said_whether_its_build_was_dirty(self):
        made = results.failed_result("table1/a", "1", 1, {}, "aaaa-dirty", "told to", "cpu")
        self.assertEqual((made["commit"], made["dirty"]), ("aaaa", True))

    def test_means_of_telemetry_are_of_the_lines_that_have_the_number(self):
        lines = [{"kind": "tensors", "step": 1, "tensors": {"a": {"zero_fraction": 0.5, "snr_db": None}}},
                 {"kind": "tensors", "step": 2, "tensors": {"a": {"zero_fraction": 0.25, "snr_db": 3.0}}}]
        self.assertEqual(run_folder.tensors_of(lines),
                         {"a": {"zero_fraction": 0.375, "snr_db": 3.0, "zeros": [[1, 0.5], [2, 0.25]]}})

    def test_metrics_that_were_torn_within_a_character_are_read(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "metrics.jsonl").write_bytes(b'{"step": 1}\n{"step": 2, "text": "\xc3')
            self.assertEqual(run_folder.read_metrics(folder), [{"step": 1}])

    def test_a_config_without_a_start_is_refused(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for text in ("5", "{}", '{"history": []}', "{", "\xff"):
                (folder / "config.json").write_text(text, encoding="latin-1")
                with self.assertRaisesRegex(run_folder.RunFolderError, "config.json: (is no object|not JSON)"):
                    run_folder.read_config(folder)

    def test_folders_have_no_level_for_a_scale(self):
        self.assertEqual(jobs.folder_name("table1/a@noclip~1/30"), "table1/a@noclip~1-30")
        self.assertEqual(predictions.fields_of(pathlib.Path("out/none.npy"), "out"), {})


if __name__ == "__main__":
    unittest.main()
