import json
import re

from launched_training import main, ternary
from signalled_training import SignalledTraining


class Async(SignalledTraining):
    """Asynchronous training: rank 0 is the server, the other ranks push gradients."""

    def options(self, **others):
        return ternary(strategy="async", num_nodes=4, **others)

    def pushes(self, name):
        """Pushes per worker, from the last checkpoint."""
        content = self.checkpoint(name)[1]
        header = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
        return [int(number) for number in header["__metadata__"]["async_pushes"].split()]

    def test_every_push_is_counted(self):
        for ranks in [2, 3, 5]:
            name = f"ranks{ranks}"
            result = self.trained(ranks, name, *self.options(max_steps=30, log_steps=10))
            records = self.train_records(name)
            self.assertEqual([record["step"] for record in records], [10, 20, 30])
            for record in records:
                self.assertEqual(sum(record["staleness"].values()), 40)
                self.assertEqual(record["dropped_pushes"], 0)
            self.assertIn("rank 0 serves", result.stderr)
            self.assertRegex(result.stdout, r"staleness +pushes +fraction\n +0(-\d+)? +\d+")
            self.assertRegex(result.stdout, r"mean staleness [0-9.]+; 120 pushes, 0 dropped")
            self.assertEqual(sum(self.pushes(name)), 120)

    def test_one_worker_has_the_bits_of_a_synchronous_run(self):
        options = ternary(num_nodes=1, max_steps=8, log_steps=4)
        self.trained(0, "sync", *options)
        self.trained(2, "async", *options, "--strategy", "async")
        self.trained(0, "alone", *options, "--strategy", "async")
        sync, ranks, alone = ([record["loss"] for record in self.records(name)] for name in ["sync", "async", "alone"])
        self.assertEqual(sync, ranks)
        self.assertEqual(sync, alone)

    def test_alone_it_is_repeatable_and_resumed_exactly(self):
        options = self.options(max_steps=12, log_steps=5, save_iter=4, max_staleness=2)
        for name in ["one", "other"]:
            self.trained(0, name, *options)
        self.assert_same("one", "other")
        self.keep_checkpoint("other", 4)
        self.assertIn("resumed after step 4", self.trained(0, "other", *options, "--resume").stderr)
        self.assert_same("one", "other")

    def test_stale_pushes_are_dropped_and_counted(self):
        result = self.trained(5, "dropping", *self.options(max_steps=60, log_steps=60, max_staleness=0))
        record = self.train_records("dropping")[0]
        stale = sum(count for staleness, count in record["staleness"].items() if staleness != "0")
        self.assertEqual(record["dropped_pushes"], stale)
        self.assertGreater(stale, 0)
        self.assertIn(f"240 pushes, {stale} dropped", result.stdout)

    def test_the_last_rank_may_evaluate(self):
        self.trained(4, "evaluated", *self.options(max_steps=6), "--last_rank_evaluates")
        self.assertEqual(self.records("evaluated", "eval")[-1]["step"], 6)

    def test_a_signal_saves_and_the_run_goes_on(self):
        for ranks_signalled in [[1], [0], [0, 1, 2]]:
            name = "stopped" + "".join(map(str, ranks_signalled))
            options = self.options(max_steps=100000, log_steps=5)
            step, _ = self.terminated(3, name, *options, ranks=ranks_signalled)
            before = self.pushes(name)
            self.assertEqual(sum(before), 4 * step)
            result = self.trained(2, name, *options, "--resume", "--stop_after_secs", "0.5")
            self.assertIn(f"resumed after step {step}", result.stderr)
            after = self.pushes(name)
            self.assertTrue(all(b > a for a, b in zip(before, after)), f"{before} {after}")
            end = int(re.search(r"stopped after step (\d+)", result.stdout).group(1))
            # The histogram covers the whole run.
            self.assertRegex(result.stdout, rf"; {4 * end} pushes, ")

    def test_what_workers_of_several_processes_kept_begins_anew(self):
        self.trained(3, "kept", *self.options(max_steps=4, error_feedback="true"))
        result = self.trained(0, "kept", *self.options(max_steps=6, error_feedback="true"), "--resume")
        self.assertIn("resumed after step 4", result.stderr)

    def test_a_rank_that_is_stopped_is_named(self):
        for stopped in [0, 2]:
            name = f"hangs{stopped}"
            run = self.start(3, name, *self.options(max_steps=100000, save_iter=10, exchange_timeout=4))
            self.wait_for_checkpoint(run, name)
            _, err, seconds = self.hung(run, stopped)
            self.assertLess(seconds, 25)
            self.assert_is_missed(err, stopped, 4, where="mailbox: ")
            self.trained(3, name, *self.options(max_steps=100000), "--resume", "--stop_after_secs", "0.5")

    def test_a_worker_that_is_killed_ends_the_run(self):
        run = self.start(3, "killed", *self.options(max_steps=100000, save_iter=10))
        self.wait_for_checkpoint(run, "killed")
        self.killed(run, 1)
        self.trained(3, "killed", *self.options(max_steps=100000), "--resume", "--stop_after_secs", "0.5")

    def test_what_it_cannot_do_is_refused(self):
        for ranks, option, words in [(6, [], "each of the 5 training processes needs a worker"),
                                     (3, ["--telemetry_steps", "5"], "--telemetry_steps"),
                                     (3, ["--scaler_sharing", "max"], "--scaler_sharing max"),
                                     (0, ["--reduce", "sum"], "--async_scale")]:
            self.assertIn(words, self.refused(ranks, *self.options(max_steps=2), *option))


if __name__ == "__main__":
    main()
