"""Tests of scripts/hosts/run_hosts.sh and stop_hosts.sh: two hosts of scripts/hosts/slow_link.sh, each with its own ssh
daemon. RunHosts uses a small MPI program instead of terngrad_train.

Arguments: terngrad_train if it is built with MPI, or ""; test classes. Exits with 77 (skipped) if something is missing."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
from few_digits import write_digits  # noqa: E402

SCRIPTS = ROOT / "scripts"
STEPS = pathlib.Path(__file__).with_name("mpi_steps.cpp")
SSHD = "/usr/sbin/sshd"
HOSTS = ["10.77.0.1", "10.77.0.2"]
FOLDER = None
TRAIN = None


def what_is_missing():
    if os.geteuid() != 0:
        return "not root"
    for program in ("ip", "tc", "mpirun", "mpicxx", "ssh", "ssh-keygen", SSHD):
        if shutil.which(program) is None:
            return f"no {program}"
    if subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True).returncode != 0:
        return "no right to make namespaces"
    return None


def start_daemon(folder, rank):
    """Starts an ssh daemon on this host, with keys and a configuration in `folder`."""
    # For the daemon's privilege separation, in this host's mount namespace.
    subprocess.run(["mount", "-t", "tmpfs", "terngrad", "/run"], check=True)
    pathlib.Path("/run/sshd").mkdir(mode=0o755)
    state = folder / f"host{rank}"
    state.mkdir()
    configuration = folder / f"sshd_config{rank}"
    configuration.write_text(f"""
ListenAddress {HOSTS[rank]}
Port 2222
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
UsePAM no
PidFile none
SetEnv TMPDIR={state}
""")
    return subprocess.Popen([SSHD, "-D", "-f", configuration, "-E", folder / f"sshd{rank}.log"])


def main_of_host(folder, arguments):
    """The process on one of the hosts: the first runs the tests, the others only the daemon."""
    rank = int(os.environ["TERNGRAD_HOST_RANK"])
    daemon = start_daemon(folder, rank)
    done = folder / "done"
    try:
        if rank > 0:
            while not done.exists():
                time.sleep(0.2)
            return 0
        for host in HOSTS:
            command = ["ssh", "-F", folder / "ssh_config", host, "true"]
            for _ in range(50):
                result = subprocess.run(command, capture_output=True, text=True)
                if result.returncode == 0:
                    break
                time.sleep(0.2)
            else:
                print(f"no ssh to {host}: {result.stderr}")
                return 1
        return 0 if unittest.main(argv=sys.argv[:1] + arguments, exit=False).result.wasSuccessful() else 1
    finally:
        done.touch()
        daemon.terminate()
        daemon.wait()


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="case_", dir=FOLDER))
        self.program = self.make_program()
        self.hostfile = self.folder / "hosts"
        self.config = self.folder / "config"
        self.run = self.folder / "run"

    def write_hosts(self, *lines):
        self.hostfile.write_text("# of the test\n" + "\n".join(lines))

    def write_config(self, *lines, program=None, **options):
        lines = [f"launch.program = {program or self.program}", f"launch.ssh = ssh -F {FOLDER}/ssh_config",
                 "launch.network = 10.77.0.0/24", "launch.kill_timeout = 1", *lines, *(f"{name} = {value}" for name, value in options.items())]
        self.config.write_text("\n".join(lines))

    def command(self, *options, run=None):
        return [SCRIPTS / "hosts/run_hosts.sh", "--run_dir", run or self.run, *options, self.hostfile, self.config]

    def run_script(self, *options, **more):
        environment = {**os.environ, "TERNGRAD_X": "of all ranks"}
        return subprocess.run(self.command(*options, **more), capture_output=True, text=True, timeout=120, env=environment)

    def stop(self, *options, run=None):
        return subprocess.run([SCRIPTS / "hosts/stop_hosts.sh", *options, run or self.run], capture_output=True, text=True,
                              timeout=120)

    def start_steps(self, *options, run=None):
        """Starts a run and waits for its first step."""
        process = subprocess.Popen(self.command(*options, run=run), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        while not process.stdout.readline().startswith("step "):
            self.assertIsNone(process.poll())
        return process

    def log(self, rank, run=None):
        return ((run or self.run) / "logs" / f"rank-{rank}.log").read_text()

    @staticmethod
    def is_there(process):
        return pathlib.Path(f"/proc/{process}").exists()

    def assert_ended(self, processes, seconds=0):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(map(self.is_there, processes)):
            time.sleep(0.1)
        self.assertEqual([process for process in processes if self.is_there(process)], [])


class RunHosts(Case):
    def setUp(self):
        super().setUp()
        for name in ("a", "b b"):
            (self.folder / name).mkdir()
        self.write_hosts(f"{HOSTS[0]} slots=2", HOSTS[1])
        self.write_config(max_steps=5)

    def make_program(self):
        return shutil.copy(FOLDER / "mpi_steps", self.folder / "mpi_steps")

    def start(self, *options, run=None):
        """Starts a long run and waits until it is under way. @returns its process and those of its ranks"""
        process = self.start_steps(*options, run=run)
        return process, [int(re.findall(r" process (\d+)\n", self.log(rank, run=run))[-1]) for rank in range(3)]

    def saved(self, run=None):
        return [int(((run or self.run) / "train" / f"saved-{rank}").read_text()) for rank in range(3)]

    def assert_refused(self, words, *options):
        result = self.run_script(*options)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertTrue(result.stderr.startswith("run_hosts.sh: "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertFalse(self.run.exists())

    def test_runs_on_all_hosts_and_collects_logs(self):
        self.write_hosts(f"{HOSTS[0]} slots=2 data_dir={self.folder}/a devices=0,1", f"{HOSTS[1]} data_dir={FOLDER}")
        self.write_config("# a comment", "  # another = one", "note = a 'b' \"c\" $d #2", "num_steps = 7", max_steps=5)
        result = self.run_script()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for rank, (host, data, devices) in enumerate([(0, self.folder / "a", "0,1")] * 2 + [(1, FOLDER, "")]):
            log = self.log(rank)
            self.assertRegex(log, rf"^== \S+ rank {rank} on host {HOSTS[host]}\n")
            self.assertRegex(log, rf"rank {rank} of 3 on terngrad\d+-{host}: data '{data}' note 'a 'b' \"c\" \$d #2' "
                                  rf"devices '{devices}' variable 'of all ranks' from step 0 ")
        self.assertEqual(self.saved(), [5, 5, 5])
        self.assertIn("step 5\n", self.log(0))
        self.assertIn("step 5\n", result.stdout)
        self.assertNotIn("rank 1 of 3", result.stdout)
        self.assertIn("mpi_steps 1.0, 3 processes", (self.run / "logs" / "launcher.log").read_text())
        self.assertEqual(sorted(path.name for path in self.run.iterdir()), ["logs", "train"])
        self.assertEqual(len(list((self.run / "logs").iterdir())), 4)
        self.assertEqual(self.stop().returncode, 0)

    def test_a_dry_run_starts_nothing(self):
        self.write_config(f"data_dir = {self.folder}/b b", max_steps=5)
        result = self.run_script("--dry_run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count(f"'--data_dir' '{self.folder}/b b'"), 2)
        self.assertFalse(self.run.exists())

    def test_what_does_not_fit_is_refused_by_name(self):
        for words, lines in [
                (["'10.77.0.1'", "twice", ":3:"], [HOSTS[0], HOSTS[0]]),
                (["slots", "'0'"], [f"{HOSTS[0]} slots=0"]),
                (["'speed=9'", "slots="], [f"{HOSTS[0]} speed=9"]),
                (["devices", "'a'"], [f"{HOSTS[0]} devices=a"]),
                (["'-x'"], ["-x"]),
                (["has no hosts"], []),
                (["data_dir", HOSTS[0], HOSTS[1]], [f"{HOSTS[0]} data_dir=/tmp", HOSTS[1]]),
                ([HOSTS[1], "no data folder '/no'"], [f"{HOSTS[0]} data_dir=/tmp", f"{HOSTS[1]} data_dir=/no"]),
                (["'10.77.0.9'", "cannot be reached"], [HOSTS[0], "10.77.0.9"])]:
            with self.subTest(lines=lines):
                self.write_hosts(*lines)
                self.assert_refused(words)
        self.write_hosts(*HOSTS)
        for words, line in [
                (["'colour'", "no option", ":5:"], "colour = red"),
                (["'help'"], "help = true"),
                (["'launch.speed'", "launch.ssh"], "launch.speed = 9"),
                (["'launch.ssh'", "twice"], "launch.ssh = ssh"),
                (["'data_dir'", "needs a value"], "data_dir ="),
                (["'train_dir'"], "train_dir = x"),
                (["'resume'"], "resume = true"),
                (["'a word'"], "a word"),
                (["'data_dir'", "twice"], "data_dir = /tmp\ndata_dir = /var"),
                (["'data'", "begins with /"], "data_dir = data"),
                (["no data folder", HOSTS[0]], "data_dir = /no such")]:
            with self.subTest(line=line):
                self.write_config(line, max_steps=5)
                self.assert_refused(words)
        self.write_config(program="/no/program")
        self.assert_refused([HOSTS[0], "no program '/no/program'"])
        self.write_config(program="program")
        self.assert_refused(["launch.program", "'program'"])

    def test_wrong_arguments_are_refused(self):
        for words, options in [(["'--speed'", "--dry_run"], ["--speed"]), (["HOSTFILE CONFIG"], ["third"]),
                               (["--resume", "no run"], ["--resume"])]:
            with self.subTest(options=options):
                self.assert_refused(words, *options)
        self.run.mkdir()
        result = self.run_script()
        self.assertEqual(result.returncode, 2)
        self.assertIn("is there already", result.stderr)
        for words, options in [(["no run of run_hosts.sh"], []), (["--timeout", "'x'"], ["--timeout", "x"]),
                               (["'--all'"], ["--all"])]:
            result = self.stop(*options)
            self.assertEqual(result.returncode, 2)
            for word in words:
                self.assertIn(word, result.stderr)

    def test_programs_of_two_versions_are_refused(self):
        pathlib.Path(f"{self.program}.version.1").write_text("mpi_steps 0.9\n")
        self.assert_refused([f"host '{HOSTS[0]}' has 'mpi_steps 1.0', host '{HOSTS[1]}' has 'mpi_steps 0.9'"])

    def test_signals_let_all_ranks_save_and_a_resume_goes_on(self):
        self.write_config(max_steps=1000)
        for number in (signal.SIGINT, signal.SIGTERM):
            options = ["--resume"] if self.run.exists() else []
            process, ranks = self.start(*options)
            process.send_signal(number)
            output, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 128 + number, output)
            self.assertIn(f"stopped by {number.name}", output.splitlines()[-1])
            steps = self.saved()
            self.assertEqual(steps, [steps[0]] * 3)
            self.assertLess(steps[0], 1000)
            self.assert_ended(ranks)
            self.assertFalse((self.run / "running").exists())
        starts = re.findall(r"from step (\d+) ", self.log(2))
        self.assertEqual(starts[0], "0")
        self.assertGreater(int(starts[1]), 0)
        self.write_config(max_steps=steps[0] + 3)
        result = self.run_script("--resume")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.saved(), [steps[0] + 3] * 3)

    def test_stop_ends_one_run_and_nothing_else(self):
        self.write_config(max_steps=100_000)
        other_run = self.folder / "other run"
        other, other_ranks = self.start(run=other_run)
        process, ranks = self.start()
        result = self.run_script("--resume")
        self.assertEqual(result.returncode, 2)
        self.assertIn("is under way", result.stderr)
        result = self.stop()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("has ended", result.stdout)
        self.assertEqual(process.wait(timeout=10), 143)
        self.assert_ended(ranks)
        self.assertEqual(len(set(self.saved())), 1)
        self.assertIsNone(other.poll())
        self.assertTrue(all(map(self.is_there, other_ranks)))
        # Ranks that do not respond: one is stopped.
        os.kill(other_ranks[1], signal.SIGSTOP)
        result = self.stop("--timeout", "2", run=other_run)
        self.assertEqual(result.returncode, 1)
        self.assertIn("has not ended after 2 s", result.stderr)
        self.assertEqual(self.stop("--now", run=other_run).returncode, 0)
        self.assert_ended(other_ranks, seconds=10)
        result = self.stop()
        self.assertEqual(result.returncode, 0)
        self.assertIn("not under way", result.stdout)

    def test_a_rank_that_is_killed_is_named_with_its_host(self):
        self.write_config(max_steps=100_000)
        process, ranks = self.start()
        os.kill(ranks[2], signal.SIGKILL)
        output, _ = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 137, output)
        self.assertRegex(output.splitlines()[-1],
                         r"exit code 137: rank 2 on host terngrad\d+-1 ended with exit code 137 \(SIGKILL\)")
        self.assertIn("SIGKILL", self.log(2))
        self.assertIn("exited with non-zero status", (self.run / "logs" / "launcher.log").read_text())
        self.assert_ended(ranks, seconds=10)

    def test_a_host_that_is_lost_is_named(self):
        self.write_config(max_steps=100_000)
        process, ranks = self.start()
        # mpirun's daemon on the second host, two levels above the rank.
        parent = ranks[2]
        for _ in range(2):
            parent = int(re.search(r"PPid:\s+(\d+)", pathlib.Path(f"/proc/{parent}/status").read_text()).group(1))
        self.assertEqual(pathlib.Path(f"/proc/{parent}/comm").read_text(), "orted\n")
        os.kill(parent, signal.SIGKILL)
        output, _ = process.communicate(timeout=100)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(output.splitlines()[-1], rf"Remote daemon.* node {HOSTS[1]}$")
        self.assert_ended(ranks, seconds=10)

    def test_ranks_end_with_the_script_even_if_it_is_killed(self):
        self.write_config(max_steps=100_000)
        process, ranks = self.start()
        process.kill()
        process.wait()
        self.assert_ended(ranks, seconds=60)
        self.assertEqual(self.stop().returncode, 0)


class Training(Case):
    """A worker on each host. The final state is bit-identical to that of a run in one process."""

    OPTIONS = {"dataset": "mnist", "num_nodes": 2, "grad_bits": 1, "max_steps": 300, "save_iter": 50, "log_steps": 10,
               "batch_size": 16, "device": "cpu", "threads": 1, "tensorboard": "false", "telemetry_steps": 0}

    def make_program(self):
        return TRAIN

    def ranks_elsewhere(self):
        """Process ids of this run on another host; other tests may run the same program."""
        found = []
        of_this_run = os.fsencode(self.run / "train")
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "exe") == str(TRAIN) and \
                        of_this_run in (process / "cmdline").read_bytes().split(b"\0") and \
                        os.readlink(process / "ns" / "net") != os.readlink("/proc/self/ns/net"):
                    found.append(int(process.name))
            except OSError:
                pass
        return found

    def test_a_training_is_stopped_killed_and_resumed(self):
        if TRAIN is None:
            self.skipTest("no terngrad_train that knows MPI")
        options = {**self.OPTIONS, "data_dir": self.folder / "digits"}
        options["data_dir"].mkdir()
        write_digits(options["data_dir"])
        self.write_hosts(*HOSTS)
        self.write_config(**options)
        alone = self.folder / "alone"
        words = [f"--{name}={value}" for name, value in options.items()]
        result = subprocess.run([TRAIN, *words, "--train_dir", alone], capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)

        process = self.start_steps()
        result = self.stop()
        self.assertEqual(result.returncode, 0, result.stderr)
        output, _ = process.communicate(timeout=10)
        self.assertEqual(process.returncode, 143, output)
        self.assertIn("stopped by SIGTERM", output.splitlines()[-1])
        saved = list((self.run / "train").glob("checkpoint-*.safetensors"))
        self.assertEqual(len(saved), 1)
        self.assertLess(int(re.search(r"-(\d+)", saved[0].name).group(1)), 300)

        process = self.start_steps("--resume")
        ranks = self.ranks_elsewhere()
        self.assertEqual(len(ranks), 1)
        os.kill(ranks[0], signal.SIGKILL)
        output, _ = process.communicate(timeout=100)
        self.assertNotIn(process.returncode, (0, 143), output)
        self.assertRegex(output.splitlines()[-1], r"failed with exit code \d+: rank 1 on host terngrad\d+-1 ended")

        result = self.run_script("--resume")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        name = "checkpoint-0000000300.safetensors"
        self.assertEqual((self.run / "train" / name).read_bytes(), (alone / name).read_bytes())


def make_folder(folder):
    """Writes keys and the ssh client's configuration, and builds the program."""
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "ssh_config").write_text(f"""
Host *
  Port 2222
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking accept-new
  LogLevel ERROR
""")
    subprocess.run(["mpicxx", "-O1", "-o", folder / "mpi_steps", STEPS], check=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words and not words[0].isidentifier():
        program = words.pop(0)
        TRAIN = pathlib.Path(program).resolve() if program else None
    if os.environ.get("TERNGRAD_RUN_HOSTS_TEST"):
        FOLDER = pathlib.Path(os.environ.pop("TERNGRAD_RUN_HOSTS_TEST"))
        sys.exit(main_of_host(FOLDER, words))
    missing = what_is_missing()
    if missing is not None:
        print(f"skipped: {missing}")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="terngrad_hosts_") as name:
        make_folder(pathlib.Path(name))
        command = [SCRIPTS / "hosts/slow_link.sh", "--no-mpi", "1gbit", str(len(HOSTS)), "--", sys.executable, __file__]
        command += sys.argv[1:]
        sys.exit(subprocess.run(command, env={**os.environ, "TERNGRAD_RUN_HOSTS_TEST": name}).returncode)
