"""A training run whose gradients do not depend on the codec, and the message files that it dumps."""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from reference import messages  # noqa: E402

# The learning rate is too small to change a parameter, so gradients do not depend on the codec. Images are constant;
# dropout makes the gradients of steps and workers differ. No evaluation, to save time.
OPTIONS = ("--benchmark_mode", "--image_size", "8", "--threads", "1", "--device", "cpu",
           "--optimizer", "gd", "--initial_learning_rate", "1e-37", "--weight_decay", "0", "--telemetry_steps", "0",
           "--tensorboard=false")


class DumpedRun:
    """Dumped messages of a training run, and their layout."""

    def __init__(self, train, folder, num_workers, num_steps, *options):
        dump = pathlib.Path(folder) / "dump"
        done = subprocess.run([train, *OPTIONS, "--num_nodes", str(num_workers), "--batch_size", str(2 * num_workers), "--max_steps",
                        str(num_steps), "--dump_steps", str(num_steps), "--dump_messages", dump, "--train_dir", pathlib.Path(folder) / "run",
                        *map(str, options)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"terngrad_train failed: {done.stderr}")
        self.messages = [messages.read(path.read_bytes()) for path in sorted(dump.glob("*.msg"))]
        # Tensors by layout fingerprint; `tensors` is the first layout.
        self.layouts = json.loads((dump / "layout.json").read_text(encoding="utf-8"))["layouts"]
        self.tensors = next(iter(self.layouts.values()))

    def of_kind(self, kind):
        return [message for message in self.messages if message.kind == kind]

    def shape(self, segment):
        return tuple(self.tensors[segment]["shape"])
