"""Tests of scripts/prepare_imagenet.py on small archives."""

import io
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "prepare_imagenet.py"


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def annotation(*boxes: tuple[int, int, int, int], width: int = 200, height: int = 100) -> bytes:
    objects = "".join(f"<object><bndbox><xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox></object>"
                      for a, b, c, d in boxes)
    return f"<annotation><size><width>{width}</width><height>{height}</height></size>{objects}</annotation>".encode()


class PrepareImageNet(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)

    def run_script(self, *arguments: object) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False)

    def write(self, name: str, content: bytes) -> Path:
        (self.root / name).write_bytes(content)
        return self.root / name

    def test_archives_of_synsets_become_folders(self) -> None:
        archive = self.write("train.tar", tar({"n02.tar": tar({"n02_1.JPEG": b"one", "n02_2.JPEG": b"two"}),
                                               "n01.tar": tar({"n01_9.JPEG": b"nine"})}))
        result = self.run_script("train", archive, self.root / "out")
        self.assertEqual(result.stdout, "3 training images\n", result.stderr)
        self.assertEqual((self.root / "out/train/n02/n02_2.JPEG").read_bytes(), b"two")
        self.assertEqual(len(list(self.root.glob("out/train/*/*"))), 3)
        # Second run: complete files stay, incomplete ones are written.
        whole = self.root / "out/train/n02/n02_1.JPEG"
        whole.write_bytes(b"ONE")
        (self.root / "out/train/n01/n01_9.JPEG").write_bytes(b"ni")
        self.assertEqual(self.run_script("train", archive, self.root / "out").returncode, 0)
        self.assertEqual(whole.read_bytes(), b"ONE")
        self.assertEqual((self.root / "out/train/n01/n01_9.JPEG").read_bytes(), b"nine")

    def test_validation_images_go_to_their_synsets(self) -> None:
        archive = self.write("val.tar", tar({"val_2.JPEG": b"two", "val_1.JPEG": b"one"}))
        synsets = self.write("synsets.txt", b"n01\nn02\n")
        result = self.run_script("validation", archive, synsets, self.root / "out")
        self.assertEqual(result.stdout, "2 validation images\n", result.stderr)
        self.assertEqual((self.root / "out/validation/n01/val_1.JPEG").read_bytes(), b"one")
        self.assertEqual((self.root / "out/validation/n02/val_2.JPEG").read_bytes(), b"two")
        synsets.write_bytes(b"n01\n")
        result = self.run_script("validation", archive, synsets, self.root / "out")
        self.assertEqual(result.returncode, 1)
        self.assertIn("expected a line for each of 2 images, found 1", result.stderr)

    def test_boxes_are_fractions_inside_the_image(self) -> None:
        folder = self.root / "xml"
        (folder / "n01").mkdir(parents=True)
        (folder / "n01/n01_1.xml").write_bytes(annotation((50, 25, 100, 50), (-10, 0, 300, 100), (20, 5, 20, 9)))
        result = self.run_script("boxes", folder, self.root / "boxes.csv")
        self.assertEqual(result.stdout, "2 boxes\n", result.stderr)
        lines = (self.root / "boxes.csv").read_text().splitlines()
        self.assertEqual(lines, ["n01_1,0.000000,0.000000,1.000000,1.000000", "n01_1,0.250000,0.250000,0.500000,0.500000"])
        archive = self.write("xml.tar", tar({"a/n01_1.xml": (folder / "n01/n01_1.xml").read_bytes()}))
        self.assertEqual(self.run_script("boxes", archive, self.root / "again.csv").returncode, 0)
        self.assertEqual((self.root / "again.csv").read_text().splitlines(), lines)

    def test_other_input_is_refused_by_name(self) -> None:
        for arguments, words in ((("train", self.write("t.tar", tar({"x.JPEG": b"x"})), self.root / "o"), "found x.JPEG"),
                                 (("train", self.root / "missing.tar", self.root / "o"), "missing.tar"),
                                 (("train", self.write("no.tar", b"no archive"), self.root / "o"), "error"),
                                 (("boxes", self.write("b.tar", tar({"a.xml": b"<a>"})), self.root / "b.csv"), "a.xml"),
                                 (("boxes", self.write("c.tar", tar({"a.xml": b"<a/>"})), self.root / "b.csv"), "a.xml"),
                                 (("boxes", self.write("d.tar", tar({"a.txt": b""})), self.root / "b.csv"), "no boxes")):
            result = self.run_script(*arguments)
            self.assertEqual(result.returncode, 1, arguments)
            self.assertIn(words, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()
