from launched_training import LaunchedTraining, main, small


class Vendor(LaunchedTraining):
    """Training with the library's all-reduce agrees up to the last digits."""

    def test_it_follows_the_exchange_of_equal_bits(self):
        for codec, bound in [("fp32", 1e-5), ("bf16", 3e-2), ("fp16", 3e-3)]:
            options = small(max_steps=6, log_steps=1, codec=codec)
            self.trained(3, codec, *options, "--exchange", "vendor")
            self.trained(0, f"{codec}-alone", *small(max_steps=6, log_steps=1))
            for ours, theirs in zip(self.metrics(f"{codec}-alone"), self.metrics(codec)):
                self.assertAlmostEqual(ours["loss"], theirs["loss"], delta=bound)
                if ours["kind"] == "train":
                    self.assertEqual(theirs["wire_bytes_per_worker"]["sent"]["scalers"], 0)
                    # For any number of processes: only the type compresses.
                    self.assertAlmostEqual(theirs["wire_ratio"], 1 if codec == "fp32" else 2, places=4)


if __name__ == "__main__":
    main()
