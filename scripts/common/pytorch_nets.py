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


class NormalizedNet(torch.nn.Module):
    """Of convolutions with batch norms, in training: batch norms take the batch's statistics. Modules have our layers' names."""

    epsilon = 0.001

    def add_layer(self, convolution, norm, inputs, outputs, kernel, stride=1, padding=None):
        """`padding`: rows and columns on all sides, by default half of the kernel; one more than reaches the image changes nothing."""
        padding = kernel // 2 if padding is None else padding
        setattr(self, convolution, torch.nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False))
        setattr(self, norm, torch.nn.BatchNorm2d(outputs, eps=self.epsilon))  # its weight stays 1 where ours has no gamma

    def layer(self, convolution, norm, x):
        return getattr(self, norm)(getattr(self, convolution)(x))

    def add_normalized(self, name, inputs, outputs, kernel, stride=1, padding=None):
        self.add_layer(name, f"{name}_norm", inputs, outputs, kernel, stride, padding)

    def normalized(self, name, x):
        return relu(self.layer(name, f"{name}_norm", x))

    def add_dropout_head(self, inputs):
        """nets/models/dropout_head.cpp, and nothing is dropped."""
        self.fc6 = torch.nn.Linear(inputs, 4096)
        self.fc7 = torch.nn.Linear(4096, 4096)
        self.logits = torch.nn.Linear(4096, 10)

    def dropout_head(self, x):
        return self.logits(relu(self.fc7(relu(self.fc6(flatten(x))))))


class ResnetCifar(NormalizedNet):
    """nets/models/resnet_cifar.cpp."""

    image_shape = (32, 32, 3)
    epsilon = 1e-5

    def __init__(self, units_per_stage):
        super().__init__()
        self.units = []  # (name, whether it halves the image)
        self.add_layer("conv1", "norm1", 3, 16, 3)
        channels = 16
        for stage in (1, 2, 3):
            for unit in range(1, units_per_stage + 1):
                name, outputs = f"stage{stage}_unit{unit}", 8 << stage
                halves = outputs != channels
                self.add_layer(f"{name}_conv1", f"{name}_norm1", channels, outputs, 3, 2 if halves else 1)
                self.add_layer(f"{name}_conv2", f"{name}_norm2", outputs, outputs, 3)
                self.units.append((name, halves))
                channels = outputs
        self.logits = torch.nn.Linear(64, 10)

    def forward(self, images):
        x = relu(self.layer("conv1", "norm1", images))
        for name, halves in self.units:
            y = relu(self.layer(f"{name}_conv1", f"{name}_norm1", x))
            y = self.layer(f"{name}_conv2", f"{name}_norm2", y)
            if halves:  # every second row and column, with channels of zeros behind
                x = torch.nn.functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, x.shape[1]))
            x = relu(y + x)
        return self.logits(x.mean((2, 3)))


class Alexnet(NormalizedNet):
    """nets/models/alexnet.cpp."""

    image_shape = (92, 92, 3)  # divides by 4 as 224 does, so that 11 rows of stride 4 are padded alike

    def __init__(self):
        super().__init__()
        for name, inputs, outputs, kernel, stride, padding in (
                ("conv1", 3, 48, 11, 4, 0), ("conv2", 48, 128, 5, 1, 2), ("conv3", 256, 192, 3, 1, 1), ("conv4", 192, 192, 3, 1, 1),
                ("conv5", 192, 128, 3, 1, 1)):
            for tower in ("_1", "_2"):
                self.add_normalized(name + tower, inputs, outputs, kernel, stride, padding)
        self.add_dropout_head(2 * 2 * 256)

    def forward(self, images):
        x = torch.cat([self.first_half(tower, torch.nn.functional.pad(images, (3, 4, 3, 4))) for tower in ("_1", "_2")], dim=1)
        return self.dropout_head(torch.cat([self.second_half(tower, x) for tower in ("_1", "_2")], dim=1))

    def first_half(self, tower, x):
        for index in ("1", "2"):
            x = self.normalized(f"conv{index}{tower}", x)
            # Our alpha, 0.0001, is for the sum over the 5 channels; PyTorch's is for their mean.
            x = max_pool2d(local_response_norm(x, size=5, alpha=5e-4, beta=0.75, k=2.0), 3, 2)
        return x

    def second_half(self, tower, x):
        for index in ("3", "4", "5"):
            x = self.normalized(f"conv{index}{tower}", x)
        return max_pool2d(x, 3, 2)


class Vgg(NormalizedNet):
    """nets/models/vgg.cpp."""

    image_shape = (32, 32, 3)

    def __init__(self, convolutions_of_blocks):
        super().__init__()
        self.blocks, inputs = [], 3
        for block, (count, outputs) in enumerate(zip(convolutions_of_blocks, (64, 128, 256, 512, 512)), 1):
            self.blocks.append([f"conv{block}_{index}" for index in range(1, count + 1)])
            for name in self.blocks[-1]:
                self.add_normalized(name, inputs, outputs, 3)
                inputs = outputs
        self.add_dropout_head(512)

    def forward(self, x):
        for block in self.blocks:
            for name in block:
                x = self.normalized(name, x)
            x = max_pool2d(x, 2)
        return self.dropout_head(x)


class Googlenet(NormalizedNet):
    """nets/models/googlenet.cpp."""

    image_shape = (64, 64, 3)  # even before each stride, as 224 is
    # Channels into a block, and out of its convolutions: 1x1; 1x1, 3x3; 1x1, 3x3; 1x1 on a pool.
    blocks = {"3b": (192, 64, 96, 128, 16, 32, 32), "3c": (256, 128, 128, 192, 32, 96, 64), "4b": (480, 192, 96, 208, 16, 48, 64),
              "4c": (512, 160, 112, 224, 24, 64, 64), "4d": (512, 128, 128, 256, 24, 64, 64), "4e": (512, 112, 144, 288, 32, 64, 64),
              "4f": (528, 256, 160, 320, 32, 128, 128), "5b": (832, 256, 160, 320, 32, 128, 128),
              "5c": (832, 384, 192, 384, 48, 128, 128)}

    def __init__(self):
        super().__init__()
        self.add_normalized("conv1", 3, 64, 7, 2, 0)
        self.add_normalized("conv2_1x1", 64, 64, 1)
        self.add_normalized("conv2_3x3", 64, 192, 3)
        for block, (inputs, a, b, c, d, e, f) in self.blocks.items():
            name = f"mixed_{block}_branch"
            self.add_normalized(f"{name}0_1x1", inputs, a, 1)
            self.add_normalized(f"{name}1_1x1", inputs, b, 1)
            self.add_normalized(f"{name}1_3x3", b, c, 3)
            self.add_normalized(f"{name}2_1x1", inputs, d, 1)
            self.add_normalized(f"{name}2_3x3", d, e, 3)
            self.add_normalized(f"{name}3_1x1", inputs, f, 1)
        self.logits = torch.nn.Linear(1024, 10)

    def forward(self, images):
        x = self.normalized("conv1", torch.nn.functional.pad(images, (2, 3, 2, 3)))
        x = self.normalized("conv2_1x1", max_pool2d(x, 3, 2, ceil_mode=True))
        x = max_pool2d(self.normalized("conv2_3x3", x), 3, 2, ceil_mode=True)
        for block in self.blocks:
            if block == "4b":
                x = max_pool2d(x, 3, 2, ceil_mode=True)
            elif block == "5b":
                x = max_pool2d(x, 2)
            x = self.mixed(f"mixed_{block}_branch", x)
        return self.logits(x.mean((2, 3)))

    def mixed(self, name, x):
        return torch.cat([self.normalized(f"{name}0_1x1", x),
                          self.normalized(f"{name}1_3x3", self.normalized(f"{name}1_1x1", x)),
                          self.normalized(f"{name}2_3x3", self.normalized(f"{name}2_1x1", x)),
                          self.normalized(f"{name}3_1x1", max_pool2d(x, 3, 1, padding=1))], dim=1)


class Resnet(NormalizedNet):
    """nets/models/resnet.cpp."""

    epsilon = 1e-5

    def __init__(self, units_of_stages, has_bottlenecks=False, takes_small_images=False):
        super().__init__()
        self.image_shape = (32, 32, 3) if takes_small_images else (64, 64, 3)
        self.has_pool = not takes_small_images
        self.add_layer("conv1", "norm1", 3, 64, *((3, 1) if takes_small_images else (7, 2)))
        self.units = []  # (name, its convolutions, whether its shortcut has one)
        inputs = 64
        for stage, units in enumerate(units_of_stages, 1):
            for unit in range(1, units + 1):
                name, width, stride = f"stage{stage}_unit{unit}", 32 << stage, 2 if stage > 1 and unit == 1 else 1
                outputs = 4 * width if has_bottlenecks else width
                if has_bottlenecks:
                    convolutions = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
                else:
                    convolutions = [(inputs, outputs, 3, stride), (outputs, outputs, 3, 1)]
                for index, convolution in enumerate(convolutions, 1):
                    self.add_layer(f"{name}_conv{index}", f"{name}_norm{index}", *convolution)
                if inputs != outputs:
                    self.add_layer(f"{name}_shortcut", f"{name}_shortcut_norm", inputs, outputs, 1, stride)
                self.units.append((name, len(convolutions), inputs != outputs))
                inputs = outputs
        self.logits = torch.nn.Linear(inputs, 10)

    def forward(self, images):
        x = relu(self.layer("conv1", "norm1", images))
        x = max_pool2d(x, 3, 2, padding=1) if self.has_pool else x
        for name, count, has_projection in self.units:
            y = x
            for index in range(1, count + 1):
                y = self.layer(f"{name}_conv{index}", f"{name}_norm{index}", relu(y) if index > 1 else y)
            x = relu(y + (self.layer(f"{name}_shortcut", f"{name}_shortcut_norm", x) if has_projection else x))
        return self.logits(x.mean((2, 3)))


class AlexnetV2(NormalizedNet):
    """nets/models/alexnet_v2.cpp."""

    image_shape = (67, 67, 3)

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 64, 11, stride=4)
        self.conv2 = torch.nn.Conv2d(64, 192, 5, padding=2)
        self.conv3 = torch.nn.Conv2d(192, 384, 3, padding=1)
        self.conv4 = torch.nn.Conv2d(384, 384, 3, padding=1)
        self.conv5 = torch.nn.Conv2d(384, 256, 3, padding=1)
        self.add_dropout_head(256)

    def forward(self, images):
        x = max_pool2d(relu(self.conv1(images)), 3, 2)
        x = max_pool2d(relu(self.conv2(x)), 3, 2)
        x = relu(self.conv5(relu(self.conv4(relu(self.conv3(x))))))
        return self.dropout_head(max_pool2d(x, 3, 2))


class Cifarnet(Cifar10Alexnet):
    """nets/models/cifarnet.cpp, and nothing is dropped."""

    image_shape = (32, 32, 3)

    def __init__(self):
        super().__init__()
        self.fc3 = torch.nn.Linear(4096, 384)

    @staticmethod
    def pool(x):
        return max_pool2d(x, 2)


NETS = {
    "alexnet": Alexnet,
    "alexnet_v2": AlexnetV2,
    "branched": Branched,
    "cifar10_alexnet": Cifar10Alexnet,
    "cifarnet": Cifarnet,
    "googlenet": Googlenet,
    "lenet": LeNet,
    "resnet_18": lambda: Resnet((2, 2, 2, 2)),
    "resnet_18_cifar": lambda: Resnet((2, 2, 2, 2), takes_small_images=True),
    "resnet_20": lambda: ResnetCifar(3),
    "resnet_50": lambda: Resnet((3, 4, 6, 3), has_bottlenecks=True),
    "resnet_56": lambda: ResnetCifar(9),
    "vgg_16": lambda: Vgg((2, 2, 3, 3, 3)),
    "vgg_a": lambda: Vgg((1, 1, 2, 2, 2)),
}
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
