"""The GPUs that runs are spread over."""

import os
import subprocess


def visible_gpus():
    """Their numbers or names, as CUDA_VISIBLE_DEVICES has them; else all that nvidia-smi lists; none without either."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [str(index) for index, line in enumerate(listed.stdout.splitlines()) if line.startswith("GPU")]


class Pool:
    """Hands each run a GPU, and no GPU to more than `runs_each` at a time."""

    def __init__(self, names, runs_each=1):
        self.free = list(names) * runs_each

    def take(self):
        """@returns the environment of a run, and what to give back; nothing where there are no GPUs"""
        if not self.free:
            return {}, None
        name = self.free.pop(0)
        return {"CUDA_VISIBLE_DEVICES": name}, name

    def give_back(self, name):
        if name is not None:
            self.free.append(name)
