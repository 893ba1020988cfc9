#!/usr/bin/env python3
"""Checks the machine code of the CUDA kernels in object files: that none uses local memory, that those which stream
through tensors do so by accesses of 128 bits, and that their counts are no worse than those recorded: loads in flight,
instructions per element, registers. Each of these is lost by small changes of a source and costs up to half the speed.

Usage: scripts/dev/check_kernels.py OBJECT... | --list OBJECT... | --record OBJECT... | --table

--list      prints every kernel with its counts
--record    writes the counts of these objects to kernel_counts.json beside this script; those of other objects stay
--table     prints what follows from the recorded counts for an H100 and an H200, in Markdown, as docs/gpu.md has it

Exit codes: 0 nothing found, 1 something found, 2 wrong usage, 77 only code for GPUs whose encoding is unknown here.
Counting is done by machine_code.py, without the toolkit's cuobjdump.
"""

import dataclasses
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from machine_code import ARCHITECTURES, BadObject, compilers, cubins, kernels

COUNTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernel_counts.json")


@dataclasses.dataclass(frozen=True)
class Wide:
    """The smallest number of loads and of stores of 128 bits in the code of a kernel, for every architecture and
    instantiation. An access in an unrolled loop counts as often as the loop is copied."""

    kernel: str
    loads: int
    stores: int
    arguments: str = ""  # only instantiations in whose mangled arguments this regular expression is found
    target: str = "terngrad_kernels"  # of CMake, whose objects must have it

    def concerns(self, kernel):
        return kernel.function() == self.kernel and re.search(self.arguments, kernel.arguments()) is not None


# Types of a gradient's elements: of 16 bits there are twice as many in an access.
FLOAT32 = "^IfE"
FLOAT16_OR_BFLOAT16 = "7Float16|8Bfloat16"
# Of kernels that are compiled once more for nearest rounding and asymmetric levels, the one without.
FLOAT32_WITHOUT_MODES = "^IfLb0E"
FLOAT16_OR_BFLOAT16_WITHOUT_MODES = "(7Float16|8Bfloat16)ELb0E"
WIDE_ACCESSES = [
    Wide("chunk_statistics_kernel", 8, 0),
    Wide("encode_blocks_kernel", 8, 0),  # 4 to measure, 4 to draw
    Wide("ternarize_whole_kernel", 8, 0, FLOAT32),
    Wide("ternarize_whole_kernel", 4, 0, FLOAT16_OR_BFLOAT16),
    Wide("ternarize_t2_kernel", 4, 0, FLOAT32_WITHOUT_MODES),
    Wide("ternarize_t2_kernel", 2, 0, FLOAT16_OR_BFLOAT16_WITHOUT_MODES),
    Wide("ternarize_t5_kernel", 4, 0, FLOAT32_WITHOUT_MODES),
    Wide("ternarize_t5_kernel", 2, 0, FLOAT16_OR_BFLOAT16_WITHOUT_MODES),
    Wide("ternarize_lanes_kernel", 4, 0, FLOAT32_WITHOUT_MODES),
    Wide("ternarize_lanes_kernel", 2, 0, FLOAT16_OR_BFLOAT16_WITHOUT_MODES),
    Wide("ternarize_masks_kernel", 4, 0, FLOAT32_WITHOUT_MODES),
    Wide("ternarize_masks_kernel", 2, 0, FLOAT16_OR_BFLOAT16_WITHOUT_MODES),
    Wide("float_payload_kernel", 8, 8, "(ToFloat32|ToRoundedBfloat16)EfE"),  # 4 of whole chunks, 4 of others
    Wide("float_payload_kernel", 8, 0, "ToBfloat16EfE"),
    Wide("code_sum_kernel", 0, 5),  # 4 of whole chunks, 1 of others
    Wide("lane_sum_kernel", 0, 4),
    Wide("tree_sum_kernel", 0, 1),
    Wide("tree_sum_kernel", 15, 1, "LeafFormatE0E"),  # fp32: 8 of a batch, 7 of the rest
    Wide("code_tree_sum_kernel", 0, 5),  # 4 of whole chunks, 1 of others
    Wide("add_lanes_kernel", 2, 1),
    Wide("histogram_kernel", 4, 0, "^IfLi"),
    Wide("chunk_counts_kernel", 4, 0, FLOAT32),
    Wide("choose_kernel", 4, 0, FLOAT32),
    Wide("gather_images_kernel", 4, 4, "6float4", "terngrad_datasets"),
    Wide("copy_slot_kernel", 4, 4, "", "terngrad_datasets"),
    Wide("crop_images_kernel", 1, 0, "^ILb1E", "terngrad_datasets"),  # staged
    Wide("crop_images_kernel", 0, 1, "^ILb[01]ELb1E", "terngrad_datasets"),  # of whole vectors
    Wide("add_bias_kernel", 2, 1, "^ILi4E", "terngrad_nets"),
    Wide("max_pool_forward_kernel", 1, 1, "^ILi4E", "terngrad_nets"),
    Wide("max_pool_backward_kernel", 1, 1, "^ILi4E", "terngrad_nets"),
    Wide("average_pool_forward_kernel", 1, 1, "^ILi4E", "terngrad_nets"),
    Wide("average_pool_backward_kernel", 1, 1, "^ILi4E", "terngrad_nets"),
    Wide("normalize_kernel", 1, 1, "^ILi4E", "terngrad_nets"),
    Wide("input_gradient_kernel", 1, 1, "^ILi4E", "terngrad_nets"),
    Wide("weight_decay_kernel", 2, 1, "", "terngrad_trainers"),
    Wide("scale_workers_kernel", 1, 1, "", "terngrad_trainers"),
]



@dataclasses.dataclass(frozen=True)
class Stream:
    """A kernel whose counts are recorded. `bits`: how wide the accesses are that stream; narrower ones do not count as
    loads in flight, and the fast path is the one with the most of them. `elements`: that a thread handles on that path,
    0 where rare cases cannot be told from it; `bytes`: that each of them moves."""

    name: str  # in the table
    kernel: str
    arguments: str
    elements: int
    bytes: float
    bits: int = 128
    shared: bool = False  # accesses of shared memory tell the fast path
    target: str = "terngrad_kernels"

    def concerns(self, kernel):
        return kernel.function() == self.kernel and re.search(self.arguments, kernel.arguments()) is not None


STREAMS = [
    Stream("statistics, float", "chunk_statistics_kernel", FLOAT32.rstrip("E") + "LN", 32, 4),
    Stream("statistics, bf16", "chunk_statistics_kernel", "8Bfloat16", 64, 2),
    Stream("statistics, fp16", "chunk_statistics_kernel", "7Float16", 64, 2),
    Stream("encode of blocks, float", "encode_blocks_kernel", FLOAT32, 0, 4.25),
    Stream("encode of blocks, bf16", "encode_blocks_kernel", "8Bfloat16", 0, 2.25),
    Stream("encode of blocks, fp16", "encode_blocks_kernel", "7Float16", 0, 2.25),
    Stream("ternarize whole chunks to t2, float", "ternarize_whole_kernel", FLOAT32, 32, 4.25),
    Stream("ternarize whole chunks to t2, bf16", "ternarize_whole_kernel", "8Bfloat16", 32, 2.25),
    Stream("ternarize whole chunks to t2, fp16", "ternarize_whole_kernel", "7Float16", 32, 2.25),
    Stream("ternarize any range to t2, float", "ternarize_t2_kernel", FLOAT32_WITHOUT_MODES, 0, 4.25),
    Stream("ternarize any range to t2, bf16", "ternarize_t2_kernel", "8Bfloat16ELb0E", 0, 2.25),
    Stream("ternarize any range to t2, fp16", "ternarize_t2_kernel", "7Float16ELb0E", 0, 2.25),
    Stream("sum of t2 codes, 8 messages", "code_sum_kernel", "^ILNS_10CodeFormatE1ELb0E", 16, 6, bits=32),
    Stream("tree sum of fp32, 15 workers", "tree_sum_kernel", "LeafFormatE0ELj1E", 4, 64),
    Stream("tree sum of t2 codes, 8 workers", "code_tree_sum_kernel", "CodeFormatE1ELj0E", 16, 6, bits=32, shared=True),
    Stream("tree sum of t5 codes, 8 workers", "code_tree_sum_kernel", "CodeFormatE2ELj0E", 16, 5.6, bits=32, shared=True),
    Stream("fp32 payload", "float_payload_kernel", "9ToFloat32EfE", 16, 8),
    Stream("histogram of magnitudes, float", "histogram_kernel", "^IfLi0E", 16, 4),
    Stream("counts of magnitudes in chunks, float", "chunk_counts_kernel", FLOAT32, 16, 4),
    Stream("columns of a product with a factor", "low_rank_columns_kernel", "", 0, 4, bits=32),
    Stream("rows of a product with a factor", "low_rank_slots_kernel", "", 0, 4, bits=32),
]

# Bytes of dynamic shared memory that kernels are launched with at most. With the static ones a block has 48 KiB unless it
# asks for more (CUDA Programming Guide, "Shared Memory"), which nothing here does: a launch beyond fails.
DYNAMIC_SHARED_BYTES = {"crop_images_kernel": 47 << 10}
SHARED_BYTES = 48 << 10

# (name, multiprocessors, GHz while they are busy, GB/s of a copy, read and written): computed from, not measured here.
MACHINES = [("H100", 132, 1.755, 3000), ("H200", 132, 1.755, 4300)]
LATENCY_SECONDS = 800e-9  # of memory under load, by which bytes must be in flight


def counts_of(stream, found):
    """What is recorded of a stream, the worst of its instantiations, by architecture."""
    of_stream = {}
    for kernel in found:
        if not stream.concerns(kernel):
            continue
        counts = {"loads_in_flight": kernel.loads_in_flight(stream.bits), "registers": kernel.num_registers}
        if stream.elements:
            path = kernel.fast_path(stream.bits, stream.shared)
            counts |= {"instructions": path.num_instructions, "logic": path.num_logic, "slow": path.num_slow}
        worst = of_stream.setdefault(f"sm_{kernel.architecture}", counts)
        for name, count in counts.items():
            worst[name] = (min if name == "loads_in_flight" else max)(worst[name], count)
    return of_stream


def regressions(found, streams, recorded):
    """Where counts are worse than recorded, a line each."""
    for stream in streams:
        for architecture, counts in counts_of(stream, found).items():
            if architecture not in recorded.get(stream.name, {}):
                yield f"{stream.name} ({architecture}): no counts are recorded (check_kernels.py --record)"
                continue
            of_record = recorded[stream.name][architecture]
            for name in ("loads_in_flight", "registers", "instructions"):
                if name not in counts:
                    continue
                worse = counts[name] < of_record[name] if name == "loads_in_flight" else counts[name] > of_record[name]
                if worse:
                    yield f"{stream.name} ({architecture}): {name} {counts[name]}, recorded {of_record[name]}"


def read_record():
    """{"compiler": release of ptxas, "counts": by stream and architecture}"""
    with open(COUNTS, encoding="utf-8") as file:
        return json.load(file)


def record(found, releases):
    counts = read_record()["counts"] if os.path.exists(COUNTS) else {}
    counts |= {stream.name: of_stream for stream in STREAMS if (of_stream := counts_of(stream, found))}
    with open(COUNTS, "w", encoding="utf-8") as file:
        file.write(json.dumps({"compiler": " ".join(sorted(releases)), "counts": counts}, indent=1, sort_keys=True) + "\n")


def percent_of_copy(stream, counts, machine):
    """The least of three bounds, as percent of what a copy moves in that time: memory itself; instructions (128 lanes in a
    multiprocessor and cycle, 64 of the logic pipe, 16 of the slow one); and loads in flight by Little's law, in as many
    threads as the registers admit. A bound, to be missed by what no count says: waits between phases, ragged ends."""
    _, multiprocessors, ghz, copy = machine
    threads = min(2048, 65536 // (-(-counts["registers"] // 8) * 8) // 256 * 256)
    in_flight = multiprocessors * threads * counts["loads_in_flight"] * stream.bits / 8
    bounds = [copy, in_flight / LATENCY_SECONDS / 1e9]
    if stream.elements:
        cycles = max(counts["instructions"] / 128, counts["logic"] / 64, counts["slow"] / 16) / stream.elements
        bounds.append(multiprocessors * ghz / cycles * stream.bytes)
    return 100 * min(bounds) / copy


def table(counts, architecture="sm_90"):
    yield (
        "| kernel | bytes per element | instructions per element | loads in flight | registers | "
        + " | ".join(f"{machine[0]}, % of copy" for machine in MACHINES)
        + " |"
    )
    yield "| --- |" + " --: |" * (4 + len(MACHINES))
    for stream in STREAMS:
        of_stream = counts[stream.name][architecture]
        instructions = f"{of_stream['instructions'] / stream.elements:.1f}" if stream.elements else ""
        cells = [stream.name, f"{stream.bytes:g}", instructions, of_stream["loads_in_flight"], of_stream["registers"]]
        cells += [f"{percent_of_copy(stream, of_stream, machine):.0f}" for machine in MACHINES]
        yield "| " + " | ".join(str(cell) for cell in cells) + " |"


# What is left of a kernel whose body the compiler has dropped.
EMPTY_INSTRUCTIONS = 32


def is_cubs(kernel):
    """CUB has a kernel that does nothing, to ask the driver for its architecture."""
    return kernel.name.startswith("_ZN3cub")


def findings(found, wide_accesses):
    """What is wrong with kernels, a line each."""
    for kernel in found:
        if kernel.uses_local_memory():
            yield (
                f"{kernel.name} (sm_{kernel.architecture}) uses local memory: a frame of {kernel.frame_bytes} bytes, "
                f"{dict(kernel.accesses)}"
            )
        if kernel.num_instructions < EMPTY_INSTRUCTIONS and not any(kernel.accesses.values()) and not is_cubs(kernel):
            yield (
                f"{kernel.name} (sm_{kernel.architecture}) accesses no memory: the compiler has dropped its body, as it does "
                f"where a kernel takes the address of a constant of the host (std::min of one)"
            )
        dynamic = DYNAMIC_SHARED_BYTES.get(kernel.function(), 0)
        if kernel.shared_bytes + dynamic > SHARED_BYTES:
            yield (
                f"{kernel.name} (sm_{kernel.architecture}) has {kernel.shared_bytes} bytes of static shared memory and up to "
                f"{dynamic} of dynamic, and no launch gets more than {SHARED_BYTES}"
            )
    for wide in wide_accesses:
        concerned = [kernel for kernel in found if wide.concerns(kernel)]
        for architecture in sorted({kernel.architecture for kernel in found}):
            if not any(kernel.architecture == architecture for kernel in concerned):
                yield f"{wide.kernel}{wide.arguments} is nowhere for sm_{architecture}"
        for kernel in concerned:
            if kernel.wide_loads() < wide.loads or kernel.wide_stores() < wide.stores:
                yield (
                    f"{kernel.name} (sm_{kernel.architecture}) has {kernel.wide_loads()} loads and {kernel.wide_stores()} "
                    f"stores of 128 bits, wanted {wide.loads} and {wide.stores}: {dict(kernel.accesses)}"
                )


def targets_of(paths):
    """The libraries that the objects are of, by the folders in which CMake keeps them; kernels/ if none is known."""
    targets = {wide.target for wide in WIDE_ACCESSES}
    return {target for target in targets if any(f"{target}.dir/" in path for path in paths)} or {"terngrad_kernels"}


def main(arguments):
    if arguments == ["--table"]:
        print("\n".join(table(read_record()["counts"])))
        return 0
    listing, recording = (arguments[:1] == [option] for option in ("--list", "--record"))
    paths = arguments[listing or recording :]
    if not paths or any(path.startswith("-") for path in paths):
        print(__doc__, file=sys.stderr)
        return 2
    found = []
    architectures = set()
    releases = set()
    for path in paths:
        try:
            with open(path, "rb") as file:
                obj = file.read()
            architectures |= {architecture for architecture, _ in cubins(obj)}
            found += kernels(obj)
            releases |= compilers(obj)
        except (BadObject, OSError) as error:
            print(f"check_kernels.py: {path}: {error}", file=sys.stderr)
            return 1
    if listing:
        for kernel in found:
            print(
                f"sm_{kernel.architecture} {kernel.name}: {kernel.num_instructions} instructions, {dict(kernel.accesses)}, "
                f"{kernel.loads_in_flight(128)} loads of 128 bits in flight, {kernel.num_registers} registers, "
                f"{kernel.shared_bytes} bytes of static shared memory"
            )
        return 0
    if recording:
        record(found, releases)
        return 0
    if architectures and architectures.isdisjoint(ARCHITECTURES):
        print(f"check_kernels.py: skipped, for there is only code for {sorted(architectures)}")
        return 77
    targets = targets_of(paths)
    complaints = list(findings(found, [wide for wide in WIDE_ACCESSES if wide.target in targets]))
    recorded = read_record()
    if releases == {recorded["compiler"]}:
        complaints += regressions(found, [stream for stream in STREAMS if stream.target in targets], recorded["counts"])
    elif releases:
        print(f"check_kernels.py: counts are recorded for CUDA {recorded['compiler']}, not compared with {sorted(releases)}")
    if not found:
        complaints.append("there are no kernels in these objects")
    for complaint in complaints:
        print(f"check_kernels.py: {complaint}", file=sys.stderr)
    print(f"check_kernels.py: {len(found)} kernels in {len(paths)} objects, {len(complaints)} findings")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
