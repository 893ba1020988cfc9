#!/usr/bin/env python3
"""Runs clang-tidy on the sources of a build, as many at a time as there are processors, and remembers which passed: a source
is looked at again only if it, a header that it includes, its compile command, .clang-tidy or clang-tidy itself changed.

Usage: scripts/tidy.py COMPILE_COMMANDS

COMPILE_COMMANDS is the compile_commands.json of a build. Sources that pass are remembered in the folder TERNGRAD_TIDY_CACHE,
~/.cache/terngrad-tidy by default; what clang-tidy finds is printed, and found again by the next run. Exit code 1 if it found
anything.
"""

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
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
# A pass that no run asked for in so long is forgotten.
KEPT_SECONDS = 30 * 24 * 3600

# Beside .clang-tidy. The build's flags are g++'s; clang knows most of them.
OPTIONS = [
    "--quiet",
    "--extra-arg=-Wno-unknown-warning-option",
    "--extra-arg=-Wreserved-identifier",
    "--extra-arg=-Wreserved-macro-identifier",
]
# Steps after which the static analyzer leaves a function, a third of its default: what it finds at all it finds early, and it
# spent three quarters of its time, half of all, on following a few functions to the end.
for word in ["-analyzer-config", "max-nodes=75000"]:
    OPTIONS += ["--extra-arg=-Xclang", f"--extra-arg={word}"]


def options_for(file):
    # Kept out: the static analyzer in benches, where it doubles the time, and in kernels/cpu, where it assumes vector lengths
    # that no target has.
    without_analyzer = file.startswith(("bench/", "kernels/cpu/"))
    return OPTIONS + (["--checks=-clang-analyzer-*"] if without_analyzer else [])


def is_looked_at(file, command):
    """Not tests: to follow GoogleTest's macros takes longer than all the rest, and what they get wrong fails when they run.
    Nor .cu files: clang would need the toolkit's headers in a version that it knows. Nor what the emulation of tests/simt
    compiles again, with headers that clang cannot read."""
    return not file.startswith(("..", "build", "tests/")) and file.endswith(".cpp") and "tests/simt/" not in command


def commands_for_clang(commands):
    """Of the sources that are looked at, without launchers. Without the runtime's package clang has no omp.h; g++'s serves,
    and must come last, for its other headers do not."""
    gcc_headers = subprocess.run(["g++", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()
    kept = []
    for entry in commands:
        file = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        if not is_looked_at(file, entry["command"]):
            continue
        words = shlex.split(entry["command"])
        if pathlib.Path(words[0]).name == "ccache":
            words = words[1:]
        kept.append(
            {"directory": entry["directory"], "file": str(ROOT / file), "command": shlex.join([*words, "-idirafter", gcc_headers])}
        )
    return kept


def included_files(database):
    """What each source is made of, itself included, as the compiler of clang-tidy finds it."""
    scanner = pathlib.Path(shutil.which("clang-tidy")).resolve().with_name("clang-scan-deps")
    result = subprocess.run(
        [scanner, f"-compilation-database={database}", f"-j={os.cpu_count()}"], capture_output=True, text=True, cwd=ROOT
    )
    files = {}
    for rule in re.split(r"(?<!\\)\n", result.stdout):
        names = rule.replace("\\\n", " ").split()[1:]
        if names:
            source = os.path.normpath(names[0])
            files.setdefault(source, set()).update(os.path.normpath(name) for name in names)
    return files


class Digests:
    """Of files, each read once."""

    def __init__(self):
        self.known = {}

    def of(self, file):
        if file not in self.known:
            self.known[file] = hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()
        return self.known[file]


def key_of(commands, files, surroundings, digests):
    """Of all that the result for a source depends on; the same in any folder."""
    parts = [*surroundings, *sorted(commands)]
    parts += sorted(f"{file} {digests.of(file)}" for file in files)
    return hashlib.sha256("\n".join(parts).replace(str(ROOT), ".").encode()).hexdigest()


def keys_of(commands, database):
    """The key of each source; none of one whose includes could not be followed."""
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    surroundings = [version, (ROOT / ".clang-tidy").read_text(), pathlib.Path(__file__).read_text()]
    of_source = {}
    for entry in commands:
        of_source.setdefault(entry["file"], []).append(entry["command"])
    files = included_files(database)
    digests = Digests()
    return {
        source: key_of(lines, files[source], surroundings, digests) if source in files else None
        for source, lines in of_source.items()
    }


def passes(source, folder, stamp):
    """Whether clang-tidy finds nothing, which makes the stamp if there is one to make; else prints what it found."""
    options = options_for(os.path.relpath(source, ROOT))
    result = subprocess.run(["clang-tidy", *options, "-p", folder, source], capture_output=True, text=True, cwd=ROOT)
    if result.returncode != 0:
        print(result.stdout + result.stderr, flush=True)
    elif stamp is not None:
        stamp.touch()
    return result.returncode == 0


def forget_old(cache):
    for stamp in cache.iterdir():
        if time.time() - stamp.stat().st_mtime > KEPT_SECONDS:
            stamp.unlink()


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("--help", "-h"):
        print(__doc__.strip(), file=sys.stdout if sys.argv[1:] in (["--help"], ["-h"]) else sys.stderr)
        return 0 if sys.argv[1:] in (["--help"], ["-h"]) else 2
    cache = pathlib.Path(os.environ.get("TERNGRAD_TIDY_CACHE") or pathlib.Path.home() / ".cache/terngrad-tidy")
    cache.mkdir(parents=True, exist_ok=True)
    commands = commands_for_clang(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    if not commands:
        sys.exit(f"tidy.py: {sys.argv[1]} has no source to look at")
    folder = pathlib.Path(sys.argv[1]).resolve().parent / "tidy"
    folder.mkdir(exist_ok=True)
    database = folder / "compile_commands.json"
    database.write_text(json.dumps(commands, indent=1))

    stamps = {source: key and cache / key for source, key in keys_of(commands, database).items()}
    # The largest first, so that none of the long ones is left for the end.
    new = [source for source, stamp in stamps.items() if stamp is None or not stamp.exists()]
    new.sort(key=lambda source: -os.path.getsize(source))
    for stamp in stamps.values():
        if stamp is not None and stamp.exists():
            stamp.touch()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        passed = dict(zip(new, pool.map(lambda source: passes(source, folder, stamps[source]), new)))
    forget_old(cache)
    failed = [os.path.relpath(source, ROOT) for source, has_passed in passed.items() if not has_passed]
    num_unchanged = len(stamps) - len(new)
    print(f"tidy.py: {len(stamps)} sources, {num_unchanged} unchanged since they passed, {len(failed)} failed", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
