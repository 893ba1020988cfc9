"""Tests of cmake/WriteVersion.cmake in a new git repository.

Arguments: cmake, git."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

CMAKE_FILES = pathlib.Path(__file__).resolve().parents[2] / "cmake"
CMAKE = GIT = None
LONG_AGO = 1_000_000_000


class WriteVersion(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="terngrad_version_")
        self.addCleanup(temporary.cleanup)
        self.sources = pathlib.Path(temporary.name) / "sources"
        self.sources.mkdir()
        self.output = pathlib.Path(temporary.name) / "version.cpp"

    def git(self, *arguments):
        settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"]
        return subprocess.run([GIT, *settings, *arguments], cwd=self.sources, check=True, capture_output=True, text=True).stdout

    def commit(self, message):
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "--short=12", "HEAD").strip()

    def written(self, git=None):
        """(commit in the generated source, True if the file was written)"""
        definitions = {"TERNGRAD_VERSION": "1.2.3", "SOURCE_DIR": self.sources, "GIT": GIT if git is None else git,
                       "TEMPLATE": CMAKE_FILES / "version.cpp.in", "OUTPUT": self.output}
        if self.output.exists():
            os.utime(self.output, (LONG_AGO, LONG_AGO))
        # A parent folder may be a repository.
        subprocess.run([CMAKE, *(f"-D{name}={value}" for name, value in definitions.items()), "-P",
                        CMAKE_FILES / "WriteVersion.cmake"], check=True,
                       env={**os.environ, "GIT_CEILING_DIRECTORIES": str(self.sources.parent)})
        text = self.output.read_text()
        self.assertIn('return "1.2.3";', text)
        return re.search(r'kCommit\[64\] = "(.*)"', text)[1], self.output.stat().st_mtime != LONG_AGO

    def test_the_source_is_written_where_the_commit_is_another(self):
        self.git("init", "-q")
        first = self.commit("first")
        self.assertEqual(self.written(), (first, True))
        self.assertEqual(self.written(), (first, False))
        second = self.commit("second")
        self.assertEqual(self.written(), (second, True))
        (self.sources / "file").write_text("a change")
        self.git("add", "file")
        self.assertEqual(self.written(), (second + "-dirty", True))

    def test_the_commit_fits_behind_any_tag(self):
        self.git("init", "-q")
        self.commit("first")
        self.git("tag", "-a", "-m", "tag", "long-" * 20)
        second = self.commit("second")
        commit, _ = self.written()
        self.assertEqual(len(commit), 63)
        self.assertTrue(commit.endswith(f"long--1-g{second}"), commit)

    def test_without_a_repository_it_is_unknown(self):
        self.assertEqual(self.written(), ("unknown", True))
        self.git("init", "-q")
        self.commit("first")
        self.assertEqual(self.written(git=""), ("unknown", False))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("version_test.py: usage: version_test.py CMAKE GIT")
    CMAKE, GIT = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
