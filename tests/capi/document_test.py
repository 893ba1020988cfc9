"""Compiles the programs of docs/c-api.md and runs the complete ones.

Arguments: the C compiler, the library."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILER = LIBRARY = None
# Declarations that the document leaves to the reader.
PRELUDE = """
#include <stddef.h>
#include <terngrad.h>
typedef struct my_transport my_transport;
int my_num_ranks(my_transport*);
void my_send_to_all(my_transport*, const uint8_t*, int64_t);
int64_t my_size_from(my_transport*, int);
int my_receive_from(my_transport*, int, uint8_t*, int64_t);
"""


class Document(unittest.TestCase):
    def compile(self, text, *options):
        command = [COMPILER, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror", f"-I{ROOT}/capi", "-x", "c",
                   "-", "-x", "none", *options]
        result = subprocess.run(command, input=text, capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_programs_of_the_document(self):
        blocks = re.findall(r"^```c\n(.*?)^```$", (ROOT / "docs/c-api.md").read_text(), re.MULTILINE | re.DOTALL)
        self.assertEqual(len(blocks), 2)
        self.compile(PRELUDE + blocks[1], "-fsyntax-only")
        with tempfile.TemporaryDirectory(prefix="terngrad_c_api_") as folder:
            library = pathlib.Path(LIBRARY)
            self.compile(blocks[0], "-o", f"{folder}/program", str(library), f"-Wl,-rpath,{library.parent}")
            printed = subprocess.run([f"{folder}/program"], check=True, capture_output=True, text=True).stdout
        self.assertRegex(printed, r"^\d+ bytes\n$")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("document_test.py: usage: document_test.py COMPILER LIBRARY")
    COMPILER, LIBRARY = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
