"""Tests of scripts/dev/check_kernels.py on kernels compiled here.

Arguments: the nvcc to compile with. Exits with 77 where there is none."""

import importlib.util
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/dev/check_kernels.py"
NVCC = None

SOURCE = """
struct Job { const float4* in; float4* out; };

__global__ void wide(const float4* in, float4* out) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void wide_by_table(const Job* jobs) {
  const Job job = jobs[blockIdx.x];
  job.out[threadIdx.x] = job.in[threadIdx.x];
}
__global__ void scalar(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void half(const float4* in, float2* out) { out[threadIdx.x] = {in[threadIdx.x].x, in[threadIdx.x].w}; }
__global__ void shared(const float4* in, float4* out) {
  __shared__ float4 values[256];
  values[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}
template <int Copies>
__global__ void copies(const float4* in, float4* out) {
#pragma unroll
  for (int i = 0; i < Copies; ++i) out[i * 256 + threadIdx.x] = in[i * 256 + threadIdx.x];
}
template __global__ void copies<2>(const float4*, float4*);
template __global__ void copies<4>(const float4*, float4*);
"""

LOCAL_ARRAY = """
__global__ void local_array(const int* in, int* out, int count) {
  int values[64];
  for (int i = 0; i < count; ++i) values[in[i]] = i;
  out[threadIdx.x] = values[in[threadIdx.x]];
}
"""

SPILL = """
__global__ void __launch_bounds__(1024, 2) spill(const float* in, float* out) {
  float values[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) values[i] = in[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) out[i * 1024 + threadIdx.x] = values[63 - i] * values[i];
}
"""


def load_script():
    spec = importlib.util.spec_from_file_location("check_kernels", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_kernels"] = module
    spec.loader.exec_module(module)
    return module


class CheckKernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.script = load_script()
        cls.folder = tempfile.TemporaryDirectory()
        cls.good = cls.compile("good", SOURCE)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def compile(cls, name, source, *options):
        path = pathlib.Path(cls.folder.name) / f"{name}.cu"
        path.write_text(source)
        codes = [f"--generate-code=arch=compute_{a},code=sm_{a}" for a in (80, 90)]
        subprocess.run([NVCC, "-c", "-o", path.with_suffix(".o"), *codes, *options, path], check=True)
        return path.with_suffix(".o")

    def kernels(self, obj):
        return list(self.script.kernels(obj.read_bytes()))

    def named(self, obj, name):
        found = [kernel for kernel in self.kernels(obj) if kernel.function() == name]
        self.assertEqual({kernel.architecture for kernel in found}, {80, 90}, name)
        return found

    def findings(self, obj, *wide_accesses):
        return list(self.script.findings(self.kernels(obj), [self.script.Wide(*wide) for wide in wide_accesses]))

    def test_counts_accesses_by_width(self):
        for name, expected in {
            "wide": {"LDG.128": 1, "STG.128": 1},
            "scalar": {"LDG.32": 1, "STG.32": 1},
            "shared": {"LDG.128": 1, "STG.128": 1, "LDS.128": 1, "STS.128": 1},
        }.items():
            for kernel in self.named(self.good, name):
                self.assertEqual(dict(kernel.accesses), expected, f"{name} sm_{kernel.architecture}")
        for kernel in self.named(self.good, "wide_by_table"):
            self.assertEqual((kernel.wide_loads(), kernel.wide_stores()), (1, 1))

    def test_finds_nothing_in_what_is_as_it_should_be(self):
        self.assertEqual(
            self.findings(
                self.good, ("wide", 1, 1), ("wide_by_table", 1, 1), ("shared", 1, 1), ("copies", 2, 2), ("copies", 4, 4, "Li4E")
            ),
            [],
        )

    def test_finds_narrow_accesses(self):
        for name, least in {"scalar": (1, 0), "half": (1, 1), "wide": (2, 1)}.items():
            found = self.findings(self.good, (name, *least))
            self.assertEqual(len(found), 2, found)
            self.assertIn(f"wanted {least[0]} and {least[1]}", found[0])

    def test_asks_of_every_instantiation(self):
        found = self.findings(self.good, ("copies", 4, 4))
        self.assertEqual(len(found), 2, found)
        self.assertIn("has 2 loads and 2 stores", found[0])

    def test_finds_that_a_kernel_is_missing(self):
        found = self.findings(self.good, ("id", 0, 0))  # which is a part of a name that is there
        self.assertEqual(found, ["id is nowhere for sm_80", "id is nowhere for sm_90"])
        found = self.findings(self.good, ("copies", 0, 0, "Li3E"))
        self.assertEqual(found, ["copiesLi3E is nowhere for sm_80", "copiesLi3E is nowhere for sm_90"])

    def test_knows_kernels_by_their_own_name(self):
        for name, function in {
            "_Z4widePK6float4PS_": "wide",
            "_Z6copiesILi2EEvPK6float4PS0_": "copies",
            "_ZN8terngrad4cuda46_GLOBAL__N__1cd3eb30_13_statistics_cu_3090db0723chunk_statistics_kernelEPKNS1_6SourceE": (
                "chunk_statistics_kernel"
            ),
        }.items():
            self.assertEqual(self.script.Kernel(name, 80, 0, {}, 0).function(), function)

    def test_finds_local_memory(self):
        for name, source in {"local_array": LOCAL_ARRAY, "spill": SPILL}.items():
            found = self.findings(self.compile(name, source))
            self.assertEqual(len(found), 2, (name, found))
            self.assertIn("uses local memory: a frame of", found[0])

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)

    def test_refuses_what_it_cannot_read(self):
        compressed = self.compile("compressed", SOURCE, "-Xfatbin=-compress-all")
        text = pathlib.Path(self.folder.name) / "text.o"
        text.write_text("no object")
        for path, reason in {
            compressed: "compressed",
            text: "not a 64-bit little-endian ELF file",
            text.with_name("absent.o"): "No such file",
        }.items():
            result = self.run_script(path)
            self.assertEqual(result.returncode, 1)
            self.assertIn(reason, result.stderr)

    def test_fails_without_the_kernels_of_its_table(self):
        result = self.run_script(self.good)
        self.assertEqual(result.returncode, 1)
        self.assertIn("chunk_statistics_kernel is nowhere for sm_80", result.stderr)

    def test_looks_for_the_kernels_of_the_library(self):
        for library, kernel in {"kernels": "chunk_statistics_kernel", "datasets": "copy_slot_kernel"}.items():
            folder = pathlib.Path(self.folder.name) / f"terngrad_{library}.dir"
            folder.mkdir()
            obj = shutil.copy(self.good, folder)
            found = re.findall("check_kernels.py: ([a-z0-9_]*kernel)[^ ]* is nowhere", self.run_script(obj).stderr)
            self.assertIn(kernel, found)
            self.assertEqual({wide.kernel for wide in self.script.wanted([str(obj)])}, set(found))

    def test_skips_unknown_encodings(self):
        source = pathlib.Path(self.folder.name) / "newer.o"
        older = self.good.read_bytes()
        # The architecture of each cubin is 28 bytes into its header, which begins with its kind and version.
        newer = older
        for architecture in (80, 90):
            entry = struct.pack("<HH", 2, 0x101)
            for at in [found.start() for found in re.finditer(re.escape(entry), older)]:
                if struct.unpack_from("<I", older, at + 28)[0] == architecture:
                    newer = newer[: at + 28] + struct.pack("<I", 200) + newer[at + 32 :]
        source.write_bytes(newer)
        result = self.run_script(source)
        self.assertEqual((result.returncode, result.stderr), (77, ""))
        self.assertIn("only code for [200]", result.stdout)

    def test_refuses_wrong_usage(self):
        for arguments in ([], ["--list"], ["--verbose", self.good]):
            self.assertEqual(self.run_script(*arguments).returncode, 2)


if __name__ == "__main__":
    NVCC = sys.argv.pop(1) if len(sys.argv) > 1 else "nvcc"
    if shutil.which(NVCC) is None:
        print(f"skipped: no {NVCC}")
        sys.exit(77)
    unittest.main()
