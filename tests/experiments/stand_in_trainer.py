#!/usr/bin/env python3
"""A fake terngrad_train: counts steps into metrics.jsonl, can be killed and resumed, and can fail on request.

STAND_IN_SECONDS: seconds per step. STAND_IN_FAIL: "once" or "always", after half of the steps.
"""

import json
import os
import pathlib
import signal
import sys
import time

OPTIONS = ["dataset", "data_dir", "net", "num_nodes", "batch_size", "max_steps", "grad_bits", "clip_factor", "quantize_logits", "seed",
           "train_dir", "threads", "device", "resume", "eval_steps", "optimizer", "initial_learning_rate", "weight_decay",
           "learning_rate_decay_type", "momentum", "ema_decay", "dropout_keep_prob", "telemetry_steps", "save_iter"]


def main():
    if "--version" in sys.argv:
        print("terngrad_train 0.0.1 (0123456789ab)")
        return 0
    if "--list_options_json" in sys.argv:
        print(json.dumps({"options": [{"name": name, "aliases": []} for name in OPTIONS]}))
        return 0
    options = dict(word[2:].split("=", 1) if "=" in word else (word[2:], "true") for word in sys.argv[1:])
    folder = pathlib.Path(options["train_dir"])
    state = folder / "state"
    steps = int(options["max_steps"])
    if "resume" not in options:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "config.json").exists():
            print("terngrad_train: error: the run directory is not empty", file=sys.stderr)
            return 2
        decides = {name: value for name, value in options.items()
                   if name not in ("train_dir", "data_dir", "threads", "device", "resume", "eval_steps", "telemetry_steps", "save_iter")}
        decides["num_workers"] = decides.pop("num_nodes", "1")
        decides["codec"] = {"1": "ternary"}.get(decides.pop("grad_bits", "32"), "fp32")
        # Atomic, as in the trainer.
        (folder / "config.tmp").write_text(json.dumps({
            "identity": decides, "history": [{"time": "2026-01-01T00:00:00Z", "commit": "0123456789ab", "version": "0.0.1",
                                              "device": "cpu", "machine": {"cpu_model": "none", "usable_cores": 1}}]}))
        (folder / "config.tmp").rename(folder / "config.json")
    (folder / "gpu").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    done = int(state.read_text()) if state.exists() else 0
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True) if (folder / "metrics.jsonl").exists() else []
    # Lines after the saved state are dropped and written again, as in the trainer.
    (folder / "metrics.tmp").write_text("".join(line for number, line in enumerate(lines, 1) if number <= done))
    (folder / "metrics.tmp").rename(folder / "metrics.jsonl")
    with open(folder / "metrics.jsonl", "a", encoding="utf-8") as metrics:
        while done < steps and not stopped:
            time.sleep(float(os.environ.get("STAND_IN_SECONDS", "0")))
            done += 1
            metrics.write(json.dumps({"step": done, "kind": "train", "loss": 1 / done}) + "\n")
            metrics.flush()
            temporary = folder / "state.tmp"
            temporary.write_text(str(done))
            temporary.rename(state)
            fail = os.environ.get("STAND_IN_FAIL")
            marker = folder / "failed"
            if done == steps // 2 and (fail == "always" or fail == "once" and not marker.exists()):
                marker.touch()
                if fail == "always":
                    state.write_text(str(done - 1))
                print("terngrad_train: error: told to fail", file=sys.stderr)
                return 1
        if done == steps:
            top1 = 0.9 + 0.001 * int(options["seed"]) - (0.005 if options.get("grad_bits") == "1" else 0)
            (folder / "checkpoint-20.safetensors").touch()
            metrics.write(json.dumps({"step": done, "kind": "test", "weights": "ema", "top1": top1, "top5": 1.0, "loss": 0.1}) + "\n")
    return 143 if stopped and done < steps else 0


if __name__ == "__main__":
    sys.exit(main())
