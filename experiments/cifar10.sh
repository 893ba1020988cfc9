#!/usr/bin/env bash
# The AlexNet for CIFAR-10 with 2 workers, fp32 against ternary at clip factor 2.5 (Wen et al., NIPS 2017, table 1, first row, cut
# to 10,000 of its 300,000 steps): Adam 0.0002, total batch 128, weight decay 0.004 on the hidden fully connected layers,
# random crops, flips and contrast, averaged weights, all tensors ternary, 3 seeds.
#
# Expect ternary within 3 points of fp32 as means over the seeds, and fp32 within 1 point of cifar10_pytorch.py, the same
# recipe in PyTorch. The paper has 86.56 % and 85.64 % after all 300,000 steps (STEPS=300000). Six runs of about 6 minutes
# on two cores.
set -euo pipefail

usage() { echo "Usage: [STEPS=10000] experiments/cifar10.sh DATA_DIR OUT_DIR [TERNGRAD_TRAIN]   (DATA_DIR holds the CIFAR-10 files)"; }
if [[ ${1-} == --help ]]; then
  usage
  exit 0
fi
if [[ $# -lt 2 || $# -gt 3 ]]; then
  usage >&2
  exit 2
fi
data=$1 out=$2 train=${3-build/release/bin/terngrad_train} steps=${STEPS-10000}

for seed in 1 2 3; do
  recipe=(--dataset cifar10 --data_dir "$data" --num_nodes 2 --max_steps "$steps" --seed "$seed" --eval_steps 500
    --telemetry_steps 1000 --save_iter 2000)
  "$train" "${recipe[@]}" --grad_bits 32 --train_dir "$out/bits32-seed$seed"
  "$train" "${recipe[@]}" --grad_bits 1 --clip_factor 2.5 --quantize_logits --train_dir "$out/bits1-seed$seed"
done
for bits in 32 1; do
  for seed in 1 2 3; do grep '"kind":"test"' "$out/bits$bits-seed$seed/metrics.jsonl" | tail -n 1; done |
    sed 's/.*"top1":\([0-9.]*\).*/\1/' |
    awk -v bits="$bits" '{ sum += $1; list = list " " $1 } END { printf "grad_bits %s: top-1%s, mean %.4f\n", bits, list, sum / NR }'
done
