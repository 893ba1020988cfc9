#!/usr/bin/env python3
"""Tests scripts/plot_run.py on small run directories. Exits 77 (skipped) without matplotlib."""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))


def plot(*arguments):
    command = [sys.executable, SCRIPTS / "plot_run.py", *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def write_run(path, seed=1, grad_bits=1, last_line="", options=None, **numbers):
    """Writes a run of 20 steps without checkpoints. Losses and accuracies depend on the seed. @param numbers
    additional metrics of training"""
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"options": {"seed": seed, "grad_bits": grad_bits, "num_nodes": 4} if options is None else options}))
    lines = []
    for step in (10, 20):
        lines.append({"step": step, "kind": "train", "loss": 2 / step + seed, "accuracy": 0.01 * step,
                      "learning_rate": 0.1, **(numbers or {"wire_ratio": 8.0})})
        lines.append({"step": step, "kind": "tensors",
                      "tensors": {"a/weights": {"zero_fraction": 0.5}, "a/biases": {"zero_fraction": 1.0}}})
        lines.append({"step": step, "kind": "test", "weights": "ema", "top1": 0.5, "loss": None})
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + last_line)


def write_checkpoint(path, elements):
    """Writes a safetensors header of float32 tensors; plot_run.py reads only the header."""
    header, end = {"__metadata__": {"step": "20"}}, 0
    for name, count in elements.items():
        header[name] = {"dtype": "F32", "shape": [count], "data_offsets": [end, end + 4 * count]}
        end += 4 * count
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)


class PlotRun(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_codecs_are_drawn_by_their_numbers(self):
        rows = [{"codec": "fp32", "memory": "none", "message_bits_per_element": 32.1, "vnmse": 0.0},
                {"codec": "ternary", "memory": "none", "message_bits_per_element": 2.1, "vnmse": 2.2},
                {"codec": "sign", "memory": "ef", "message_bits_per_element": 1.1, "vnmse": 0.6},
                {"codec": "of zeros", "memory": "none", "message_bits_per_element": 2.1, "vnmse": None}]
        numbers = self.folder / "codecs.json"
        numbers.write_text(json.dumps({"source": "g.npy", "num_elements": 1000, "num_workers": 1, "codecs": rows}))
        self.expect_image(plot(numbers, "-o", self.folder / "rate.png"), self.folder / "rate.png")
        plot(numbers, "-o", self.folder / "rate.svg")
        numbers.write_text("{}")
        self.assertIn("it has no codecs", plot(numbers, "-o", self.folder / "rate.png").stderr)

    def expect_image(self, result, path):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, f"{path}\n")
        content = path.read_bytes()
        self.assertEqual(content[:8], b"\x89PNG\r\n\x1a\n")
        width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
        self.assertGreater(width, 1000)
        self.assertGreater(height, 700)

    def test_draws_one_run_and_several(self):
        for name, seed in (("a", 1), ("b", 2)):
            write_run(self.folder / name, seed)
        for runs in (["a"], ["a", "b"], ["--group", "a", "b"]):
            image = self.folder / f"{len(runs)}.png"
            paths = [run if run == "--group" else self.folder / run for run in runs]
            self.expect_image(plot(*paths, "-o", image), image)

    def test_draws_over_bytes(self):
        write_run(self.folder / "a")
        image = self.folder / "bytes.png"
        self.expect_image(plot(self.folder / "a", "--x", "bytes", "-o", image), image)

    def test_a_curve_of_one_record_is_a_dot(self):
        class Axes:
            def plot(self, places, values, **style):
                self.drawn = (places, values, style.get("marker"))

        axes = Axes()
        write_run(self.folder / "a")
        for steps, marker in (([10], "o"), ([10, 20], None)):
            run = plot_run.Run(self.folder / "a")
            run.curves["train loss"] = {step: 2.5 for step in steps}
            self.assertTrue(plot_run.Group("a", [run]).draw(axes, "train loss", "blue", "step"))
            self.assertEqual(axes.drawn, (steps, [2.5] * len(steps), marker))

    def test_other_formats_by_suffix(self):
        write_run(self.folder / "a")
        result = plot(self.folder / "a", "-o", self.folder / "a.svg")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("<svg", (self.folder / "a.svg").read_text())
        result = plot(self.folder / "a", "-o", self.folder / "a.nonsense")
        self.assertEqual(result.returncode, 1)
        self.assertIn("a.nonsense", result.stderr)

    def test_a_run_without_messages_telemetry_or_records(self):
        write_run(self.folder / "quiet")
        (self.folder / "quiet" / "metrics.jsonl").write_text("")
        image = self.folder / "quiet.png"
        self.expect_image(plot(self.folder / "quiet", "-o", image), image)

    def test_a_half_written_line_is_left_out_and_damage_is_named(self):
        write_run(self.folder / "killed", last_line='{"step": 3')
        image = self.folder / "killed.png"
        self.expect_image(plot(self.folder / "killed", "-o", image), image)
        write_run(self.folder / "damaged", last_line="x\n")
        result = plot(self.folder / "damaged", "-o", image)
        self.assertEqual(result.returncode, 1)
        self.assertIn("metrics.jsonl", result.stderr)

    def test_what_is_no_run_is_refused(self):
        result = plot(self.folder / "none")
        self.assertEqual(result.returncode, 1)
        self.assertIn("none", result.stderr)
        self.assertNotIn("Traceback", result.stderr)

    def test_curves_are_the_metrics(self):
        write_run(self.folder / "a", seed=3)
        run = plot_run.Run(self.folder / "a")
        self.assertEqual(run.curves["train loss"], {10: 3.2, 20: 3.1})
        self.assertEqual(run.curves["bits"], {10: 6.0, 20: 6.0})  # an eighth of the 48 bits of a ring of four
        self.assertEqual(run.curves["test accuracy"], {10: 50.0, 20: 50.0})
        self.assertNotIn("test loss", run.curves)
        self.assertEqual(run.curves["zeros"], {10: 75.0, 20: 75.0})  # without sizes, tensors have equal weights

    def test_places_are_what_was_used_up(self):
        def line(step, **fields):
            return {"step": step, "kind": "train", "loss": 1, "accuracy": 0, "learning_rate": 1, **fields}

        write_run(self.folder / "a")
        (self.folder / "a" / "config.json").write_text(json.dumps({"options": {"batch_size": 100}}))
        lines = [line(10, examples_per_second=50, wire_bytes_per_worker={"sent": {"scalers": 1e6, "gradient": 2e6},
                                                                         "received": {"scalers": 1e6, "gradient": 4e6}}),
                 line(20, examples_per_second=200, wire_bytes_per_worker={"sent": {"gradient": 3e6}, "received": {"mean": 1e6}})]
        (self.folder / "a" / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
        run = plot_run.Run(self.folder / "a")
        self.assertEqual(run.places([0, 5, 10, 15, 20, 21], "bytes"), [0, 25, 50, 65, 80, None])
        self.assertEqual(run.places([0, 10, 20], "seconds"), [0, 20, 25])
        self.assertEqual(run.places([0, 10, 20], "step"), [0, 10, 20])
        # After a line without bytes, positions are unknown.
        lines.insert(1, line(15))
        (self.folder / "a" / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
        self.assertEqual(plot_run.Run(self.folder / "a").places([10, 15, 20], "bytes"), [50, None, None])

    def test_what_is_missing_is_said(self):
        write_run(self.folder / "a", options={"seed": 1})
        with contextlib.redirect_stderr(io.StringIO()) as said:
            run = plot_run.Run(self.folder / "a")
        self.assertNotIn("bits", run.curves)
        self.assertIn("num_nodes", said.getvalue())

    def test_zeros_are_of_elements_where_sizes_are_known(self):
        write_run(self.folder / "a")
        write_checkpoint(self.folder / "a" / "checkpoint-0000000020.safetensors",
                         {"parameters/a/weights": 90, "parameters/a/biases": 10, "ema/a/weights": 90})
        self.assertEqual(plot_run.Run(self.folder / "a").curves["zeros"], {10: 55.0, 20: 55.0})

    def test_results_of_terngrad_eval_are_shown_too(self):
        write_run(self.folder / "a")
        (self.folder / "a" / "eval").mkdir()
        line = {"step": 15, "kind": "test", "weights": "ema", "top1": 0.75, "loss": 1.5}
        (self.folder / "a" / "eval" / "metrics.jsonl").write_text(json.dumps(line) + "\n")
        self.assertEqual(plot_run.Run(self.folder / "a").curves["test accuracy"][15], 75.0)

    def test_groups_are_runs_that_differ_in_the_seed(self):
        for name, seed, bits in (("t-seed1", 1, 1), ("t-seed2", 2, 1), ("f-seed1", 1, 32)):
            write_run(self.folder / name, seed, bits)
        names = ["t-seed1", "f-seed1", "t-seed2"]
        runs = [plot_run.Run(self.folder / name) for name in names]
        groups = plot_run.group_runs(runs, names, True)
        self.assertEqual([group.label for group in groups], ["t (mean and range of 2 runs): grad_bits 1",
                                                           "f-seed1: grad_bits 32"])
        self.assertEqual([len(group.runs) for group in plot_run.group_runs(runs, names, False)], [1, 1, 1])

    def test_labels_say_in_what_runs_differ(self):
        def labels(*options):
            runs = []
            for of_run in options:
                run = plot_run.Run.__new__(plot_run.Run)
                run.options = of_run
                runs.append(run)
            return [group.label for group in plot_run.group_runs(runs, ["a", "b"], False)]

        self.assertEqual(labels({"seed": 1, "clip_factor": 2.5, "codec_for": []}, {"seed": 1, "clip_factor": 0.0, "codec_for": ["x=fp32"]}),
                         ["a: clip_factor 2.5, codec_for none", "b: clip_factor 0, codec_for x=fp32"])
        self.assertEqual(labels({"seed": 1}, {"seed": 2}), ["a: seed 1", "b: seed 2"])
        self.assertEqual(labels({"train_dir": "x"}, {"train_dir": "y"}), ["a", "b"])
        self.assertEqual(labels({}, {"seed": 2}), ["a", "b: seed 2"])
        many = [{f"option{i}": value for i in range(6)} for value in (1, 2)]
        self.assertEqual(labels(*many)[0], "a: option0 1, option1 1, option2 1, option3 1, ...")


if __name__ == "__main__":
    try:
        import matplotlib  # noqa: F401
        import plot_run
    except ImportError as missing:
        print(f"skipped: {missing} (Debian and Ubuntu: python3-matplotlib)")
        sys.exit(77)
    unittest.main()
