"""The commands of the original's README (github.com/wenwei202/terngrad), as printed there but for paths and the number of GPUs, run
by the scripts of examples/original. Options that a test adds, to be short, stand at the end.

Argument: the folder of the programs."""

import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path()
SCRIPTS = pathlib.Path(__file__).resolve().parents[3] / "examples/original"

TRAIN = {
    "mnist": "--optimizer momentum --initial_learning_rate 0.01 --learning_rate_decay_type polynomial --max_steps 10000 --net lenet "
             "--image_size 28 --batch_size 64",
    # The README has IGNORED in this command too.
    "cifar10": "--optimizer adam --initial_learning_rate 0.0002 --max_steps 200000 --net cifar10_alexnet --image_size 24 "
               "--batch_size 128",
    "imagenet": "--optimizer momentum --net alexnet --image_size 224 --batch_size 256"}
IGNORED = ["--num_epochs_per_decay", "256"]  # The original ignores it with adam, whose rate does not decay there.
EVALUATE = {
    "mnist": "--net lenet --image_size 28 --batch_size 100 --restore_avg_var True --eval_interval_secs 300 --subset test",
    "cifar10": "--net cifar10_alexnet --image_size 24 --batch_size 50 --restore_avg_var True --eval_interval_secs 300 --subset test",
    "imagenet": "--net alexnet --image_size 224 --batch_size 50 --restore_avg_var True"}


def write_mnist(folder, first_label):
    folder.mkdir()
    noise = random.Random(1)
    for name, count in (("train", 64), ("t10k", 20)):
        (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + noise.randbytes(count * 784))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) +
                                                           bytes(first_label + i % 9 for i in range(count)))


class OriginalCommands(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.data = self.folder / "data"

    def run_script(self, name, *words):
        environment = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}")
        return subprocess.run([SCRIPTS / name, *map(str, words)], capture_output=True, text=True, timeout=300, env=environment)

    def trains_and_evaluates(self, dataset, *short):
        run = self.folder / "train"
        result = self.run_script(f"{dataset}_train", *TRAIN[dataset].split(), "--train_dir", run, "--data_dir", f"{self.data}/", *short)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.run_script(f"{dataset}_eval", "--data_dir", f"{self.data}/", *EVALUATE[dataset].split(), "--checkpoint_dir", run,
                                 "--eval_dir", self.folder / "eval")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"top-1 = [01]\.\d{4} top-5 = [01]\.\d{4} \[\d+ examples\]\n$")

    def test_mnist(self):
        write_mnist(self.data, first_label=0)
        self.trains_and_evaluates("mnist", "--max_steps", 2)

    def test_cifar10(self):
        self.data.mkdir()
        for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
            (self.data / f"{name}.bin").touch()
            os.truncate(self.data / f"{name}.bin", 30730000)  # black images of class 0
        result = self.run_script("cifar10_train", *TRAIN["cifar10"].split(), *IGNORED, "--data_dir", self.data)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--num_epochs_per_decay 256: needs --learning_rate_decay_type exponential", result.stderr)
        self.trains_and_evaluates("cifar10", "--max_steps", 1)

    def test_imagenet(self):
        write_mnist(self.folder / "digits", first_label=1)
        subprocess.run([BIN / "terngrad_records", "build", "--from", "mnist", "--input", self.folder / "digits", "--out", self.data,
                        "--train_shards", "2", "--test_shards", "1"], check=True, capture_output=True)
        self.trains_and_evaluates("imagenet", "--max_steps", 1, "--batch_size", 2)

    def test_flags_of_terngrad(self):
        write_mnist(self.data, first_label=0)
        # Those that its README explains; it writes flags in both ways.
        for flag in (["--quantize_logits", "True"], ["--noquantize_logits"]):
            result = self.run_script("mnist_train", "--data_dir", self.data, "--size_to_binarize", 1, "--num_nodes", 2, "--grad_bits", 1,
                                     "--clip_factor", 2.5, *flag, "--train_dir", self.folder / flag[0], "--max_steps", 1)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_gpus_that_are_not_there_are_named(self):
        result = self.run_script("mnist_train", "--num_gpus", 2, "--device", "cpu")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--num_gpus 2: needs a GPU (--device cuda); on a CPU leave it out: --num_nodes 2 trains with as many workers",
                      result.stderr)


if __name__ == "__main__":
    BIN = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
