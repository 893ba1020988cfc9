"""Tests of the runner with a fake trainer: order, resuming after any kind of kill, failures, and two drivers on one folder."""

import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest
from unittest import mock

from scaffold import DRIVER, HERE, InFolder, run_driver
from terngrad_experiments import predictions, run_folder, store

RECIPE = """
[experiment]
name = "small"
title = "a stand-in"
kind = "table"
metric = "top1"
seeds = [1, 2]
test_examples = 1000
[options]
dataset = "synthetic"
net = "lenet"
batch_size = 8
max_steps = 20
num_nodes = 2
[[cell]]
name = "float"
options = { grad_bits = 32 }
[[cell]]
name = "ternary"
baseline = "float"
options = { grad_bits = 1, clip_factor = 2.5 }
"""


class Runner(InFolder):
    def setUp(self):
        super().setUp()
        for name in ("recipes", "bin", "results"):
            (self.folder / name).mkdir()
        (self.folder / "recipes" / "small.toml").write_text(RECIPE)
        (self.folder / "recipes" / "presets.toml").write_text("[presets]\n")
        shutil.copy(HERE / "stand_in_trainer.py", self.folder / "bin" / "terngrad_train")
        self.out = self.folder / "out"

    def arguments(self, *words):
        return ["--recipes", str(self.folder / "recipes"), "--results", str(self.folder / "results"), "--out", str(self.out),
                "--programs", str(self.folder / "bin"), *words]

    def run_here(self, *words):
        """(exit code, output)"""
        code, out, err = run_driver(*self.arguments(*words))
        return code, out + err

    def start(self, *words, **environment):
        return subprocess.Popen([sys.executable, DRIVER, *self.arguments(*words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, env={**os.environ, **environment})

    def results(self):
        return store.read(self.out / "results.jsonl")

    def test_all_seeds_of_all_cells_are_run_and_recorded_once(self):
        code, text = self.run_here("run", "small/*")
        self.assertEqual(code, 0, text)
        self.assertEqual(sorted((line["cell"], line["seed"]) for line in self.results()),
                         [("small/float", 1), ("small/float", 2), ("small/ternary", 1), ("small/ternary", 2)])
        code, _ = self.run_here("run", "small/*")
        self.assertEqual(code, 0)
        self.assertEqual(len((self.out / "results.jsonl").read_text().splitlines()), 4)

    def test_the_longest_come_first(self):
        self.assertEqual(self.run_here("run", "small/float", "--scale", "1/4", "--seeds", "1")[0], 0)
        _, text = self.run_here("run", "small/float", "small/ternary", "--jobs", "1", "--seeds", "2")
        self.assertLess(text.index("small/float seed 2: started"), text.index("small/ternary seed 2: started"))

    def test_a_scaled_run_is_another_cell(self):
        code, text = self.run_here("run", "small/float", "--scale", "1/4", "--seeds", "1")
        self.assertEqual(code, 0, text)
        (line,) = self.results()
        self.assertEqual((line["cell"], line["scale"], line["steps"]), ("small/float", "1/4", 5))
        _, table = self.run_here("table", "small")
        self.assertIn("SCALED, not comparable with the paper", table)
        self.assertIn("5 of 20 steps", table)

    def test_dry_run_prints_commands_that_run(self):
        code, text = self.run_here("run", "small/ternary", "--seeds", "3", "--dry_run")
        self.assertEqual(code, 0)
        words = text.split()
        self.assertEqual(words[0], "terngrad_train")
        self.assertIn("--clip_factor=2.5", words)
        self.assertIn("--device=cpu", words)
        subprocess.run([self.folder / "bin" / words[0], *words[1:]], check=True, cwd=self.folder)
        code, text = self.run_here("import", str(self.out / "runs/small/ternary/seed-3"))
        self.assertEqual(code, 0, text)
        self.assertEqual(self.results()[0]["seed"], 3)

    def test_a_run_that_fails_once_is_tried_again(self):
        os.environ["STAND_IN_FAIL"] = "once"
        self.addCleanup(os.environ.pop, "STAND_IN_FAIL")
        code, text = self.run_here("run", "small/float", "--seeds", "1")
        self.assertEqual(code, 0, text)
        self.assertIn("told to fail); trying again", text)
        self.assertEqual(self.results()[0]["status"], "done")

    def test_a_run_that_fails_twice_is_failed_in_the_table(self):
        os.environ["STAND_IN_FAIL"] = "always"
        self.addCleanup(os.environ.pop, "STAND_IN_FAIL")
        code, text = self.run_here("run", "small/float", "--seeds", "1")
        self.assertEqual(code, 1)
        self.assertIn("small/float seed 1: FAILED: terngrad_train: error: told to fail", text)
        self.assertEqual(self.results()[0]["status"], "failed")
        self.assertIn("FAILED (seed 1)", self.run_here("table", "small")[1])

    def test_sigterm_ends_all_runs_and_run_continues_them(self):
        driver = self.start("run", "small/float", STAND_IN_SECONDS="0.2")
        self.wait_for_steps(2)
        driver.send_signal(signal.SIGTERM)
        text, _ = driver.communicate(timeout=30)
        self.assertEqual(driver.returncode, 143, text)
        self.assertEqual(self.results(), [])
        code, text = self.run_here("run", "small/float")
        self.assertEqual(code, 0, text)
        self.assertIn("resumed", text)
        self.assertEqual(len(self.results()), 2)

    def test_killed_at_random_moments_with_its_runs_it_ends_with_the_same_lines(self):
        expected = self.expected_lines()
        seed = random.randrange(2**32)
        generator = random.Random(seed)
        for attempt in range(10):
            driver = self.start("run", "small/*", "--jobs", "2", STAND_IN_SECONDS="0.01")
            time.sleep(generator.uniform(0.05, 0.6))
            self.kill_all(driver)
        code, text = self.run_here("run", "small/*")
        self.assertEqual(code, 0, f"seed {seed}: {text}")
        self.assertEqual(self.lines(), expected, f"seed {seed}")

    def expected_lines(self):
        self.assertEqual(self.run_here("run", "small/*")[0], 0)
        lines = self.lines()
        shutil.rmtree(self.out)
        return lines

    def lines(self):
        """The store's lines without times, sorted."""
        lines = []
        for line in (self.out / "results.jsonl").read_text().splitlines():
            result = json.loads(line)
            for name in ("seconds", "started", "recorded"):
                result.pop(name, None)
            lines.append(json.dumps(result, sort_keys=True))
        return sorted(lines)

    def kill_all(self, driver):
        driver.kill()
        driver.communicate()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if str(self.folder / "bin" / "terngrad_train") in (process / "cmdline").read_text():
                    os.kill(int(process.name), signal.SIGKILL)
            except (OSError, ProcessLookupError):
                continue

    def wait_for_steps(self, count):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            states = list(self.out.glob("runs/*/*/*/state"))
            if states and all(int(state.read_text() or 0) >= count for state in states):
                return
            time.sleep(0.02)
        self.fail("no run has come that far")

    def test_runs_outlive_a_killed_driver_and_the_next_one_waits_for_them(self):
        driver = self.start("run", "small/float", "--seeds", "1", STAND_IN_SECONDS="0.1")
        self.wait_for_steps(2)
        driver.kill()
        driver.communicate()
        code, text = self.run_here("run", "small/float", "--seeds", "1")
        self.assertEqual(code, 0, text)
        self.assertIn("under way in another process; waiting for it", text)
        self.assertNotIn("resumed", text)
        self.assertEqual(len(self.results()), 1)

    def test_a_second_driver_is_refused(self):
        driver = self.start("run", "small/float", "--seeds", "1", STAND_IN_SECONDS="0.2")
        self.wait_for_steps(1)
        code, text = self.run_here("run", "small/ternary")
        self.assertEqual(code, 1)
        self.assertIn(f"in use by process {driver.pid}", text)
        driver.send_signal(signal.SIGINT)
        self.assertEqual(driver.wait(30), 130)
        driver.stdout.close()

    def test_status_says_how_far_runs_are(self):
        driver = self.start("run", "small/float", "--seeds", "1", STAND_IN_SECONDS="0.2")
        self.wait_for_steps(1)
        self.assertRegex(self.run_here("status")[1], r"small/float seed 1 +running: step \d+ of 20")
        driver.send_signal(signal.SIGTERM)
        driver.communicate(timeout=30)
        self.assertRegex(self.run_here("status")[1], r"small/float seed 1 +interrupted at step \d+ of 20")

    def test_on_gpus_each_run_has_its_own(self):
        os.environ["CUDA_VISIBLE_DEVICES"] = "3,5"
        self.addCleanup(os.environ.pop, "CUDA_VISIBLE_DEVICES")
        code, text = self.run_here("run", "small/*", "--device", "cuda")
        self.assertEqual(code, 0, text)
        self.assertEqual({line.rpartition(" on GPU ")[2] for line in text.splitlines() if "started" in line}, {"3", "5"})
        self.assertEqual({path.read_text() for path in self.out.glob("runs/*/*/*/gpu")}, {"3", "5"})
        code, text = self.run_here("run", "small/*", "--device", "cuda", "--jobs", "3")
        self.assertEqual(code, 1)
        self.assertIn("--jobs 3: 2 GPUs take 1 each (--jobs_per_gpu); accepted: auto or 1 to 2", text)

    def test_several_runs_share_a_gpu(self):
        os.environ["CUDA_VISIBLE_DEVICES"] = "3"
        self.addCleanup(os.environ.pop, "CUDA_VISIBLE_DEVICES")
        driver = self.start("run", "small/*", "--device", "cuda", "--jobs_per_gpu", "4", STAND_IN_SECONDS="0.02")
        text, _ = driver.communicate(timeout=60)
        self.assertEqual(driver.returncode, 0, text)
        lines = [line for line in text.splitlines() if "started" in line or "top-1" in line]
        self.assertTrue(all("started on GPU 3" in line for line in lines[:4]), text)
        code, text = self.run_here("run", "small/*", "--device", "cuda", "--jobs", "5", "--jobs_per_gpu", "4")
        self.assertIn("--jobs 5: 1 GPUs take 4 each (--jobs_per_gpu); accepted: auto or 1 to 4", text)
        code, text = self.run_here("run", "small/*", "--jobs_per_gpu", "4")
        self.assertEqual((code, text), (2, "terngrad_experiment: --jobs_per_gpu 4: needs --device cuda\n"))

    def add_evaluation(self, kind=None):
        """Adds a fake terngrad_eval, and the labels of a data set of 1000 images."""
        shutil.copy(HERE / "stand_in_eval.py", self.folder / "bin" / "terngrad_eval")
        recipe = self.folder / "recipes" / "small.toml"
        recipe.write_text(recipe.read_text().replace('dataset = "synthetic"', 'dataset = "mnist"'))
        (self.folder / "data" / "mnist").mkdir(parents=True)
        labels = struct.pack(">ii", 0x801, 1000) + bytes(i % 10 for i in range(1000))
        (self.folder / "data" / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(labels)
        if kind is not None:
            os.environ["STAND_IN_EVAL"] = kind
            self.addCleanup(os.environ.pop, "STAND_IN_EVAL", None)
        return "--data", str(self.folder / "data")

    def test_finished_runs_are_evaluated_and_compared_on_the_same_images(self):
        data = self.add_evaluation()
        code, text = self.run_here("run", "small/*", *data)
        self.assertEqual(code, 0, text)
        self.assertEqual({(line["cell"], line["seed"]): line["predictions"] for line in self.results()},
                         {(f"small/{cell}", seed): f"predictions/small/{cell}/seed-{seed}.npy"
                          for cell in ("float", "ternary") for seed in (1, 2)})
        for line in self.results():
            self.assertEqual(line["predictions_sha256"], predictions.digest_of(self.out / line["predictions"]))
        _, text = self.run_here("table", "small", *data)
        self.assertIn("same test images (McNemar): seeds that favour ternary 0, float 2; sign test p 0.500", text)
        _, text = self.run_here("table", "small", "--format", "markdown", *data)
        self.assertIn("| ternary | float | 2 | 98 | 103 |", text)
        _, text = self.run_here("table", "small", "--format", "json", *data)
        (row,) = [row for row in json.loads(text)["rows"] if row["same_images"]]
        first = row["same_images"]["seeds"][0]
        self.assertEqual((first["seed"], first["only_cell"], first["only_baseline"]), (1, 99, 104))
        self.assertEqual(self.run_here("report", "small", "-o", str(self.folder / "report.html"), *data)[0], 0)
        self.assertIn("<td>98</td><td>103</td>", (self.folder / "report.html").read_text())

    def test_predictions_of_runs_that_are_finished_are_made_up_for(self):
        data = self.add_evaluation("old")
        code, text = self.run_here("run", "small/float", *data)
        self.assertEqual(code, 0, text)
        before = self.results()
        self.assertNotIn("predictions", before[0])
        os.environ["STAND_IN_EVAL"] = ""
        code, text = self.run_here("run", "small/float", *data)
        self.assertEqual(code, 0, text)
        self.assertIn("small/float seed 1: evaluated", text)
        after = self.results()
        self.assertEqual(*({line["seed"]: {**line, "predictions": None, "predictions_sha256": None} for line in lines}
                           for lines in (before, after)))
        self.assertTrue(all((self.out / line["predictions"]).exists() for line in after))
        self.run_here("run", "small/float", *data)
        self.assertEqual(len((self.out / "results.jsonl").read_text().splitlines()), 4)

    def test_a_driver_that_is_stopped_during_an_evaluation_has_recorded_the_run(self):
        data = self.add_evaluation()
        driver = self.start("run", "small/float", "--seeds", "1", *data, STAND_IN_EVAL="slow", STAND_IN_SECONDS="0.01")
        deadline = time.monotonic() + 20
        while not self.results() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        driver.send_signal(signal.SIGTERM)
        text, _ = driver.communicate(timeout=30)
        self.assertEqual(driver.returncode, 143, text)
        (before,) = self.results()
        self.assertEqual((before["status"], before["seconds"] > 0, "predictions" in before), ("done", True, False))
        self.assertEqual(self.run_here("run", "small/float", "--seeds", "1", *data)[0], 0)
        (after,) = self.results()
        added = {name: after[name] for name in ("predictions", "predictions_sha256")}
        self.assertEqual(before | added, after)

    def test_of_a_run_that_is_known_nothing_is_read_again(self):
        self.assertEqual(self.run_here("run", "small/float", "--seeds", "1")[0], 0)
        lines = self.results()
        with mock.patch.object(run_folder, "curves_of", side_effect=AssertionError("is read")):
            code, text = self.run_here("run", "small/float", "--seeds", "1")
        self.assertEqual((code, text, self.results()), (0, "", lines))

    def test_a_run_that_cannot_be_recorded_is_named_and_the_others_go_on(self):
        for seeds in ("1-2", "1"):  # at the end of its run, and for a run that ended before
            curves = [ZeroDivisionError("division by zero"), {}]
            with mock.patch.object(run_folder, "curves_of", side_effect=curves):
                code, text = self.run_here("run", "small/float", "--seeds", seeds, "--jobs", "1")
            self.assertEqual(code, 1, text)
            self.assertIn("small/float seed 1: FAILED to record: division by zero", text)
            self.assertEqual([f"{line['cell']} seed {line['seed']}" for line in self.results()], ["small/float seed 2"])

    def test_an_evaluation_that_fails_is_named_and_its_run_recorded(self):
        data = self.add_evaluation("fail")
        code, text = self.run_here("run", "small/float", "--seeds", "1", *data)
        self.assertEqual(code, 1)
        self.assertIn("small/float seed 1: FAILED to evaluate, no predictions: terngrad_eval: error: told to fail", text)
        (line,) = self.results()
        self.assertEqual((line["status"], "predictions" in line), ("done", False))
        self.assertEqual(self.run_here("table", "small", *data)[0], 0)

    def test_without_labels_or_predictions_nothing_is_compared(self):
        data = self.add_evaluation()
        self.assertEqual(self.run_here("run", "small/*", *data)[0], 0)
        _, text = self.run_here("table", "small", "--data", str(self.folder / "none"))
        self.assertIn(f"no test on the same images: --data {self.folder / 'none'}: has no folder mnist", text)
        shutil.rmtree(self.out / "predictions")
        _, text = self.run_here("table", "small", *data)
        self.assertNotIn("same", text)

    def test_a_run_without_checkpoints_or_data_is_left_as_it_is(self):
        data = self.add_evaluation("old")
        self.assertEqual(self.run_here("run", "small/float", "--seeds", "1", *data)[0], 0)
        os.environ["STAND_IN_EVAL"] = ""
        self.assertEqual(self.run_here("run", "small/float", "--seeds", "1", "--data", str(self.folder / "none"))[0], 0)
        for checkpoint in self.out.glob("runs/*/*/*/*.safetensors"):
            checkpoint.unlink()
        self.assertEqual(self.run_here("run", "small/float", "--seeds", "1", *data)[0], 0)
        self.assertFalse((self.out / "predictions").exists())

    def test_predictions_of_an_earlier_run_in_the_folder_do_not_stay(self):
        data = self.add_evaluation()
        self.assertEqual(self.run_here("run", "small/float", "--seeds", "1", *data)[0], 0)
        shutil.rmtree(self.out / "runs")
        os.environ["STAND_IN_EVAL"] = "fail"
        self.addCleanup(os.environ.pop, "STAND_IN_EVAL", None)
        self.assertEqual(self.run_here("run", "small/float", "--seeds", "1", *data)[0], 1)
        self.assertFalse((self.out / "predictions/small/float/seed-1.npy").exists())

    def test_a_finished_run_of_other_options_is_not_taken_for_the_cells(self):
        self.assertEqual(self.run_here("run", "small/ternary", "--seeds", "1")[0], 0)
        (self.out / "results.jsonl").unlink()
        recipe = self.folder / "recipes" / "small.toml"
        text = recipe.read_text()
        for old, new, why in (("clip_factor = 2.5", "clip_factor = 3", "--clip_factor 2.5 in place of 3"),
                              ("max_steps = 20", "max_steps = 10", "FAILED")):
            recipe.write_text(text.replace(old, new))
            code, said = self.run_here("run", "small/ternary", "--seeds", "1")
            self.assertEqual(code, 1, said)
            self.assertIn(why, said)
            self.assertEqual([line for line in self.results() if line["status"] == "done"], [])

    def test_how_long_a_run_took_is_known_of_one_driver_alone(self):
        driver = self.start("run", "small/float", "--seeds", "1", STAND_IN_SECONDS="0.2")
        self.wait_for_steps(2)
        driver.send_signal(signal.SIGTERM)
        driver.communicate(timeout=30)
        self.assertEqual(self.run_here("run", "small/float")[0], 0)
        self.assertEqual({line["seed"]: "seconds" in line for line in self.results()}, {1: False, 2: True})

    def test_without_data_nothing_is_started(self):
        recipe = self.folder / "recipes" / "small.toml"
        recipe.write_text(recipe.read_text() + '[[cell]]\nname = "mnist"\noptions = { dataset = "mnist" }\n')
        code, text = self.run_here("run", "small/*", "--data", str(self.folder / "none"))
        self.assertEqual(code, 2)
        self.assertIn("has no folder mnist", text)
        self.assertNotIn("started", text)
        self.assertFalse((self.out / "runs").exists() and any((self.out / "runs").rglob("config.json")))

    def test_a_run_is_failed_until_it_is_made_and_seeds_are_listed_once(self):
        os.environ["STAND_IN_FAIL"] = "always"
        self.addCleanup(os.environ.pop, "STAND_IN_FAIL", None)
        self.assertEqual(self.run_here("run", "small/float", "--seeds", "1")[0], 1)
        self.assertRegex(self.run_here("status", "small/float")[1], "seed 1 +failed: ")
        del os.environ["STAND_IN_FAIL"]
        self.assertEqual(self.run_here("run", "small/float", "--seeds", "1")[0], 0)
        (line,) = [line for line in self.results() if line["status"] == "done"]
        store.append(self.out / "results.jsonl", {**line, "commit": "fedcba987654", "recorded": "2026-01-01T00:00:00Z"})
        self.assertRegex(self.run_here("status", "small/float")[1], "seed 1 +finished")
        self.assertRegex(self.run_here("list", "small/float")[1], "  seeds 1\n")

    def test_check_names_options_that_do_not_exist(self):
        self.assertEqual(self.run_here("check")[0], 0)
        recipe = self.folder / "recipes" / "small.toml"
        recipe.write_text(recipe.read_text().replace("clip_factor", "clip_faktor"))
        code, text = self.run_here("check")
        self.assertNotEqual(code, 0)
        self.assertIn("clip_faktor", text)

    def test_what_matches_nothing_is_wrong_usage(self):
        self.assertEqual(self.run_here("run", "small/none")[0], 2)
        self.assertEqual(self.run_here("run", "small/float", "--jobs", "0")[0], 2)
        self.assertEqual(self.run_here("table", "none")[0], 2)


if __name__ == "__main__":
    unittest.main()
