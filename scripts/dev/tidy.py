#!/usr/bin/env python3
"""Runs clang-tidy on the sources of a build, as many at a time as there are processors, and remembers which passed: a source
is looked at again only if it, a header that it includes, its compile command, .clang-tidy or clang-tidy itself changed.

Usage: scripts/dev/tidy.py [--all] [--since COMMIT] COMPILE_COMMANDS

COMPILE_COMMANDS is the compile_commands.json of a build. Sources that it compiles together are also checked together, in a
fraction of the time. Sources that pass are remembered in the folder TERNGRAD_TIDY_CACHE, ~/.cache/terngrad-tidy by default;
what clang-tidy finds is printed, and found again by the next run. Exit code 1 if it found anything.

  --all           also the static analyzer, and of sources that are compiled together each alone, for the checks that
                  clang-tidy makes in its main file only: three times the time
  --since COMMIT  only what includes a file that differs from COMMIT
"""

import argparse
import concurrent.futures
import contextlib
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
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A pass that no run asked for in so long is forgotten.
KEPT_SECONDS = 30 * 24 * 3600
STAMP = re.compile(r"[0-9a-f]{64}")
NUM_PROCESSORS = len(os.sched_getaffinity(0))

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


# What clang-tidy finds in its main file alone; the others of .clang-tidy it finds in what that includes too.
OF_MAIN_FILE = ["clang-analyzer-core*", "clang-analyzer-cplusplus*", "misc-unused-alias-decls", "misc-unused-using-decls"]


def options_for(job):
    """For the job. One without the analyzer has its own key, so that its pass is none of --all."""
    if job.is_batch:
        without = [f"-{check}" for check in ["clang-analyzer-*", *OF_MAIN_FILE[2:], "bugprone-suspicious-include"]]
        header_filter = re.search(r"HeaderFilterRegex: '(.*)'", (ROOT / ".clang-tidy").read_text()).group(1)
        if not header_filter.endswith(r"\.h$"):
            sys.exit(f"tidy.py: HeaderFilterRegex of .clang-tidy must end in \\.h$, to be widened to sources: {header_filter}")
        sources = header_filter.removesuffix(r"\.h$") + r"\.(h|cpp)$"
        # Batches may lie outside the project, where no .clang-tidy is found.
        config = f"--config-file={ROOT / '.clang-tidy'}"
        return [*OPTIONS, config, f"--checks={','.join(without)}", f"--header-filter={sources}"]
    if job.is_of_batch:
        return [*OPTIONS, f"--checks={','.join(['-*', *OF_MAIN_FILE])}"]
    return OPTIONS + ([] if job.is_analyzed else ["--checks=-clang-analyzer-*"])


def is_worth_analyzing(source):
    """Not benches, where the analyzer doubles the time, nor kernels/*/cpu, where it assumes vector lengths that no target has."""
    return re.match("bench/|kernels/[a-z]+/cpu/", os.path.relpath(source, ROOT)) is None


class Job(typing.NamedTuple):
    """A file that clang-tidy is given."""

    source: str
    is_batch: bool = False  # of sources that it includes
    is_of_batch: bool = False
    is_analyzed: bool = False


def is_looked_at(file, command):
    """Not tests: to follow GoogleTest's macros takes longer than all the rest, and what they get wrong fails when they run.
    Nor .cu files: clang would need the toolkit's headers in a version that it knows. Nor what the emulation of tests/simt
    compiles again, with headers that clang cannot read."""
    return not file.startswith(("..", "build", "tests/")) and file.endswith(".cpp") and "tests/simt/" not in command


def sources_of(batch):
    """The sources that are compiled together (terngrad_unity_build)."""
    return [str(ROOT / name) for name in re.findall(r'#include "(.*)"', pathlib.Path(batch).read_text())]


def commands_for_clang(commands, looks_at_all):
    """Jobs and their commands. Commands are without launchers. Without the runtime's package clang has no omp.h; g++'s serves,
    and must come last, for its other headers do not."""
    gcc_headers = subprocess.run(["g++", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()
    jobs = {}
    kept = []

    def add(job, entry, command):
        # All is looked for in a source that is compiled alone too.
        if not (job.is_of_batch and job.source in jobs):
            jobs[job.source] = job
        kept.append({"directory": entry["directory"], "file": job.source, "command": command})

    for entry in commands:
        path = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
        file = os.path.relpath(path, ROOT)
        # Of libraries; those of tests are not looked at.
        is_batch = re.search("/unity/terngrad_[^/]*$", file) is not None
        if not is_batch and not is_looked_at(file, entry["command"]):
            continue
        words = shlex.split(entry["command"])
        if pathlib.Path(words[0]).name == "ccache":
            words = words[1:]
        command = shlex.join([*words, "-idirafter", gcc_headers])
        add(Job(path, is_batch=is_batch, is_analyzed=looks_at_all and not is_batch and is_worth_analyzing(path)), entry, command)
        for source in sources_of(path) if is_batch and looks_at_all else []:
            add(Job(source, is_of_batch=True), entry, command.replace(entry["file"], source))
    return jobs, kept


def included_files(database):
    """What each source is made of, itself included, as the compiler of clang-tidy finds it; of none if the scanner fails."""
    scanner = pathlib.Path(shutil.which("clang-tidy")).resolve().with_name("clang-scan-deps")
    if not scanner.exists():
        print(f"tidy.py: there is no {scanner}, so that no pass is remembered", file=sys.stderr)
        return {}
    # A source that it cannot follow makes it fail too, and is missing in what it prints.
    result = subprocess.run(
        [scanner, f"-compilation-database={database}", f"-j={NUM_PROCESSORS}"], capture_output=True, text=True, cwd=ROOT
    )
    if result.returncode < 0 or not result.stdout.endswith("\n"):
        print(f"tidy.py: {scanner} ended early, so that no pass is remembered:\n{result.stderr}", file=sys.stderr)
        return {}
    files = {}
    for rule in re.split(r"(?<!\\)\n", result.stdout):
        names = rule.replace("\\\n", " ").split()[1:]
        if names:
            source = os.path.realpath(names[0])
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


class Keys:
    """Of all that the result of a job depends on; the same in any folder."""

    def __init__(self, jobs, commands, database):
        self.jobs = jobs
        self.version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
        self.commands = {}
        for entry in commands:
            self.commands.setdefault(entry["file"], []).append(entry["command"])
        self.files = included_files(database)

    def of(self, source, digests):
        """None for a source whose includes could not be followed."""
        if source not in self.files:
            return None
        # clang-tidy takes the nearest of these.
        folders = [folder for folder in pathlib.Path(source).parents if folder.is_relative_to(ROOT)]
        checks = [folder / ".clang-tidy" for folder in folders if (folder / ".clang-tidy").exists()]
        files = [*map(str, checks), str(ROOT / "scripts/dev/tidy.py"), *self.files[source]]
        parts = [self.version, *options_for(self.jobs[source]), *sorted(self.commands[source]), *sorted(f"{file} {digests.of(file)}" for file in files)]
        return hashlib.sha256("\n".join(parts).replace(str(ROOT), ".").encode()).hexdigest()


def passes(job, folder):
    """Whether clang-tidy finds nothing; else prints what it found."""
    result = subprocess.run(["clang-tidy", *options_for(job), "-p", folder, job.source], capture_output=True, text=True, cwd=ROOT)
    if result.returncode != 0:
        print(result.stdout + result.stderr, flush=True)
    return result.returncode == 0


def forget_old(cache):
    for stamp in cache.iterdir():
        # Another run may forget it too.
        with contextlib.suppress(FileNotFoundError):
            if STAMP.fullmatch(stamp.name) and time.time() - stamp.stat().st_mtime > KEPT_SECONDS:
                stamp.unlink()


def changed_since(commit):
    """Files that differ from those of `commit`, as git knows them, and files that git does not know."""
    changed = subprocess.run(["git", "diff", "--name-only", commit, "--"], capture_output=True, text=True, cwd=ROOT)
    if changed.returncode != 0:
        sys.exit(f"tidy.py: --since {commit}: {changed.stderr.strip()}")
    added = subprocess.run(["git", "ls-files", "--others", "--exclude-standard"], capture_output=True, text=True, cwd=ROOT, check=True)
    return {str(ROOT / name) for name in (changed.stdout + added.stdout).splitlines()}


def parse_arguments():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--since")
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("commands", nargs="?")
    arguments = parser.parse_args()
    if arguments.help or arguments.commands is None:
        print(__doc__.strip(), file=sys.stdout if arguments.help else sys.stderr)
        sys.exit(0 if arguments.help else 2)
    return arguments


def main():
    arguments = parse_arguments()
    for program in ["clang-tidy", "g++"]:
        if shutil.which(program) is None:
            sys.exit(f"tidy.py: there is no {program} (scripts/install_deps.sh --lint)")
    cache = pathlib.Path(os.environ.get("TERNGRAD_TIDY_CACHE") or pathlib.Path.home() / ".cache/terngrad-tidy")
    cache.mkdir(parents=True, exist_ok=True)
    jobs, commands = commands_for_clang(json.loads(pathlib.Path(arguments.commands).read_text()), arguments.all)
    if not commands:
        sys.exit(f"tidy.py: {arguments.commands} has no source to look at")
    folder = pathlib.Path(arguments.commands).resolve().parent / "tidy"
    folder.mkdir(exist_ok=True)
    database = folder / "compile_commands.json"
    database.write_text(json.dumps(commands, indent=1))

    keys = Keys(jobs, commands, database)
    digests = Digests()
    known = {source: keys.of(source, digests) for source in keys.commands}
    num_same = 0
    if arguments.since is not None:
        changed = changed_since(arguments.since)
        differing = {source: key for source, key in known.items() if key is None or not changed.isdisjoint(keys.files[source])}
        num_same = len(known) - len(differing)
        known = differing
    new = []
    for source, key in known.items():
        if key is not None and (cache / key).exists():
            (cache / key).touch()
        else:
            new.append(source)
    # The longest first, so that none of them is left for the end.
    new.sort(key=lambda source: (not jobs[source].is_batch, -os.path.getsize(source)))

    def look_at(source):
        has_passed = passes(jobs[source], folder)
        # What was looked at is what the key is of, unless a file was changed meanwhile.
        if has_passed and known[source] is not None and keys.of(source, Digests()) == known[source]:
            (cache / known[source]).touch()
        return has_passed

    with concurrent.futures.ThreadPoolExecutor(NUM_PROCESSORS) as pool:
        passed = dict(zip(new, pool.map(look_at, new)))
    forget_old(cache)
    failed = [os.path.relpath(source, ROOT) for source, has_passed in passed.items() if not has_passed]
    num_unchanged = len(known) - len(new)
    as_before = f", {num_same} as in {arguments.since}" if arguments.since is not None else ""
    print(f"tidy.py: {len(known)} files{as_before}, {num_unchanged} unchanged since they passed, {len(failed)} failed", *failed)
    num_unfollowed = sum(key is None for key in known.values())
    if num_unfollowed > 0:
        print(f"tidy.py: the includes of {num_unfollowed} cannot be followed: they are looked at every time")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
