from launched_training import main, ternary
from signalled_training import SignalledTraining


class Servers(SignalledTraining):
    """Parameter servers, in their own processes or beside workers, end with the bits of replicas that aggregate themselves."""

    def test_one_process_that_serves_itself_has_the_bits_of_replicas(self):
        options = ternary(max_steps=4, num_nodes=4, batch_size=16)
        self.trained(0, "replicated", *options)
        for pull in ["gradient", "parameters"]:
            self.trained(0, pull, *options, "--strategy", "ps", "--pull", pull)
            self.assertEqual(self.checkpoint(pull), self.checkpoint("replicated"), pull)

    def test_more_processes_may_serve_than_train(self):
        options = ternary(max_steps=5, num_nodes=3, batch_size=12, optimizer="adam", save_iter=2)
        self.trained(0, "replicated", *options)
        result = self.trained(4, "served", *options, "--strategy", "ps", "--pull", "parameters", "--num_servers", "3")
        self.assertEqual(self.checkpoint("served"), self.checkpoint("replicated"))
        self.assertIn("(the last 3 of them serving)", result.stderr)

    def test_rounded_parameters_are_those_of_one_process(self):
        options = ternary(max_steps=10, num_nodes=4, batch_size=16, log_steps=4, save_iter=4, eval_steps=5, strategy="ps",
                          pull="parameters", downlink_codec="bf16")
        self.trained(0, "alone", *options)
        self.trained(4, "servers", *options, "--num_servers", "2")
        self.assertEqual(self.checkpoint("servers"), self.checkpoint("alone"))
        # Resumes with another number of servers.
        self.keep_checkpoint("servers", 4)
        result = self.trained(2, "servers", *options, "--num_servers", "1", "--resume")
        self.assertIn("resumed after step 4", result.stderr)
        self.assertEqual(self.checkpoint("servers"), self.checkpoint("alone"))
        # Replicas that apply updates themselves have other bits, so they refuse this checkpoint.
        result = self.train(0, "servers", *options[:-3], "--resume")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, "pull|downlink_codec")

    def test_a_server_that_hangs_is_named(self):
        run = self.start(3, "hangs", *ternary(max_steps=100000, log_steps=5, exchange_timeout=2, strategy="ps", num_servers=1))
        self.wait_for_steps(run, "hangs")
        _, err, _ = self.hung(run, 2)
        self.assertRegex(err, r"heard nothing from .*rank 2 \(host \S+\).* for 2 seconds")

    def test_launches_that_they_do_not_fit_are_refused(self):
        for ranks, options, words in [(3, ["--num_servers", "3"], "accepted: 0 to 2"),
                                      (4, ["--num_servers", "1", "--num_nodes", "2"], "each of the 3 training processes")]:
            self.assertIn(words, self.refused(ranks, "--strategy", "ps", *options))


if __name__ == "__main__":
    main()
