"""Programs built with CUDA start on machines without a driver: they load the CUDA runtime, which looks for the driver
at first use, but no library of the driver, and no slow library that only nets on GPUs need.

Arguments: the programs."""

import os
import re
import subprocess
import sys
import unittest

PROGRAMS = []


def needed(path):
    """Libraries that an ELF file needs."""
    text = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


def loaded(path):
    """Paths of all libraries that are loaded with a program."""
    text = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
    return re.findall(r"=> (/\S+)", text)


class NoDriver(unittest.TestCase):
    def test_programs_start(self):
        for program in PROGRAMS:
            result = subprocess.run([program, "--help"], capture_output=True, text=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""), program)
            self.assertIn("--", result.stdout)

    def test_the_runtime_is_linked(self):
        for program in PROGRAMS:
            self.assertTrue(any(name.startswith("libcudart.so") for name in needed(program)), needed(program))

    def test_cublas_is_loaded_when_a_net_uses_it(self):
        for program in PROGRAMS:
            files = loaded(program)
            self.assertTrue(any("/libcudart.so" in file for file in files), files)
            self.assertEqual([file for file in files if "/libcublas" in file], [], program)
            # --version does not open it by name either.
            result = subprocess.run([program, "--version"], check=True, capture_output=True, text=True,
                                    env={**os.environ, "LD_DEBUG": "files"})
            self.assertIn("libcudart", result.stderr)
            self.assertNotIn("libcublas", result.stderr)

    def test_nothing_of_the_driver_is_linked(self):
        for program in PROGRAMS:
            libraries = loaded(program)
            self.assertTrue(libraries)
            for file in [program, *libraries]:
                drivers = [name for name in needed(file) if re.match(r"lib(cuda|nvidia-.*)\.so", name)]
                self.assertEqual(drivers, [], file)


if __name__ == "__main__":
    PROGRAMS = sys.argv[1:]
    if not PROGRAMS:
        sys.exit("no_driver_test.py: no programs given")
    unittest.main(argv=sys.argv[:1])
