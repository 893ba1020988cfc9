"""Shared by tests that send signals to the processes of a run."""

import os
import re
import signal
import subprocess
import sys
import time

from launched_training import LaunchedTraining, ternary


# Runs a command and writes its exit code to a path with the rank appended.
RECORDER = """
import os, subprocess, sys
code = subprocess.call(sys.argv[2:])
with open(sys.argv[1] + os.environ["OMPI_COMM_WORLD_RANK"], "w") as file:
    file.write(str(code))
sys.exit(code)
"""


class SignalledTraining(LaunchedTraining):
    def start(self, ranks, name, *options, env=None, records_codes=False):
        """Starts a run, which ends with the test at the latest. @param records_codes  records exit codes for exit_codes()"""
        command = self.command(ranks, [*options, "--train_dir", self.path(name)])
        environment = {**os.environ, **(env or {})}
        if records_codes:
            program = command.index(self.program)
            command[program:program] = [sys.executable, "-c", RECORDER, self.path(f"{name}.code.")]
            # Otherwise Open MPI kills the other ranks when the first one exits with an error.
            environment["OMPI_MCA_orte_abort_on_non_zero_status"] = "0"
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(self.end, run)
        return run

    def end(self, run):
        if run.poll() is None:
            run.kill()
        if not run.stdout.closed:
            run.communicate()

    def wait_until(self, run, has_happened, what):
        """Waits for a condition while the run continues."""
        for _ in range(2400):
            self.assertIsNone(run.poll(), f"the run has ended before {what}")
            if has_happened():
                return
            time.sleep(0.05)
        self.fail(f"not within two minutes: {what}")

    def wait_for_steps(self, run, name):
        path = self.path(name, "metrics.jsonl")
        self.wait_until(run, lambda: os.path.exists(path) and os.path.getsize(path) > 0, "a step was reported")

    def wait_for_checkpoint(self, run, name):
        self.wait_until(run, lambda: os.path.isdir(self.path(name)) and self.checkpoints(name), "a checkpoint was saved")

    def exit_codes(self, ranks, name):
        """Exit codes of the ranks of a finished run with `records_codes`."""
        codes = []
        for rank in range(ranks):
            with open(self.path(f"{name}.code.{rank}"), encoding="utf-8") as file:
                codes.append(int(file.read()))
        return codes

    def rank_pids(self, run):
        """Process ids of the launcher's ranks, in order."""
        pids = {}
        parents = {}
        for entry in filter(str.isdecimal, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    environment = dict(part.split(b"=", 1) for part in file.read().split(b"\0") if b"=" in part)
                with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError):
                continue
            parents[int(entry)] = parent
            if b"OMPI_COMM_WORLD_RANK" in environment and self.is_program(entry):
                pids[int(environment[b"OMPI_COMM_WORLD_RANK"]), int(entry)] = parent
        # The parent may be RECORDER.
        return [pid for (_, pid), parent in sorted(pids.items()) if run.pid in (parent, parents.get(parent))]

    def is_program(self, entry):
        try:
            return os.path.samefile(f"/proc/{entry}/exe", self.program)
        except OSError:
            return False

    def send(self, run, ranks, number):
        """Sends a signal to the processes of the ranks, not to the launcher."""
        pids = self.rank_pids(run)
        for rank in ranks:
            os.kill(pids[rank], number)

    def failed(self, run, timeout=60):
        """Waits for a run to fail. @returns stdout and stderr"""
        out, err = run.communicate(timeout=timeout)
        self.assertNotEqual(run.returncode, 0, out + err)
        return out, err

    def hung(self, run, rank, timeout=60):
        """Stops a rank, after which the run must fail. @returns stdout, stderr and the seconds until then"""
        self.send(run, [rank], signal.SIGSTOP)
        begin = time.monotonic()
        out, err = self.failed(run, timeout)
        return out, err, time.monotonic() - begin

    def killed(self, run, rank):
        """Kills a rank, after which the run must fail with a message."""
        self.send(run, [rank], signal.SIGKILL)
        out, err = self.failed(run)
        self.assertRegex(out + err, rf"process rank {rank} .*exited on signal 9")

    def assert_is_missed(self, err, rank, seconds, where=""):
        """Expects that every rank with an error names `rank`, and that `rank` reports none."""
        missed = re.findall(rf"(rank \d+) on .*\[mpi\] {where}.*heard nothing from (rank .*) for {seconds} seconds", err)
        self.assertTrue(missed, err)
        for reporter, names in missed:
            self.assertNotEqual(reporter, f"rank {rank}", err)
            self.assertRegex(names, rf"rank {rank} \(host \S+\)", err)
        if rank != 0:
            self.assertRegex(err, r"rank 0 on .* continue from \S+ with --resume")

    def terminated(self, num_ranks, name, *options, ranks, env=None):
        """Sends SIGTERM to ranks of a run of 100000 steps, which saves and stops. @returns the last step, and stderr"""
        run = self.start(num_ranks, name, *options, env=env, records_codes=True)
        self.wait_for_steps(run, name)
        self.send(run, ranks, signal.SIGTERM)
        out, err = run.communicate(timeout=120)
        stopped = re.search(r"stopped after step (\d+) of 100000", out)
        self.assertTrue(stopped, out + err)
        step = int(stopped.group(1))
        self.assertEqual(self.checkpoint(name)[0], f"checkpoint-{step:010}.safetensors")
        codes = self.exit_codes(num_ranks, name)
        self.assertEqual(codes, [128 + signal.SIGTERM] * num_ranks, "whichever rank the signal came to")
        return step, err

    def assert_one_stops_all(self, num_ranks, name, *options, env=None):
        """A signal to one rank stops all ranks after the same step."""
        step, err = self.terminated(num_ranks, name, *options, ranks=[1], env=env)
        self.assertEqual(re.findall(r"stopping after step .*", err),
                         [f"stopping after step {step}: another process of the run was asked to"])

    def assert_as_undisturbed(self, name, **options):
        """Expects the bits of the last checkpoint of `name` from an undisturbed run of one process. It has the same
        max_steps, on which the schedule depends, and is ended at that checkpoint."""
        file, content = self.checkpoint(name)
        undisturbed = f"{name}-undisturbed"
        run = self.start(0, undisturbed, *ternary(**{**options, "save_iter": self.last_step(name)}))
        path = self.path(undisturbed, file)
        self.wait_until(run, lambda: os.path.exists(path), f"{file} was saved")
        self.end(run)
        with open(path, "rb") as whole:
            self.assertEqual(whole.read(), content)
