#!/usr/bin/env python3
"""Unpacks ImageNet's archives into the folders that `terngrad_records build --from imagenet` reads.

  prepare_imagenet.py train ILSVRC2012_img_train.tar OUT
      OUT/train/SYNSET/*.JPEG, from an archive of one archive for each synset
  prepare_imagenet.py validation ILSVRC2012_img_val.tar SYNSETS OUT
      OUT/validation/SYNSET/*.JPEG; SYNSETS has the synset of each image, one a line, in the order of the images' names
  prepare_imagenet.py boxes ANNOTATIONS OUT.csv
      lines FILE,XMIN,YMIN,XMAX,YMAX in fractions of the sides, from a folder or archive of XML files: a file's size and
      its objects' boxes, cut to the image; boxes without area are left out

What is there with its full size is not written again, so an interrupted run continues.
"""

import argparse
import os
import sys
import tarfile
import xml.etree.ElementTree
from pathlib import Path, PurePosixPath


class PrepareError(Exception):
    """Invalid input."""


def members(archive: tarfile.TarFile):
    """The regular files of an archive with their base names."""
    for member in archive:
        if member.isfile():
            yield member, PurePosixPath(member.name).name


def write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """Writes a member to `path` through a temporary file, unless it exists with the right size."""
    if path.exists() and path.stat().st_size == member.size:
        return
    content = archive.extractfile(member)
    if content is None:
        raise PrepareError(f"{archive.name}: {member.name} cannot be read")
    data = content.read()
    if len(data) != member.size:
        raise PrepareError(f"{archive.name}: {member.name} has {len(data)} bytes, expected {member.size}")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def unpack_train(source: Path, out: Path) -> int:
    """Unpacks archives in an archive. Returns the number of images."""
    count = 0
    with tarfile.open(source) as outer:
        for member, name in members(outer):
            if not name.endswith(".tar"):
                raise PrepareError(f"{source}: expected archives SYNSET.tar, found {name}")
            with tarfile.open(fileobj=outer.extractfile(member)) as inner:
                for image, image_name in members(inner):
                    write(inner, image, out / "train" / name[: -len(".tar")] / image_name)
                    count += 1
            print(f"{name}: {count} images so far", file=sys.stderr)
    return count


def unpack_validation(source: Path, synsets: Path, out: Path) -> int:
    """Unpacks an archive of images, each to its synset's folder. Returns the number of images."""
    lines = synsets.read_text(encoding="utf-8").split()
    with tarfile.open(source) as archive:
        images = sorted(members(archive), key=lambda entry: entry[1])
        if len(images) != len(lines):
            raise PrepareError(f"{synsets}: expected a line for each of {len(images)} images, found {len(lines)}")
        folder_of = {name: synset for (_, name), synset in zip(images, lines)}
        # In the archive's order, for sequential reads.
        for member, name in sorted(images, key=lambda entry: entry[0].offset):
            write(archive, member, out / "validation" / folder_of[name] / name)
    return len(images)


def box_lines(name: str, text: bytes) -> list[str]:
    """The CSV lines for one XML file."""
    try:
        root = xml.etree.ElementTree.fromstring(text)
        width, height = (float(root.findtext(f"size/{side}", "")) for side in ("width", "height"))
        lines = []
        for item in root.iter("bndbox"):
            left, top, right, bottom = (float(item.findtext(key, "")) for key in ("xmin", "ymin", "xmax", "ymax"))
            box = [min(max(value / side, 0.0), 1.0) for value, side in
                   ((left, width), (top, height), (right, width), (bottom, height))]
            if box[0] < box[2] and box[1] < box[3]:
                lines.append(",".join([Path(name).stem] + [f"{side:.6f}" for side in box]))
        return lines
    except (xml.etree.ElementTree.ParseError, ValueError, ZeroDivisionError) as error:
        raise PrepareError(f"{name}: expected an annotation with size and bndbox: {error}") from error


def annotations(source: Path):
    """Names and contents of the XML files in a folder or an archive."""
    if source.is_dir():
        for path in sorted(source.rglob("*.xml")):
            yield path.name, path.read_bytes()
        return
    with tarfile.open(source) as archive:
        for member, name in members(archive):
            if name.endswith(".xml"):
                yield name, archive.extractfile(member).read()


def write_boxes(source: Path, out: Path) -> int:
    """Writes the CSV file. Returns the number of boxes."""
    lines = sorted(line for name, text in annotations(source) for line in box_lines(name, text))
    if not lines:
        raise PrepareError(f"{source}: has no boxes")
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, names in (("train", ["archive", "out"]), ("validation", ["archive", "synsets", "out"]),
                        ("boxes", ["annotations", "out"])):
        command = verbs.add_parser(verb)
        for name in names:
            command.add_argument(name, type=Path)
    given = parser.parse_args(arguments)
    source = given.annotations if given.verb == "boxes" else given.archive
    try:
        if given.verb == "train":
            print(f"{unpack_train(given.archive, given.out)} training images")
        elif given.verb == "validation":
            print(f"{unpack_validation(given.archive, given.synsets, given.out)} validation images")
        else:
            print(f"{write_boxes(given.annotations, given.out)} boxes")
    except tarfile.TarError as error:
        print(f"prepare_imagenet.py: error: {source}: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    except (PrepareError, OSError) as error:
        print(f"prepare_imagenet.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
