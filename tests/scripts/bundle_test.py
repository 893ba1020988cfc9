"""Tests of scripts/gpu/bundle.sh, with the whole build and with small programs compiled here.

Arguments: the build folder, a C++ compiler."""

import gzip
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.append(str(SCRIPTS / "gpu"))
import gpu_check  # noqa: E402

BUILD = COMPILER = None

# Libraries that must come from the machine: glibc with the loader, and CUDA.
OF_THE_MACHINE = re.compile(
    r"(lib(c|m|pthread|dl|rt|resolv|util|anl|mvec)\.so|ld-linux|linux-vdso|lib(cuda|cublas|cudnn|nccl))")


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **{"timeout": 120, **options})


def plain_environment():
    """The environment without LD_ variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith("LD_")}


def loaded(command, **options):
    """Shared libraries that the command's program loads: {name: path}. The command must end with an exec of the program."""
    text = run(*command, **options).stdout
    return {name: path for name, path in re.findall(r"^\s*(\S+) => (\S+)", text, re.M)}


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="terngrad_bundle_")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.bundle = self.folder / "bundle"


class WholeBuild(Folder):
    def setUp(self):
        super().setUp()
        lacks_gpu_tests = "TERNGRAD_LACKS_GPU_TESTS:INTERNAL=ON" in (BUILD / "CMakeCache.txt").read_text()
        options = ["--without_gpu_tests"] if lacks_gpu_tests else []
        result = run(SCRIPTS / "gpu/bundle.sh", *options, "--build_dir", BUILD, self.bundle)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.manifest = (self.bundle / "MANIFEST").read_text()

    def trained(self):
        options = ["--dataset", "cifar10", "--benchmark_mode", "--max_steps", "3", "--log_steps", "1", "--batch_size", "8"]
        options += ["--grad_bits", "1", "--num_nodes", "2", "--tensorboard=false", "--train_dir", self.folder / "run"]
        result = run(self.bundle / "run", "terngrad_train", *options, cwd=self.folder, env=plain_environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout + result.stderr

    def test_programs_run_with_the_libraries_of_the_bundle(self):
        for program in sorted((self.bundle / "bin").iterdir()):
            path = run(self.bundle / "run", "--library_path", program.name, env=plain_environment())
            self.assertEqual(path.returncode, 0, path.stderr)
            environment = {**plain_environment(), "LD_LIBRARY_PATH": path.stdout.strip(), "LD_TRACE_LOADED_OBJECTS": "1"}
            libraries = loaded([program], env=environment)
            self.assertIn("libstdc++.so.6", libraries)
            for name, file in libraries.items():
                if not OF_THE_MACHINE.match(name):
                    self.assertEqual(file, str(self.bundle / "lib" / name), program)
        self.assertIn("step 3/3", self.trained())
        version = run(self.bundle / "run", "terngrad_bench", "--version", env=plain_environment())
        self.assertEqual(version.returncode, 0)
        self.assertTrue(version.stdout.startswith("terngrad_bench "))
        self.assertIn(f"version:    {version.stdout.splitlines()[0]}\n", self.manifest)
        # Libraries that networks on GPUs link, and those they open by name.
        self.assertEqual("\n  libcudnn.so." in self.manifest, "\n  libcublasLt.so." in self.manifest)
        self.assertEqual(len(set(re.findall(r"libcublasLt\S*", self.manifest))), int("libcudnn" in self.manifest))
        # resume_test needs the libraries of terngrad_train, which it starts.
        if (self.bundle / "bin" / "resume_test").exists():
            paths = [run(self.bundle / "run", "--library_path", name, env=plain_environment()).stdout
                     for name in ("resume_test", "terngrad_train")]
            self.assertEqual(*paths)
        # Some tests read documents by their paths.
        contracts = run(self.bundle / "run", "contracts_test", "--gtest_filter=*Document*:*Page*", cwd=self.bundle)
        self.assertEqual(contracts.returncode, 0, contracts.stdout)
        self.assertIn("[       OK ] CodecPage", contracts.stdout)
        self.check_tests_of_gpus()

        # The machine's libraries are not in the bundle, every file is in its MANIFEST, and it is small.
        for file in (self.bundle / "lib").iterdir():
            self.assertIsNone(OF_THE_MACHINE.match(file.name), file.name)
        files = [path for path in self.bundle.rglob("*") if path.is_file() and path.name != "MANIFEST"]
        for path in files:
            self.assertRegex(self.manifest, rf"(?m)^ *{path.stat().st_size} {re.escape(str(path.relative_to(self.bundle)))}$")
        self.assertLess(sum(path.stat().st_size for path in files), 300e6)
        self.assertRegex(self.manifest, r"(?m)^  glibc 2\.\d+ or later$")
        self.assertRegex(self.manifest, r"(?m)^compilers:  \S")
        self.check_ends_at_once_without_a_gpu()

    def check_tests_of_gpus(self):
        """The tests that scripts/gpu/gpu_check.py runs pass without a GPU or are skipped with a reason."""
        for program in sorted((self.bundle / "bin").glob("*s_test")):
            result = run(self.bundle / "run", program.name, f"--gtest_filter={gpu_check.GPU_TESTS}", cwd=self.bundle)
            self.assertEqual(result.returncode, 0, result.stdout)
            self.assertEqual(result.stdout.count("[  SKIPPED ] Cuda") > 0, "no GPU: " in result.stdout, program)

    def check_ends_at_once_without_a_gpu(self):
        gpu = run(self.bundle / "run", "terngrad_bench", "--gpu")
        if gpu.returncode == 0:
            return
        reason = gpu.stderr.strip().removeprefix("terngrad_bench: error: no GPU: ")
        result = run(self.bundle / "scripts/gpu/gpu_check.py", "--out", self.folder / "out")
        self.assertEqual((result.returncode, result.stderr), (2, f"gpu_check.py: no GPU to check on: {reason}\n"))

    def test_finds_cudas_libraries_among_packages_of_python_alone(self):
        """With the toolkit hidden by mounts, its libraries are found in the PyPI packages."""
        found = loaded([self.bundle / "bin" / "terngrad_train"], env={**plain_environment(), "LD_TRACE_LOADED_OBJECTS": "1"})
        toolkit = {str(pathlib.Path(path).resolve().parent) for name, path in found.items() if name.startswith("libcudart")}
        if not toolkit:
            self.skipTest("programs are not built with CUDA")
        if run("unshare", "-rm", "true").returncode != 0:
            self.skipTest("unshare makes no mount namespace here")
        toolkit, = toolkit
        packages = {"cudnn": "libcudnn*", "nccl": "libnccl*", "cu13": "lib[!cn]*", "cublas": "libcu[!d]*", "runtime": "libcudart*"}
        real, empty = self.folder / "real", self.folder / "empty"
        for path in (real, empty):
            path.mkdir()
        for name, pattern in packages.items():
            package = self.folder / "site" / "nvidia" / name / "lib"
            package.mkdir(parents=True)
            for path in pathlib.Path(toolkit).glob(f"{pattern}.so.*"):
                (package / path.name).symlink_to(real / path.name)
        prefix = next(parent for parent in pathlib.Path(toolkit).parents if parent.parent == pathlib.Path("/usr/local"))
        environment = {**plain_environment(), "PYTHONPATH": str(self.folder / "site"), "CUDA_HOME": ""}
        script = f"""set -e; mount --bind {toolkit} {real}; mount --bind {empty} {prefix}
{self.bundle}/run --library_path terngrad_train; {self.bundle}/run terngrad_train --version"""
        result = run("unshare", "-rm", "bash", "-c", script, env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("terngrad_train ", result.stdout)
        path = result.stdout.splitlines()[0].split(":")
        self.assertEqual(path[0], str(self.bundle / "lib"))
        self.assertTrue(all(folder.startswith(str(self.folder / "site")) for folder in path[1:]), path)
        self.assertIn(str(self.folder / "site/nvidia/cudnn/lib"), path)


class PythonPackage(Folder):
    def test_runs_where_none_of_the_builds_packages_are(self):
        """With the toolkit and the libraries of the build hidden by mounts, the package encodes the same bits."""
        if run("unshare", "-rm", "true").returncode != 0:
            self.skipTest("unshare makes no mount namespace here")
        python = pathlib.Path("~/.cache/terngrad/python-venv/bin/python").expanduser()
        if "XDG_CACHE_HOME" in os.environ:
            python = pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "terngrad/python-venv/bin/python"
        version = run(python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").stdout.strip()
        lacks_gpu_tests = "TERNGRAD_LACKS_GPU_TESTS:INTERNAL=ON" in (BUILD / "CMakeCache.txt").read_text()
        options = ["--without_gpu_tests"] if lacks_gpu_tests else []
        result = run(SCRIPTS / "gpu/bundle.sh", *options, "--python", version, "--build_dir", BUILD, "bundle", cwd=self.folder,
                     timeout=1100)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"\n  Python {version} with numpy and PyTorch", (self.bundle / "MANIFEST").read_text())

        script = """
import hashlib, numpy, terngrad
gradient = numpy.random.default_rng(1).standard_normal(300000).astype(numpy.float32)
print(hashlib.sha256(bytes(terngrad.Codec("ternary:rotate=64,format=tmask").encode(gradient, seed=1, step=0))).hexdigest())
print(hashlib.sha256(bytes(terngrad.Codec("topk").encode(gradient, seed=1, step=0))).hexdigest())
"""
        expected = run(python, "-c", script, env={**plain_environment(), "PYTHONPATH": str(BUILD / "python")})
        self.assertEqual(expected.returncode, 0, expected.stderr)
        extension, = (BUILD / "python" / "terngrad").glob("_core.*.so")
        built_with = {name: path for name, path in loaded([sys.executable, "-c", ""], env={
            **plain_environment(), "LD_PRELOAD": str(extension), "LD_TRACE_LOADED_OBJECTS": "1"}).items()
            if re.match(r"lib(hwy|isal|cudart|gomp)\.", name)}
        self.assertGreaterEqual(len(built_with), 3)
        hide = "\n".join(f"mount --bind /dev/null {os.path.realpath(path)}" for path in built_with.values())
        environment = {**plain_environment(), "PYTHONPATH": str(self.bundle / "site"), "SCRIPT": script}
        # Uses the distribution's Python with its numpy; a virtual environment would bring nanobind-backend.
        hidden = f'set -e\n{hide}\nif PYTHONPATH={BUILD}/python {python} -c "import terngrad"; then exit 9; fi\n'
        hidden += '/usr/bin/python3 -c "$SCRIPT"'
        found = run("unshare", "-rm", "bash", "-c", hidden, env=environment)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertEqual(found.stdout, expected.stdout)


# Names of programs in a bundle: one without GPU, one with CUDA, one with networks on GPUs.
OURS, GPU, NET = "terngrad_eval", "terngrad_bench", "terngrad_train"


class SmallPrograms(Folder):
    """A build with a program that needs libours.so, and one that needs a libnccl of a version that no machine has."""

    def setUp(self):
        super().setUp()
        self.build = self.folder / "build"
        self.libraries = self.folder / "libraries"
        self.toolkit = self.folder / "toolkit"
        for path in (self.build / "bin", self.libraries, self.toolkit / "lib64"):
            path.mkdir(parents=True)
        source = self.folder / "source.cpp"
        source.write_text('extern "C" int answer() { return 5; }\n')
        nccl = self.toolkit / "lib64" / "libnccl.so.00"
        for path in (self.libraries / "libours.so", nccl):
            self.compile(path, source, "-shared", "-fPIC", f"-Wl,-soname,{path.name}")
        source.write_text('extern "C" int answer(); int main() { return answer(); }\n')
        self.compile(self.build / "bin" / OURS, source, self.libraries / "libours.so", f"-Wl,-rpath,{self.libraries}")
        self.compile(self.build / "bin" / GPU, source, nccl)

    def compile(self, output, *arguments):
        result = run(COMPILER, "-o", output, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)

    def make(self, code=0):
        result = run(SCRIPTS / "gpu/bundle.sh", "--build_dir", self.build, self.bundle)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr

    def test_brings_libraries_along_but_not_cudas(self):
        self.make()
        self.assertEqual([path.name for path in (self.bundle / "lib").iterdir()], ["libours.so"])
        shutil.rmtree(self.libraries)
        self.assertEqual(run(self.bundle / "run", OURS, env=plain_environment()).returncode, 5)
        self.assertIn("\n  libnccl.so.00\n", (self.bundle / "MANIFEST").read_text())

    def test_finds_cudas_on_the_machine_or_says_so(self):
        self.make()
        environment = {**plain_environment(), "CUDA_HOME": str(self.toolkit)}
        self.assertEqual(run(self.bundle / "run", GPU, env=environment).returncode, 5)
        found = run(self.bundle / "run", "--library_path", GPU, env=environment).stdout
        self.assertEqual(found, f"{self.bundle}/lib:{self.toolkit}/lib64\n")
        result = run(self.bundle / "run", GPU, env=plain_environment())
        self.assertEqual((result.returncode, result.stderr),
                         (127, f"run: {GPU} needs libnccl.so.00, which this machine does not have\n"))

    def test_keeps_the_path_of_the_user_behind_its_own(self):
        self.make()
        environment = {**plain_environment(), "LD_LIBRARY_PATH": "/users/own"}
        self.assertEqual(run(self.bundle / "run", "--library_path", OURS, env=environment).stdout,
                         f"{self.bundle}/lib:/users/own\n")

    def test_finds_what_is_opened_by_name(self):
        source = self.folder / "source.cpp"
        source.write_text('extern "C" int answer() { return 5; }\n')
        for name in ("libcudart.so.00", "libcudnn.so.0"):
            self.compile(self.toolkit / "lib64" / name, source, "-shared", "-fPIC", f"-Wl,-soname,{name}")
        source.write_text('extern "C" int answer(); const char* volatile opened = "libcublasLt.so.00";\n'
                          'int main() { return answer(); }\n')
        self.compile(self.build / "bin" / NET, source, "-Wl,--no-as-needed", self.toolkit / "lib64" / "libcudnn.so.0",
                     self.toolkit / "lib64" / "libcudart.so.00")
        site = self.folder / "site" / "nvidia"
        products, compiler = site / "some" / "lib" / "libcublasLt.so.00", site / "other" / "lib" / "libnvrtc.so.00"
        for path in (products, compiler):
            path.parent.mkdir(parents=True)
            path.touch()
        self.make()
        self.assertIn("\n  libcublasLt.so.00\n", (self.bundle / "MANIFEST").read_text())
        environment = {**plain_environment(), "CUDA_HOME": str(self.toolkit), "PYTHONPATH": str(self.folder / "site")}
        found = run(self.bundle / "run", "--library_path", NET, env=environment).stdout
        self.assertEqual(found, f"{self.bundle}/lib:{self.toolkit}/lib64:{products.parent}:{compiler.parent}\n")
        self.assertEqual(run(self.bundle / "run", NET, env=environment).returncode, 5)
        # Programs without networks do not get these folders.
        found = run(self.bundle / "run", "--library_path", GPU, env=environment).stdout
        self.assertEqual(found, f"{self.bundle}/lib:{self.toolkit}/lib64\n")

    def test_brings_data_along(self):
        digits = self.folder / "digits"
        digits.mkdir()
        (digits / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"images"))
        for name in ("t10k-labels-idx1-ubyte", "notes.txt"):
            (digits / name).write_text(name)
        pictures = self.folder / "pictures"
        pictures.mkdir()
        (pictures / "test_batch.bin.xz").write_bytes(lzma.compress(b"pictures"))
        result = run(SCRIPTS / "gpu/bundle.sh", "--mnist", digits, "--cifar10", pictures, "--build_dir", self.build, self.bundle)
        self.assertEqual(result.returncode, 0, result.stderr)
        files = sorted(str(path.relative_to(self.bundle / "data")) for path in (self.bundle / "data").glob("*/*"))
        self.assertEqual(files, ["cifar10/test_batch.bin", "mnist/t10k-labels-idx1-ubyte", "mnist/train-images-idx3-ubyte"])
        self.assertEqual((self.bundle / "data/mnist/train-images-idx3-ubyte").read_bytes(), b"images")
        self.assertIn(" data/mnist/train-images-idx3-ubyte\n", (self.bundle / "MANIFEST").read_text())

    def test_packs_below_a_limit(self):
        packed = self.folder / "new" / "bundle.tar.xz"
        arguments = SCRIPTS / "gpu/bundle.sh", "--build_dir", self.build, "--pack", packed
        result = run(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"bundle.tar.xz: 0\.\d MiB of 41 MiB\n$")
        with tarfile.open(packed) as archive:
            self.assertIn(f"terngrad-bundle/bin/{GPU}", archive.getnames())
        shutil.copy(self.build / "bin" / OURS, self.build / "bin" / NET)
        with (self.build / "bin" / NET).open("ab") as file:
            file.write(os.urandom(3 << 19))
        result = run(*arguments, "--pack_limit", "1")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, rf"removed, as it has 1 MiB or more; the largest files \(bytes\):\n +\d+ bin/{NET}\n")
        self.assertFalse(packed.exists())


    def test_tests_that_need_a_gpu_are_left_out_where_it_is_said_only(self):
        arguments = SCRIPTS / "gpu/bundle.sh", "--without_gpu_tests", "--build_dir", self.build, self.bundle
        result = run(*arguments)
        self.assertEqual(result.returncode, 2)
        self.assertIn(f"--without_gpu_tests: '{self.build}' does not lack them", result.stderr)
        (self.build / "CMakeCache.txt").write_text("TERNGRAD_LACKS_GPU_TESTS:INTERNAL=ON\n")
        self.assertIn("run cmake -DTERNGRAD_GPU_TESTS=ON", self.make(code=2))
        self.assertFalse(self.bundle.exists())
        result = run(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("missing: tests that need a GPU (not built: cmake -DTERNGRAD_GPU_TESTS=ON", result.stderr)
        self.assertIn("\n  tests that need a GPU (not built: ", (self.bundle / "MANIFEST").read_text())

    def test_refuses_folders_without_data(self):
        for option, name in {"--mnist": "MNIST", "--cifar10": "CIFAR-10"}.items():
            result = run(SCRIPTS / "gpu/bundle.sh", option, self.libraries, "--build_dir", self.build, self.bundle)
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"{option}: '{self.libraries}' has no files of {name}", result.stderr)
            result = run(SCRIPTS / "gpu/bundle.sh", option, "/nowhere", "--build_dir", self.build, self.bundle)
            self.assertIn(f"{option}: there is no folder '/nowhere'", result.stderr)
            self.assertFalse(self.bundle.exists())

    def test_programs_of_the_emulation_stay(self):
        shutil.copy(self.build / "bin" / OURS, self.build / "bin" / "simt_test")
        self.make()
        self.assertFalse((self.bundle / "bin" / "simt_test").exists())

    def test_says_what_is_missing(self):
        told = self.make()
        manifest = (self.bundle / "MANIFEST").read_text()
        for name in ("bin/trainers_test", "bin/kernels_test", "lib/libterngrad_fail_point.so"):
            self.assertIn(f"missing: {name} (not built", told)
            self.assertIn(f"\n  {name} (not built", manifest)
        self.assertNotIn(f"bin/{OURS} (not built", manifest)

    def test_fails_without_a_library(self):
        shutil.rmtree(self.libraries)
        self.assertIn("this machine lacks libours.so, needed by terngrad_eval\n", self.make(code=1))

    def test_refuses_wrong_usage(self):
        for arguments, reason in {
            (): "OUT_DIR: missing",
            ("--fast", "a"): "unknown option '--fast'",
            (self.build,): "exists and is no empty folder",
            (self.bundle, "--build_dir", self.libraries): "has no bin/",
            (self.bundle, "more"): "too many arguments",
            ("--pack", "bundle.zip"): "'bundle.zip' is refused",
            ("--python", "3", self.bundle): "'3' is refused, expected a version such as 3.12",
            ("--pack_limit", "much", self.bundle): "'much' is refused",
            ("--build", "--build_dir", self.build, self.bundle): "--build_dir: leave it out",
        }.items():
            result = run(SCRIPTS / "gpu/bundle.sh", *arguments,
                         *([] if "--build_dir" in arguments else ["--build_dir", self.build]))
            self.assertEqual(result.returncode, 2)
            self.assertIn(reason, result.stderr)
        self.make()
        for arguments, reason in {("nothing",): "no program 'nothing'", ("--fast",): "unknown option '--fast'"}.items():
            result = run(self.bundle / "run", *arguments)
            self.assertEqual(result.returncode, 127)
            self.assertIn(reason, result.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("bundle_test.py: usage: bundle_test.py BUILD_DIR COMPILER")
    COMPILER = sys.argv.pop(2)
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
