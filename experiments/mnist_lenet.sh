#!/usr/bin/env bash
# LeNet on MNIST with 8 workers, fp32 against ternary at clip factor 2.5 (Wen et al., NIPS 2017, the figure of accuracy against
# number of workers): momentum 0.9, rate 0.01 with polynomial decay, total batch 64, 10,000 steps, averaged weights, 3 seeds.
#
# Expect 99.1 % or more for fp32 and 99.0 % or more for ternary as means over the seeds (the paper's chart: 99.20 and 99.11,
# one run each; one standard deviation of a test-set accuracy is 0.09 points). Six runs of about 4 minutes on two cores.
set -euo pipefail

# shellcheck source=experiments/fp32_against_ternary.sh
source "$(dirname "${BASH_SOURCE[0]}")/fp32_against_ternary.sh"

read_arguments \
  "Usage: experiments/mnist_lenet.sh DATA_DIR OUT_DIR [TERNGRAD_TRAIN]   (DATA_DIR holds the MNIST files)" \
  "$@"
run_seeds --dataset mnist --data_dir "$data" --num_nodes 8 --eval_steps 500 --telemetry_steps 1000
print_accuracies
