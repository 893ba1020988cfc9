import shutil

from launch_table import ROWS, is_ternary, num_serving
from launched_training import LaunchedTraining, digits, main, small

STEPS = {"max_steps": 5, "log_steps": 2, "save_iter": 2}
RESUMED_FROM = 2
# Of the records of a run what depends on how messages travel.
OF_MESSAGES = {"wire_bytes_per_worker", "wire_bytes_per_server", "wire_ratio"}


def options_of_bits(row):
    """What decides the bits that a row's run ends with, and what a checkpoint records."""
    workers = int(row["workers"])
    options = {"device": row["device"], "num_nodes": workers, "batch_size": workers * int(row["examples"]),
               "optimizer": row["optimizer"], "downlink_codec": row["return"], **STEPS}
    if row["net"] == "alexnet":
        options.update(dataset="cifar10", benchmark_mode="true", image_size=24)
    else:  # with epochs of 12 examples, so that some of the steps are of a floating one
        options.update(dataset="mnist", data_dir=digits(12, 8).name, image_size=8 if row["device"] == "cuda" else 16)
    if is_ternary(row):
        options.update(grad_bits=1, clip_factor=2.5, scaler_sharing=row["sharing"], scaler_scope=row["scope"],
                       telemetry_steps=2)
        if row["exchange"] != "integer_sum":  # which has lanes in place of it
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
    if row["exchange"] == "parameters" and row["return"] == "bf16":  # what is rounded are parameters, not gradients
        options.update(strategy="ps", pull="parameters")
    return options


def options_of_launch(row):
    """What the bits do not depend on."""
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
    """Of emulated GPUs there is one for each process."""
    return {"DNNL_MAX_CPU_ISA": "AVX2"} if row["isa"] == "AVX2" else {"SIMT_DEVICES": row["processes"]}


class Rows(LaunchedTraining):
    """Contracts B2 to B4: a row of the table ends with the bits of one process that exchanges in the plainest way."""

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
        # How much is hidden is up to the machine, except for where nothing may be.
        if row["overlap"] == "off" or row["scope"] == "model" or row["exchange"] == "parameters":
            self.assertFalse(any(record.get("hidden_seconds") for record in self.train_records("launched")))

    def metrics_of_bits(self, name):
        return [{key: value for key, value in record.items() if key not in OF_MESSAGES} for record in self.metrics(name)]


class FastOnCpus(Rows):
    """Those of the fast tier."""


class FastOnGpus(Rows):
    """Those of the fast tier on emulated GPUs."""


class MoreOnCpus(Rows):
    """Those of the full tier alone."""


class MoreOnGpus(Rows):
    """Those of the full tier alone, on emulated GPUs."""


def add_tests():
    """A test for each row, named after its place in the table and what it exchanges."""
    for number, (is_fast, row) in enumerate(ROWS, start=1):
        tests = {(True, "cpu"): FastOnCpus, (True, "cuda"): FastOnGpus, (False, "cpu"): MoreOnCpus, (False, "cuda"): MoreOnGpus}
        name = f"test_row_{number:02}_{row['codec']}_by_{row['exchange']}_of_{row['processes']}"
        setattr(tests[is_fast, row["device"]], name, lambda self, row=row: self.check(row))


add_tests()

if __name__ == "__main__":
    main()
