"""Assignment of GPUs to runs."""

import os
import subprocess


def visible_gpus():
    """GPU indices or names from CUDA_VISIBLE_DEVICES, else from nvidia-smi; empty without both."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [str(index) for index, line in enumerate(listed.stdout.splitlines()) if line.startswith("GPU")]


class Pool:
    """Assigns a GPU to each run, at most `runs_each` runs per GPU at a time."""

    def __init__(self, names, runs_each=1):
        self.free = list(names) * runs_each

    def take(self):
        """@returns the environment of a run and the GPU to give back, or nothing without GPUs"""
        if not self.free:
            return {}, None
        name = self.free.pop(0)
        return {"CUDA_VISIBLE_DEVICES": name}, name

    def give_back(self, name):
        if name is not None:
            self.free.append(name)
