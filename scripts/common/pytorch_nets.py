"""The nets of nets/*.cpp in PyTorch, for compare_pytorch.py and bench_pytorch.py."""

import torch
from torch.nn.functional import avg_pool2d, local_response_norm, max_pool2d, relu

# Input channels of a GoogLeNet block, and output channels of its convolutions: 1x1; 1x1, 3x3; 1x1, wide; 1x1 after pool.
MIXED_BLOCKS = {
    "3b": (192, 64, 96, 128, 16, 32, 32),
    "3c": (256, 128, 128, 192, 32, 96, 64),
    "4b": (480, 192, 96, 208, 16, 48, 64),
    "4c": (512, 160, 112, 224, 24, 64, 64),
    "4d": (512, 128, 128, 256, 24, 64, 64),
    "4e": (512, 112, 144, 288, 32, 64, 64),
    "4f": (528, 256, 160, 320, 32, 128, 128),
    "5b": (832, 256, 160, 320, 32, 128, 128),
    "5c": (832, 384, 192, 384, 48, 128, 128),
}


def add_mixed_blocks(add_convolution, wide):
    """nets/models/mixed_block.h. `add_convolution` takes name, inputs, outputs and kernel; `wide`: kernel of the third branch."""
    for block, (inputs, a, b, c, d, e, f) in MIXED_BLOCKS.items():
        name = f"mixed_{block}_branch"
        add_convolution(f"{name}0_1x1", inputs, a, 1)
        add_convolution(f"{name}1_1x1", inputs, b, 1)
        add_convolution(f"{name}1_3x3", b, c, 3)
        add_convolution(f"{name}2_1x1", inputs, d, 1)
        add_convolution(f"{name}2_{wide}x{wide}", d, e, wide)
        add_convolution(f"{name}3_1x1", inputs, f, 1)


def mixed_block(convolve, wide, block, x):
    """`convolve` takes name and input."""
    name = f"mixed_{block}_branch"
    return torch.cat([convolve(f"{name}0_1x1", x),
                      convolve(f"{name}1_3x3", convolve(f"{name}1_1x1", x)),
                      convolve(f"{name}2_{wide}x{wide}", convolve(f"{name}2_1x1", x)),
                      convolve(f"{name}3_1x1", max_pool2d(x, 3, 1, padding=1))], dim=1)


class LeNet(torch.nn.Module):
    """nets/models/lenet.cpp. Tensors have PyTorch's shapes; load() accepts ours."""

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
        """3x3 max pool with stride 2; for even sizes padded at the bottom and right, as in our nets."""
        return max_pool2d(x, 3, 2, ceil_mode=True)

    @staticmethod
    def normalize(x):
        """Our alpha, 0.001 / 9, multiplies the sum over the 9 channels; PyTorch's multiplies their mean."""
        return local_response_norm(x, size=9, alpha=0.001, beta=0.75, k=1.0)


class Branched(torch.nn.Module):
    """tests/nets/branched_net.h without dropout, in training mode: batch norm uses the batch's statistics."""

    image_shape = (9, 9, 4)

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(4, 8, 3, stride=2, padding=1, bias=False)
        self.stem_norm = torch.nn.BatchNorm2d(8, eps=0.001)
        self.grouped = torch.nn.Conv2d(8, 6, 3, padding=1, groups=2)
        self.mix = torch.nn.Conv2d(22, 4, 1, groups=2, bias=False)
        self.mix_norm = torch.nn.BatchNorm2d(4, eps=0.001)  # weight stays 1: ours has no gamma
        self.fc = torch.nn.Linear(36, 12)
        self.logits = torch.nn.Linear(12, 10)

    def forward(self, images):
        stem = relu(self.stem_norm(self.stem(images)))
        x = torch.cat([relu(self.grouped(stem)), max_pool2d(stem, 3, 1, padding=1), stem], dim=1)
        x = max_pool2d(relu(self.mix_norm(self.mix(x))), 2, ceil_mode=True)
        return self.logits(relu(self.fc(flatten(x))))


class NormalizedNet(torch.nn.Module):
    """Net with batch norms, in training mode: they use the batch's statistics. Modules have our layers' names."""

    epsilon = 0.001

    def add_layer(self, convolution, norm, inputs, outputs, kernel, stride=1, padding=None):
        """`padding`: on all sides, by default half of the kernel; extra padding that no window reaches has no effect."""
        padding = kernel // 2 if padding is None else padding
        setattr(self, convolution, torch.nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False))
        setattr(self, norm, torch.nn.BatchNorm2d(outputs, eps=self.epsilon))  # weight stays 1 if ours has no gamma

    def layer(self, convolution, norm, x):
        return getattr(self, norm)(getattr(self, convolution)(x))

    def add_normalized(self, name, inputs, outputs, kernel, stride=1, padding=None):
        self.add_layer(name, f"{name}_norm", inputs, outputs, kernel, stride, padding)

    def normalized(self, name, x):
        return relu(self.layer(name, f"{name}_norm", x))

    def add_dropout_head(self, inputs):
        """nets/models/dropout_head.cpp without dropout."""
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
        self.units = []  # (name, True if it halves the image)
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
            if halves:  # every second row and column, zero channels appended
                x = torch.nn.functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, x.shape[1]))
            x = relu(y + x)
        return self.logits(x.mean((2, 3)))


class Alexnet(NormalizedNet):
    """nets/models/alexnet.cpp."""

    image_shape = (92, 92, 3)  # divisible by 4 as 224, so that the 11x11 kernel with stride 4 has the same padding

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
            # Our alpha, 0.0001, multiplies the sum over the 5 channels; PyTorch's multiplies their mean.
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

    image_shape = (64, 64, 3)  # even before each stride, as with 224

    def __init__(self):
        super().__init__()
        self.add_normalized("conv1", 3, 64, 7, 2, 0)
        self.add_normalized("conv2_1x1", 64, 64, 1)
        self.add_normalized("conv2_3x3", 64, 192, 3)
        add_mixed_blocks(self.add_normalized, wide=3)
        self.logits = torch.nn.Linear(1024, 10)

    def forward(self, images):
        x = self.normalized("conv1", torch.nn.functional.pad(images, (2, 3, 2, 3)))
        x = self.normalized("conv2_1x1", max_pool2d(x, 3, 2, ceil_mode=True))
        x = max_pool2d(self.normalized("conv2_3x3", x), 3, 2, ceil_mode=True)
        for block in MIXED_BLOCKS:
            if block == "4b":
                x = max_pool2d(x, 3, 2, ceil_mode=True)
            elif block == "5b":
                x = max_pool2d(x, 2)
            x = mixed_block(self.normalized, 3, block, x)
        return self.logits(x.mean((2, 3)))


class Resnet(NormalizedNet):
    """nets/models/resnet.cpp."""

    epsilon = 1e-5

    def __init__(self, units_of_stages, has_bottlenecks=False, takes_small_images=False):
        super().__init__()
        self.image_shape = (32, 32, 3) if takes_small_images else (64, 64, 3)
        self.has_pool = not takes_small_images
        self.add_layer("conv1", "norm1", 3, 64, *((3, 1) if takes_small_images else (7, 2)))
        self.units = []  # (name, convolutions, True if the shortcut has a convolution)
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


class AuxiliaryNet(NormalizedNet):
    """Net with auxiliary classifiers, whose losses count in training, for images of side `side`, by default the minimum."""

    label_smoothing = 0.0  # for all losses
    auxiliary_weight = 1.0  # weight of the auxiliary losses

    def __init__(self, side=None):
        super().__init__()
        if side is not None:
            self.image_shape = (side, side, self.image_shape[2])

    def classifiers(self, images):
        """Logits of all classifiers, the main one first."""
        raise NotImplementedError

    def forward(self, images):
        return self.classifiers(images)[0]


class Googlenet2014(AuxiliaryNet):
    """nets/models/googlenet_2014.cpp without dropout."""

    image_shape = (65, 65, 3)
    auxiliary_weight = 0.3

    def __init__(self, side=None):
        super().__init__(side)
        self.add_rectified("conv1", 3, 64, 7, 2)
        self.add_rectified("conv2_1x1", 64, 64, 1)
        self.add_rectified("conv2_3x3", 64, 192, 3)
        add_mixed_blocks(self.add_rectified, wide=5)
        map_side = -(-self.image_shape[0] // 16)  # side of blocks 4: halved four times, rounded up
        self.add_auxiliary_classifier("auxiliary1", 512, map_side)
        self.add_auxiliary_classifier("auxiliary2", 528, map_side)
        self.logits = torch.nn.Linear(1024, 10)

    def add_rectified(self, name, inputs, outputs, kernel, stride=1):
        setattr(self, name, torch.nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2))

    def add_auxiliary_classifier(self, name, inputs, map_side):
        self.add_rectified(f"{name}_1x1", inputs, 128, 1)
        setattr(self, f"{name}_fc", torch.nn.Linear(128 * ((map_side - 5) // 3 + 1) ** 2, 1024))
        setattr(self, f"{name}_logits", torch.nn.Linear(1024, 10))

    def rectified(self, name, x):
        return relu(getattr(self, name)(x))

    def classifiers(self, images):
        x = self.normalize(self.pool(self.rectified("conv1", images)))
        x = self.pool(self.normalize(self.rectified("conv2_3x3", self.rectified("conv2_1x1", x))))
        auxiliary = []
        for block in MIXED_BLOCKS:
            x = mixed_block(self.rectified, 5, block, x)
            if block in ("3c", "4f"):
                x = self.pool(x)
            elif block in ("4b", "4e"):
                auxiliary.append(self.auxiliary_classifier(f"auxiliary{len(auxiliary) + 1}", x))
        return [self.logits(x.mean((2, 3))), *auxiliary]

    def auxiliary_classifier(self, name, x):
        x = self.rectified(f"{name}_1x1", avg_pool2d(x, 5, 3))
        return getattr(self, f"{name}_logits")(self.rectified(f"{name}_fc", flatten(x)))

    @staticmethod
    def pool(x):
        """3x3 max pool with stride 2, padded at the bottom and right for even sizes, on all sides for odd sizes."""
        before_rows, before_columns = x.shape[2] % 2, x.shape[3] % 2
        return max_pool2d(torch.nn.functional.pad(x, (before_columns, 1, before_rows, 1), value=-torch.inf), 3, 2)

    @staticmethod
    def normalize(x):
        """Our alpha, 2e-5, multiplies the sum over the 5 channels; PyTorch's multiplies their mean."""
        return local_response_norm(x, size=5, alpha=1e-4, beta=0.75, k=1.0)


class InceptionV3(AuxiliaryNet):
    """nets/models/inception_v3.cpp without dropout."""

    image_shape = (107, 107, 3)
    label_smoothing = 0.1
    auxiliary_weight = 0.4
    row, column = (1, 7), (7, 1)
    blocks_35 = {"mixed_35a": 32, "mixed_35b": 64, "mixed_35c": 64}  # channels of the pooled branch
    blocks_17 = {"mixed_17b": 128, "mixed_17c": 160, "mixed_17d": 160, "mixed_17e": 192}  # channels between wide convolutions
    blocks_8 = ("mixed_8b", "mixed_8c")

    def __init__(self, side=None):
        super().__init__(side)
        self.chains = {}  # {branch: its convolutions}
        self.add_stem()
        self.add_blocks_35()
        self.add_blocks_17()
        self.add_auxiliary_classifier()
        self.add_blocks_8()
        self.logits = torch.nn.Linear(2048, 10)

    def add_convolution(self, name, inputs, outputs, kernel, stride=1, padding=None):
        """`kernel`: side, or rows and columns; `padding`: by default half of it."""
        kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
        self.add_normalized(name, inputs, outputs, kernel, stride, (kernel[0] // 2, kernel[1] // 2) if padding is None else padding)

    def add_chain(self, branch, inputs, *steps):
        """Consecutive convolutions, each given by outputs, kernel and optionally stride (1) and padding (half)."""
        self.chains[branch] = []
        for index, step in enumerate(steps):
            self.add_convolution(f"{branch}_{index}", inputs, *step)
            self.chains[branch].append(f"{branch}_{index}")
            inputs = step[0]

    def add_split_chain(self, branch, inputs, *steps):
        """A chain that ends in parallel 1x3 and 3x1 convolutions."""
        self.add_chain(branch, inputs, *steps)
        self.add_convolution(f"{branch}_row", steps[-1][0], 384, (1, 3))
        self.add_convolution(f"{branch}_column", steps[-1][0], 384, (3, 1))

    def add_stem(self):
        self.add_convolution("conv0", 3, 32, 3, 2, 0)
        self.add_convolution("conv1", 32, 32, 3, 1, 0)
        self.add_convolution("conv2", 32, 64, 3)
        self.add_convolution("conv3", 64, 80, 1)
        self.add_convolution("conv4", 80, 192, 3, 1, 0)

    def add_blocks_35(self):
        inputs = 192
        for name, pooled in self.blocks_35.items():
            self.add_chain(f"{name}_branch0", inputs, (64, 1))
            self.add_chain(f"{name}_branch1", inputs, (48, 1), (64, 5))
            self.add_chain(f"{name}_branch2", inputs, (64, 1), (96, 3), (96, 3))
            self.add_chain(f"{name}_branch3", inputs, (pooled, 1))
            inputs = 64 + 64 + 96 + pooled

    def add_blocks_17(self):
        row, column = self.row, self.column
        self.add_chain("mixed_17a_branch0", 288, (384, 3, 2, 0))
        self.add_chain("mixed_17a_branch1", 288, (64, 1), (96, 3), (96, 3, 2, 0))
        for name, narrow in self.blocks_17.items():
            self.add_chain(f"{name}_branch0", 768, (192, 1))
            self.add_chain(f"{name}_branch1", 768, (narrow, 1), (narrow, row), (192, column))
            self.add_chain(f"{name}_branch2", 768, (narrow, 1), (narrow, column), (narrow, row), (narrow, column), (192, row))
            self.add_chain(f"{name}_branch3", 768, (192, 1))

    def add_auxiliary_classifier(self):
        self.add_convolution("auxiliary_1x1", 768, 128, 1)
        self.add_convolution("auxiliary_whole", 128, 768, self.auxiliary_side(), 1, 0)
        self.auxiliary_logits = torch.nn.Linear(768, 10)

    def auxiliary_side(self):
        """Side of the auxiliary classifier's pooled map."""
        side = self.image_shape[0]
        for window, stride in ((3, 2), (3, 1), (3, 2), (3, 1), (3, 2), (3, 2), (5, 3)):  # all layers without padding, in order
            side = (side - window) // stride + 1
        return side

    def add_blocks_8(self):
        self.add_chain("mixed_8a_branch0", 768, (192, 1), (320, 3, 2, 0))
        self.add_chain("mixed_8a_branch1", 768, (192, 1), (192, self.row), (192, self.column), (192, 3, 2, 0))
        inputs = 1280
        for name in self.blocks_8:
            self.add_chain(f"{name}_branch0", inputs, (320, 1))
            self.add_split_chain(f"{name}_branch1", inputs, (384, 1))
            self.add_split_chain(f"{name}_branch2", inputs, (448, 1), (384, 3))
            self.add_chain(f"{name}_branch3", inputs, (192, 1))
            inputs = 2048

    def classifiers(self, images):
        x = self.stem(images)
        for name in self.blocks_35:
            x = self.pooled_block(name, x)
        x = self.halving_block("mixed_17a", x)
        for name in self.blocks_17:
            x = self.pooled_block(name, x)
        auxiliary = self.auxiliary_classifier(x)
        x = self.halving_block("mixed_8a", x)
        for name in self.blocks_8:
            x = self.split_block(name, x)
        return [self.logits(x.mean((2, 3))), auxiliary]

    def stem(self, x):
        for name in ("conv0", "conv1", "conv2"):
            x = self.normalized(name, x)
        x = self.normalized("conv4", self.normalized("conv3", max_pool2d(x, 3, 2)))
        return max_pool2d(x, 3, 2)

    def chain(self, branch, x):
        for name in self.chains[branch]:
            x = self.normalized(name, x)
        return x

    def split_chain(self, branch, x):
        x = self.chain(branch, x)
        return torch.cat([self.normalized(f"{branch}_row", x), self.normalized(f"{branch}_column", x)], dim=1)

    def pooled_block(self, name, x):
        branches = [self.chain(f"{name}_branch{index}", x) for index in (0, 1, 2)]
        return torch.cat([*branches, self.chain(f"{name}_branch3", self.average(x))], dim=1)

    def halving_block(self, name, x):
        return torch.cat([self.chain(f"{name}_branch0", x), self.chain(f"{name}_branch1", x), max_pool2d(x, 3, 2)], dim=1)

    def split_block(self, name, x):
        return torch.cat([self.chain(f"{name}_branch0", x), self.split_chain(f"{name}_branch1", x),
                          self.split_chain(f"{name}_branch2", x), self.chain(f"{name}_branch3", self.average(x))], dim=1)

    def auxiliary_classifier(self, x):
        x = self.normalized("auxiliary_whole", self.normalized("auxiliary_1x1", avg_pool2d(x, 5, 3)))
        return self.auxiliary_logits(flatten(x))

    @staticmethod
    def average(x):
        """Average pool over the part of the window inside the image, as in TensorFlow."""
        return avg_pool2d(x, 3, 1, padding=1, count_include_pad=False)


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
    """nets/models/cifarnet.cpp without dropout."""

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
    "googlenet_2014": Googlenet2014,
    "inception_v3": InceptionV3,
    "lenet": LeNet,
    "resnet_18": lambda: Resnet((2, 2, 2, 2)),
    "resnet_18_cifar": lambda: Resnet((2, 2, 2, 2), takes_small_images=True),
    "resnet_20": lambda: ResnetCifar(3),
    "resnet_50": lambda: Resnet((3, 4, 6, 3), has_bottlenecks=True),
    "resnet_56": lambda: ResnetCifar(9),
    "vgg_16": lambda: Vgg((2, 2, 3, 3, 3)),
    "vgg_a": lambda: Vgg((1, 1, 2, 2, 2)),
}
TENSORS = {"weights": "weight", "biases": "bias", "gamma": "weight", "beta": "bias", "moving_mean": "running_mean",
           "moving_variance": "running_var"}


def flatten(images):
    """Flattens [n, channels, rows, columns] in our order: rows, columns, channels."""
    return images.permute(0, 2, 3, 1).flatten(1)


def load(net, tensors):
    """Copies tensors with our names and shapes ("conv1/weights" is [rows, columns, in, out]) to a net."""
    for name, ours in tensors.items():
        tensor_of(net, name).data.copy_(to_pytorch(ours))


def tensor_of(net, name):
    """The parameter or moving statistic of `net` with our name `name`."""
    layer, kind = name.split("/")
    return getattr(getattr(net, layer), TENSORS[kind])


def to_pytorch(tensor):
    """Transposes [rows, columns, in, out] to [out, in, rows, columns], [in, out] to [out, in]; vectors are unchanged."""
    return tensor.permute(3, 2, 0, 1) if tensor.dim() == 4 else tensor.t() if tensor.dim() == 2 else tensor
