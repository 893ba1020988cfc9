#!/usr/bin/env python3
"""Checks the structure of the product folders and of the benchmarks: which room may include which, no circles of includes, how
many files a folder has, and how many headers a source pulls in.

Usage: scripts/dev/check_rooms.py [--list]

A room is a folder of FLOORS. It may include itself, rooms of lower floors of its library, and the libraries below its own. --list
prints, for documents and reviews, the fullest folders and the sources that pull in most headers. Exit code 1 for a violation.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Each library with the libraries below it. The benchmarks count as a library above all others.
LIBRARIES = {
    "kernels": [],
    "compress": ["kernels"],
    "nets": ["kernels"],
    "datasets": ["kernels"],
    "trainers": ["kernels", "compress", "nets", "datasets"],
    "python": ["kernels", "compress"],
    "capi": ["kernels", "compress"],
    "bench": ["kernels", "compress", "nets", "datasets", "trainers", "python", "capi"],
}
# Floors from bottom to top; rooms of one floor must not include each other.
FLOORS = {
    "kernels": [["runtime"], ["tensor"], ["random"], ["statistics", "optimizer", "factors"], ["codes"], ["sparse"]],
    "compress": [["comm"], ["codec"], ["codecs"], ["plan"], ["wire", "memory"], ["route"], ["transport"], ["exchange"], ["cost"]],
    "nets": [],
    "datasets": [],
    "trainers": [["io", "optim"], ["checkpoint", "loop"], ["async", "command_line"], ["options"], ["launch", "evaluate", "inspect", "records"], ["hooks"], ["run"], ["commands"]],
    "python": [],
    "capi": [],
    "bench": [],
}
MAX_FILES = 45
# Two files for each kind of layer, plus kernels.
MAX_FILES_OF = {"nets/cuda": 60}
# Limit of our headers, direct or indirect. More indicates several responsibilities, or missing forward declarations.
MAX_HEADERS = 55
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include "([^"]+)"', re.MULTILINE)


def checked_files():
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, text=True,
                           capture_output=True).stdout.split("\n")
    return [name for name in names if name.split("/")[0] in LIBRARIES and (ROOT / name).is_file()]


def floor_of(file):
    """(library, floor); floor is None for a file outside of rooms."""
    library, room = file.split("/")[:2]
    for floor, rooms in enumerate(FLOORS[library]):
        if room in rooms:
            return library, floor
    return library, None


def room_of(file):
    return "/".join(file.split("/")[:2])


def is_allowed(file, included):
    library, floor = floor_of(file)
    other_library, other_floor = floor_of(included)
    if library != other_library:
        return other_library in LIBRARIES[library]
    if not FLOORS[library] or room_of(file) == room_of(included):
        return True
    return floor is not None and other_floor is not None and other_floor < floor


def find_circle(includes):
    """Files that form a circle of includes, or nothing."""
    done, path = set(), []

    def visit(file):
        if file in path:
            return path[path.index(file):] + [file]
        if file in done:
            return None
        path.append(file)
        for included in includes[file]:
            circle = visit(included)
            if circle:
                return circle
        path.pop()
        done.add(file)
        return None

    return next((circle for circle in map(visit, includes) if circle), None)


def pulled(file, includes):
    seen, open_files = set(), [file]
    while open_files:
        for included in includes[open_files.pop()]:
            if included not in seen:
                seen.add(included)
                open_files.append(included)
    return seen


def files_by_folder(files):
    folders = {}
    for file in files:
        folders.setdefault(str(pathlib.PurePosixPath(file).parent), []).append(file)
    return folders


def violations(files, includes):
    for file, included_files in includes.items():
        library = file.split("/")[0]
        if FLOORS[library] and floor_of(file)[1] is None:
            yield f"{file} is in no room of {library}: name the folder in FLOORS of {pathlib.Path(__file__).name}"
        for included in included_files:
            if not is_allowed(file, included):
                yield f"{file} includes {included}, which is on a floor above"
    circle = find_circle(includes)
    if circle:
        yield f"a circle of includes: {' -> '.join(circle)}"
    for file in includes:
        count = len(pulled(file, includes))
        if count > MAX_HEADERS:
            yield f"{file} pulls in {count} headers, at most {MAX_HEADERS}"
    for folder, inside in files_by_folder(files).items():
        limit = MAX_FILES_OF.get(folder, MAX_FILES)
        if len(inside) > limit:
            yield f"{folder} has {len(inside)} files, at most {limit}: which rooms are in it?"


def main():
    if sys.argv[1:] not in ([], ["--list"]):
        print(__doc__.strip(), file=sys.stdout if sys.argv[1:] in (["--help"], ["-h"]) else sys.stderr)
        return 0 if sys.argv[1:] in (["--help"], ["-h"]) else 2
    files = checked_files()
    sources = {file for file in files if file.endswith((".h", ".cpp", ".cu", ".cuh"))}
    includes = {file: [name for name in INCLUDE.findall((ROOT / file).read_text(encoding="utf-8")) if name in sources]
                for file in sorted(sources)}
    if sys.argv[1:]:
        for folder, inside in sorted(files_by_folder(files).items(), key=lambda item: -len(item[1]))[:10]:
            print(f"{len(inside):4} files    {folder}")
        for count, file in sorted(((len(pulled(file, includes)), file) for file in includes), reverse=True)[:10]:
            print(f"{count:4} headers  {file}")
        return 0
    found = list(violations(files, includes))
    for violation in found:
        print(f"check_rooms.py: {violation}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
