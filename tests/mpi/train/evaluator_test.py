import re

from launched_training import ERROR, main, ternary
from signalled_training import SignalledTraining


class Evaluator(SignalledTraining):
    """The last rank evaluates the checkpoints that the others save."""

    def test_it_evaluates_every_checkpoint_and_ends_with_the_run(self):
        options = ternary(max_steps=9, log_steps=3, save_iter=3)
        self.trained(0, "alone", *options)
        for ranks in [2, 3]:
            name = f"with{ranks}"
            result = self.trained(ranks, name, *options, "--last_rank_evaluates")
            self.assertEqual(self.checkpoint(name), self.checkpoint("alone"))
            # The training's metrics have no evaluation; the evaluator's have at least that of the last step.
            self.assertNotIn("test", [record["kind"] for record in self.records(name)])
            self.assertEqual([record["step"] for record in self.records(name, "eval")], [3, 6, 9])
            last = self.records(name, "eval")[-1]
            own = [record for record in self.records("alone") if record["kind"] == "test"][-1]
            for figure in ["top1", "top5"]:
                self.assertEqual(last[figure], own[figure])
            self.assertRegex(result.stdout, r"top-1 = \d")

    def test_it_evaluates_a_run_that_was_stopped(self):
        result = self.trained(2, "stopped", *ternary(max_steps=100000, save_iter=100000, stop_after_secs=1),
                              "--last_rank_evaluates")
        step = int(re.search(r"stopped after step (\d+)", result.stdout).group(1))
        self.assertRegex(result.stdout, rf"step {step}, ema weights")

    def test_a_signal_to_it_stops_the_run(self):
        options = ternary(max_steps=100000, save_iter=100000, log_steps=5)
        step, err = self.terminated(3, "signalled", *options, "--last_rank_evaluates", ranks=[2])
        self.assertIn(f"stopping after step {step}: the process that evaluates was asked to", err)
        self.assertEqual([record["step"] for record in self.records("signalled", "eval")], [step])

    def test_one_that_hangs_is_said_while_the_run_goes_on(self):
        options = ternary(max_steps=100000, save_iter=100000, log_steps=5, exchange_timeout=1, stop_after_secs=4)
        run = self.start(2, "hangs", *options, "--last_rank_evaluates")
        self.wait_for_steps(run, "hangs")
        _, err, _ = self.hung(run, 1)
        self.assertRegex(err, r"warning: step \d+: rank 1 on \S+, which evaluates, has given no sign of life for 1 seconds"
                              r"[\s\S]*stopping after step \d+")

    def test_what_fails_in_it_does_not_disturb_the_training(self):
        self.trained(3, "disturbed", *ternary(max_steps=3, save_iter=3), "--last_rank_evaluates")
        with open(self.path("disturbed", "eval", "metrics.jsonl"), "w", encoding="utf-8") as file:
            file.write("no result\n")
        run = self.start(3, "disturbed", *ternary(max_steps=9, save_iter=3), "--last_rank_evaluates", "--resume", records_codes=True)
        out, err = run.communicate(timeout=120)
        self.assertEqual(self.exit_codes(3, "disturbed"), [0, 0, 1], out + err)
        self.assertEqual(err.count("is not a result of terngrad_eval"), 1)
        self.assertIn("--last_rank_evaluates: not all checkpoints that are there are evaluated", err)
        self.assertEqual(self.last_step("disturbed"), 9)

    def test_it_evaluates_what_a_resumed_run_adds(self):
        self.trained(3, "more", *ternary(max_steps=3, save_iter=3), "--last_rank_evaluates")
        self.trained(3, "more", *ternary(max_steps=9, save_iter=3), "--last_rank_evaluates", "--resume")
        self.assertEqual([record["step"] for record in self.records("more", "eval")], [3, 6, 9])

    def test_it_ends_where_the_others_cannot_start(self):
        result = self.train(3, "nowhere", *ternary(num_nodes=2, batch_size=8), "--last_rank_evaluates", "--resume", timeout=60)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(len(re.findall(f"{ERROR}.*there is no run", result.stderr)), 1, result.stderr)

    def test_what_it_does_not_go_with_is_refused(self):
        for options, words in [(["--num_nodes", "2", "--eval_steps", "3"], "--eval_steps"),
                               (["--num_nodes", "1"], "each of the 2 training processes")]:
            self.assertIn(words, self.refused(3, "--last_rank_evaluates", *options))


if __name__ == "__main__":
    main()
