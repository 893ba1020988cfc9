"""A run whose output has no reader continues silently, saves and ends normally: behind a pipe whose reader has ended,
and on a terminal that was closed. Also signals as sent by timeout(1), to the process and then to its group.

Arguments: terngrad_train."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = ""
DEADLINE_S = 120


def wait_until(condition, what):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"until the timeout: {what}")
        time.sleep(0.02)


class LostOutput(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.run_folder = self.folder / "run"
        self.log = self.folder / "log.txt"

    def training(self, max_steps=1000000, log_steps=1):
        """Shell command of a small run without end (by default)."""
        return (f"'{PROGRAM}' --grad_bits 1 --num_nodes 2 --batch_size 8 --image_size 16 --max_steps {max_steps} "
                f"--log_steps {log_steps} --save_iter 1000000 --tensorboard=false --device cpu --train_dir '{self.run_folder}'")

    def start(self, command, **options):
        """Starts a shell that writes the exit code of the first process of `command`'s pipeline to a file. The shell
        has its own process group and ignores signals, so that it waits for the whole pipeline."""
        script = f"trap : INT HUP; {command}; echo ${{PIPESTATUS[0]}} > '{self.folder}/code'"
        process = subprocess.Popen(["bash", "-c", script], start_new_session=True, **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def exit_code(self):
        """Exit code of the training, after it has ended."""
        wait_until(lambda: (self.folder / "code").exists() and (self.folder / "code").read_text(), "the run ends")
        return int((self.folder / "code").read_text())

    def saved_steps(self):
        return sorted(int(re.search(r"(\d+)[.]", path.name)[1]) for path in self.run_folder.glob("checkpoint-*"))

    def wait_for_steps(self):
        wait_until(lambda: self.log.exists() and "step 2/" in self.log.read_text(), "step 2 is logged")

    def test_ctrl_c_ends_tee_and_saves_the_run(self):
        # Ctrl-C signals all processes of a pipeline; tee ends first.
        process = self.start(f"{self.training()} 2>&1 | tee '{self.log}' >/dev/null")
        self.wait_for_steps()
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(self.exit_code(), 128 + signal.SIGINT)
        self.assertEqual(len(self.saved_steps()), 1)

    def test_head_leaves_and_the_run_goes_on_to_its_end(self):
        self.start(f"{self.training(max_steps=30)} 2>&1 | head -n 2 >'{self.log}'")
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual(self.saved_steps(), [30])
        self.assertEqual(len(self.log.read_text().splitlines()), 2)

    def test_closed_streams_spoil_no_file_and_are_no_failure(self):
        for closed in ("0<&- 2>&-", "1>&-", "0<&- 1>&- 2>&-"):
            with self.subTest(closed=closed):
                self.start(f"{self.training(max_steps=2)} {closed}")
                self.assertEqual(self.exit_code(), 0)
                for line in (self.run_folder / "metrics.jsonl").read_text().splitlines():
                    json.loads(line)
                (self.folder / "code").unlink()
                self.start(f"{self.training(max_steps=3)} --resume {closed}")
                self.assertEqual(self.exit_code(), 0)
                self.assertEqual(self.saved_steps()[-1], 3)
                (self.folder / "code").unlink()
                shutil.rmtree(self.run_folder)

    def on_closed_terminal(self, command):
        """Starts `command` on a terminal that closes while it runs. Returns the exit code."""
        inside, outside = pty.openpty()
        process = self.start(command, stdin=outside, stdout=outside, stderr=outside)
        os.close(outside)
        shown = b""
        while not re.search(rb"step [2-9]\d*/", shown):
            shown += os.read(inside, 4096)
        os.close(inside)
        # As the shell of the closed terminal does.
        os.killpg(process.pid, signal.SIGHUP)
        return self.exit_code()

    def test_a_closed_terminal_saves_the_run(self):
        self.assertEqual(self.on_closed_terminal(self.training()), 128 + signal.SIGHUP)
        self.assertEqual(len(self.saved_steps()), 1)

    def test_a_closed_terminal_behind_tee_saves_the_run(self):
        command = f"{self.training()} 2>&1 | tee '{self.log}'"
        self.assertEqual(self.on_closed_terminal(command), 128 + signal.SIGHUP)
        self.assertEqual(len(self.saved_steps()), 1)

    def test_timeout_signals_twice_and_the_run_is_saved(self):
        process = subprocess.Popen(["bash", "-c", f"exec {self.training()} 2>'{self.log}'"], start_new_session=True,
                                   stdout=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        self.wait_for_steps()
        # Like timeout(1): first the process, then its group.
        os.kill(process.pid, signal.SIGTERM)
        os.killpg(process.pid, signal.SIGTERM)
        self.assertEqual(process.wait(DEADLINE_S), 128 + signal.SIGTERM)
        self.assertEqual(len(self.saved_steps()), 1)
        self.assertRegex(self.log.read_text().splitlines()[-1],
                         r"^stopping after step \d+: SIGTERM \(a second one stops at once, without saving\)$")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
