from launched_training import LaunchedTraining, main, small, ternary


class Overlap(LaunchedTraining):
    """What is exchanged while the backward pass goes on has the bits and bytes of what is exchanged after it."""

    def hidden_seconds(self, name):
        return [record["hidden_seconds"] for record in self.train_records(name)]

    def check(self, *options):
        options = [*options, "--max_steps", "6", "--log_steps", "3"]
        self.trained(0, "alone", *options, "--overlap", "off")
        self.trained(0, "alone-on", *options, "--overlap", "on")
        self.assert_same("alone", "alone-on")
        for ranks in [2, 4]:
            for overlap in ["auto", "on", "off"]:
                name = f"{overlap}{ranks}"
                self.trained(ranks, name, *options, "--overlap", overlap)
                self.assert_same("alone", name)
                # How much is hidden is up to the machine.
                hidden = self.hidden_seconds(name)
                self.assertTrue(overlap != "off" or not any(hidden), hidden)

    def test_ternary(self):
        self.check(*ternary(bucket_mb=0.1, weight_decay=0.01))

    def test_fp32(self):
        self.check(*small(bucket_mb=0.1, nan_to_zero="true"))

    def test_floating_epochs(self):
        self.check(*ternary(bucket_mb=0.1, floating_grad_epoch=2))

    def test_cifar_net(self):
        self.check(*ternary(bucket_mb=1, dataset="cifar10", benchmark_mode="true", image_size=24))

    def test_any_buckets_end_with_the_same_checkpoint(self):
        options = ternary(max_steps=4)
        self.trained(0, "default", *options)
        for megabytes in [0.000001, 0.1, 1000]:
            name = f"buckets{megabytes}"
            self.trained(2, name, *options, "--bucket_mb", str(megabytes))
            self.assertEqual(self.checkpoint(name), self.checkpoint("default"), name)

    def test_what_needs_whole_gradients_is_exchanged_after_the_backward_pass(self):
        for name, option in [("model", "--scaler_scope=model"), ("norm", "--clip_by_global_norm=1")]:
            options = ternary(max_steps=3, log_steps=3)
            self.trained(0, f"{name}-alone", *options, option)
            self.trained(2, name, *options, option)
            self.assert_same(name, f"{name}-alone")
            self.assertEqual(self.hidden_seconds(name), [0])


if __name__ == "__main__":
    main()
