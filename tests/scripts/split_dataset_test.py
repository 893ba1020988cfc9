"""Tests of scripts/hosts/split_dataset.sh.

Arguments: optionally terngrad_train, to read the shards."""

import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/hosts/split_dataset.sh"
TRAIN = None

# Unusual class names.
CLASSES = {"cats & dogs": 7, "100%": 3, "-bird": 4, "möwe": 9}


def png(grey):
    """A grey image of 28 x 28 pixels of one value."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0))
    rows = zlib.compress(28 * (b"\0" + bytes([grey] * 28)))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


class SplitDataset(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="terngrad_split_")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name).resolve()
        self.data = self.folder / "data set"
        for i, (name, count) in enumerate(CLASSES.items()):
            for subset, number in (("train", count), ("test", 2)):
                folder = self.data / subset / name
                folder.mkdir(parents=True)
                for j in range(number):
                    (folder / f"image & {j} é.png").write_bytes(png(60 * i + j))
        for name in (".hidden", "Thumbs.db", "desktop.ini"):
            (self.data / "train" / "-bird" / name).write_bytes(b"")

    def run_script(self, *arguments, cwd=None):
        return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True, cwd=cwd or self.folder,
                              timeout=60)

    def split(self, *arguments, **options):
        result = self.run_script(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def assert_refused(self, words, *arguments, code=2):
        before = sorted(self.folder.rglob("*"))
        result = self.run_script(*arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertTrue(result.stderr.startswith("split_dataset.sh: "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def images(self, folder, subset):
        """(class, name) of all images, whose files must exist."""
        found = []
        for path in sorted((folder / subset).glob("*/*"), key=os.fsencode):
            self.assertTrue(path.is_file(), path)
            if not path.name.startswith(".") and path.name not in ("Thumbs.db", "desktop.ini"):
                found.append((path.parent.name, path.name))
        return found

    def assert_shards(self, shards):
        """Each shard is a data set, together they are the whole one, and their sizes differ by one image at most."""
        everything = []
        for shard in shards:
            images = self.images(shard, "train")
            self.assertEqual({name for name, _ in images}, set(CLASSES))
            self.assertEqual(self.images(shard, "test"), self.images(self.data, "test"))
            for name, file in images:
                link = shard / "train" / name / file
                self.assertTrue(link.is_symlink())
                self.assertFalse(os.readlink(link).startswith("/"))
                self.assertEqual(link.resolve(), self.data / "train" / name / file)
            everything += images
        self.assertEqual(sorted(everything), sorted(self.images(self.data, "train")))
        sizes = [len(self.images(shard, "train")) for shard in shards]
        self.assertLessEqual(max(sizes) - min(sizes), 1)
        for name in CLASSES:
            runs = [[file for found, file in self.images(shard, "train") if found == name] for shard in shards]
            self.assertEqual(sum(runs, []), [file for found, file in self.images(self.data, "train") if found == name])
            self.assertLessEqual(max(map(len, runs)) - min(map(len, runs)), 1)

    def test_uneven_shares_cover_everything_once(self):
        for num_workers in (1, 2, 3):
            printed = self.split(self.data, num_workers)
            shards = [self.data / f"worker_{worker}_of_{num_workers}" for worker in range(num_workers)]
            self.assert_shards(shards)
            for shard in shards:
                self.assertIn(f"{shard}: {len(self.images(shard, 'train'))} training images\n", printed)
        self.assertEqual([path for path in self.data.iterdir() if path.name.startswith(".")], [])

    def test_paths_may_be_relative(self):
        self.split("../data set", 2, "--out", "shards/../shards", cwd=self.make("elsewhere"))
        self.assert_shards([self.folder / "elsewhere" / "shards" / f"worker_{worker}_of_2" for worker in range(2)])
        self.split(".", 2, cwd=self.data)
        self.assert_shards([self.data / f"worker_{worker}_of_2" for worker in range(2)])

    def test_paths_may_lead_through_links(self):
        (self.folder / "deep" / "er").mkdir(parents=True)
        (self.folder / "deep" / "er" / "out").symlink_to(self.make("real"))
        (self.folder / "link").symlink_to(self.data)
        self.split("link", 2, "--out=deep/er/out")
        self.assert_shards([self.folder / "real" / f"worker_{worker}_of_2" for worker in range(2)])

    def make(self, name):
        (self.folder / name).mkdir()
        return self.folder / name

    def test_shares_move_with_the_data(self):
        self.split(self.data, 3)
        self.data = self.data.rename(self.folder / "moved")
        self.assert_shards([self.data / f"worker_{worker}_of_3" for worker in range(3)])

    def test_one_worker_gets_what_it_gets_with_all(self):
        self.split(self.data, 3)
        self.split(self.data, 3, 1, "--out", "alone")
        self.assertEqual([path.name for path in (self.folder / "alone").iterdir()], ["worker_1_of_3"])
        for subset in ("train", "test"):
            self.assertEqual(self.images(self.folder / "alone" / "worker_1_of_3", subset),
                             self.images(self.data / "worker_1_of_3", subset))

    def test_lists_hold_the_same(self):
        self.split(self.data, 3)
        self.split(self.data, 3, "--lists", "--out", "lists")
        for worker in range(3):
            lines = (self.folder / "lists" / f"worker_{worker}_of_3.txt").read_text().splitlines()
            shard = self.data / f"worker_{worker}_of_3"
            expected = [f"{subset}/{name}/{file}" for subset in ("train", "test")
                        for name, file in self.images(shard, subset)]
            self.assertEqual(sorted(lines), sorted(expected))
            for line in lines:
                self.assertTrue((self.data / line).is_file(), line)

    def test_what_is_there_is_left_alone(self):
        self.split(self.data, 2, 1)
        self.assert_refused(["worker_1_of_2", "is there already"], self.data, 2)
        self.split(self.data, 2, 0)
        self.assert_shards([self.data / f"worker_{worker}_of_2" for worker in range(2)])

    def test_wrong_arguments_are_refused_by_name(self):
        (self.data / "train" / "file").touch()
        for words, arguments in [
                (["DATA_DIR NUM_WORKERS"], []),
                (["DATA_DIR NUM_WORKERS"], [self.data]),
                (["DATA_DIR NUM_WORKERS"], [self.data, 2, 0, 1]),
                (["NUM_WORKERS", "'0'"], [self.data, 0]),
                (["NUM_WORKERS", "'two'"], [self.data, "two"]),
                (["WORKER", "'2'", "0 to 1"], [self.data, 2, 2]),
                (["'-1'"], [self.data, 2, "-1"]),
                (["'--copy'", "--lists"], [self.data, 2, "--copy"]),
                (["--out", "needs a value"], [self.data, 2, "--out"]),
                (["no folder train/"], [self.folder, 2]),
                (["--out", "inside"], [self.data, 2, "--out", self.data / "train" / "100%"])]:
            with self.subTest(arguments=arguments):
                self.assert_refused(words, *arguments)
        self.assert_refused(["train/file", "is not a folder"], self.data, 2, code=1)

    def test_data_that_cannot_be_divided_is_refused(self):
        self.assert_refused(["100%", "has 3 images for 4 workers"], self.data, 4, code=1)
        (self.data / "test" / "möwe" / "folder").mkdir()
        self.assert_refused(["möwe/folder", "is not a file"], self.data, 2, code=1)
        (self.data / "test" / "möwe" / "folder").rmdir()
        (self.data / "test" / "möwe" / "a\nb.png").touch()
        self.assert_refused(["line break"], self.data, 2, code=1)

    def test_shards_of_records_are_linked(self):
        records = self.make("records")
        names = [f"train-{number:05}-of-00005" for number in range(5)]
        shared = ["labels.txt", "train.index", "validation-00000-of-00001", "validation.index"]
        for name in [*names, *shared]:
            (records / name).write_text(name)
        printed = self.split(records, 2)
        self.assertIn(f"{records}/worker_0_of_2: 3 training shards\n", printed)
        for worker, own in enumerate([names[:3], names[3:]]):
            folder = records / f"worker_{worker}_of_2"
            self.assertEqual(sorted(path.name for path in folder.iterdir()), sorted(own + shared))
            for path in folder.iterdir():
                self.assertEqual(os.readlink(path), f"../{path.name}")
                self.assertEqual(path.read_text(), path.name)
        self.split(records, 2, 1, "--lists", "--out", "lists")
        self.assertEqual((self.folder / "lists/worker_1_of_2.txt").read_text().splitlines(), names[3:] + sorted(shared))
        self.assert_refused(["has 5 shards for 6 workers"], records, 6, code=1)

    def test_training_reads_a_share(self):
        if TRAIN is None:
            self.skipTest("terngrad_train is not built")
        self.split(self.data, 2)
        command = [TRAIN, "--dataset", "folder", "--data_dir", self.data / "worker_1_of_2", "--max_steps", "2", "--log_steps", "1",
                   "--batch_size", "4", "--train_dir", self.folder / "run", "--tensorboard=false", "--device", "cpu"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("step 2/2", result.stdout + result.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1 and shutil.which(sys.argv[1]):
        TRAIN = sys.argv.pop(1)
    unittest.main()
