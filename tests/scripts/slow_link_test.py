"""Tests of scripts/hosts/slow_link.sh: it creates hosts and runs a small MPI program, which is built here.

Arguments: the test classes to run. Exits with 77 (skipped) if a required program or right is missing."""

import concurrent.futures
import json
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
SCRIPT = ROOT / "scripts/hosts/slow_link.sh"
TRANSFER = pathlib.Path(__file__).with_name("mpi_transfer.cpp")
PROGRAM = None

# Prints its network namespace, leaves a background process, and runs until SIGTERM. A second SIGTERM ends it at once.
LONG = """
(exec setsid sleep 1000 >/dev/null 2>&1) &
trap 'trap - TERM; sleep 1.5; echo saved; exit 143' TERM
readlink /proc/self/ns/net
for ((i = 0; i < 3000; ++i)); do sleep 0.1; done
"""


def what_is_missing():
    if os.geteuid() != 0:
        return "not root"
    for program in ("ip", "tc", "mpirun", "mpicxx", "iperf3"):
        if shutil.which(program) is None:
            return f"no {program}"
    if subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True).returncode != 0:
        return "no right to make namespaces"
    return None


def processes_on(networks):
    """Ids of processes in these network namespaces, given as links of /proc/PID/ns/net."""
    found = []
    for link in pathlib.Path("/proc").glob("[0-9]*/ns/net"):
        try:
            if os.readlink(link) in networks:
                found.append(int(link.parts[2]))
        except OSError:
            pass
    return found


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="terngrad_link_")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.state = self.folder / "state"
        self.state.mkdir()

    def environment(self, **more):
        return {**os.environ, "TMPDIR": str(self.state), "OMP_WAIT_POLICY": "passive", **more}

    def run_script(self, *words, script=SCRIPT, environment=None, timeout=120):
        return subprocess.run([script, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                              env=environment or self.environment())

    def bash(self, text, *words, **options):
        return self.run_script(*words, "--", "bash", "-c", text, **options)


class Arguments(Case):
    def assert_refused(self, words, *arguments, **options):
        result = self.run_script(*arguments, **options)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertTrue(result.stderr.startswith("slow_link.sh: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_wrong_arguments_are_refused_by_name(self):
        command = ["--", "true"]
        for words, arguments in [
                (["needs -- COMMAND"], ["1gbit", "2"]),
                (["needs -- COMMAND"], ["1gbit", "2", "--"]),
                (["RATE N", "'1gbit'"], ["1gbit", *command]),
                (["RATE N", "'1gbit 2 3'"], ["1gbit", "2", "3", *command]),
                (["RATE", "'fast'", "none"], ["fast", "2", *command]),
                (["RATE", "'0mbit'"], ["0mbit", "2", *command]),
                (["N", "'0'"], ["1gbit", "0", *command]),
                (["N", "'65'"], ["1gbit", "65", *command]),
                (["N", "'two'"], ["1gbit", "two", *command]),
                (["'--speed'", "--iperf"], ["--speed", "1gbit", "2", *command]),
                (["--ranks_per_host", "'0'"], ["--ranks_per_host", "0", "1gbit", "2", *command]),
                (["--ranks_per_host", "--no-mpi"], ["--no-mpi", "--ranks_per_host=2", "1gbit", "2", *command]),
                (["--ranks_per_host", "needs a value"], ["1gbit", "2", "--ranks_per_host", *command]),
                (["--delay", "'slow'"], ["--delay", "slow", "1gbit", "2", *command]),
                (["--burst", "'1'"], ["--burst=1", "1gbit", "2", *command]),
                (["--iperf", "2 hosts"], ["--iperf", "1gbit", "1", *command]),
                (["--counters", "/no/such"], ["--counters", "/no/such/file", "1gbit", "2", *command])]:
            with self.subTest(arguments=arguments):
                self.assert_refused(words, *arguments)

    def test_help(self):
        result = self.run_script("--help")
        self.assertEqual(result.returncode, 0)
        for option in ("--ranks_per_host", "--iperf", "--counters", "--delay", "--burst", "--no-mpi"):
            self.assertIn(option, result.stdout)

    def test_what_is_missing_is_named_with_its_package(self):
        if os.geteuid() != 0:
            self.assert_refused(["needs root"], "1gbit", "2", "--", "true")
            return
        # A folder with only the programs that the script uses before its check.
        programs = self.folder / "bin"
        programs.mkdir()
        for name in ("bash", "dirname", "env"):
            (programs / name).symlink_to(shutil.which(name))
        environment = self.environment(PATH=str(programs))
        for name, package in [("ip", "iproute2"), ("tc", "iproute2"), ("mpirun", "openmpi-bin"), ("iperf3", "iperf3")]:
            self.assert_refused([f"needs {name}", package], "--iperf", "1gbit", "2", "--", "true", environment=environment)
            (programs / name).symlink_to("/bin/true")
        # A copy that every user may read.
        script = self.folder / "slow_link.sh"
        shutil.copy(SCRIPT, script)
        self.folder.chmod(0o755)
        if shutil.which("setpriv") is not None:
            self.assert_refused(["needs root"], "--reuid", "65534", "--clear-groups", script, "1gbit", "2", "--", "true",
                                script=shutil.which("setpriv"))


class Hosts(Case):
    def test_rate_and_counters(self):
        counters = self.folder / "counters.json"
        num_bytes = 2_000_000
        result = self.run_script("--iperf", "--counters", counters, "20mbit", 2, "--", PROGRAM, num_bytes)
        self.assertEqual(result.returncode, 0, result.stderr)
        seconds = float(result.stdout.split()[0])
        rate = num_bytes * 8e-6 / seconds
        self.assertLess(rate, 1.15 * 20)
        self.assertGreater(rate, 0.5 * 20)

        found = json.loads(counters.read_text())
        self.assertEqual((found["rate"], found["exit_code"]), ("20mbit", 0))
        self.assertLess(found["iperf3_mbit_per_s"], 1.15 * 20)
        self.assertGreater(found["iperf3_mbit_per_s"], 0.5 * 20)
        self.assertIn(f"iperf3: {found['iperf3_mbit_per_s']} Mbit/s", result.stderr)
        self.assertGreater(found["seconds"], seconds)
        # An all-reduce of two ranks sends everything once each way. Headers add a few percent, startup a few kilobytes.
        sent = [host["sent_bytes"] for host in found["hosts"]]
        for number, payload in zip(sent, (2 * num_bytes, num_bytes)):
            self.assertGreater(number, payload)
            self.assertLess(number, 1.1 * payload + 100_000)
        for i, host in enumerate(found["hosts"]):
            self.assertEqual((host["host"], host["address"]), (i, f"10.77.0.{i + 1}"))
            # Bytes in flight between the two readings, or dropped by a full queue.
            self.assertLess(abs(host["received_bytes"] - sent[1 - i]), 0.05 * sent[1 - i] + 10_000)
            self.assertIn(f"host {i} (10.77.0.{i + 1}) sent {host['sent_bytes']} bytes, received "
                          f"{host['received_bytes']} bytes\n", result.stderr)

    def test_without_a_rate_it_is_faster(self):
        result = self.run_script("none", 2, "--", PROGRAM, 2_000_000)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(2_000_000 * 8e-6 / float(result.stdout.split()[0]), 40)

    def test_delay(self):
        result = self.run_script("--delay", 20, "1gbit", 2, "--", PROGRAM, 1)
        if "this kernel has no netem" in result.stderr:
            self.assertEqual(result.returncode, 2)
            self.assertIn("--delay: '20' is refused", result.stderr)
            return
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(float(result.stdout.split()[1]), 0.040)

    def test_ranks_are_numbered_by_host_and_get_the_environment(self):
        environment = self.environment(TERNGRAD_X="a 'b' $c", DNNL_Y='"', OMPI_MCA_mpi_show_handle_leaks="1")
        text = 'echo "$OMPI_COMM_WORLD_RANK|$OMPI_COMM_WORLD_SIZE|$(uname -n)|$TMPDIR|$TERNGRAD_X|$DNNL_Y' \
               '|$OMPI_MCA_mpi_show_handle_leaks"'
        result = self.bash(text, "--ranks_per_host", 2, "1gbit", 3, environment=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = sorted(line.split("|") for line in result.stdout.splitlines())
        self.assertEqual([line[:2] for line in lines], [[str(rank), "6"] for rank in range(6)])
        names = [line[2] for line in lines]
        self.assertEqual(names, [names[0]] * 2 + [names[2]] * 2 + [names[4]] * 2)
        self.assertEqual(len(set(names)), 3)
        self.assertEqual(len({line[3] for line in lines}), 3)
        self.assertEqual({tuple(line[4:]) for line in lines}, {("a 'b' $c", '"', "1")})

    def test_processes_of_a_host_do_not_use_the_link(self):
        counters = self.folder / "counters.json"
        result = self.run_script("--ranks_per_host", 2, "--counters", counters, "20mbit", 1, "--", PROGRAM, 4_000_000)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess(json.loads(counters.read_text())["hosts"][0]["sent_bytes"], 100_000)

    def test_a_command_without_mpi(self):
        text = 'echo "$TERNGRAD_HOST_RANK $TERNGRAD_HOST_COUNT $TERNGRAD_HOST_ADDRESS $TERNGRAD_HOST_ADDRESSES' \
               ' $(ip -4 -o address show $TERNGRAD_HOST_INTERFACE | grep -o "inet [0-9./]*") $(ip route)"'
        result = self.bash(text, "--no-mpi", "1gbit", 3)
        self.assertEqual(result.returncode, 0, result.stderr)
        all_hosts = "10.77.0.1,10.77.0.2,10.77.0.3"
        lines = sorted(result.stdout.splitlines())
        self.assertEqual(len(lines), 3)
        for i, line in enumerate(lines):
            address = f"10.77.0.{i + 1}"
            self.assertTrue(line.startswith(f"{i} 3 {address} {all_hosts} inet {address}/24 10.77.0.0/24 dev"), line)
            self.assertIn("congctl cubic", line)

    def test_exit_code_is_the_commands_and_one_failure_ends_the_others(self):
        for options, rank in [([], "OMPI_COMM_WORLD_RANK"), (["--no-mpi"], "TERNGRAD_HOST_RANK")]:
            with self.subTest(options=options):
                started = time.monotonic()
                result = self.bash(f"if (({rank} == 1)); then exit 7; fi; sleep 1000", *options, "1gbit", 2)
                self.assertEqual(result.returncode, 7, result.stderr)
                self.assertLess(time.monotonic() - started, 60)
                self.assertIn("host 1 (10.77.0.2) sent", result.stderr)
                self.assertEqual(list(self.state.iterdir()), [])

    def test_one_failure_ends_even_what_does_not_listen(self):
        result = self.bash("if ((TERNGRAD_HOST_RANK == 1)); then sleep 1; exit 7; fi; trap '' TERM; exec sleep 1000",
                           "--no-mpi", "1gbit", 2)
        self.assertEqual(result.returncode, 7, result.stderr)

    def test_a_rank_that_is_killed_is_named(self):
        result = self.bash('if ((OMPI_COMM_WORLD_RANK == 1)); then kill -KILL $$; fi; sleep 1000', "1gbit", 2)
        self.assertEqual(result.returncode, 137, result.stderr)
        self.assertRegex(result.stderr, r"rank 1 on host terngrad\d+-1 ended with exit code 137 \(SIGKILL\)")

    def start_long(self, *options, text=LONG):
        """Starts LONG on two hosts and waits until it runs. @returns the process and its networks"""
        process = subprocess.Popen([SCRIPT, *options, "1gbit", "2", "--", "bash", "-c", text], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment(),
                                   start_new_session=True)
        self.addCleanup(process.kill)
        networks = [process.stdout.readline().strip() for _ in range(2)]
        for network in networks:
            self.assertRegex(network, r"net:\[\d+\]")
        self.assertEqual(len(set(networks)), 2)
        self.assertGreaterEqual(len(processes_on(networks)), 4)
        for stream in (process.stdout, process.stderr):
            self.addCleanup(stream.close)
        return process, networks

    def assert_gone(self, networks, seconds=0):
        deadline = time.monotonic() + seconds
        while processes_on(networks) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(processes_on(networks), [])

    def test_is_taken_down_after_success(self):
        result = self.bash("(exec setsid sleep 1000 >/dev/null 2>&1) & readlink /proc/self/ns/net", "1gbit", 2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(set(result.stdout.split())), 2)
        self.assert_gone(result.stdout.split())
        self.assertEqual(list(self.state.iterdir()), [])

    def check_signal(self, number, options):
        process, networks = self.start_long(*options)
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + number, errors)
        # Every process of the command received the signal and had time to finish.
        self.assertEqual(output.split(), ["saved", "saved"])
        self.assert_gone(networks)

    def test_is_taken_down_after_signals(self):
        with concurrent.futures.ThreadPoolExecutor() as pool:  # mostly waiting
            runs = [pool.submit(self.check_signal, number, options) for options in ([], ["--no-mpi"])
                    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
        for run in runs:
            run.result()
        self.assertEqual(list(self.state.iterdir()), [])

    def test_a_second_signal_ends_what_does_not_listen(self):
        process, networks = self.start_long(text=LONG.replace("trap - TERM; sleep", "continue; sleep"))
        process.send_signal(signal.SIGTERM)
        time.sleep(2)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assert_gone(networks)
        self.assertEqual(list(self.state.iterdir()), [])

    def test_is_taken_down_even_if_it_is_killed(self):
        process, networks = self.start_long(text=LONG.replace("(exec setsid sleep 1000 >/dev/null 2>&1) &", ""))
        process.kill()
        process.communicate(timeout=60)
        self.assert_gone(networks, seconds=30)

    def test_runs_at_the_same_time_do_not_meet(self):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            runs = [pool.submit(self.run_script, "100mbit", 2, "--", PROGRAM, size) for size in (1_000_000, 2_000_000)]
            results = [run.result() for run in runs]
        for result, size in zip(results, (1_000_000, 2_000_000)):
            self.assertEqual(result.returncode, 0, result.stderr)
            sent = int(re.search(r"host 1 .* sent (\d+) bytes", result.stderr).group(1))
            self.assertGreater(sent, size)
            self.assertLess(sent, 1.1 * size + 100_000)


if __name__ == "__main__":
    if sys.argv[1:] != ["Arguments"]:
        missing = what_is_missing()
        if missing is not None:
            print(f"skipped: {missing}")
            sys.exit(77)
        folder = tempfile.TemporaryDirectory(prefix="terngrad_link_")
        PROGRAM = pathlib.Path(folder.name) / "mpi_transfer"
        subprocess.run(["mpicxx", "-O1", "-o", PROGRAM, TRANSFER], check=True)
    unittest.main()
