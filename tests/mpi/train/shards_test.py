import os
import pathlib
import random
import re
import struct
import subprocess
import zlib

from launched_training import ERROR, LaunchedTraining, main, ternary

SIDE = 16
SPLIT = pathlib.Path(__file__).resolve().parents[3] / "scripts/hosts/split_dataset.sh"


def png(draw, channels):
    """A random PNG image."""
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0 if channels == 1 else 2, 0, 0, 0)
    rows = b"".join(b"\0" + draw.randbytes(SIDE * channels) for _ in range(SIDE))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Shards(LaunchedTraining):
    """Each process trains on its own shard of the data."""

    def setUp(self):
        super().setUp()
        self.write_shard("data/worker_0_of_2", 60, 1)
        self.write_shard("data/worker_1_of_2", 41, 2)
        self.options = ternary(max_steps=6, log_steps=3, save_iter=3, dataset="folder", data_shards="true",
                               data_dir=self.path("data"))

    def write_shard(self, name, count, seed, channels=1):
        """Writes a data set of image files with three classes."""
        draw = random.Random(seed)
        for subset, number in [("train", count), ("test", 6)]:
            for index in range(number):
                folder = self.path(name, subset, f"class{index % 3}")
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, f"{index:03}.png"), "wb") as file:
                    file.write(png(draw, channels))

    def replace_shard(self, **others):
        """Replaces the second process's data set."""
        os.rename(self.path("data/worker_1_of_2"), self.path("other"))
        self.write_shard("data/worker_1_of_2", 41, 3, **others)

    def test_a_run_on_shards_is_repeatable_and_goes_on(self):
        self.trained(2, "whole", *self.options)
        self.trained(2, "again", *self.options)
        self.assert_same("whole", "again")
        self.keep_checkpoint("again", 3)
        result = self.trained(2, "again", *self.options, "--resume")
        self.assertIn("resumed after step 3", result.stderr)
        self.assert_same("whole", "again")
        # Servers have no shard.
        self.trained(3, "served", *self.options, "--strategy", "ps", "--num_servers", "1")
        self.assertEqual(self.checkpoint("served"), self.checkpoint("whole"))
        # The evaluating process has no shard.
        self.trained(3, "evaluated", *self.options, "--last_rank_evaluates")
        self.assertEqual(self.checkpoint("evaluated"), self.checkpoint("whole"))

    def test_records_are_read_by_links_of_the_script_or_by_hand(self):
        self.write_shard("images", 60, 1)
        records = pathlib.Path(self.path("records"))
        build = [pathlib.Path(self.program).with_name("terngrad_records"), "build", "--input", self.path("images"),
                 "--out", records, "--train_shards", "4", "--test_shards", "1"]
        subprocess.run(build, check=True, capture_output=True, timeout=60)
        subprocess.run([SPLIT, records, "2"], check=True, capture_output=True, timeout=60)
        options = ternary(max_steps=6, dataset="records", data_shards="true")
        self.trained(2, "script", *options, "--data_dir", records)
        # As the original's script links: the training shards alone.
        for worker in range(2):
            folder = pathlib.Path(self.path("links", f"worker_{worker}_of_2"))
            folder.mkdir(parents=True)
            for number in (2 * worker, 2 * worker + 1):
                name = f"train-{number:05}-of-00004"
                (folder / name).symlink_to(records / name)
        self.trained(2, "hand", *options, "--data_dir", self.path("links"))
        self.assert_same("script", "hand")

    def test_what_a_process_has_decides_the_run(self):
        self.trained(2, "whole", *self.options)
        self.replace_shard()
        self.trained(2, "changed", *self.options)
        self.assertNotEqual(self.checkpoint("changed"), self.checkpoint("whole"))
        result = self.train(2, "whole", *self.options, "--resume")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(len(re.findall("data_fingerprint", result.stderr)), 1, result.stderr)

    def test_shards_that_are_not_there_or_not_alike_are_refused_once(self):
        self.assertIn("worker_1_of_3", self.refused(3, *self.options))
        self.replace_shard(channels=3)
        result = self.train(2, "run", *self.options)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(result.stderr.count(ERROR), 1, result.stderr)
        self.assertIn("rank 0 has images of 16x16x1 in 3 classes, rank 1 images of 16x16x3 in 3", result.stderr)


if __name__ == "__main__":
    main()
