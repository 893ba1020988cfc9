from launched_training import LaunchedTraining, main, ternary


class Overlap(LaunchedTraining):
    """Exchanging during the backward pass gives the same bits and bytes as exchanging after it."""

    def hidden_seconds(self, name):
        return [record["hidden_seconds"] for record in self.train_records(name)]

    def test_bits_and_bytes_are_the_same(self):
        """One and two processes; the rows of launch_table.py test the bits with other codecs, networks and numbers of
        processes."""
        options = ternary(bucket_mb=0.1, weight_decay=0.01, nan_to_zero="true", max_steps=6, log_steps=3)
        self.trained(0, "off", *options, "--overlap", "off")
        for ranks, overlap in [(0, "on"), (2, "on"), (2, "auto"), (2, "off")]:
            name = f"{overlap}{ranks}"
            self.trained(ranks, name, *options, "--overlap", overlap)
            self.assert_same("off", name)
            # The hidden time depends on the machine.
            hidden = self.hidden_seconds(name)
            self.assertTrue(overlap != "off" or not any(hidden), hidden)

    def test_what_needs_whole_gradients_is_exchanged_after_the_backward_pass(self):
        options = ternary(max_steps=3, log_steps=3, clip_by_global_norm=1)
        self.trained(0, "alone", *options)
        self.trained(2, "ranks2", *options)
        self.assert_same("ranks2", "alone")
        self.assertEqual(self.hidden_seconds("ranks2"), [0])


if __name__ == "__main__":
    main()
