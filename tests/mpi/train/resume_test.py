from launched_training import main, small, ternary
from signalled_training import SignalledTraining


class Resume(SignalledTraining):
    """Contract B4 with another number of processes."""

    def test_a_run_goes_on_with_other_numbers_of_processes(self):
        steps = {"max_steps": 10, "log_steps": 4, "save_iter": 4, "eval_steps": 5}
        for name, options in (("no memory", ternary(**steps)), ("ef", ternary(**steps, codec_memory="ef")),
                              ("loco", ternary(**steps, codec_memory="loco:reset=3")),
                              ("ef21", small(**steps, codec="topk", codec_memory="ef21:decay=0.5")),
                              ("factors", small(**steps, codec="powersgd:rank=1,min_ratio=1")),
                              ("velocity", small(**steps, codec="dgc:density=0.05,stage_steps=3", optimizer="gd"))):
            whole, moved = f"whole, {name}", f"moved, {name}"
            self.trained(0, whole, *options)
            self.trained(2, moved, *options)
            for saved, ranks in [(4, 4), (8, 0)]:
                self.keep_checkpoint(moved, saved)
                result = self.trained(ranks, moved, *options, "--resume")
                self.assertIn(f"resumed after step {saved}", result.stderr)
                self.assert_same(whole, moved)

    def test_parameters_to_begin_with_reach_all_ranks(self):
        self.trained(0, "other", *small(max_steps=3))
        begin = ["--init_from", self.path("other", self.checkpoint("other")[0]), "--max_steps", "3"]
        self.trained(0, "alone", *ternary(), *begin)
        self.trained(2, "ranks2", *ternary(), *begin)
        self.assert_same("alone", "ranks2")

    def test_a_signal_saves_the_same_step_everywhere(self):
        options = {"max_steps": 100000, "log_steps": 5}
        self.assert_one_stops_all(2, "stopped", *ternary(**options))
        self.assert_as_undisturbed("stopped", **options)


if __name__ == "__main__":
    main()
