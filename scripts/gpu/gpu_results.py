"""Results of gpu_check.py for gpu_report.py: a folder, and its archive.

  machine.json          what the machine is and what was checked: name, value
  parts.jsonl           what was run, in order, a part a line: kind, name, rc (exit code, minus a signal, or a word of gpu_jobs),
                        seconds, limit, text (the command); `absent` and `reason` say why one was not run; `min_top1` is what the
                        last evaluation of a training must reach, `other` the part whose run this one is compared with
  NAME.log              output of a part
  NAME.hang.txt         threads and kernels of a part that hung
  NAME.tests.json       of kinds tests and resume: names of the tests planned, and what came of each
  NAME.bench.json       of kind bench: Google Benchmark's
  NAME.run/             of kinds training, move and repeat: the run's folder; its checkpoints are not in the archive
  NAME.difference.json  of kind repeat: in which tensors, and where, the last checkpoint differs from that of the other run
"""

import contextlib
import io
import json
import pathlib
import re
import shutil
import struct
import tarfile
import tempfile

# Maximum size of the archive; if necessary the middle of long logs is omitted.
MOST_BYTES = 15 << 20
LONGEST_LOGS = (4 << 20, 256 << 10, 16 << 10)
# Suffixes of a part's files, besides the folder of its run.
OF_A_PART = (".log", ".hang.txt", ".tests.json", ".bench.json", ".difference.json")


def read_text(path):
    return path.read_text(errors="replace") if path.exists() else ""


def read_json(path):
    """Content of a JSON file; None if it is missing or truncated."""
    try:
        return json.loads(read_text(path))
    except ValueError:
        return None


def write_text(path, text):
    """Writes a file atomically."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    temporary.replace(path)


def write_json(path, value):
    write_text(path, json.dumps(value, indent=1) + "\n")


def read_records(path):
    """Lines of JSON, without a truncated last one."""
    records = []
    for line in read_text(path).splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records


def clear_part(folder, name, keeps_run=False):
    """Removes a part's files of an earlier call."""
    for ending in OF_A_PART:
        (folder / f"{name}{ending}").unlink(missing_ok=True)
    if not keeps_run:
        shutil.rmtree(folder / f"{name}.run", ignore_errors=True)


def add_part(folder, record):
    """Appends a line in one write, as several threads append."""
    with (folder / "parts.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")


def read_parts(folder):
    """Parts in the order in which they ended; only the last record of a repeated part."""
    return list({part["name"]: part for part in read_records(folder / "parts.jsonl")}.values())


def read_tests(log):
    """{test: passed, failed, skipped or running (unfinished)} from GoogleTest's output."""
    words = {"RUN": "running", "OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
    found = re.findall(r"^\[ *(RUN|OK|FAILED|SKIPPED) *\] (\w[\w/]*\.[\w/]+)", read_text(log), re.M)
    return {name: words[word] for word, name in found}


def checkpoints_of(folder):
    """A run's checkpoints in the order of their steps."""
    found = [path for path in folder.glob("checkpoint-*.safetensors") if path.is_file()]
    return sorted(found, key=lambda path: int(re.sub(r"\D", "", path.name)))


def copy_run_to_first_checkpoint(folder, name, copy):
    """Copies a run in its state at the first checkpoint."""
    shutil.rmtree(folder / f"{copy}.run", ignore_errors=True)
    if (folder / f"{name}.run").is_dir():
        shutil.copytree(folder / f"{name}.run", folder / f"{copy}.run")
    for path in checkpoints_of(folder / f"{copy}.run")[1:]:
        path.unlink()


def tensors_of(path):
    """The tensors of a safetensors file by name, and its metadata."""
    data = memoryview(path.read_bytes())
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(bytes(data[8:8 + length]))
    metadata = json.dumps(header.pop("__metadata__", {}), sort_keys=True).encode()
    body = data[8 + length:]
    return {"__metadata__": metadata, **{name: body[slice(*entry["data_offsets"])] for name, entry in header.items()}}


def difference_of(first, second):
    """The tensors in which two checkpoints differ, with the number of different 4-byte elements and the first one."""
    ours, theirs = tensors_of(first), tensors_of(second)
    different = {}
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        a, b = (bytes(tensors.get(name, b"")) for tensors in (ours, theirs))
        if a != b:
            at = [i for i in range(0, max(len(a), len(b)), 4) if a[i:i + 4] != b[i:i + 4]]
            different[name] = {"elements": len(at), "of": max(len(a), len(b)) // 4, "first": at[0] // 4}
    return different


def write_difference(folder, first, second):
    """Compares the last checkpoints of two parts' runs, which are too large for the archive."""
    runs = [checkpoints_of(folder / f"{name}.run") for name in (first, second)]
    if all(runs):
        ends = [run[-1] for run in runs]
        found = {"checkpoints": [end.name for end in ends], "bytes": ends[0].stat().st_size}
        if ends[0].read_bytes() != ends[1].read_bytes():
            try:
                found["different"] = difference_of(*ends)
            except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
                found["different"] = {"no safetensors file": {"error": repr(error)}}
        write_json(folder / f"{second}.difference.json", found)


def shortened(path, most):
    """The content of a file; for a long log only beginning and end."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if path.suffix == ".json" or path.suffix == ".jsonl" or size <= most:
            return file.read()
        begin = file.read(most // 2)
        file.seek(-(most // 2), 2)
        return begin + b"\n[%d bytes are left out]\n" % (size - 2 * (most // 2)) + file.read()


def pack(folder, archive):
    """Packs everything except checkpoints to an archive below MOST_BYTES, which replaces the old one when it is complete."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".safetensors", ".tmp"))
    temporary = archive.with_name(archive.name + ".tmp")
    for most in LONGEST_LOGS:
        with tarfile.open(temporary, "w:xz") as packed:
            for path in files:
                try:
                    data = shortened(path, most)
                except OSError as error:  # a program that still runs may remove the file
                    data = f"{error}\n".encode()
                entry = tarfile.TarInfo(f"results/{path.relative_to(folder)}")
                entry.size = len(data)
                packed.addfile(entry, io.BytesIO(data))
        if temporary.stat().st_size < MOST_BYTES:
            break
    temporary.replace(archive)


@contextlib.contextmanager
def opened(path):
    """Context with the folder of results, unpacked if `path` is an archive."""
    if path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(path, "r:xz") as archive:
            archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        yield pathlib.Path(folder) / "results"
