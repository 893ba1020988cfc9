"""Tests of scripts/dev/check_kernels.py on kernels compiled here.

Arguments: the nvcc to compile with. Exits with 77 where there is none."""

import contextlib
import importlib.util
import io
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
sys.path.insert(0, str(SCRIPT.parent))
import machine_code

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
// Eight loads are wanted before the first use; the table is there for rare values.
__global__ void ahead(const float4* in, float* out, const float* table) {
  float4 values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) values[i] = in[i * 256 + threadIdx.x];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float sum = values[i].x + values[i].y + values[i].z + values[i].w;
    if (sum == 7.0f) {
      for (int k = 0; k < 100; ++k) sum += table[__float_as_int(sum) & 15] * table[k];
    }
    out[i * 256 + threadIdx.x] = sum;
  }
}
// One after the other: each address comes from the load before.
__global__ void chained(const int4* in, int* out) {
  int at = threadIdx.x;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int4 values = in[at];
    at = values.x ^ values.y ^ values.z ^ values.w;
  }
  out[threadIdx.x] = at;
}
// A loop that is left at its head, with the loads in it.
__global__ void looping(const float4* in, float* out, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    const float4 value = in[i * 256 + threadIdx.x];
    if (value.x < 0) continue;
    sum += value.x * value.y + value.z;
  }
  out[threadIdx.x] = sum;
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
            self.assertEqual(machine_code.Kernel(name, 80, []).function(), function)

    def test_counts_loads_in_flight(self):
        for name, expected in {"ahead": 8, "chained": 1, "wide": 1, "scalar": 0}.items():
            for kernel in self.named(self.good, name):
                self.assertEqual(kernel.loads_in_flight(128), expected, f"{name} sm_{kernel.architecture}")
        for kernel in self.named(self.good, "scalar"):
            self.assertEqual(kernel.loads_in_flight(32), 1)

    def test_follows_the_fast_path(self):
        for kernel in self.named(self.good, "ahead"):
            path = kernel.fast_path(128)
            self.assertEqual(path.num_accesses, 8)
            # Behind each of the eight is a loop for rare values, of which none is on the path.
            self.assertLess(path.num_instructions, kernel.num_instructions / 3)
            self.assertGreater(path.num_instructions, 8 * (1 + 3 + 1))
            self.assertGreater(kernel.fast_path(32).num_accesses, 16)
        for kernel in self.named(self.good, "looping"):
            path = kernel.fast_path(128)
            self.assertGreaterEqual(path.num_accesses, 1)
            self.assertLess(path.num_instructions, kernel.num_instructions)
        for kernel in self.named(self.good, "wide"):
            path = kernel.fast_path(128)
            self.assertEqual(path.num_accesses, 2)
            # All of them, without what fills the section up behind the EXIT.
            self.assertIn(path.num_instructions, range(8, 20))

    def test_knows_registers_and_shared_memory(self):
        for kernel in self.named(self.good, "shared"):
            self.assertEqual(kernel.shared_bytes, 4096)
        for kernel in self.named(self.good, "ahead"):
            self.assertIn(kernel.num_registers, range(33, 128))

    def test_finds_more_shared_memory_than_a_block_gets(self):
        self.addCleanup(self.script.DYNAMIC_SHARED_BYTES.pop, "shared")
        self.script.DYNAMIC_SHARED_BYTES["shared"] = 44 << 10
        self.assertEqual(self.findings(self.good), [])
        self.script.DYNAMIC_SHARED_BYTES["shared"] += 16
        found = self.findings(self.good)
        self.assertEqual(len(found), 2, found)
        self.assertIn("4096 bytes of static shared memory and up to 45072 of dynamic", found[0])

    def test_finds_counts_that_are_worse(self):
        stream = self.script.Stream("of eight", "ahead", "", 32, 5)
        found = self.kernels(self.good)
        recorded = {"of eight": self.script.counts_of(stream, found)}
        self.assertEqual(list(self.script.regressions(found, [stream], recorded)), [])
        for name, better in {"loads_in_flight": 9, "registers": 16, "instructions": 40}.items():
            sooner = {"of eight": {arch: counts | {name: better} for arch, counts in recorded["of eight"].items()}}
            lines = list(self.script.regressions(found, [stream], sooner))
            self.assertEqual(len(lines), 2, lines)
            self.assertIn(f"{name} {recorded['of eight']['sm_80'][name]}, recorded {better}", lines[0])
        self.assertIn("no counts are recorded", list(self.script.regressions(found, [stream], {}))[0])

    def test_knows_the_compiler(self):
        text = subprocess.run([NVCC, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(machine_code.compilers(self.good.read_bytes()), set(re.findall(r"release (\d+\.\d+)", text)))

    def test_compares_no_counts_of_another_compiler(self):
        other = pathlib.Path(self.folder.name) / "counts.json"
        other.write_text('{"compiler": "1.0", "counts": {}}')
        self.addCleanup(setattr, self.script, "COUNTS", self.script.COUNTS)
        self.script.COUNTS = str(other)
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(self.script.main([str(self.good)]), 1)  # for kernels that are not there
        self.assertIn("counts are recorded for CUDA 1.0, not compared with", said.getvalue())

    def test_bounds_follow_from_counts(self):
        machine = ("a GPU", 100, 2.0, 4000)
        counts = {"loads_in_flight": 8, "registers": 32, "instructions": 128, "logic": 0, "slow": 0}
        bound = lambda elements, num_bytes, **other: self.script.percent_of_copy(
            self.script.Stream("", "", "", elements, num_bytes), counts | other, machine
        )
        # An element a cycle and multiprocessor: 200 G a second, of 8 bytes each.
        self.assertAlmostEqual(bound(1, 8), 40)
        self.assertAlmostEqual(bound(1, 8, logic=128), 20)
        self.assertAlmostEqual(bound(1, 8, slow=64), 10)
        self.assertAlmostEqual(bound(100, 8), 100)
        # 100 x 2048 threads with 16 bytes on their way, every 800 ns.
        self.assertAlmostEqual(bound(100, 8, loads_in_flight=0.5), 100 * 100 * 2048 * 8 / 800 / 4000)

    def test_the_documents_table_is_what_the_counts_say(self):
        table = "\n".join(self.script.table(self.script.read_record()["counts"]))
        is_there = table in (ROOT / "docs/gpu.md").read_text()
        self.assertTrue(is_there, "put what check_kernels.py --table prints into docs/gpu.md")

    def test_every_stream_is_recorded_for_both_architectures(self):
        counts = self.script.read_record()["counts"]
        self.assertEqual(set(counts), {stream.name for stream in self.script.STREAMS})
        for name, of_stream in counts.items():
            self.assertEqual(set(of_stream), {"sm_80", "sm_90"}, name)

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
            targets = self.script.targets_of([str(obj)])
            self.assertEqual({wide.kernel for wide in self.script.WIDE_ACCESSES if wide.target in targets}, set(found))

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
