#!/usr/bin/env python3
"""Refuses private words where the field has a term, in sources, tests, scripts and documents.

Usage: scripts/dev/check_words.py

docs/glossary.md has the terms. Recorded results are left alone. Prints file:line, the word and what to write; exit code 1 if
anything is found.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".md", ".cmake", ".txt", ".in"}
LEFT_ALONE = ("bench/results/", "experiments/results/", "scripts/dev/check_words.py")
# What is not written, and what is.
WORDS = [
    (r"\bLent\b", "ParcelKeepAlive"),
    (r"\b[Ll]etters?\b(?= (that|which|of fixed|has|have|from))", "header, message"),
    (r"\bPatience\b", "PollBackoff"),
    (r"\bSignsOfLife\b", "PeerLiveness"),
    (r"\b(tell_busy|send_word|heard_word)\b", "send_heartbeat, send_control, poll_control"),
    (r"\b\w+_aside\b|\b(ask_to_end|meet_launch)\b", "is_evaluator, request_stop, barrier_with_evaluator"),
    (r"\b(from_chief|from_all|gather_numbers)\b", "broadcast_string, all_gather_strings, all_gather_doubles"),
    (r"[Gg]reatest", "max, largest"),
    (r"\b(?:k)?[Ll]east(?=_|[A-Z])", "min"),
    (r"\breturn legs?\b|\bReturnLeg\b|\bway back leg\b", "downlink"),
    (r"\bShare(Owners|Update|Range)\b|\b(num_shares|data_share)\b", "shard"),
    (r"\b(GradientMessages|adds_floats|kSubtree)\b", "GradientTransport, sums_as_float, kPartialSum"),
    (r"\b(skip_mark|next_look|kNoLook)\b", "skip_flag, next_sync_step, kNoSyncStep"),
    (r"\b(PushNote|RankNote|note_nonfinite)\b", "PushMetadata, RankStats, record_nonfinite"),
    (r"\b(more_state|more_tensors|restore_more)\b", "extra_metadata, extra_tensors, restore_extra"),
    (r"\b(why_no_\w+|reason_against_\w+)\b", "..._unavailable_reason, ..._unsupported_reason"),
    (r"\b(TrainPlace|GpuShare|compute_probe|rank_options)\b", "RunContext, GpuAssignment, compute_benchmark, rank_consistency"),
    (r"\bha(s|ve) the bits of\b", "bit-identical to"),
    (r"\bfor people\b", "human-readable"),
    (r"\bwhoever\b", "who, the rank that"),
    (r"\bafresh\b", "from scratch, again"),
    (r"\bfor want of\b", "without"),
    (r"\bin vain\b", "until the timeout"),
    (r"\bbut for\b", "except for"),
    (r"\bso many (workers|processes|ranks|bytes|elements|steps|threads)\b", "N, that many"),
    (r"\bgo(es)? on\b", "continue"),
    (r"\b(every|last|first) that many\b", "every N, the last N"),
    (r"\bcontinues to (name|say)\b", "then names, also says"),
]
PATTERNS = [(re.compile(pattern), term) for pattern, term in WORDS]


def checked_files():
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, text=True,
                           capture_output=True).stdout.split("\n")
    return [name for name in names
            if pathlib.PurePosixPath(name).suffix in SUFFIXES and not name.startswith(LEFT_ALONE) and (ROOT / name).is_file()]


def main():
    if sys.argv[1:]:
        print(__doc__.strip(), file=sys.stdout if sys.argv[1:] in (["--help"], ["-h"]) else sys.stderr)
        return 0 if sys.argv[1:] in (["--help"], ["-h"]) else 2
    num_found = 0
    for name in checked_files():
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8", errors="replace").split("\n"), 1):
            for pattern, term in PATTERNS:
                found = pattern.search(line)
                if found:
                    print(f"{name}:{number}: '{found.group()}': write {term}", file=sys.stderr)
                    num_found += 1
    return 1 if num_found else 0


if __name__ == "__main__":
    sys.exit(main())
