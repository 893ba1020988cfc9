import os
import signal
import time

from launched_training import main, ternary
from signalled_training import SignalledTraining


class Faults(SignalledTraining):
    """A lost rank ends the run with a message, and saved checkpoints survive."""

    OPTIONS = {"max_steps": 100000, "log_steps": 5, "save_iter": 10}

    def test_a_rank_that_hangs_is_named_in_time(self):
        for stopped in [0, 2]:
            name = f"hangs{stopped}"
            run = self.start(3, name, *ternary(**self.OPTIONS, exchange_timeout=2))
            self.wait_for_checkpoint(run, name)
            _, err, seconds = self.hung(run, stopped)
            self.assertLess(seconds, 20)
            self.assert_is_missed(err, stopped, 2)
            self.assertEqual(self.last_step(name) % 10, 0, "only whole checkpoints are there")
            self.assert_goes_on(name)

    def test_a_rank_that_hangs_at_the_end_is_named(self):
        # Stops the chief in its last evaluation, which the others wait for; the built-in data set makes that take long
        # enough.
        run = self.start(3, "end", *ternary(max_steps=20, log_steps=5, dataset="synthetic"), "--exchange_timeout", "3")
        path = self.path("end", "checkpoint-0000000020.safetensors")
        self.wait_until(run, lambda: os.path.exists(path), "the last step was saved")
        _, err, _ = self.hung(run, 0)
        self.assertRegex(err, r"all_reduce_max \(operation \d+\): .* heard nothing from .*rank 0 \(host \S+\).* for 3 seconds")

    def test_a_job_that_is_suspended_as_a_whole_goes_on(self):
        options = ternary(max_steps=60, log_steps=10)
        self.trained(0, "alone", *options)
        run = self.start(3, "suspended", *options, "--exchange_timeout", "2")
        self.wait_for_steps(run, "suspended")
        self.send(run, range(3), signal.SIGSTOP)
        time.sleep(4)
        self.send(run, range(3), signal.SIGCONT)
        out, err = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 0, out + err)
        self.assert_same("alone", "suspended")

    def test_a_rank_that_is_killed_ends_the_run(self):
        run = self.start(3, "killed", *ternary(**self.OPTIONS))
        self.wait_for_checkpoint(run, "killed")
        self.killed(run, 1)
        self.assert_goes_on("killed")

    def assert_goes_on(self, name):
        """A resumed run ends with the bits of an undisturbed run."""
        step = self.last_step(name)
        result = self.trained(2, name, *ternary(**self.OPTIONS, stop_after_secs=0.5), "--resume")
        self.assertIn(f"resumed after step {step}", result.stderr)
        self.assertGreater(self.last_step(name), step)
        self.assert_as_undisturbed(name, **self.OPTIONS)


if __name__ == "__main__":
    main()
