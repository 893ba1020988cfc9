from launched_training import LaunchedTraining, main, small, ternary


class SameBits(LaunchedTraining):
    """Contract B3: N workers end with the same bits on any number of processes, and report the same bytes and
    histograms. The rows of launch_table.py test other options."""

    def check(self, ranks, *options):
        options = [*options, "--max_steps", "6", "--log_steps", "3", "--histogram_steps", "3"]
        self.trained(0, "alone", *options)
        for number in ranks:
            self.trained(number, f"ranks{number}", *options)
            self.assert_same("alone", f"ranks{number}")
            self.assertEqual(self.histograms(f"ranks{number}"), self.histograms("alone"))

    def histograms(self, name):
        """Lines of a run's histograms, at least one."""
        with open(self.path(name, "histograms.jsonl"), encoding="utf-8") as file:
            lines = file.readlines()
        self.assertTrue(lines)
        return lines

    def test_one_process_of_a_launch_and_one_for_each_worker(self):
        self.check([1, 8], *ternary())

    def test_sums_of_processes_with_several_workers(self):
        self.check([2, 4], *small())

    def test_directions_in_place_of_gradients(self):
        options = ternary(optimizer="zero_one_adam", variance_update_scaler=1, codec_memory="ef")
        self.check([2, 8], *options, "--overlap=on")

    def test_groups_of_one_process_of_several_and_a_resumed_run(self):
        options = [*ternary(workers_per_group=4, codec_memory="ef"), "--max_steps", "6", "--log_steps", "3", "--save_iter", "3"]
        self.trained(0, "alone", *options)
        for ranks in [2, 4]:
            self.trained(ranks, f"ranks{ranks}", *options)
            self.assert_same("alone", f"ranks{ranks}")
        self.keep_checkpoint("ranks4", 3)
        self.trained(2, "ranks4", *options, "--resume")
        self.assert_same("alone", "ranks4")
        self.assertRegex(self.refused(3, *options), "--workers_per_group 4: 3 ranks cannot share 2 groups evenly")

    def test_replicas_are_found_equal(self):
        options = ternary(max_steps=4, log_steps=3)
        self.trained(0, "alone", *options)
        self.trained(2, "checked", *options, "--check_replicas=1", "--rebroadcast_epochs=1")
        self.assert_same("alone", "checked")


if __name__ == "__main__":
    main()
