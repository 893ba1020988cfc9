"""Weights of torchvision's nets, exported and imported: logits of both, every tensor, and the checkpoint in our programs.
Arguments: terngrad_dump_gradients and terngrad_eval. Skipped without torchvision or xxhash."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy

try:
    import torch
    import torchvision
    import xxhash  # noqa: F401
except ImportError as missing:
    print(f"checkpoint_test.py: skipped: {missing} (scripts/install_deps.sh --compare --python)")
    sys.exit(77)

import terngrad
from terngrad import checkpoint
from terngrad._runs import read_safetensors, write_safetensors

DUMP, EVAL = sys.argv[1:3]
del sys.argv[1:3]
CLASSES = 10  # of terngrad_dump_gradients
EXAMPLES = 4
# Our name: torchvision's constructor, its options, and the side of images.
NETS = {
    "resnet_18": (torchvision.models.resnet18, {}, 160),
    "resnet_50": (torchvision.models.resnet50, {}, 160),
    "torchvision_alexnet": (torchvision.models.alexnet, {}, 224),
    "torchvision_googlenet": (torchvision.models.googlenet, {"aux_logits": False, "init_weights": False}, 160),
    "torchvision_inception_v3": (torchvision.models.inception_v3, {"init_weights": False}, 299),
    "torchvision_vgg_16": (torchvision.models.vgg16, {}, 224),
}


def run(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def command(*words):
    return run(sys.executable, "-m", "terngrad.checkpoint", *words)


def tensors_of(folder, kind):
    """The tensors that terngrad_dump_gradients wrote, by name. @param kind  parameters or state"""
    values = numpy.fromfile(folder / f"{kind}.f32", numpy.float32)
    layout = folder / ("layout.txt" if kind == "parameters" else "state_layout.txt")
    tensors = {}
    for line in layout.read_text().splitlines():
        name, first, shape = line.split()
        shape = tuple(map(int, shape.split("x")))
        tensors[name] = values[int(first):int(first) + int(numpy.prod(shape))].reshape(shape)
    return tensors


class Logits(unittest.TestCase):
    def test_an_exported_net_has_them_in_pytorch_and_comes_back_whole(self):
        self.assertEqual(checkpoint.nets(), list(NETS))
        for net, (make, options, side) in NETS.items():
            with self.subTest(net), tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                code, text = run(DUMP, net, folder, EXAMPLES, side)
                self.assertEqual(code, 0, text)
                parameters, state = tensors_of(folder, "parameters"), tensors_of(folder, "state")
                state_dict = checkpoint.to_state_dict(parameters, state, net)
                model = make(num_classes=CLASSES, **options).eval()
                model.load_state_dict({name: torch.from_numpy(values) for name, values in state_dict.items()})
                images = numpy.fromfile(folder / "images.f32", numpy.float32).reshape(EXAMPLES, side, side, 3)
                ours = numpy.fromfile(folder / "logits.f32", numpy.float32).reshape(EXAMPLES, CLASSES)
                back, back_state = checkpoint.from_state_dict(model.state_dict(), net)
                with torch.no_grad():
                    theirs = model(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
                    exact = model.double()(torch.from_numpy(images).permute(0, 3, 1, 2).double()).numpy()
                our_error, their_error = (numpy.abs(logits - exact).max() / numpy.abs(exact).max() for logits in (ours, theirs))
                print(f"{net}: error of the logits {our_error:.1e} of the largest, of PyTorch's float32 {their_error:.1e}")
                # Rounding alone: deep nets of random weights amplify it.
                self.assertLess(our_error, max(1e-5, 3 * their_error))
                self.assertLess(our_error, 1e-4)
                self.assertEqual(list(back), list(parameters))
                for tensor, values in parameters.items():
                    numpy.testing.assert_array_equal(back[tensor], values)
                self.assertEqual(list(back_state), list(state))


class Files(unittest.TestCase):
    """ResNet-18 of random weights, as files."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        torch.manual_seed(1)
        cls.model = torchvision.models.resnet18(num_classes=100)
        torch.save(cls.model.state_dict(), cls.folder / "resnet.pth")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_a_checkpoint_is_one_of_ours_and_goes_back(self):
        made = self.folder / "resnet.safetensors"
        code, text = command("import", self.folder / "resnet.pth", "--net", "resnet_18", "--output", made, "--dataset", "synthetic224")
        self.assertEqual(code, 0, text)
        code, text = run(EVAL, "--checkpoint", made, "--num_examples", 32)
        self.assertEqual(code, 0, text)
        self.assertIn("[32 examples]", text)
        # As terngrad_train writes it for resnet_18 and 100 classes.
        self.assertEqual(read_safetensors(made)[1]["layout_fingerprint"], "bc367ca9a3845009")
        for name in ("back.pth", "back.safetensors"):
            code, text = command("export", made, "--output", self.folder / name)
            self.assertEqual(code, 0, text)
        again = torch.load(self.folder / "back.pth")
        tensors, _, _ = read_safetensors(self.folder / "back.safetensors")
        for name, values in self.model.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                self.assertTrue(torch.equal(again[name], values), name)
                numpy.testing.assert_array_equal(tensors[name], values.numpy())
        # A state_dict from safetensors, as DDP names its tensors.
        write_safetensors(self.folder / "ddp.safetensors", {f"module.{name}": values for name, values in tensors.items()}, {})
        code, text = command("import", self.folder / "ddp.safetensors", "--net", "resnet_18", "--output", self.folder / "again.safetensors",
                             "--dataset", "synthetic224")
        self.assertEqual(code, 0, text)
        self.assertEqual((self.folder / "again.safetensors").read_bytes(), made.read_bytes())

    def test_a_background_class_comes_first_and_goes(self):
        state_dict = {name: values.numpy() for name, values in self.model.state_dict().items()}
        parameters, state = checkpoint.from_state_dict(state_dict, "resnet_18", background=True)
        self.assertEqual(parameters["logits/weights"].shape, (512, 101))
        self.assertEqual(parameters["logits/biases"][0], -1e4)
        back = checkpoint.to_state_dict(parameters, state, "resnet_18", background=True)
        numpy.testing.assert_array_equal(back["fc.weight"], state_dict["fc.weight"])
        numpy.testing.assert_array_equal(back["fc.bias"], state_dict["fc.bias"])

    def test_what_does_not_fit_is_named(self):
        state_dict = self.model.state_dict()
        for change, words in ((lambda tensors: tensors.pop("bn1.weight"), "no tensor 'bn1.weight'"),
                              (lambda tensors: tensors.update({"head.weight": torch.zeros(1)}), "has tensor 'head.weight'"),
                              (lambda tensors: tensors.update({"fc.bias": torch.zeros(100, dtype=torch.float16)}), "is of float16")):
            tensors = dict(state_dict)
            change(tensors)
            with self.assertRaisesRegex(terngrad.InvalidArgument, words):
                checkpoint.from_state_dict(tensors, "resnet_18")
        wide = torchvision.models.wide_resnet50_2(num_classes=10).state_dict()
        with self.assertRaisesRegex(terngrad.InvalidArgument, "another net with the same names"):
            checkpoint.from_state_dict(wide, "resnet_50")
        for content, words in ((b"no pickle", "no state_dict as torch.save writes it"), (None, "expected tensors by name")):
            path = self.folder / "other.pth"
            torch.save({"epoch": 3}, path)
            if content is not None:
                path.write_bytes(content)
            code, text = command("import", path, "--net", "resnet_18", "--output", self.folder / "x.safetensors")
            self.assertEqual((code, words in text), (1, True), text)
        with self.assertRaisesRegex(terngrad.InvalidArgument, "net must be one of resnet_18"):
            checkpoint.from_state_dict(state_dict, "resnet_20")
        for words, expected, exit_code in (
                (("import", "none.pth", "--net", "resnet_18", "--output", "x.pth"), "must end in .safetensors", 2),
                (("import", "none.pth", "--net", "resnet_18", "--output", self.folder / "x.safetensors"), "none.pth", 1),
                (("export", self.folder / "resnet.pth", "--output", self.folder / "x.pth"), "no safetensors file", 1)):
            code, text = command(*words)
            self.assertEqual(code, exit_code, text)
            self.assertIn(expected, text)


if __name__ == "__main__":
    unittest.main()
