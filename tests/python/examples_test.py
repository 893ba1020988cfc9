"""Runs the programs of examples/ for ten steps each. Those that need PyTorch are skipped without it."""

import importlib.util
import lzma
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest

import numpy

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
SKIPPED = 77
REAL_CIFAR10 = EXAMPLES.parents[1] / "shared/data/cifar-10"
RECORD_BYTES = 3073
HAS_TORCH = importlib.util.find_spec("torch") is not None
# The parts of Lightning 2 that lightning_ddp.py uses: a single process that calls the strategy and the callbacks in the
# same order.
FAKE_LIGHTNING = """
    import torch
    LightningModule = torch.nn.Module

    class Callback:
        def on_train_batch_end(self, trainer, module, outputs, batch, index):
            pass

    class Trainer:
        def __init__(self, accelerator, devices, strategy, max_steps, callbacks, logger, enable_checkpointing, enable_progress_bar):
            assert (accelerator, devices) == ("cpu", 1)
            self.strategy, self.max_steps, self.callbacks, self.is_global_zero = strategy, max_steps, callbacks, True

        def fit(self, model, loader):
            self.strategy.model = model
            self.strategy.configure_ddp()
            optimizer = model.configure_optimizers()
            for callback in self.callbacks:
                if hasattr(callback, "setup"):
                    callback.setup(self, model, "fit")
                    callback.on_train_start(self, model)
            for index, batch in zip(range(self.max_steps), loader):
                model.forward = model.training_step  # what DDP calls
                loss = self.strategy.model(batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                for callback in self.callbacks:
                    callback.on_train_batch_end(self, model, {"loss": loss.detach()}, batch, index)
"""
FAKE_STRATEGIES = """
    import torch

    class DDPStrategy:
        def __init__(self, process_group_backend):
            store = torch.distributed.HashStore()
            torch.distributed.init_process_group(process_group_backend, store=store, rank=0, world_size=1)

        def configure_ddp(self):
            self.model = torch.nn.parallel.DistributedDataParallel(self.model)
"""


def start(name, *arguments, **environment):
    return subprocess.Popen([sys.executable, str(EXAMPLES / name), *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1", **environment})


def ended(process):
    """(exit code, stdout, stderr)"""
    out, err = process.communicate(timeout=200)
    return process.returncode, out, err


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class OwnCommunicator(unittest.TestCase):
    def test_ranks_have_the_bits_of_one_process(self):
        for algorithm in ("all_gather", "scatter_reduce", "integer_sum"):
            code, out, err = ended(start("own_communicator.py", "--ranks", 3, "--algorithm", algorithm))
            self.assertEqual((code, err), (0, ""), algorithm)
            self.assertEqual(len(re.findall(r"rank \d: \d+ bytes sent in a step, the mean equals", out)), 3, out)

    def test_what_cannot_be_honoured_is_refused(self):
        code, _, err = ended(start("own_communicator.py", "--algorithm", "ring"))
        self.assertEqual(code, 2)
        self.assertIn("own_communicator.py: error: algorithm 'ring' is unknown; accepted: auto, all_gather", err)


@unittest.skipUnless(HAS_TORCH, "there is no PyTorch")
class DdpCifar10(unittest.TestCase):
    WORDS = ("--steps", 10, "--batch_size", 16, "--width", 8, "--log_steps", 5, "--test_examples", 20)

    def run_ranks(self, *arguments):
        """Runs two ranks. @returns output of rank 0"""
        place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GLOO_SOCKET_IFNAME": "lo"}
        ranks = [start("ddp_cifar10.py", *self.WORDS, *arguments, RANK=str(rank), **place) for rank in range(2)]
        (code, out, err), (other_code, other_out, other_err) = map(ended, ranks)
        self.assertEqual((code, other_code), (0, 0), err + other_err)
        self.assertEqual(other_out, "")
        return out

    def numbers(self, out):
        """(losses, bytes sent)"""
        losses, sent = zip(*re.findall(r"step \d+: loss ([\d.]+), accuracy [\d.]+, (\d+) bytes sent, [\d.]+ s per step", out))
        return [float(loss) for loss in losses], int(sent[-1])

    def test_two_ranks_learn_with_fewer_bytes(self):
        num_parameters = 176402
        losses, ternary_bytes = self.numbers(self.run_ranks("--synthetic", "--codec", "ternary:clip_factor=2.5"))
        self.assertLess(losses[1], losses[0] - 0.2)  # mean of steps 6 to 10, of steps 1 to 5
        self.assertLess(ternary_bytes, 4 * num_parameters / 10)
        folder = self.data_folder()
        out = self.run_ranks("--codec", "fp16", *(("--data", folder) if folder else ("--synthetic",)))
        self.assertIn(f"{num_parameters} parameters, {200 if folder else 2000} examples", out)
        self.assertEqual(self.numbers(out)[1], 2 * num_parameters)
        self.assertRegex(out, r"test accuracy [01]\.\d+")

    def data_folder(self):
        """The first images of CIFAR-10, or None."""
        if not REAL_CIFAR10.is_dir():
            return None
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        for name, num_images, opener in (("data_batch_1.bin", 120, open), ("data_batch_2.bin.xz", 80, lzma.open),
                                         ("test_batch.bin", 20, open)):
            with lzma.open(REAL_CIFAR10 / f"{name.removesuffix('.xz')}.xz") as file, \
                    opener(pathlib.Path(temporary.name) / name, "wb") as out:
                out.write(file.read(num_images * RECORD_BYTES))
        return temporary.name

    def test_a_net_has_the_size_of_resnet_18(self):
        sys.path.insert(0, str(EXAMPLES))
        self.addCleanup(sys.path.remove, str(EXAMPLES))
        import ddp_cifar10  # pylint: disable=import-outside-toplevel
        self.assertEqual(sum(parameter.numel() for parameter in ddp_cifar10.ResNet18().parameters()), 11173962)

        def refused(name, content, word):
            with tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / name).write_bytes(content)
                with self.assertRaisesRegex(ValueError, word):
                    ddp_cifar10.read_set(pathlib.Path(folder), "test_batch")

        refused("data_batch_1.bin", bytes(RECORD_BYTES), "has no test_batch.bin, .bin.gz or .bin.xz")
        refused("test_batch.bin", bytes(RECORD_BYTES + 1), "has 3074 bytes, expected records of 3073")
        refused("test_batch.bin", b"", "has 0 bytes, expected records of 3073")
        refused("test_batch.bin", b"\x0a" + bytes(RECORD_BYTES - 1), "has a label of 10, expected 0 to 9")

    def test_codecs_that_are_none_are_refused(self):
        code, _, err = ended(start("ddp_cifar10.py", "--synthetic", "--codec", "ternary:clip=2"))
        self.assertEqual(code, 2)
        self.assertIn("there is no key 'clip'; accepted: clip_factor", err)


@unittest.skipUnless(HAS_TORCH, "there is no PyTorch")
class ResumeDdp(unittest.TestCase):
    def test_a_resumed_training_has_the_bits_of_one_that_was_not_stopped(self):
        code, out, err = ended(start("resume_ddp.py", "--steps", 10))
        self.assertEqual(code, 0, err)
        # With error feedback the state counts: without it the same training ends elsewhere.
        for rank in range(2):
            self.assertIn(f"rank {rank}: resumed at step 5 of 10, 0 of 4 tensors differ; without the state of the hook 4\n", out)


@unittest.skipUnless(HAS_TORCH, "there is no PyTorch")
class CharTransformer(unittest.TestCase):
    def test_it_learns_and_says_what_codecs_do(self):
        code, out, err = ended(start("char_transformer.py", "--steps", 10, "--log_steps", 10))
        self.assertEqual((code, err), (0, ""))
        self.assertIn("1006490 parameters", out)
        (first, sent), (last, _) = re.findall(r"step \d+: loss ([\d.]+), (\d+) bytes sent by a worker", out)
        self.assertLess(float(last), float(first) - 0.5)
        self.assertLess(int(sent), 6 * 1006490 / 4)  # a quarter of fp32's ring
        rows = {name: (codec, float(snr)) for name, codec, snr in re.findall(r"^(\S+\.\S+) +\d+  (\w+) +[\d.]+ +(-?[\d.]+)$", out,
                                                                            re.MULTILINE)}
        self.assertEqual([name for name, (codec, _) in rows.items() if codec == "bf16"],
                         ["embedding.weight", "position.weight", "head.weight", "head.bias"])
        for name, (codec, snr) in rows.items():
            self.assertTrue(-6 < snr < 6 if codec == "ternary" else 45 < snr < 65, (name, codec, snr))
        self.assertEqual(len(rows), 4 + 5 * 4)


class AnalyseGradient(unittest.TestCase):
    def test_a_gradient_is_compared_and_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            picture = pathlib.Path(folder) / "gradient.png"
            numpy.save(f"{folder}/gradient.npy", numpy.random.default_rng(1).standard_normal(5000).astype(numpy.float32))
            has_matplotlib = importlib.util.find_spec("matplotlib") is not None
            code, out, err = ended(start("analyse_gradient.py", "--gradient", f"{folder}/gradient.npy", "--codecs", "ternary", "fp8",
                                         "--steps", 2, *(("-o", picture) if has_matplotlib else ())))
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(picture.exists(), has_matplotlib)
        self.assertIn("5000 elements", out)
        snr = {line.split()[0]: float(line.split()[2]) for line in out.splitlines() if line.startswith(("ternary", "fp8"))}
        self.assertLess(snr["ternary"], 0)
        self.assertGreater(snr["fp8"], 25)

    def test_what_is_no_run_or_codec_is_refused(self):
        for arguments, word in ((("--run", "/nowhere"), "no run directory"), (("--codecs", "nocodec"), "nocodec")):
            code, _, err = ended(start("analyse_gradient.py", *arguments))
            self.assertEqual(code, 2)
            self.assertIn(word, err)


@unittest.skipUnless(HAS_TORCH, "there is no PyTorch")
class Readme(unittest.TestCase):
    def test_its_python_runs_as_printed(self):
        (block,) = re.findall(r"```python\n(.*?)```", (EXAMPLES.parent / "README.md").read_text(encoding="utf-8"), re.DOTALL)
        code, out, err = ended(subprocess.Popen([sys.executable, "-c", block], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                                env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"}))
        self.assertEqual(code, 0, err)
        self.assertIn("ternary:clip_factor=2.5", out)
        self.assertIn("weight", out)


@unittest.skipUnless(HAS_TORCH, "there is no PyTorch")
class LightningDdp(unittest.TestCase):
    def test_it_says_that_lightning_is_missing(self):
        if importlib.util.find_spec("lightning") is not None:
            self.skipTest("Lightning is installed")
        code, out, _ = ended(start("lightning_ddp.py"))
        self.assertEqual(code, SKIPPED)
        self.assertRegex(out, r"^lightning_ddp.py: skipped: No module named 'lightning' \(.* -m pip install lightning\)\n$")

    def test_the_strategy_registers_the_hook(self):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in (("__init__.py", FAKE_LIGHTNING), ("pytorch/__init__.py", ""),
                               ("pytorch/strategies.py", FAKE_STRATEGIES)):
                file = pathlib.Path(folder) / "lightning" / path
                file.parent.mkdir(exist_ok=True)
                file.write_text(textwrap.dedent(text))
            path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
            code, out, err = ended(start("lightning_ddp.py", "--devices", 1, "--codec", "terngrad_ef", PYTHONPATH=path))
        self.assertEqual(code, 0, err)
        losses = [float(loss) for loss in re.findall(r"step \d+: loss ([\d.]+), \d+ bytes sent", out)]
        self.assertEqual(len(losses), 10)
        self.assertLess(losses[-1], losses[0])


if __name__ == "__main__":
    unittest.main()
