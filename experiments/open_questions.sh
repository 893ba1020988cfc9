#!/usr/bin/env bash
# What Wen et al. (NIPS 2017) left open, each by one flag: ternarizing the way back from the aggregation, asynchronous updates,
# and the variance of ternary gradients, here by a scaler for every 4096 elements instead of one for a layer. LeNet on MNIST
# with 4 workers, clip factor 2.5, total batch 64, 3000 steps, averaged weights, 3 seeds, beside fp32 and plain ternary: fifteen
# runs. Asynchrony is the emulation of one process: every gradient is 3 updates old.
set -euo pipefail

# shellcheck source=experiments/fp32_against_ternary.sh
source "$(dirname "${BASH_SOURCE[0]}")/fp32_against_ternary.sh"

read_arguments \
  "Usage: [STEPS=3000] experiments/open_questions.sh DATA_DIR OUT_DIR [TERNGRAD_TRAIN]   (DATA_DIR holds the MNIST files)" \
  "$@"

# compare NAME OPTION...: three runs with these options.
compare() {
  local name=$1 seed
  for seed in 1 2 3; do
    "$train" --device cpu --dataset mnist --data_dir "$data" --num_nodes 4 --max_steps "${STEPS-3000}" --eval_steps 500 \
      --telemetry_steps 500 --seed "$seed" "${@:2}" --train_dir "$out/$name-seed$seed"
  done
}

ternary=(--grad_bits 1 --clip_factor 2.5)
compare fp32
compare ternary "${ternary[@]}"
compare return-ternary "${ternary[@]}" --downlink_codec ternary
compare blocks "${ternary[@]}" --scaler_scope block --block_size 4096
compare async "${ternary[@]}" --strategy async
for name in fp32 ternary return-ternary blocks async; do print_accuracy "$name" "$name"; done
