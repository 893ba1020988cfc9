import re
import shutil
import subprocess

from launched_training import LaunchedTraining, main, small

# Image sizes of networks that do not accept 32 x 32.
SIDES = {"alexnet": 64, "alexnet_v2": 96, "googlenet_2014": 65, "inception_v3": 107}


class Nets(LaunchedTraining):
    """Contracts B3 and B4 for every network, with batch norm statistics, dropout and auxiliary losses: two processes,
    and resumed runs, end bit-identical to one uninterrupted process."""

    def names(self):
        """Names of all networks, from the error message for an unknown one."""
        refused = subprocess.run([self.program, "--net", "none"], capture_output=True, text=True, check=False).stderr
        names = re.findall(r"\w+", refused.partition("expected one of ")[2])
        self.assertIn("lenet", names)
        return names

    def test_end_with_the_same_bits(self):
        for net in self.names():
            with self.subTest(net):
                options = small(benchmark_mode="true", dataset="synthetic224", net=net, image_size=SIDES.get(net, 32), num_nodes=4,
                                batch_size=8, max_steps=3, save_iter=2, log_steps=1, grad_bits=1, clip_factor=2.5,
                                learning_rate_decay_type="fixed")
                alone, moved = f"alone, {net}", f"moved, {net}"
                self.trained(0, alone, *options)
                self.trained(2, moved, *options)
                self.assert_same(alone, moved)
                self.keep_checkpoint(moved, 2)
                self.trained(0, moved, *options, "--resume")
                self.assert_same(alone, moved)
                for name in (alone, moved):
                    shutil.rmtree(self.path(name))  # hundreds of MB


if __name__ == "__main__":
    main()
