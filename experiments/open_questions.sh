#!/usr/bin/env bash
# What Wen et al. (NIPS 2017) left open, each by one flag: ternarizing the way back from the aggregation, asynchronous updates,
# and the variance of ternary gradients, here by a scaler for every 4096 elements instead of one for a layer. LeNet on MNIST
# with 4 workers, clip factor 2.5, total batch 64, 3000 steps, averaged weights, 3 seeds, beside fp32 and plain ternary.
#
# Asynchrony is the emulation of one process: every gradient is 3 updates old. Fifteen runs of about a minute on two cores.
set -euo pipefail

if [[ ${1-} == --help ]]; then
  echo "Usage: [STEPS=3000] experiments/open_questions.sh DATA_DIR OUT_DIR [TERNGRAD_TRAIN]   (DATA_DIR holds the MNIST files)"
  exit 0
fi
if [[ $# -lt 2 || $# -gt 3 ]]; then
  echo "Usage: [STEPS=3000] experiments/open_questions.sh DATA_DIR OUT_DIR [TERNGRAD_TRAIN]   (DATA_DIR holds the MNIST files)" >&2
  exit 2
fi
data=$1 out=$2 train=${3-build/release/bin/terngrad_train}
ternary=(--grad_bits 1 --clip_factor 2.5)

# compare NAME OPTION...: three runs with these options, and the last test accuracy of each with their mean.
compare() {
  local name=$1 seed
  shift
  for seed in 1 2 3; do
    "$train" --device cpu --dataset mnist --data_dir "$data" --num_nodes 4 --max_steps "${STEPS-3000}" --eval_steps 500 \
      --telemetry_steps 500 --seed "$seed" "$@" --train_dir "$out/$name-seed$seed" >"$out/$name-seed$seed.log" 2>&1
  done
  for seed in 1 2 3; do grep '"kind":"test"' "$out/$name-seed$seed/metrics.jsonl" | tail -n 1; done |
    sed 's/.*"top1":\([0-9.]*\).*/\1/' |
    awk -v name="$name" '{ sum += $1; list = list " " $1 } END { printf "%s: top-1%s, mean %.4f\n", name, list, sum / NR }'
}

mkdir -p "$out"
compare fp32
compare ternary "${ternary[@]}"
compare return-ternary "${ternary[@]}" --return_codec ternary
compare blocks "${ternary[@]}" --scaler_scope block --block_size 4096
compare async "${ternary[@]}" --strategy async
