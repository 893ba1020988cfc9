#!/usr/bin/env python3
"""Compressed gradients under PyTorch Lightning 2, on CPUs over Gloo. Exits with 77 if Lightning is not installed.

    examples/lightning_ddp.py --devices 2 --codec ternary:clip_factor=2.5 --steps 10
    examples/lightning_ddp.py --codec terngrad_ef --save run.ckpt      # then --resume run.ckpt --steps 20

DDPStrategy takes a hook and its state (ddp_comm_hook=, ddp_comm_state=), but registers them on GPUs only, and wants the state
before there is a process group. So a strategy of our own registers the hook where Lightning has just wrapped the module.
"""

import argparse
import sys

import torch

SKIPPED = 77
FEATURES, CLASSES, BATCH = 64, 10, 32

try:
    import lightning
    from lightning.pytorch.strategies import DDPStrategy
except ImportError as error:
    print(f"lightning_ddp.py: skipped: {error} ({sys.executable} -m pip install lightning)")
    sys.exit(SKIPPED)
import terngrad.torch


class CompressedDDPStrategy(DDPStrategy):
    """DDPStrategy with compressed gradients. @param compression  options of terngrad.torch.compress"""

    def __init__(self, compression, **options):
        super().__init__(**options)
        self.compression = compression
        #: State of the hook, once the training has begun.
        self.hook_state = None

    def configure_ddp(self):
        super().configure_ddp()
        self.hook_state = terngrad.torch.compress(self.model, **self.compression)


class SavedHook(lightning.Callback):
    """Saves the hook's state in Lightning's checkpoints. They are loaded before the hook exists, which gets its state later."""

    def __init__(self):
        self.loaded = None

    def setup(self, trainer, _module, stage):
        self.strategy = trainer.strategy

    def state_dict(self):
        return terngrad.torch.GatheredState(self.strategy.hook_state).state_dict()

    def load_state_dict(self, state):
        self.loaded = state

    def on_train_start(self, trainer, _module):
        if self.loaded:
            terngrad.torch.GatheredState(self.strategy.hook_state).load_state_dict(self.loaded)
            self.loaded = None


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(FEATURES, 128), torch.nn.ReLU(), torch.nn.Linear(128, CLASSES))

    def training_step(self, batch):
        examples, labels = batch
        return torch.nn.functional.cross_entropy(self.net(examples), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


class Losses(lightning.Callback):
    """Prints rank 0's loss and sent bytes."""

    def on_train_batch_end(self, trainer, _module, outputs, _batch, batch_index):
        if trainer.is_global_zero:
            sent = trainer.strategy.hook_state.report().sent_bytes
            print(f"step {batch_index + 1}: loss {float(outputs['loss']):.4f}, {sent} bytes sent", flush=True)


def loader_of(num_examples):
    torch.manual_seed(1)
    labels = torch.randint(CLASSES, (num_examples,))
    examples = torch.randn(num_examples, FEATURES) + 2 * torch.nn.functional.one_hot(labels, FEATURES)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(examples, labels), BATCH)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--codec", default="ternary:clip_factor=2.5", help="default ternary:clip_factor=2.5")
    parser.add_argument("--steps", type=int, default=10, help="default 10")
    parser.add_argument("--save", metavar="FILE", help="a checkpoint after the last step, with what ranks keep")
    parser.add_argument("--resume", metavar="FILE", help="such a checkpoint, to continue from")
    options = parser.parse_args()
    if options.devices < 1 or options.steps < 1:
        parser.error("--devices and --steps: must be at least 1")
    return options


def main(options):
    strategy = CompressedDDPStrategy({"codec": options.codec}, process_group_backend="gloo")
    trainer = lightning.Trainer(accelerator="cpu", devices=options.devices, strategy=strategy, max_steps=options.steps,
                                callbacks=[Losses(), SavedHook()], logger=False, enable_checkpointing=False,
                                enable_progress_bar=False)
    resume = {"ckpt_path": options.resume} if options.resume else {}
    trainer.fit(Classifier(), loader_of(options.devices * options.steps * BATCH), **resume)
    if options.save:
        trainer.save_checkpoint(options.save)


if __name__ == "__main__":
    main(parse())
