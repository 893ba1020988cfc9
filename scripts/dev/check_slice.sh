#!/usr/bin/env bash
# One of the four parts of the checks that are too slow for every change.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/dev/check_slice.sh [--slice A|B|C|D]

Builds and runs a slice of the tests under sanitizers, and every fourth of the slow tests of build/ci, which must be built:

  A  address and undefined-behaviour sanitizers: everything except trainers, MPI and emulated training
  B  the same sanitizers: trainers, MPI and emulated training
  C  thread sanitizer: the emulation of CUDA kernels (tests/simt)
  D  thread sanitizer: everything else

Without --slice it is the one that passed longest ago, by the notes in ${XDG_CACHE_HOME:-~/.cache}/terngrad-slices; where there
are none, by the number of commits. scripts/check_all.sh runs all of them.
TEXT
}

slice=""
case ${1-} in
  "") ;;
  --slice) slice=${2-} ;;
  --slice=*) slice=${1#*=} ;;
  --help | -h)
    usage
    exit 0
    ;;
  *)
    echo "check_slice.sh: unknown option '$1'; accepted: --slice, --help" >&2
    exit 2
    ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
slices=(A B C D)
notes=${XDG_CACHE_HOME:-$HOME/.cache}/terngrad-slices
mkdir -p "$notes"

# The slice without a note that is due by the number of commits, so that machines without notes differ; else the one whose
# note is oldest.
choose_slice() {
  local first name i
  first=$(($(git rev-list --count HEAD 2>/dev/null || echo 0) % ${#slices[@]}))
  for ((i = 0; i < ${#slices[@]}; ++i)); do
    name=${slices[(first + i) % ${#slices[@]}]}
    if [[ ! -e $notes/$name ]]; then
      echo "$name"
      return
    fi
  done
  find "$notes" -maxdepth 1 -type f -printf '%T@ %f\n' | sort -n | sed -n '1s/.* //p'
}
if [[ -z $slice ]]; then slice=$(choose_slice); fi

simt_targets=(simt_test simt_compress_test simt_nets_test simt_datasets_test simt_defects_test)
case $slice in
  A)
    preset=asan
    targets=(kernels_test compress_test contracts_test nets_test datasets_test bench_test fuzz_replay fuzz_seeds "${simt_targets[@]}")
    selection=(-LE '^(slow|trainers_test|simt_trainers_test|launch|script|process)$')
    ;;
  B)
    preset=asan
    targets=(trainers_test simt_trainers_test mpi_test mpi_trainers_test)
    selection=(-L '^(trainers_test|simt_trainers_test|launch)$')
    ;;
  C)
    preset=tsan
    targets=("${simt_targets[@]}" simt_trainers_test)
    selection=(-L '^emulation$')
    ;;
  D)
    preset=tsan
    targets=(kernels_test compress_test contracts_test nets_test datasets_test trainers_test bench_test)
    selection=(-LE '^(slow|emulation|script|launch|process)$')
    ;;
  *)
    echo "check_slice.sh: --slice: '$slice' is refused; accepted: ${slices[*]}" >&2
    exit 2
    ;;
esac
echo "check_slice.sh: slice $slice"
scripts/test.sh "$preset" --targets "${targets[*]}" "${selection[@]}"

# Slow tests of the optimised build, every fourth of them.
number=1
for name in "${slices[@]}"; do
  if [[ $name == "$slice" ]]; then break; fi
  number=$((number + 1))
done
scripts/test.sh ci --targets "" -L '^slow$' -I "$number,,${#slices[@]}"

git rev-parse HEAD >"$notes/$slice"
echo "check_slice.sh: slice $slice passed"
