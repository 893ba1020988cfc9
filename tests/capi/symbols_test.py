"""libterngrad.so exports exactly the symbols of capi/symbols.txt, and its header declares exactly them.

Arguments: nm, the library."""

import pathlib
import re
import subprocess
import sys
import unittest

CAPI = pathlib.Path(__file__).resolve().parents[2] / "capi"
NM = LIBRARY = None


class Symbols(unittest.TestCase):
    def test_the_library_exports_the_list(self):
        lines = subprocess.run([NM, "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True).stdout.splitlines()
        exported = sorted(line.split()[-1] for line in lines)
        # A removed symbol breaks programs and needs a new SONAME; an added one needs a larger TG_ABI_VERSION.
        self.assertEqual(exported, (CAPI / "symbols.txt").read_text().split())

    def test_the_header_declares_the_list(self):
        header = (CAPI / "terngrad.h").read_text()
        declared = sorted(re.findall(r"^TG_API [^;(]*?(tg_\w+)\(", header, re.MULTILINE))
        self.assertEqual(declared, (CAPI / "symbols.txt").read_text().split())


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("symbols_test.py: usage: symbols_test.py NM LIBRARY")
    NM, LIBRARY = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
