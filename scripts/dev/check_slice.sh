#!/usr/bin/env bash
# Runs one of eight slices of the checks that are too slow for every change.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/dev/check_slice.sh [--slice A|B|C|D|E|F|G|H]

Builds and runs a slice of the tests under sanitizers, and every eighth of the slow tests of build/ci, which must be built:

     address and undefined-behaviour sanitizers       thread sanitizer
  A  kernels, contracts, fuzzed parsers            E  emulated kernels
  B  compress, C library                           F  emulated nets and training
  C  nets, datasets, benchmarks                    G  all of A to C without emulation
  D  trainers, MPI, emulated training              H  trainers
     A to C with the emulation of their CUDA code

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
slices=(A B C D E F G H)
notes=${XDG_CACHE_HOME:-$HOME/.cache}/terngrad-slices
mkdir -p "$notes"

# Prints the slice to run: the next one without a note, starting at the number of commits, so that machines without notes
# differ; else the slice with the oldest note.
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
  find "$notes" -maxdepth 1 -type f -name '[A-H]' -printf '%T@ %f\n' | sort -n | sed -n '1s/.* //p'
}
if [[ -z $slice ]]; then slice=$(choose_slice); fi

# Most tests are labelled with their program.
labels=()
case $slice in
  A)
    preset=asan
    targets=(kernels_test contracts_test simt_test simt_defects_test fuzz_replay fuzz_seeds)
    labels=(kernels_test contracts_test simt_test simt_defects_test fuzz)
    ;;
  B)
    preset=asan
    targets=(compress_test simt_compress_test capi_test)
    ;;
  C)
    preset=asan
    targets=(nets_test datasets_test bench_test simt_nets_test simt_datasets_test)
    ;;
  D)
    preset=asan
    targets=(trainers_test simt_trainers_test simt_several_gpus_test mpi_test mpi_trainers_test)
    labels=(trainers_test simt_trainers_test simt_several_gpus_test launch)
    ;;
  E)
    preset=tsan
    targets=(simt_test simt_compress_test simt_defects_test)
    ;;
  F)
    preset=tsan
    targets=(simt_nets_test simt_datasets_test simt_trainers_test simt_several_gpus_test)
    ;;
  G)
    preset=tsan
    targets=(kernels_test compress_test contracts_test nets_test datasets_test bench_test capi_test)
    ;;
  H)
    preset=tsan
    targets=(trainers_test)
    ;;
  *)
    echo "check_slice.sh: --slice: '$slice' is refused; accepted: ${slices[*]}" >&2
    exit 2
    ;;
esac
echo "check_slice.sh: slice $slice"
if ((${#labels[@]} == 0)); then labels=("${targets[@]}"); fi
either=$(printf '|%s' "${labels[@]}")
scripts/test.sh "$preset" --targets "${targets[*]}" -L "^(${either:1})\$" -LE '^slow$'

# Every eighth slow test of the optimised build.
number=1
for name in "${slices[@]}"; do
  if [[ $name == "$slice" ]]; then break; fi
  number=$((number + 1))
done
scripts/test.sh ci --targets "" -L '^slow$' -I "$number,,${#slices[@]}"

git rev-parse HEAD >"$notes/$slice"
echo "check_slice.sh: slice $slice passed"
