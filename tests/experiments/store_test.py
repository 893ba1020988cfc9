"""Tests of the result store: superseding lines, torn lines, several writers."""

import json
import multiprocessing
import random
import unittest

from scaffold import DRIVER, done_run, InFolder, run_driver
from terngrad_experiments import store


def result(seed=1, commit="abc", top1=0.5, cell="table1/a"):
    return done_run(cell, seed, top1, commit=commit)


def append_many(path, first):
    for seed in range(first, first + 50):
        store.append(path, result(seed))


class Store(InFolder):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "folder" / "results.jsonl"

    def test_what_is_appended_is_read(self):
        self.assertEqual(store.read(self.path), [])
        store.append(self.path, result(1))
        store.append(self.path, result(2))
        self.assertEqual([line["seed"] for line in store.read(self.path)], [1, 2])

    def test_a_later_line_supersedes_one_of_the_same_cell_seed_and_commit(self):
        store.append(self.path, result(1, top1=0.5))
        store.append(self.path, result(1, commit="def", top1=0.6))
        store.append(self.path, result(1, top1=0.7))
        self.assertEqual([(line["commit"], line["final"]["top1"]) for line in store.read(self.path)], [("def", 0.6), ("abc", 0.7)])
        self.assertEqual(len(self.path.read_text().splitlines()), 3)  # lines are never changed

    def test_a_dirty_build_does_not_supersede_a_clean_one(self):
        for is_dirty in (False, True):
            store.append(self.path, {**result(1), "dirty": is_dirty})
        self.assertEqual([line["dirty"] for line in store.read(self.path)], [False, True])

    def test_lines_say_when_they_were_recorded_and_keep_it(self):
        before = store.now()
        store.append(self.path, result(1))
        (line,) = store.read(self.path)
        self.assertRegex(line["recorded"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertTrue(before <= line["recorded"] <= store.now())
        store.append(self.path, {**line, "recorded": "2026-01-01T00:00:00Z"})
        self.assertEqual(store.read(self.path)[0]["recorded"], "2026-01-01T00:00:00Z")

    def test_a_run_on_a_gpu_does_not_supersede_one_on_a_cpu(self):
        store.append(self.path, {**result(1, top1=0.5), "backend": "cpu"})
        store.append(self.path, {**result(1, top1=0.6), "backend": "gpu"})
        self.assertEqual([line["final"]["top1"] for line in store.read(self.path)], [0.5, 0.6])

    def test_a_torn_last_line_is_left_out_and_cut_off(self):
        store.append(self.path, result(1))
        with open(self.path, "a", encoding="utf-8") as file:
            file.write('{"schema":1,"cell":"ta')
        self.assertEqual(len(store.read(self.path)), 1)
        store.append(self.path, result(2))
        self.assertEqual([line["seed"] for line in store.read(self.path)], [1, 2])

    def test_a_file_that_is_one_torn_line_becomes_empty(self):
        self.path.parent.mkdir()
        self.path.write_text("x" * 10000)
        store.append(self.path, result(2))
        self.assertEqual([line["seed"] for line in store.read(self.path)], [2])

    def test_writers_at_once_lose_no_line(self):
        writers = [multiprocessing.Process(target=append_many, args=(self.path, 1000 * i)) for i in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        self.assertEqual(len(store.read(self.path)), 200)

    def test_damage_is_named(self):
        store.append(self.path, result(1))
        text = self.path.read_text()
        for damaged, words in (("{\n", "results.jsonl:1: not JSON"), ('{"schema":1}\n', "lacks cell"),
                               (text.replace('"schema":1', '"schema":2'), "schema 2")):
            self.path.write_text(damaged)
            with self.assertRaisesRegex(store.StoreError, words):
                store.read(self.path)
        with self.assertRaisesRegex(store.StoreError, "lacks seed"):
            store.append(self.path, {name: value for name, value in result().items() if name != "seed"})

    def test_lines_are_sorted_and_rounded(self):
        store.append(self.path, result(1, top1=0.123456789))
        line = self.path.read_text()
        self.assertIn('"top1":0.1234568', line)
        self.assertEqual(list(json.loads(line)), sorted(json.loads(line)))
        self.assertIsNone(store.round_floats(float("nan")))

    def test_of_a_curve_evenly_spread_points_are_kept(self):
        self.assertEqual(store.thin([1, 2, 3], 5), [1, 2, 3])
        thinned = store.thin(list(range(1001)), 11)
        self.assertEqual(thinned, list(range(0, 1001, 100)))

    def test_a_line_that_was_torn_within_a_character_is_left_out(self):
        store.append(self.path, {**result(1), "error": "\u00e9"})
        content = self.path.read_bytes()
        with open(self.path, "ab") as file:
            file.write(content[:content.index("\u00e9".encode()) + 1])
        self.assertEqual([line["seed"] for line in store.read(self.path)], [1])
        self.path.write_bytes(content + b"\xff\n")
        with self.assertRaisesRegex(store.StoreError, "results.jsonl:2: not JSON"):
            store.read(self.path)

    def test_of_several_files_the_result_that_was_recorded_last_is_the_last(self):
        early, late = (self.path.with_name(f"{name}.jsonl") for name in ("early", "late"))
        store.append(late, {**result(1, top1=0.7), "recorded": "2026-02-02T00:00:00Z"})
        store.append(early, {**result(1, top1=0.5), "recorded": "2026-01-01T00:00:00Z"})
        store.append(early, {**result(2, commit="def"), "recorded": "2026-03-01T00:00:00Z"})
        for paths in ((early, late), (late, early)):
            self.assertEqual([(line["seed"], line["final"]["top1"]) for line in store.read_all(paths)], [(1, 0.7), (2, 0.5)])

    def test_results_of_several_files_are_joined(self):
        folder = self.path.parent
        for name, top1 in (("a", 0.5), ("b", 0.6)):
            store.append(folder / f"{name}.jsonl", result(1, top1=top1))
        (line,) = store.read_all([folder / "a.jsonl", folder / "b.jsonl"])
        self.assertEqual(line["final"]["top1"], 0.6)


def places_in(value, place=()):
    """Paths of all values below `value`; for lists, only of the first three items."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, item in items:
        yield (*place, key)
        yield from places_in(item, (*place, key))


class Damaged(InFolder):
    def test_records_are_refused_with_file_line_and_field(self):
        for change, words in (({"seed": "1"}, "seed: '1' is no integer"), ({"final": {"top1": True}}, "final.top1: True is no number"),
                              ({"status": "lost"}, "status: 'lost' is no text of done"), ({"curves": {"a": [[1]]}}, "curves.a[0]: "),
                              ({"options": []}, "options: [] is no object"), ({"max_steps": -1}, "of at least 0"),
                              ({"seconds": float("inf")}, "Infinity is no number of JSON")):
            path = self.folder / "results.jsonl"
            path.write_text(store.to_line(result(1)) + json.dumps({**result(2), **change}) + "\n")
            with self.assertRaises(store.StoreError) as caught:
                store.read(path)
            self.assertTrue(str(caught.exception).startswith(f"{path}:2: "), str(caught.exception))
            self.assertIn(words, str(caught.exception))

    def test_records_end_no_command_in_a_traceback(self):
        draws = random.Random(7)
        for name in ("fig3", "fig4") * 12:
            lines = (DRIVER.parent / "results" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
            number = draws.randrange(len(lines))
            record = json.loads(lines[number])
            place = draws.choice(list(places_in(record)))
            owner = record
            for key in place[:-1]:
                owner = owner[key]
            owner[place[-1]] = draws.choice([None, "x", -1, 0, 1e308, 10**400, [], {}, True, [1], "", float("nan"), {"x": []}])
            lines[number] = json.dumps(record)
            (self.folder / "results.jsonl").write_text("\n".join(lines) + "\n")
            for words in ("table", name), ("report", name, "-o", self.folder / "report.html"), ("status",):
                code, _, err = run_driver("--results", self.folder, "--out", self.folder / "out", *words)
                if code != 0:
                    self.assertEqual((code, err.count("\n")), (1, 1), f"{words}, {place}: {err}")
                    self.assertIn(f"results.jsonl:{number + 1}: ", err, f"{words}, {place}")


if __name__ == "__main__":
    unittest.main()
