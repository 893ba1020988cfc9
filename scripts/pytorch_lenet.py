"""LeNet as nets/lenet.cpp describes it, in PyTorch: what compare_pytorch.py and bench_pytorch.py have in common."""

import torch


class LeNet(torch.nn.Module):
    """Tensors have PyTorch's shapes; load() takes ours. Images are [n, 1, 28, 28]."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 20, 5, padding=2)
        self.conv2 = torch.nn.Conv2d(20, 50, 5, padding=2)
        self.fc3 = torch.nn.Linear(2450, 500)
        self.logits = torch.nn.Linear(500, 10)

    def forward(self, images):
        pool = torch.nn.functional.max_pool2d
        x = pool(torch.relu(self.conv1(images)), 2)
        x = pool(torch.relu(self.conv2(x)), 2)
        x = x.permute(0, 2, 3, 1).flatten(1)  # rows, columns, channels
        return self.logits(torch.relu(self.fc3(x)))

    def load(self, tensors):
        """Copies tensors named and shaped as ours ("conv1/weights" is [rows, columns, in, out])."""
        for name, ours in tensors.items():
            parameter_of(self, name).data.copy_(to_pytorch(ours))


def parameter_of(net, name):
    """The parameter of `net` that we call `name`."""
    layer, kind = name.split("/")
    return getattr(getattr(net, layer), "weight" if kind == "weights" else "bias")


def to_pytorch(tensor):
    """[rows, columns, in, out] to [out, in, rows, columns]; [in, out] to [out, in]; vectors as they are."""
    return tensor.permute(3, 2, 0, 1) if tensor.dim() == 4 else tensor.t() if tensor.dim() == 2 else tensor
