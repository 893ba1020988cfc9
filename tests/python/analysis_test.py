"""Comparison of codecs, message plans and run directories in the Python package.

    tests/python/analysis_test.py build/ci/bin/terngrad_train
"""

import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy
import terngrad


def gradient_of(seed, shape=(50, 70)):
    return (numpy.random.default_rng(seed).standard_normal(shape) * 0.01).astype(numpy.float32)


class Versions(unittest.TestCase):
    def test_the_wheel_the_package_and_the_command_have_one(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        pattern = re.search("^regex = '(.*)'$", (root / "pyproject.toml").read_text(), re.M)[1]
        wheel = re.search(pattern, (root / "CMakeLists.txt").read_text())["value"]
        said = subprocess.run([TRAIN, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual((wheel, said.split()[1]), (terngrad.__version__,) * 2)


class Compare(unittest.TestCase):
    def test_rows_say_what_each_codec_does(self):
        specs = ["fp32", "bf16", "ternary", "ternary:clip_factor=2.5", "qsgd:bits=4", "sign", "terngrad_ef"]
        rows = {row.codec: row for row in terngrad.compare(gradient_of(1), specs, draws=32)}
        self.assertEqual(list(rows), specs)
        self.assertEqual((rows["fp32"].snr_db, rows["fp32"].bias), (math.inf, 0))
        self.assertTrue(32 < rows["fp32"].bits_per_element < 33 and 2 < rows["ternary"].bits_per_element < 3)
        # The errors of unbiased codecs average out over independent draws; the error of sign is the same in every draw.
        for unbiased in "ternary", "qsgd:bits=4":
            self.assertLess(rows[unbiased].bias, 1.2 * rows[unbiased].bias_if_unbiased)
        self.assertGreater(rows["sign"].bias, 4 * rows["sign"].bias_if_unbiased)
        # Clipping at 2.5 standard deviations loses 1.13 % of the gradient, which adds to the bias.
        self.assertGreater(rows["ternary:clip_factor=2.5"].snr_db, rows["ternary"].snr_db + 2)
        self.assertGreater(rows["bf16"].cosine, 0.9999)
        # Averaging 8 workers with independent draws divides the noise power by 8: 9 dB.
        for codec in "ternary", "qsgd:bits=4":
            self.assertAlmostEqual(rows[codec].mean_snr_db - rows[codec].snr_db, 10 * math.log10(8), delta=0.5)
        self.assertGreater(rows["ternary"].zero_fraction, 0.5)
        self.assertTrue(all(row.encode_seconds > 0 and row.decode_seconds > 0 for row in rows.values()))

    def test_a_table_has_a_line_for_each(self):
        lines = str(terngrad.compare(gradient_of(2), ["ternary", "bf16"], draws=1)).split("\n")
        self.assertEqual([line.split()[0] for line in lines], ["codec", "ternary", "bf16"])
        self.assertEqual(len({len(line) for line in lines}), 1)

    def test_what_cannot_be_compared_is_refused(self):
        with self.assertRaises(terngrad.NonFiniteError):
            terngrad.compare(numpy.array([numpy.nan], numpy.float32))
        with self.assertRaisesRegex(terngrad.InvalidArgument, "draws"):
            terngrad.compare(gradient_of(1), draws=0)
        with self.assertRaisesRegex(terngrad.InvalidArgument, "nocodec"):
            terngrad.compare(gradient_of(1), ["nocodec"])


class Plans(unittest.TestCase):
    layout = terngrad.Layout({"conv.weight": (64, 3, 3, 3), "conv.bias": (64,), "fc.weight": (10, 9000), "fc.bias": (10,)})

    def test_bytes_are_those_of_messages(self):
        for codec in "ternary", "qsgd:bits=4", "fp8", "fp32":
            plan = terngrad.Exchange(self.layout, 1, codec).plan()
            message = terngrad.encode({name: gradient_of(1, shape) for name, shape in self.layout.shapes.items()}, codec)
            # The header has 64 bytes; a message ends with its last code, without padding.
            self.assertTrue(0 <= plan.nbytes + 64 - message.nbytes < 8, (codec, plan.nbytes, message.nbytes))
            self.assertEqual(sum(tensor.nbytes_as_fp32 for tensor in plan), terngrad.Exchange(self.layout, 1, "fp32").plan().nbytes)

    def test_what_is_worth_exempting_costs_little(self):
        plan = terngrad.Exchange(self.layout, 2, "ternary").plan()
        self.assertEqual(plan.worth_exempting(), ["conv.bias", "fc.bias"])
        self.assertEqual(plan.worth_exempting(at_most=100), ["conv.bias", "fc.weight", "fc.bias"])
        self.assertEqual(plan.worth_exempting(at_most=0), [])
        exempt = terngrad.Exchange(self.layout, 2, "ternary", codec_for={"*bias": "fp32"}).plan()
        self.assertAlmostEqual(plan.cost_of_exempting(["conv.bias", "fc.bias"]), exempt.nbytes / plan.nbytes - 1)
        self.assertIn("2 small tensors", str(plan))
        self.assertNotIn("small tensors", str(exempt))
        self.assertEqual(terngrad.Exchange(self.layout, 2, "fp32").plan().worth_exempting(), [])

    def test_layouts_are_of_tensors_and_modules(self):
        class Module:
            def named_parameters(self):
                for name, requires_grad in (("a", True), ("b", False)):
                    array = gradient_of(1).view(type("Parameter", (numpy.ndarray,), {}))
                    array.requires_grad = requires_grad
                    yield name, array

        self.assertEqual(terngrad.Layout.of(Module()).names, ("a",))


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([TRAIN, "--dataset", "synthetic", "--image_size", "8", "--batch_size", "4", "--num_nodes", "2", "--codec",
                        "ternary", "--max_steps", "4", "--save_iter", "2", "--log_steps", "1", "--telemetry_steps", "2",
                        "--tensorboard=false", "--threads", "1", "--train_dir", cls.folder.name], check=True, capture_output=True)
        cls.run_ = terngrad.read_run(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_metrics_are_columns(self):
        metrics = self.run_.metrics()
        self.assertEqual(metrics["step"].tolist(), [1, 2, 3, 4])
        self.assertTrue(all(len(column) == 4 for column in metrics.values()))
        records = [json.loads(line) for line in (pathlib.Path(self.folder.name) / "metrics.jsonl").read_text().splitlines()]
        trained = [record for record in records if record["kind"] == "train"]
        self.assertEqual(metrics["loss"].tolist(), [record["loss"] for record in trained])
        self.assertEqual(metrics["wire_bytes_per_worker/sent/gradient"].tolist(),
                         [record["wire_bytes_per_worker"]["sent"]["gradient"] for record in trained])
        self.assertEqual(self.run_.metrics("test")["step"].tolist(), [4])
        self.assertEqual(self.run_.metrics("none"), {})
        self.assertEqual((self.run_.options["num_nodes"], self.run_.config["command"]), (2, "terngrad_train"))

    def test_layers_have_a_row_for_each_step_and_tensor(self):
        layers = self.run_.layers()
        names = list(dict.fromkeys(layers["tensor"]))
        self.assertIn("conv1/weights", names)
        self.assertEqual(layers["step"].tolist(), [2] * len(names) + [4] * len(names))
        self.assertTrue((layers["zero_fraction"] <= 1).all())

    def test_checkpoints_are_tensors_by_name(self):
        self.assertEqual(self.run_.checkpoint_steps(), [2, 4])
        last, first = self.run_.checkpoint(), self.run_.checkpoint(2)
        self.assertEqual(last["parameters/conv1/biases"].dtype, numpy.float32)
        self.assertTrue(numpy.isfinite(last["parameters/conv1/weights"]).all())
        self.assertFalse(numpy.array_equal(first["parameters/conv1/weights"], last["parameters/conv1/weights"]))
        with self.assertRaisesRegex(terngrad.DataError, r"no checkpoint of step 3; there are: \[2, 4\]"):
            self.run_.checkpoint(3)

    def test_what_is_damaged_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(terngrad.DataError, "no run directory"):
                terngrad.read_run(folder)
            path = pathlib.Path(folder)
            (path / "config.json").write_text('{"options": {}}')
            run = terngrad.read_run(folder)
            self.assertEqual(run.metrics(), {})
            (path / "metrics.jsonl").write_text('{"kind": "train", "step": 1}\n{"kind": "tra')
            self.assertEqual(run.metrics()["step"].tolist(), [1])  # the last line is incomplete
            (path / "metrics.jsonl").write_text('{"kind": "tra\n')
            with self.assertRaisesRegex(terngrad.DataError, "line 1"):
                run.metrics()
            checkpoint = path / "checkpoint-0000000007.safetensors"
            whole = next(pathlib.Path(self.folder.name).glob("checkpoint-*")).read_bytes()
            for damaged in b"", whole[:20], whole[:-1]:
                checkpoint.write_bytes(damaged)
                with self.assertRaisesRegex(terngrad.DataError, "checkpoint-0000000007"):
                    run.checkpoint()
            (path / "checkpoint-last.safetensors").touch()
            self.assertEqual(run.checkpoint_steps(), [7])

    def flips_of(self, whole, count):
        """Yields copies of the bytes, each with one byte changed, at `count` places."""
        random = numpy.random.default_rng(1)
        for place in random.integers(len(whole), size=count):
            yield whole[:place] + bytes([whole[place] ^ 1 << random.integers(8)]) + whole[place + 1:]

    def test_no_flipped_bit_of_a_checkpoint_is_taken(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "config.json").write_text('{"options": {}}')
            whole = next(pathlib.Path(self.folder.name).glob("checkpoint-*")).read_bytes()
            for part in (whole, whole[:4000]):
                for damaged in self.flips_of(part, 60):
                    (path / "checkpoint-0000000007.safetensors").write_bytes(damaged + whole[len(part):])
                    self.assertRaises(terngrad.DataError, terngrad.read_run(folder).checkpoint)

    def test_damaged_records_end_in_no_other_error(self):
        source = pathlib.Path(self.folder.name)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            texts = {name: (source / name).read_bytes() for name in ("config.json", "metrics.jsonl")}
            lines = [b"[]", b"3", b'"x"', b"{}", b'{"kind": 3}', b'{"kind": "tensors"}', b'{"kind": "tensors", "tensors": {"w": 3}, "step": 1}',
                     b'{"kind": "train", "step": %d}' % 2**70, b'{"kind": "train", "step": [1]}', b"\xff\xfe", b"[" * 100000]
            damaged = [("metrics.jsonl", line + b"\n") for line in lines] + [("config.json", line) for line in lines]
            damaged += [(name, text) for name in texts for text in self.flips_of(texts[name], 150)]
            num_refused = 0
            for name, text in damaged:
                for other, whole in texts.items():
                    (path / other).write_bytes(text if other == name else whole)
                try:
                    run = terngrad.read_run(folder)
                    run.metrics(), run.metrics("test"), run.layers()
                except terngrad.DataError as error:
                    num_refused += 1
                    self.assertIn(name, str(error))
            self.assertGreater(num_refused, 2 * len(lines) - 2)


if __name__ == "__main__":
    TRAIN = sys.argv.pop(1)
    unittest.main()
