from launched_training import LaunchedTraining, main, small, ternary


class SameBits(LaunchedTraining):
    """Contract B3: N workers end with the same bits on any number of processes."""

    def check(self, steps, ranks, *options, env=None):
        options = [*options, "--max_steps", str(steps), "--log_steps", "3"]
        self.trained(0, "alone", *options, env=env)
        for number in ranks:
            self.trained(number, f"ranks{number}", *options, env=env)
            self.assert_same("alone", f"ranks{number}")

    def test_lenet_ternary(self):
        self.check(6, [1, 2, 4, 8], *ternary())

    def test_lenet_fp32(self):
        self.check(6, [2, 4], *small())

    def test_replicas_are_found_equal(self):
        self.check(4, [], *ternary())
        self.trained(2, "checked", *ternary(max_steps=4, log_steps=3, check_replicas=1, rebroadcast_epochs=1))
        self.assert_same("alone", "checked")

    def test_one_example_per_worker(self):
        self.check(4, [2, 4], *ternary(batch_size=8))

    def test_without_avx512(self):
        self.check(4, [2, 4], *ternary(), env={"DNNL_MAX_CPU_ISA": "AVX2"})

    def test_cifar_net(self):
        net = {"dataset": "cifar10", "benchmark_mode": "true", "image_size": 24}
        self.check(3, [2, 4], *ternary(quantize_logits="true", **net))

    def test_cifar_net_fp32(self):
        self.check(3, [2], *small(dataset="cifar10", benchmark_mode="true", image_size=24))

    def test_every_exchange_and_return_codec(self):
        options = ternary(max_steps=4, num_nodes=3, batch_size=12)
        for return_codec in ["fp32", "bf16", "ternary"]:
            self.trained(0, f"alone-{return_codec}", *options, "--return_codec", return_codec)
            for exchange in ["all_gather", "scatter_reduce", "integer_sum"]:
                name = f"{exchange}-{return_codec}"
                self.trained(3, name, *options, "--return_codec", return_codec, "--exchange", exchange)
                self.assertEqual(self.checkpoint(name), self.checkpoint(f"alone-{return_codec}"), name)


if __name__ == "__main__":
    main()
