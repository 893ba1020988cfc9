#!/usr/bin/env python3
"""Tests scripts/dev/check_rooms.py on invented includes and on the project."""

import pathlib
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/dev/check_rooms.py"
sys.path.insert(0, str(SCRIPT.parent))
import check_rooms  # noqa: E402


def violations(includes, files=None):
    for included in list(includes.values()):
        for name in included:
            includes.setdefault(name, [])
    return list(check_rooms.violations(files or list(includes), includes))


class CheckRooms(unittest.TestCase):
    def test_includes_go_down(self):
        self.assertEqual(violations({"compress/wire/a.cpp": ["compress/codecs/b.h", "compress/wire/c.h", "kernels/codes/d.h"]}), [])
        for file, included in [("compress/codecs/a.h", "compress/wire/b.h"), ("kernels/statistics/a.h", "kernels/codes/b.h"),
                               ("kernels/statistics/a.h", "kernels/optimizer/b.h"), ("kernels/codes/a.h", "compress/comm/b.h"),
                               ("nets/a.h", "datasets/b.h"), ("capi/a.cpp", "python/src/b.h"),
                               ("trainers/io/a.h", "trainers/commands/cuda/b.h"), ("trainers/commands/a.cpp", "bench/b.h")]:
            found = violations({file: [included]})
            self.assertEqual(found, [f"{file} includes {included}, which is on a floor above"])

    def test_a_file_beside_the_rooms_is_named(self):
        found = violations({"trainers/a.cpp": []})
        self.assertEqual(len(found), 1)
        self.assertIn("trainers/a.cpp is in no room of trainers", found[0])
        self.assertEqual(violations({"datasets/a.cpp": ["datasets/formats/b.h"]}), [])

    def test_circles_are_named(self):
        found = violations({"nets/a.h": ["nets/b.h"], "nets/b.h": ["nets/c.h"], "nets/c.h": ["nets/b.h"]})
        self.assertEqual(found, ["a circle of includes: nets/b.h -> nets/c.h -> nets/b.h"])

    def test_crowded_folders_are_named(self):
        files = [f"nets/cpu/f{i}.cpp" for i in range(check_rooms.MAX_FILES)]
        self.assertEqual(violations({}, files), [])
        found = violations({}, [*files, "nets/cpu/one_more.h"])
        self.assertEqual(len(found), 1)
        self.assertIn("nets/cpu has 46 files, at most 45", found[0])

    def test_a_source_that_pulls_in_many_headers_is_named(self):
        chain = {f"nets/h{i}.h": [f"nets/h{i + 1}.h"] for i in range(check_rooms.MAX_HEADERS)}
        self.assertEqual(violations(dict(chain), ["nets/h0.h"]), [])
        found = violations({**chain, "nets/a.cpp": ["nets/h0.h"]}, ["nets/a.cpp"])
        self.assertEqual(found, ["nets/a.cpp pulls in 56 headers, at most 55"])

    def test_benchmarks_have_the_same_limits(self):
        self.assertIn("bench/main.cpp", check_rooms.checked_files())
        many = [f"kernels/codes/h{i}.h" for i in range(check_rooms.MAX_HEADERS)]
        self.assertEqual(violations({"bench/a.cpp": list(many)}, ["bench/a.cpp"]), [])
        self.assertEqual(violations({"bench/a.cpp": [*many, "trainers/commands/b.h"]}, ["bench/a.cpp"]),
                         ["bench/a.cpp pulls in 56 headers, at most 55"])

    def test_the_project_keeps_them(self):
        result = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
