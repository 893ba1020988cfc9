#!/usr/bin/env python3
"""Runs clang-tidy on the sources of a build, as many at a time as there are processors, under ccache: a source that passed is looked
at again only if it, a header that it includes, its compile command, .clang-tidy or clang-tidy itself changed.

Usage: scripts/dev/tidy.py [--all] COMPILE_COMMANDS

COMPILE_COMMANDS is the compile_commands.json of a build. Sources that it compiles together are also checked together, in a fraction
of the time. What clang-tidy finds is printed, and found again by the next run. Exit code 1 if it found anything.

  --all  also the static analyzer, and each source alone, for the checks that clang-tidy makes in its main file only: three times
         the time
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUM_PROCESSORS = len(os.sched_getaffinity(0))
CONFIG = ROOT / ".clang-tidy"

# Options in addition to .clang-tidy. The build's flags are g++'s; clang knows most of them. The static analyzer stops in a
# function after a third of its default number of steps, because it spent half of its time on a few functions without findings.
OPTIONS = ["--quiet", "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wreserved-identifier",
           "--extra-arg=-Wreserved-macro-identifier", "--extra-arg=-Xclang", "--extra-arg=-analyzer-config", "--extra-arg=-Xclang",
           "--extra-arg=max-nodes=75000"]
WITHOUT_ANALYZER = [*OPTIONS, "--checks=-clang-analyzer-*"]


def batch_options():
    """Options for batches: reports findings in included sources; disables checks that need the main file or reject includes."""
    headers = re.search(r"HeaderFilterRegex: '(.*)\\\.h\$'", CONFIG.read_text()).group(1)
    without = "-clang-analyzer-*,-misc-unused-alias-decls,-misc-unused-using-decls,-bugprone-suspicious-include"
    return [*OPTIONS, "--config-file=.clang-tidy", f"--checks={without}", rf"--header-filter={headers}\.(h|cpp)$"]


def jobs(commands, looks_at_all):
    """[(source, flags, options)]. Excludes tests, since GoogleTest's macros take longer than everything else; .cu files, for which
    clang would need the toolkit's headers in a known version; and sources that tests/simt compiles for the emulation. The analyzer
    also excludes benches, which double the time, and kernels/*/cpu, where it assumes vector lengths that no target has."""
    for entry in commands:
        path = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
        file = os.path.relpath(path, ROOT)
        is_batch = re.search("/unity/terngrad_[^/]*$", file) is not None
        if not is_batch and (file.startswith(("..", "build", "tests/")) or not file.endswith(".cpp") or "tests/simt/" in entry["command"]):
            continue
        words = shlex.split(entry["command"])
        flags = words[words[0].endswith("ccache") + 1 : words.index("-o")]
        sources = [(path, batch_options())] if is_batch else []
        if looks_at_all or not is_batch:
            alone = [str(ROOT / name) for name in re.findall(r'#include "(.*)"', pathlib.Path(path).read_text())] if is_batch else [path]
            for source in alone:
                analyzed = looks_at_all and not re.match("bench/|kernels/[a-z]+/cpu/", os.path.relpath(source, ROOT))
                sources.append((source, OPTIONS if analyzed else WITHOUT_ANALYZER))
        for source, options in sources:
            yield source, flags, options


def passes(job, folder):
    source, flags, options = job
    stem = folder / hashlib.sha256(f"{source} {flags} {options}".encode()).hexdigest()[:16]
    stem.with_suffix(".options").write_text("\n".join(options) + "\n")
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    ours = {"TIDY_OPTIONS": stem.with_suffix(".options"), "CCACHE_DEPEND": "1", "CCACHE_DIRECT": "1", "CCACHE_COMPILERTYPE": "gcc",
            "CCACHE_COMPILERCHECK": f"string:{version}", "CCACHE_BASEDIR": ROOT, "CCACHE_NOHASHDIR": "1",
            "CCACHE_EXTRAFILES": ":".join(map(str, [stem.with_suffix(".options"), ROOT / "scripts/dev/tidy_compiler.sh",
                                                    *(path for path in ROOT.glob("python/**/.clang-tidy")), CONFIG]))}
    result = subprocess.run(["ccache", ROOT / "scripts/dev/tidy_compiler.sh", *flags, "-MD", "-MF", stem.with_suffix(".d"), "-o",
                             stem.with_suffix(".o"), "-c", source], env={**os.environ, **{k: str(v) for k, v in ours.items()}},
                            capture_output=True, text=True, cwd=ROOT)
    if result.returncode != 0:
        print(result.stdout + result.stderr, flush=True)
    return result.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("commands", type=pathlib.Path, metavar="COMPILE_COMMANDS")
    arguments = parser.parse_args()
    for program in ["clang-tidy", "ccache", "g++"]:
        if shutil.which(program) is None:
            sys.exit(f"tidy.py: there is no {program} (scripts/install_deps.sh --lint)")
    folder = arguments.commands.resolve().parent / "tidy"
    folder.mkdir(exist_ok=True)
    # Longest first, for a good balance.
    pending = sorted(jobs(json.loads(arguments.commands.read_text()), arguments.all),
                  key=lambda job: ("/unity/" not in job[0], -os.path.getsize(job[0])))
    if not pending:
        sys.exit(f"tidy.py: {arguments.commands} has no source to look at")
    with concurrent.futures.ThreadPoolExecutor(NUM_PROCESSORS) as pool:
        passed = list(pool.map(lambda job: passes(job, folder), pending))
    failed = [os.path.relpath(job[0], ROOT) for job, has_passed in zip(pending, passed) if not has_passed]
    print(f"tidy.py: {len(pending)} files, {len(failed)} failed", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
