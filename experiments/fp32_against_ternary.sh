# shellcheck shell=bash
# What the experiments share that compare fp32 with ternary gradients at clip factor 2.5 over 3 seeds. To be sourced.

# read_arguments USAGE "$@": sets data, out and train from the arguments DATA_DIR OUT_DIR [TERNGRAD_TRAIN]; --help and a
# wrong number of arguments end the script with the line USAGE.
read_arguments() {
  local usage=$1
  shift
  if [[ ${1-} == --help ]]; then
    echo "$usage"
    exit 0
  fi
  if [[ $# -lt 2 || $# -gt 3 ]]; then
    echo "$usage" >&2
    exit 2
  fi
  # shellcheck disable=SC2034  # data is for the script's recipe
  data=$1 out=$2 train=${3-build/release/bin/terngrad_train}
}

# run_seeds RECIPE... [-- TERNARY...]: six runs of $train with the options RECIPE, the ternary ones with TERNARY too, in
# $out/bits32-seed1 and so on.
run_seeds() {
  local seed recipe=() ternary=()
  while (($# > 0)) && [[ $1 != -- ]]; do
    recipe+=("$1")
    shift
  done
  if (($# > 0)); then ternary=("${@:2}"); fi
  for seed in 1 2 3; do
    "$train" "${recipe[@]}" --seed "$seed" --grad_bits 32 --train_dir "$out/bits32-seed$seed"
    "$train" "${recipe[@]}" --seed "$seed" --grad_bits 1 --clip_factor 2.5 "${ternary[@]}" \
      --train_dir "$out/bits1-seed$seed"
  done
}

# print_accuracy NAME RUN: the last test accuracy of each seed in $out/RUN-seed1 and so on, and their mean.
print_accuracy() {
  local seed
  for seed in 1 2 3; do grep '"kind":"test"' "$out/$2-seed$seed/metrics.jsonl" | tail -n 1; done |
    sed 's/.*"top1":\([0-9.]*\).*/\1/' |
    awk -v name="$1" '{ sum += $1; list = list " " $1 } END { printf "%s: top-1%s, mean %.4f\n", name, list, sum / NR }'
}

# print_accuracies: for fp32 and ternary the last test accuracy of each seed in $out, and their mean.
print_accuracies() {
  local bits
  for bits in 32 1; do print_accuracy "grad_bits $bits" "bits$bits"; done
}
