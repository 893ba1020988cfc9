import os
import random
import shutil
import signal
import subprocess
import time

from launched_training import main, ternary
from signalled_training import SignalledTraining


class RandomFaults(SignalledTraining):
    """Loses ranks at random moments, from the first step to the last save. TERNGRAD_FAULT_RUNS: number of runs per kind
    of fault (default 1). TERNGRAD_FAULT_SEED: seed of the moments."""

    TIMEOUT = 2
    RANKS = 3
    RESUMED_ON = [0, 1, 2, 3]
    OPTIONS = {}

    def setUp(self):
        super().setUp()
        self.options = ternary(max_steps=120, log_steps=10, save_iter=7, **self.OPTIONS)
        begin = time.monotonic()
        self.trained(self.RANKS, "whole", *self.options)
        self.seconds = time.monotonic() - begin
        self.runs = int(os.environ.get("TERNGRAD_FAULT_RUNS", "1"))
        seed = os.environ.get("TERNGRAD_FAULT_SEED", str(time.time_ns()))
        print(f"TERNGRAD_FAULT_SEED={seed}")
        self.random = random.Random(seed)

    def lose(self, name, how):
        """Starts runs until one has lost a rank by the signal `how`. @returns the rank and the output"""
        for _ in range(100):
            run = self.start(self.RANKS, name, *self.options, "--exchange_timeout", str(self.TIMEOUT))
            time.sleep(self.random.uniform(0, self.seconds))
            pids = self.rank_pids(run)
            rank = self.random.randrange(self.RANKS)
            # Without a run directory there is nothing to resume.
            if len(pids) == self.RANKS and os.path.exists(self.path(name, "config.json")):
                os.kill(pids[rank], how)
                text = self.text_of_failure(run, name, pids[rank])
                if text is not None:
                    self.wait_for_end(pids)
                    return rank, text
            else:
                # The signal was too late or too early: adapts to the speed of the machine.
                self.seconds *= 0.8 if run.poll() is not None else 1.1
                self.end(run)
                self.wait_for_end(pids)
            shutil.rmtree(self.path(name), ignore_errors=True)
        self.fail("every run was over before a rank could be lost")

    @staticmethod
    def wait_for_end(pids):
        """The ranks end shortly after the launcher; until then they use the run directory."""
        begin = time.monotonic()
        while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() - begin < 60:
            time.sleep(0.05)

    def text_of_failure(self, run, name, pid):
        """Output of a run that failed because a process was lost; None if the run had finished before."""
        begin = time.monotonic()
        try:
            out, err = run.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            # MPI_Finalize has no timeout; everything was done and saved before it.
            self.assertEqual(self.checkpoint(name), self.checkpoint("whole"))
            os.kill(pid, signal.SIGCONT)
            run.communicate(timeout=60)
            self.seconds *= 0.8
            return None
        if run.returncode == 0:
            return None
        self.assertLess(time.monotonic() - begin, self.TIMEOUT + 15)
        return out + err

    def check(self, how, words):
        for number in range(self.runs):
            name = f"lost{number}"
            rank, text = self.lose(name, how)
            self.assertRegex(text, words(rank))
            self.trained(self.random.choice(self.RESUMED_ON), name, *self.options, "--resume")
            self.assert_same("whole", name)
            shutil.rmtree(self.path(name))

    def test_killed_ranks(self):
        self.check(signal.SIGKILL, lambda rank: rf"process rank {rank} .*exited on signal 9")

    def test_stopped_ranks(self):
        self.check(signal.SIGSTOP, lambda rank: rf"\[mpi\] .*heard nothing from .*rank {rank} \(host \S+\).* for")


class RandomFaultsWithMemory(RandomFaults):
    """Same with error feedback, whose residuals workers keep."""

    RANKS = 4
    RESUMED_ON = [0, 2, 4]
    OPTIONS = {"error_feedback": "true"}


if __name__ == "__main__":
    main()
