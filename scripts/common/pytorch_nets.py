"""Our nets as nets/*.cpp describe them, in PyTorch: what compare_pytorch.py and bench_pytorch.py have in common."""

import torch
from torch.nn.functional import local_response_norm, max_pool2d, relu


class LeNet(torch.nn.Module):
    """nets/models/lenet.cpp. Tensors have PyTorch's shapes; load() takes ours."""

    image_shape = (28, 28, 1)  # rows, columns, channels

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 20, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(20, 50, 5, padding=2)
        self.fc3 = torch.nn.Linear(2450, 500)
        self.logits = torch.nn.Linear(500, 10)

    def forward(self, images):
        x = max_pool2d(relu(self.conv1(images)), 2)
        x = max_pool2d(relu(self.conv2(x)), 2)
        return self.logits(relu(self.fc3(flatten(x))))


class Cifar10Alexnet(torch.nn.Module):
    """nets/models/cifar10_alexnet.cpp."""

    image_shape = (24, 24, 3)

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 64, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(64, 64, 5, padding=2)
        self.fc3 = torch.nn.Linear(2304, 384)
        self.fc4 = torch.nn.Linear(384, 192)
        self.logits = torch.nn.Linear(192, 10)

    def forward(self, images):
        x = self.normalize(self.pool(relu(self.conv1(images))))
        x = self.pool(self.normalize(relu(self.conv2(x))))
        return self.logits(relu(self.fc4(relu(self.fc3(flatten(x))))))

    @staticmethod
    def pool(x):
        """3x3 with stride 2; on an even size the last window hangs over the bottom and right edge, as in ours."""
        return max_pool2d(x, 3, 2, ceil_mode=True)

    @staticmethod
    def normalize(x):
        """Our alpha, 0.001 / 9, is for the sum over the 9 channels; PyTorch's is for their mean."""
        return local_response_norm(x, size=9, alpha=0.001, beta=0.75, k=1.0)


class Branched(torch.nn.Module):
    """tests/nets/branched_net.h without dropout, in training: batch norm takes the batch's statistics."""

    image_shape = (9, 9, 4)

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(4, 8, 3, stride=2, padding=1, bias=False)
        self.stem_norm = torch.nn.BatchNorm2d(8, eps=0.001)
        self.grouped = torch.nn.Conv2d(8, 6, 3, padding=1, groups=2)
        self.mix = torch.nn.Conv2d(22, 4, 1, groups=2, bias=False)
        self.mix_norm = torch.nn.BatchNorm2d(4, eps=0.001)  # its weight stays 1: ours has no gamma
        self.fc = torch.nn.Linear(36, 12)
        self.logits = torch.nn.Linear(12, 10)

    def forward(self, images):
        stem = relu(self.stem_norm(self.stem(images)))
        x = torch.cat([relu(self.grouped(stem)), max_pool2d(stem, 3, 1, padding=1), stem], dim=1)
        x = max_pool2d(relu(self.mix_norm(self.mix(x))), 2, ceil_mode=True)
        return self.logits(relu(self.fc(flatten(x))))


class ResnetCifar(torch.nn.Module):
    """nets/models/resnet_cifar.cpp, in training: batch norms take the batch's statistics. Modules have our layers' names."""

    image_shape = (32, 32, 3)

    def __init__(self, units_per_stage):
        super().__init__()
        self.units = []  # (name, whether it halves the image)
        self.add_layer("conv1", "norm1", 3, 16, 1)
        channels = 16
        for stage in (1, 2, 3):
            for unit in range(1, units_per_stage + 1):
                name, outputs = f"stage{stage}_unit{unit}", 8 << stage
                halves = outputs != channels
                self.add_layer(f"{name}_conv1", f"{name}_norm1", channels, outputs, 2 if halves else 1)
                self.add_layer(f"{name}_conv2", f"{name}_norm2", outputs, outputs, 1)
                self.units.append((name, halves))
                channels = outputs
        self.logits = torch.nn.Linear(64, 10)

    def add_layer(self, convolution, norm, inputs, outputs, stride):
        setattr(self, convolution, torch.nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False))
        setattr(self, norm, torch.nn.BatchNorm2d(outputs, eps=1e-5))

    def layer(self, convolution, norm, x):
        return getattr(self, norm)(getattr(self, convolution)(x))

    def forward(self, images):
        x = relu(self.layer("conv1", "norm1", images))
        for name, halves in self.units:
            y = relu(self.layer(f"{name}_conv1", f"{name}_norm1", x))
            y = self.layer(f"{name}_conv2", f"{name}_norm2", y)
            if halves:  # every second row and column, with channels of zeros behind
                x = torch.nn.functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, x.shape[1]))
            x = relu(y + x)
        return self.logits(x.mean((2, 3)))


NETS = {"lenet": LeNet, "cifar10_alexnet": Cifar10Alexnet, "branched": Branched, "resnet_20": lambda: ResnetCifar(3),
        "resnet_56": lambda: ResnetCifar(9)}
PARAMETERS = {"weights": "weight", "biases": "bias", "gamma": "weight", "beta": "bias"}


def flatten(images):
    """[n, channels, rows, columns] to vectors in our order: rows, columns, channels."""
    return images.permute(0, 2, 3, 1).flatten(1)


def load(net, tensors):
    """Copies tensors named and shaped as ours ("conv1/weights" is [rows, columns, in, out])."""
    for name, ours in tensors.items():
        parameter_of(net, name).data.copy_(to_pytorch(ours))


def parameter_of(net, name):
    """The parameter of `net` that we call `name`."""
    layer, kind = name.split("/")
    return getattr(getattr(net, layer), PARAMETERS[kind])


def to_pytorch(tensor):
    """[rows, columns, in, out] to [out, in, rows, columns]; [in, out] to [out, in]; vectors as they are."""
    return tensor.permute(3, 2, 0, 1) if tensor.dim() == 4 else tensor.t() if tensor.dim() == 2 else tensor
