#!/usr/bin/env bash
# Fuzzes the parsers of files and messages, and the exchange behind them, for a while.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/fuzz.sh [--seconds N] [TARGET...]

Builds the libFuzzer targets of tests/fuzz with clang, address and undefined-behaviour sanitizers, and runs each for a
while, as many at a time as there are cores. Starts from small valid files; what is found on the way is kept in
build/fuzz/corpus/TARGET, so a later run goes on from there. An input that fails is left in build/fuzz/findings/TARGET;
build/fuzz/bin/fuzz_TARGET FILE runs it again.

  --seconds N  time for each target (default: 60)
  --help       print this text and exit

Targets: checkpoint, cifar10, compressed, exchange, idx, jpeg, message, npy, png (default: all)
TEXT
}

all_targets=(checkpoint cifar10 compressed exchange idx jpeg message npy png)
targets=()
seconds=60
while (($# > 0)); do
  case $1 in
    --seconds | --seconds=*)
      if [[ $1 == *=* ]]; then
        seconds=${1#*=}
      else
        seconds=${2-}
        shift
      fi
      if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
        echo "fuzz.sh: --seconds: '$seconds' is refused, expected a positive number" >&2
        exit 2
      fi
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      if [[ " ${all_targets[*]} " != *" $1 "* ]]; then
        echo "fuzz.sh: unknown argument '$1'; accepted: --seconds, --help, ${all_targets[*]}" >&2
        exit 2
      fi
      targets+=("$1")
      ;;
  esac
  shift
done
if ((${#targets[@]} == 0)); then targets=("${all_targets[@]}"); fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/install_deps.sh --fuzz
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
started=$SECONDS
cmake --preset fuzz
cmake --build --preset fuzz --parallel "$(nproc)"
echo "fuzz.sh: $((SECONDS - started)) s to build"
build/fuzz/bin/fuzz_make_corpus build/fuzz/corpus

# fuzz TARGET: runs one target; its log is shown if it fails.
fuzz() {
  local target=$1 folder=build/fuzz/findings/$1 log=build/fuzz/findings/$1.log
  mkdir -p "$folder"
  # Inputs of 64 KiB reach all there is; 10 s and 1 GiB for one of them would be a finding.
  local options=("-max_total_time=$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1
    "-artifact_prefix=$folder/")
  if ! "build/fuzz/bin/fuzz_$target" "${options[@]}" "build/fuzz/corpus/$target" >"$log" 2>&1; then
    grep -vE '^#[0-9]+' "$log" | tail -n 60 >&2
    echo "fuzz.sh: $target: FAILED, see $folder and $log" >&2
    return 1
  fi
  echo "fuzz.sh: $target: $(sed -nE 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s, no finding"
}
export -f fuzz
export seconds UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
# shellcheck disable=SC2016  # the target's name is for the inner shell to expand
printf '%s\n' "${targets[@]}" | xargs -n 1 -P "$(nproc)" bash -c 'fuzz "$1"' fuzz
