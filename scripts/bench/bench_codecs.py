#!/usr/bin/env python3
"""Compares all codecs on recorded gradients of three nets: bits, vNMSE of a message and of the mean of 8 workers, time.

    PYTHONPATH=build/release/python scripts/bench/bench_codecs.py --programs build/release/bin --data ../data --out bench-codecs

Records gradients of 8 workers, early, in the middle and late in a short training in fp32: CifarNet and ResNet-20 on CIFAR-10
(--data has a folder cifar-10), and examples/char_transformer.py, which needs PyTorch and the package terngrad. Then
`terngrad_codec inspect` measures every codec, preset and the VARIANTS below. vNMSE is |Q(g) - g|^2 / |g|^2 over all tensors and
steps; each message is of the gradient alone, since the steps are too far apart for a memory, whose bytes of an element and
worker are those that the codec or preset asks for. GB/s are of fp32, of one thread and the net --speed_of.

--out gets recorded/NET/step-*.safetensors, NET.json of terngrad_codec, and README.md, the table. --recorded FOLDER takes the
gradients of an earlier run. A codec from elsewhere enters by --others FILE.json, measured by its authors on the same files:
{"codec": "name", "nets": {"cifarnet": {"message_bits_per_element": 2.1, "vnmse": 0.5, "mean_vnmse": 0.1}}}. Exit code: 1 if a
program failed, 2 for wrong usage.
"""

import argparse
import datetime
import importlib
import json
import pathlib
import struct
import subprocess
import sys

import link_launch

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKERS = 8
STEPS = 900  # of CifarNet and ResNet-20; recorded at thirds
TRANSFORMER_STEPS = 150
TRAINED = {  # options of terngrad_train
    "cifarnet": ["--net", "cifar10_alexnet", "--batch_size", "128"],
    "resnet-20": ["--net", "resnet_20", "--batch_size", "64", "--optimizer", "momentum", "--initial_learning_rate", "0.05"],
}
NETS = {"cifarnet": "CifarNet", "resnet-20": "ResNet-20", "transformer": "transformer"}
VARIANTS = ["ternary:clip_factor=2.5", "ternary:clip_factor=2.5,rounding=stratified", "ternary:clip_factor=2.5,format=t5",
            "ternary:rotate=1024", "qsgd:bits=2", "qsgd:bits=4,rounding=stratified", "qsgd:bits=8", "natural:bits=4",
            "sign:scale=drive,rotate=4096", *(f"eden:levels={levels}" for levels in (2, 4, 8, 16)), "eden:levels=3,scale=least",
            "topk:density=0.1", "powersgd:rank=1"]


def refuse(text):
    print(f"bench_codecs.py: {text}", file=sys.stderr)
    raise SystemExit(2)


def run(command):
    """@returns standard output; ends the script if the command fails"""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        print(f"{' '.join(str(word) for word in command)}\n{result.stderr}", file=sys.stderr)
        raise SystemExit(1)
    return result.stdout


def write_safetensors(path, tensors):
    """@param tensors  {name: float32 array}"""
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.tobytes())


def import_transformer():
    """@returns the example's module"""
    sys.path.append(str(ROOT / "examples"))
    try:
        return importlib.import_module("char_transformer")
    except ImportError as error:
        refuse(f"--nets transformer: {error}")


def record_transformer(folder, steps):
    """Trains the example's transformer with the mean of the workers' gradients, and records them at thirds of `steps`."""
    example = import_transformer()
    torch = example.torch
    text = example.draw_text(100_000, 1)
    alphabet = sorted(set(text))
    windows = torch.tensor([alphabet.index(character) for character in text]).unfold(0, example.CONTEXT + 1, 1)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = example.Transformer(len(alphabet))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
    names, parameters = zip(*model.named_parameters())
    folder.mkdir(parents=True)
    for step in range(1, steps + 1):
        batch = windows[torch.randint(len(windows), (WORKERS * 4,))]
        of_workers = [torch.autograd.grad(model.loss(part), parameters) for part in batch.chunk(WORKERS)]
        if step % (steps // 3) == 0:
            write_safetensors(folder / f"step-{step:010}.safetensors",
                              {f"worker-{worker:04}/{name}": gradient.numpy() for worker, gradients in enumerate(of_workers)
                               for name, gradient in zip(names, gradients)})
        for parameter, *gradients in zip(parameters, *of_workers):
            parameter.grad = torch.stack(gradients).mean(0)
        optimizer.step()


def record(net, options, folder):
    if net == "transformer":
        return record_transformer(folder, options.steps or TRANSFORMER_STEPS)
    steps = options.steps or STEPS
    run([options.programs / "terngrad_train", "--dataset", "cifar10", "--data_dir", options.data / "cifar-10", *TRAINED[net],
         "--num_nodes", WORKERS, "--max_steps", steps, "--dump_gradients", steps // 3, "--device", "cpu", "--eval_steps", 0,
         "--telemetry_steps", 0, "--histogram_steps", 0, "--train_dir", folder])


def rows_of(options, folder):
    """Measured rows of a net's gradients by codec, without memories but with the bytes of the memory that the codec asks for.
    Without signs of +-1, whose length is the learning rate's."""
    listed = json.loads(run([options.programs / "terngrad_codec", "--list_codecs_json"]))
    presets = [row["name"] for row in listed["presets"] if "scale=one" not in row["spec"]]
    specs = [row["name"] for row in listed["codecs"] if row["name"] != "fp32"] + presets + VARIANTS
    results = {}
    for memory in ("none", "auto"):
        file = options.out / f"{folder.name}.json"
        run([options.programs / "terngrad_codec", "inspect", folder, "--codec_memory", memory, "--json", file,
             *(word for spec in specs for word in ("--codec", spec))])
        results[memory] = json.loads(file.read_text(encoding="utf-8"))
    for row, with_memory in zip(results["none"]["codecs"], results["auto"]["codecs"]):
        row.update(memory=with_memory["memory"], kept_bytes_per_element=with_memory["kept_bytes_per_element"])
        del row["tensors"], row["residual_norms"]
    results["none"]["source"] = f"{NETS[folder.name]}'s gradients"
    file.write_text(json.dumps(results["none"], indent=1) + "\n", encoding="utf-8")
    return {row["codec"]: row for row in results["none"]["codecs"]}


def number(value):
    return "-" if value is None else f"{value:.2g}" if value < 0.001 else f"{value:.4f}" if value < 10 else f"{value:.1f}"


def table(rows, others, speed_of):
    """Markdown, in order of bits. @param rows  {net: {codec: row}}"""
    lines = ["| codec | bits | " + " | ".join(f"{NETS[net]}, mean" for net in rows) + " | kept | encode | decode |",
             "| --- |" + " --- |" * (len(rows) + 4)]
    measured = [(codec, {net: rows[net][codec] for net in rows}, rows[speed_of][codec]) for codec in rows[speed_of]]
    measured += [(f"{row['codec']} (by its authors)", {net: row["nets"].get(net, {}) for net in rows}, {}) for row in others]
    bits = {codec: [row["message_bits_per_element"] for row in nets.values() if row] for codec, nets, _ in measured}
    for codec, nets, speed in sorted(measured, key=lambda each: sum(bits[each[0]]) / len(bits[each[0]])):
        low, high = (f"{of(bits[codec]):.3g}" for of in (min, max))
        cells = [f"`{codec}`" if speed else codec, low if low == high else f"{low} to {high}"]
        cells += [f"{number(row.get('vnmse'))}, {number(row.get('mean_vnmse'))}" for row in nets.values()]
        cells.append(f"{speed['kept_bytes_per_element']:.3g}" if speed else "-")
        cells += [f"{speed[f'{what}_bytes_per_second'] / 1e9:.1f}" if speed else "-" for what in ("encode", "decode")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="folder of terngrad_train and terngrad_codec")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("data"), help="folder with cifar-10 (default data)")
    parser.add_argument("--recorded", type=pathlib.Path, help="folder recorded/ of an earlier run")
    parser.add_argument("--nets", default=",".join(NETS), help=f"default {','.join(NETS)}")
    parser.add_argument("--steps", type=int, default=0, help="of every training, a multiple of 3 (default: 900; 150)")
    parser.add_argument("--speed_of", help="the net whose GB/s are shown (default: the first)")
    parser.add_argument("--others", type=pathlib.Path, action="append", default=[], metavar="FILE.json", help="repeatable")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a new folder")
    options = parser.parse_args()
    options.nets = options.nets.split(",")
    if unknown := [net for net in options.nets if net not in NETS]:
        refuse(f"--nets {unknown[0]}: accepted: {', '.join(NETS)}")
    options.speed_of = options.speed_of or options.nets[0]
    if options.speed_of not in options.nets:
        refuse(f"--speed_of {options.speed_of}: is not among --nets")
    if options.steps < 0 or options.steps % 3:
        refuse(f"--steps {options.steps}: must be a multiple of 3")
    if options.recorded and options.steps:
        refuse("--steps: of gradients that are --recorded already")
    needed = [options.programs / "terngrad_codec"]
    needed += [options.recorded / net for net in options.nets] if options.recorded else [options.programs / "terngrad_train"]
    if missing := [path for path in needed if not path.exists()]:
        refuse(f"there is no {missing[0]}")
    if options.recorded is None and "transformer" in options.nets:
        import_transformer()
    if options.out.exists():
        refuse(f"--out {options.out}: exists")
    return options


def read_others(paths):
    rows = []
    for path in paths:
        try:
            rows.append(json.loads(path.read_text(encoding="utf-8")))
            if not any(row["message_bits_per_element"] > 0 for row in rows[-1]["nets"].values()):
                raise ValueError("has no net")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            refuse(f"--others {path}: {type(error).__name__}: {error}")
    return rows


def main():
    options = parse()
    others = read_others(options.others)
    recorded = options.recorded or options.out / "recorded"
    options.out.mkdir(parents=True)
    rows = {}
    for net in options.nets:
        if options.recorded is None:
            record(net, options, recorded / net)
        rows[net] = rows_of(options, recorded / net)
        print(f"{net}: {len(rows[net])} codecs", flush=True)
    found = json.loads((options.out / f"{options.nets[0]}.json").read_text(encoding="utf-8"))
    text = f"""# Codecs on recorded gradients

By `scripts/bench/bench_codecs.py`, terngrad {found['version']} ({found['commit']}), {datetime.date.today()},
{link_launch.machine()['processor']}. Gradients of {found['num_workers']} workers at {len(found['steps'])} steps of a training, all
tensors as one vector. For each net vNMSE, |Q(g) - g|^2 / |g|^2, of one message, and of the mean of all workers' messages
against the mean of their gradients. *bits* are those of an element with all of a message's headers; *kept* are bytes of an element
and worker of the memory that a codec or preset asks for, which is not used here. *encode* and *decode* are GB/s of fp32 on one
thread, for {NETS[options.speed_of]}.

{table(rows, others, options.speed_of)}
"""
    (options.out / "README.md").write_text(text, encoding="utf-8")
    print(options.out / "README.md")


if __name__ == "__main__":
    main()
