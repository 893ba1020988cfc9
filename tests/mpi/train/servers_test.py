import shutil

from launched_training import main, ternary
from signalled_training import SignalledTraining


class Servers(SignalledTraining):
    """Parameter servers, of their own or beside workers, end with the bits of replicas that aggregate for themselves."""

    def check(self, launches, options, *of_servers):
        """Compares with replicas, which know nothing of the options of servers."""
        self.trained(0, "replicated", *options)
        for ranks, servers in launches:
            name = f"{servers}of{ranks}"
            placed = ["--num_servers", str(servers)] if ranks > 0 else []
            result = self.trained(ranks, name, *options, "--strategy", "ps", *of_servers, *placed)
            self.assertEqual(self.checkpoint(name), self.checkpoint("replicated"), name)
            self.assertEqual(f"(the last {servers} of them serving)" in result.stderr, servers > 0)
            shutil.rmtree(self.path(name))
        shutil.rmtree(self.path("replicated"))

    def test_they_send_the_mean_gradient(self):
        options = ternary(max_steps=4, num_nodes=4, batch_size=16)
        self.check([(0, 0), (2, 0), (4, 2)], options)
        for return_codec in ["sums", "ternary"]:
            self.check([(3, 1)], [*options, "--return_codec", return_codec])

    def test_they_send_parameters(self):
        options = ternary(max_steps=5, num_nodes=3, batch_size=12, optimizer="adam", save_iter=2)
        self.check([(0, 0), (2, 0), (3, 1), (4, 3)], options, "--pull", "parameters")

    def test_rounded_parameters_are_those_of_one_process(self):
        options = ternary(max_steps=10, num_nodes=4, batch_size=16, log_steps=4, save_iter=4, eval_steps=5, strategy="ps",
                          pull="parameters", return_codec="bf16")
        self.trained(0, "alone", *options)
        self.trained(4, "servers", *options, "--num_servers", "2")
        self.assertEqual(self.checkpoint("servers"), self.checkpoint("alone"))
        # And go on from a checkpoint with other servers.
        self.keep_checkpoint("servers", 4)
        result = self.trained(2, "servers", *options, "--num_servers", "1", "--resume")
        self.assertIn("resumed after step 4", result.stderr)
        self.assertEqual(self.checkpoint("servers"), self.checkpoint("alone"))
        # Replicas that update themselves have other bits, so they do not go on with it.
        result = self.train(0, "servers", *options[:-3], "--resume")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, "pull|return_codec")

    def test_a_server_that_hangs_is_named(self):
        run = self.start(3, "hangs", *ternary(max_steps=100000, log_steps=5, exchange_timeout=2, strategy="ps", num_servers=1))
        self.wait_for_steps(run, "hangs")
        _, err, _ = self.hung(run, 2)
        self.assertRegex(err, r"(heard nothing from rank 2 \(host \S+\)|rank 2 \(host \S+\) has taken nothing from .*) for 2 seconds")

    def test_launches_that_they_do_not_fit_are_refused(self):
        for ranks, options, words in [(3, ["--num_servers", "3"], "accepted: 0 to 2"),
                                      (4, ["--num_servers", "1", "--num_nodes", "2"], "each of the 3 training processes")]:
            self.assertIn(words, self.refused(ranks, "--strategy", "ps", *options))


if __name__ == "__main__":
    main()
