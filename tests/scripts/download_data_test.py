"""Tests of scripts/download_data.sh against a server on 127.0.0.1.

Arguments: the test classes to run. Exits with 77 (skipped) if a required program is missing."""

import base64
import gzip
import hashlib
import http.server
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "download_data.sh"
REAL_MNIST = ROOT.parent / "shared" / "data" / "mnist"
MNIST = [f"{stem}-ubyte.gz" for stem in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")]
ARCHIVE = "cifar-10-binary.tar.gz"
BATCHES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
BATCH_BYTES = 30730000


class Server:
    """Serves `files`. Can cut every answer after `cut` bytes, and can ignore ranges."""

    def __init__(self, files):
        self.files = dict(files)
        self.cut = None
        self.ranges = True
        self.log = []  # (file, first byte requested)
        self.users = {}  # file: the user's name and key in the last request for it
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def answer(self, request):
        name = request.path.lstrip("/")
        kind, _, key = request.headers.get("Authorization", "").partition(" ")
        self.users[name] = base64.b64decode(key).decode() if kind == "Basic" else None
        if name not in self.files:
            request.send_error(404)
            return
        content = self.files[name]
        wanted = request.headers.get("Range", "")
        begin = int(wanted[len("bytes="):-1]) if wanted and self.ranges else 0
        self.log.append((name, begin))
        if begin >= len(content):
            request.send_error(416)
            return
        request.send_response(206 if begin else 200)
        if begin:
            request.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        request.send_header("Content-Length", str(len(content) - begin))
        request.end_headers()
        end = len(content) if self.cut is None else begin + self.cut
        request.wfile.write(content[begin:end])

    def close(self):
        self.http.shutdown()
        self.http.server_close()


def md5(content):
    return hashlib.md5(content).hexdigest()


class Download(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="terngrad_download_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.data = self.folder / "data"
        self.files = {name: os.urandom(100_000) for name in MNIST}
        self.server = Server(self.files)
        self.addCleanup(self.server.close)
        self.write_checksums(self.files)

    def write_checksums(self, files):
        self.checksums = self.folder / "checksums"
        self.checksums.write_text("".join(f"{md5(content)}  {name}\n" for name, content in files.items()))

    def run_script(self, *arguments, published=False, **variables):
        command = [str(SCRIPT), *arguments]
        if not published:
            command += ["--checksums", str(self.checksums)]
        environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        environment |= variables
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)

    def fetch_mnist(self, **options):
        return self.run_script("mnist", "--data_dir", str(self.data), "--mirror", self.server.url, **options)

    def assert_mnist_is_there(self):
        self.assertEqual(sorted(path.name for path in self.data.iterdir()), sorted(MNIST))
        for name, content in self.files.items():
            self.assertEqual((self.data / name).read_bytes(), content, name)


class PublishedMnist(Download):
    def test_published_checksums_accept_mnist(self):
        self.server.files = self.files = {name: (REAL_MNIST / name).read_bytes() for name in MNIST}
        result = self.fetch_mnist(published=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_mnist_is_there()


class DownloadData(Download):
    def test_a_complete_part_is_not_fetched_again(self):
        self.data.mkdir()
        (self.data / (MNIST[0] + ".part")).write_bytes(self.files[MNIST[0]])
        result = self.fetch_mnist()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_mnist_is_there()
        self.assertNotIn(MNIST[0], [name for name, _ in self.server.log])

    def test_fetches_then_leaves_alone(self):
        result = self.fetch_mnist()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_mnist_is_there()
        self.assertEqual(len(self.server.log), 4)
        self.assertEqual(self.fetch_mnist().returncode, 0)
        self.assertEqual(len(self.server.log), 4)

    def test_replaces_what_is_damaged(self):
        self.fetch_mnist()
        (self.data / MNIST[2]).write_bytes(b"damaged")
        self.assertEqual(self.fetch_mnist().returncode, 0)
        other = self.data / (MNIST[2] + ".other")
        self.assertEqual(other.read_bytes(), b"damaged")
        other.unlink()
        self.assert_mnist_is_there()
        self.assertEqual([name for name, _ in self.server.log[4:]], [MNIST[2]])

    def test_goes_on_after_broken_connections(self):
        self.server.cut = 40_000
        result = self.fetch_mnist()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_mnist_is_there()
        self.assertEqual([begin for name, begin in self.server.log if name == MNIST[0]], [0, 40_000, 80_000])

    def test_goes_on_where_an_earlier_run_stopped(self):
        self.data.mkdir()
        (self.data / (MNIST[1] + ".part")).write_bytes(self.files[MNIST[1]][:30_000])
        self.assertEqual(self.fetch_mnist().returncode, 0)
        self.assert_mnist_is_there()
        self.assertIn((MNIST[1], 30_000), self.server.log)

    def test_starts_anew_where_the_server_knows_no_ranges(self):
        self.server.ranges = False
        self.data.mkdir()
        (self.data / (MNIST[0] + ".part")).write_bytes(self.files[MNIST[0]][:30_000])
        result = self.fetch_mnist()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_mnist_is_there()

    def test_gives_up_on_a_server_that_always_breaks_off_and_knows_no_ranges(self):
        self.server.ranges = False
        self.server.cut = 40_000
        result = self.fetch_mnist()
        self.assertEqual(result.returncode, 1)
        self.assertEqual([path.name for path in self.data.iterdir()], [MNIST[0] + ".part"])

    def test_what_was_fetched_survives_a_server_that_is_gone(self):
        self.data.mkdir()
        part = self.data / (MNIST[0] + ".part")
        part.write_bytes(self.files[MNIST[0]][:30_000])
        result = self.run_script("mnist", "--data_dir", str(self.data), "--mirror", "http://127.0.0.1:1")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(part.read_bytes(), self.files[MNIST[0]][:30_000])

    def test_starts_anew_after_a_foreign_or_overlong_beginning(self):
        self.data.mkdir()
        (self.data / (MNIST[0] + ".part")).write_bytes(b"x" * 30_000)
        (self.data / (MNIST[1] + ".part")).write_bytes(b"x" * 200_000)
        result = self.fetch_mnist()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_mnist_is_there()

    def test_wrong_content_is_thrown_away(self):
        self.server.files[MNIST[3]] = b"not the labels"
        result = self.fetch_mnist()
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{MNIST[3]}: expected MD5 {md5(self.files[MNIST[3]])}, found", result.stderr)
        self.assertEqual(sorted(path.name for path in self.data.iterdir()), sorted(MNIST[:3]))

    def test_published_checksums_refuse_other_files(self):
        result = self.fetch_mnist(published=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("expected MD5 f68b3c2dcbeaaa9fbdd348bbdeb94873", result.stderr)
        self.assertEqual(list(self.data.iterdir()), [])

    def test_missing_files_and_servers_are_named(self):
        del self.server.files[MNIST[1]]
        result = self.fetch_mnist()
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{MNIST[1]} could not be had from {self.server.url}", result.stderr)
        closed = self.run_script("mnist", "--data_dir", str(self.data), "--mirror", "http://127.0.0.1:1")
        self.assertEqual(closed.returncode, 1)

    def test_the_next_mirror_serves_what_the_first_has_not(self):
        damaged = Server({MNIST[0]: b"not the images"})
        self.addCleanup(damaged.close)
        result = self.run_script("mnist", "--data_dir", str(self.data), "--mirror", damaged.url, "--mirror",
                                 "http://127.0.0.1:1", f"--mirror={self.server.url}/")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_mnist_is_there()

    def fetch_cifar10(self):
        return self.run_script("cifar10", "--data_dir", str(self.data), f"--mirror={self.server.url}/")

    def serve_cifar10(self, batch_bytes=BATCH_BYTES):
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as stream, \
                tarfile.open(fileobj=stream, mode="w") as archive:
            for name in BATCHES:
                entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
                entry.size = batch_bytes
                archive.addfile(entry, io.BytesIO(bytes(batch_bytes)))
        self.server.files = {ARCHIVE: packed.getvalue()}
        self.write_checksums(self.server.files)

    def test_cifar10_is_unpacked_once_and_repaired(self):
        self.serve_cifar10()
        self.server.cut = len(self.server.files[ARCHIVE]) // 2 + 1
        result = self.fetch_cifar10()
        self.assertEqual(result.returncode, 0, result.stderr)
        folder = self.data / "cifar-10-batches-bin"
        self.assertEqual([path.name for path in self.data.iterdir()], [folder.name])
        self.assertEqual(sorted(path.name for path in folder.iterdir()), sorted(BATCHES + ["MD5SUMS"]))
        self.assertEqual((folder / BATCHES[4]).stat().st_size, BATCH_BYTES)
        requests = len(self.server.log)
        self.assertEqual(self.fetch_cifar10().returncode, 0)
        self.assertEqual(len(self.server.log), requests)
        with open(folder / BATCHES[2], "r+b") as batch:
            batch.write(b"x")
        self.assertEqual(self.fetch_cifar10().returncode, 0)
        self.assertGreater(len(self.server.log), requests)
        with open(folder / BATCHES[2], "rb") as batch:
            self.assertEqual(batch.read(1), b"\0")

    def test_cifar10_of_another_size_is_refused(self):
        self.serve_cifar10(batch_bytes=1000)
        result = self.fetch_cifar10()
        self.assertEqual(result.returncode, 1)
        self.assertIn("does not hold the six files", result.stderr)
        self.assertFalse((self.data / "cifar-10-batches-bin").exists())

    def test_flowers_are_divided_evenly_once(self):
        classes = {"daisy": 101, "tulips": 250}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name in ["LICENSE.txt", *(f"{c}/{i:03}.jpg" for c, count in classes.items() for i in range(count))]:
                entry = tarfile.TarInfo(f"flower_photos/{name}")
                entry.size = len(name)
                archive.addfile(entry, io.BytesIO(name.encode()))
        self.server.files = {"flower_photos.tgz": packed.getvalue()}
        self.checksums.write_text(f"{hashlib.sha256(packed.getvalue()).hexdigest()}  flower_photos.tgz\n")
        fetch = ["flowers", "--data_dir", str(self.data), "--mirror", self.server.url]
        result = self.run_script(*fetch)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(path.name for path in self.data.iterdir()), ["LICENSE.txt", "test", "train"])
        for name, count in classes.items():
            sets = {subset: sorted(path.name for path in (self.data / subset / name).iterdir())
                    for subset in ("train", "test")}
            self.assertEqual(len(sets["test"]), 100)
            self.assertEqual(sorted(sets["train"] + sets["test"]), [f"{i:03}.jpg" for i in range(count)])
        self.assertEqual(sets["test"][:4], ["000.jpg", "002.jpg", "005.jpg", "007.jpg"])
        self.assertEqual(self.run_script(*fetch).returncode, 0)
        self.assertEqual(len(self.server.log), 1)
        shutil.rmtree(self.data / "test")
        self.assertIn("has one of train and test already", self.run_script(*fetch).stderr)

    def test_imagenet_needs_a_user_or_the_archives(self):
        archives = ["ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar"]
        lists = ["imagenet_lsvrc_2015_synsets.txt", "imagenet_2012_validation_synset_labels.txt"]
        self.server.files = {name: name.encode() * 1000 for name in archives + lists}
        self.write_checksums(self.server.files)
        to_data = ["imagenet", "--data_dir", str(self.data)]
        result = self.run_script(*to_data)
        self.assertEqual(result.returncode, 2)
        self.assertIn("ILSVRC2012_img_train.tar is given to users of image-net.org", result.stderr)
        result = self.run_script(*to_data, IMAGENET_USERNAME="user")
        self.assertEqual(result.returncode, 2)
        self.assertIn("without IMAGENET_ACCESS_KEY", result.stderr)
        self.server.cut = 20_000  # the key goes with every attempt
        result = self.run_script(*to_data, "--mirror", self.server.url, IMAGENET_USERNAME='a "user"',
                                 IMAGENET_ACCESS_KEY="1\\2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.server.users, {name: 'a "user":1\\2' if name in archives else None
                                             for name in archives + lists})
        (self.data / archives[0]).write_bytes(b"another archive")
        result = self.run_script(*to_data, "--mirror", "http://127.0.0.1:1")
        self.assertEqual(result.returncode, 1)
        self.assertTrue((self.data / (archives[0] + ".other")).exists())

    def test_wrong_arguments_are_refused(self):
        for arguments, words in [
                ([], "which data set"),
                (["cifar100"], "unknown argument 'cifar100'"),
                (["mnist", "cifar10"], "one data set at a time"),
                (["mnist", "--data_dir"], "--data_dir: a value is missing"),
                (["mnist", "--checksums", "/no such file"], "there is no such file"),
        ]:
            result = self.run_script(*arguments, published=True)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(words, result.stderr)
        result = self.run_script("--help", published=True)
        self.assertEqual(result.returncode, 0)
        self.assertIn("Usage:", result.stdout)
        self.checksums.write_text("0  other\n")
        result = self.fetch_mnist()
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"has no line for {MNIST[0]}", result.stderr)


if __name__ == "__main__":
    if shutil.which("curl") is None:
        print("skipped: no curl")
        sys.exit(77)
    if "PublishedMnist" in sys.argv and not REAL_MNIST.exists():
        print(f"skipped: no MNIST in {REAL_MNIST}")
        sys.exit(77)
    unittest.main()
