import shutil

from launch_table import ROWS, is_ternary, num_serving
from launched_training import LaunchedTraining, digits, main, small

STEPS = {"max_steps": 5, "log_steps": 2, "save_iter": 2}
RESUMED_FROM = 2
# Metrics that depend on how messages are sent.
OF_MESSAGES = {"wire_bytes_per_worker", "wire_bytes_per_server", "wire_ratio"}


def options_of_bits(row):
    """Options that determine the final bits and are recorded in a checkpoint."""
    workers = int(row["workers"])
    options = {"device": row["device"], "num_nodes": workers, "batch_size": workers * int(row["examples"]),
               "optimizer": row["optimizer"], "downlink_codec": row["return"], **STEPS}
    if row["net"] == "alexnet":
        options.update(dataset="cifar10", benchmark_mode="true", image_size=24)
    else:  # epochs of 12 examples, so that floating_grad_epoch affects some steps
        options.update(dataset="mnist", data_dir=digits(12, 8).name, image_size=8 if row["device"] == "cuda" else 16)
    if is_ternary(row):
        options.update(grad_bits=1, clip_factor=2.5, scaler_sharing=row["sharing"], scaler_scope=row["scope"],
                       telemetry_steps=2)
        if row["exchange"] != "integer_sum":  # which has lanes instead
            options.update(ternary_format=row["codec"])
        if row["net"] == "alexnet":
            options.update(quantize_logits="true")
    else:
        options.update(codec=row["codec"])
    if row["scope"] == "block":
        options.update(block_size=1984)
    if row["transform"] == "decay":
        options.update(weight_decay=0.01)
    if row["memory"] != "none":
        options.update(codec_memory=row["memory"])
    if row["floating"] != "0":
        options.update(floating_grad_epoch=row["floating"])
    if row["exchange"] == "parameters" and row["return"] == "bf16":  # parameters are rounded, not gradients
        options.update(strategy="ps", pull="parameters")
    return options


def options_of_launch(row):
    """Options that do not change the bits."""
    options = {"overlap": row["overlap"]}
    if row["exchange"] in ("servers", "parameters"):
        options.update(strategy="ps", pull="gradient" if row["exchange"] == "servers" else "parameters",
                       num_servers=num_serving(row))
    else:
        options.update(exchange=row["exchange"])
    if row["buckets"] != "default":
        options.update(bucket_mb={"small": 0.1, "each": 0.000001}[row["buckets"]])
    return options


def environment_of(row):
    """Instruction set, or one emulated GPU per process."""
    return {"DNNL_MAX_CPU_ISA": "AVX2"} if row["isa"] == "AVX2" else {"SIMT_DEVICES": row["processes"]}


class Rows(LaunchedTraining):
    """Contracts B2 to B4: a row of the table ends with the bits of one process with the plainest exchange."""

    def check(self, row):
        environment = environment_of(row)
        bits = options_of_bits(row)
        self.trained(0, "alone", *small(**bits), "--overlap=off", env=environment)
        options = small(**{**bits, **options_of_launch(row)})
        if row["begin"] == "resumed":
            shutil.copytree(self.path("alone"), self.path("launched"))
            self.keep_checkpoint("launched", RESUMED_FROM)
            options.append("--resume")
        result = self.trained(int(row["processes"]), "launched", *options, env=environment)
        self.assertTrue(self.checkpoint("launched") == self.checkpoint("alone"), "checkpoints differ")
        self.assertEqual(self.metrics_of_bits("launched"), self.metrics_of_bits("alone"))
        self.assertEqual(f"resumed after step {RESUMED_FROM}" in result.stderr, row["begin"] == "resumed", result.stderr)
        self.assertEqual(f"(the last {num_serving(row)} of them serving)" in result.stderr, row["serving"] == "apart",
                         result.stderr)
        # The hidden time depends on the machine, except where nothing may be hidden.
        if row["overlap"] == "off" or row["scope"] == "model" or row["exchange"] == "parameters":
            self.assertFalse(any(record.get("hidden_seconds") for record in self.train_records("launched")))

    def metrics_of_bits(self, name):
        return [{key: value for key, value in record.items() if key not in OF_MESSAGES} for record in self.metrics(name)]


class FastOnCpus(Rows):
    """Rows of the fast tier."""


class FastOnGpus(Rows):
    """Rows of the fast tier on emulated GPUs."""


class MoreOnCpus(Rows):
    """Rows of the full tier only."""


class MoreOnGpus(Rows):
    """Rows of the full tier only, on emulated GPUs."""


def add_tests():
    """Adds a test for each row, named by its number and its exchange."""
    for number, (is_fast, row) in enumerate(ROWS, start=1):
        tests = {(True, "cpu"): FastOnCpus, (True, "cuda"): FastOnGpus, (False, "cpu"): MoreOnCpus, (False, "cuda"): MoreOnGpus}
        name = f"test_row_{number:02}_{row['codec']}_by_{row['exchange']}_of_{row['processes']}"
        setattr(tests[is_fast, row["device"]], name, lambda self, row=row: self.check(row))


add_tests()

if __name__ == "__main__":
    main()
