#!/usr/bin/env bash
# Installs dependencies, builds, trains a net with ternary gradients and evaluates it, from a fresh checkout.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/quickstart.sh [--steps N]

Installs what is missing, builds the commands in build/native, trains LeNet on the built-in data set with ternary
gradients of 8 workers, evaluates it on the test set, and prints the accuracy and the compression reached.

  --steps N  training steps (default: 1000)
  --help     print this text and exit
TEXT
}

steps=1000
while (($# > 0)); do
  case $1 in
    --steps | --steps=*)
      if [[ $1 == *=* ]]; then
        steps=${1#*=}
      else
        steps=${2-}
        shift
      fi
      if ! [[ $steps =~ ^[1-9][0-9]*$ ]]; then
        echo "quickstart.sh: --steps: '$steps' is refused, expected a positive number" >&2
        exit 2
      fi
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      echo "quickstart.sh: unknown option '$1'; accepted: --steps, --help" >&2
      exit 2
      ;;
  esac
  shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
started=$SECONDS

scripts/install_deps.sh
echo "== build"
# Compile for this machine's processor and GPU, if any.
options=()
if [[ ! -f build/native/CMakeCache.txt ]]; then
  if [[ -e /dev/nvidia0 ]] || nvidia-smi -L >/dev/null 2>&1; then
    options=(-DCMAKE_CUDA_ARCHITECTURES=native)
  else
    options=(-DTERNGRAD_CUDA=OFF)
  fi
fi
cmake --preset native "${options[@]}"
cmake --build --preset native --parallel "$(nproc)" --target terngrad_train terngrad_eval

log_steps=$((steps < 100 ? steps : 100))
run_dir=runs/quickstart-$(date +%Y%m%d-%H%M%S)
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

train=(build/native/bin/terngrad_train --grad_bits 1 --clip_factor 2.5 --num_nodes 8 --max_steps "$steps"
  --log_steps "$log_steps" --train_dir "$run_dir")
echo "== ${train[*]}"
"${train[@]}" 2>&1 | tee "$logs/train"

evaluate=(build/native/bin/terngrad_eval --checkpoint_dir "$run_dir")
echo "== ${evaluate[*]}"
"${evaluate[@]}" 2>&1 | tee "$logs/eval"

accuracy=$(grep -E '^top-1 = ' "$logs/eval" | tail -n 1 || true)
compression=$(grep -oE 'worker sent [0-9.]+ [kMGT]?B received [0-9.]+ [kMGT]?B/step [0-9.]+x fp32, [0-9.]+x bf16' "$logs/train" | tail -n 1 || true)
if [[ -z $accuracy || -z $compression ]]; then
  echo "quickstart.sh: the commands ended without reporting accuracy and compression" >&2
  exit 1
fi
echo
echo "test accuracy  $accuracy"
echo "compression    $compression"
echo "run            $run_dir"
echo "time           $((SECONDS - started)) s"
