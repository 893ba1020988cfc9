#!/usr/bin/env python3
"""A fake terngrad_eval: writes predictions of 1000 images with classes 0 to 9 in turn, with the accuracy of a run of
the fake trainer. The wrong predictions are consecutive images: from the number of the seed on, or, with ternary
gradients, from that distance before the end backwards.

STAND_IN_EVAL: "old" for a command without --predictions, "fail" for one that fails, "slow" for one that does not end by
itself.
"""

import array
import json
import os
import pathlib
import sys
import time

NUM = 1000


def main():
    kind = os.environ.get("STAND_IN_EVAL")
    if "--list_options_json" in sys.argv:
        names = ["checkpoint_dir"] if kind == "old" else ["checkpoint_dir", "predictions"]
        print(json.dumps({"options": [{"name": name, "aliases": []} for name in names]}))
        return 0
    if kind == "fail":
        print("terngrad_eval: error: told to fail", file=sys.stderr)
        return 1
    while kind == "slow":
        time.sleep(0.1)
    options = dict(word[2:].split("=", 1) for word in sys.argv[1:])
    folder = pathlib.Path(options["checkpoint_dir"])
    identity = json.loads((folder / "config.json").read_text())["identity"]
    test = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()][-1]
    first, num_wrong = int(identity["seed"]), NUM - round(NUM * test["top1"])
    wrong = range(first, first + num_wrong) if identity["codec"] == "fp32" else range(NUM - first - num_wrong, NUM - first)
    predicted = array.array("i", [(i % 10 + 1) % 10 if i in wrong else i % 10 for i in range(NUM)])
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({NUM},), }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + predicted.tobytes()
    pathlib.Path(options["predictions"]).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
