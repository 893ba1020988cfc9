#!/usr/bin/env bash
# Fuzzes the parsers of files and messages, and the exchange, for a limited time.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/dev/fuzz.sh [--seconds N | --replay] [--corpus DIR] [TARGET...]

Builds the libFuzzer targets of tests/fuzz with clang, address and undefined-behaviour sanitizers, and runs each for a
while, as many at a time as there are cores. Starts from small valid files; what is found on the way is kept in
DIR/TARGET, so a later run continues from there: the smallest set of inputs that reaches all that was reached. An input that
fails is left in build/fuzz/findings/TARGET; build/fuzz/bin/fuzz_TARGET FILE runs it again.

  --seconds N   time for each target (default: 60)
  --replay      only what DIR and the small valid files hold, once; ctest runs that too (fuzz.replay), built by the usual
                compiler
  --corpus DIR  what is kept (default: the environment variable TERNGRAD_FUZZ_CORPUS, if that is not set build/fuzz/corpus)
  --help        print this text and exit

Targets: checkpoint, cifar10, codec, codec_spec, compressed, encoded, exchange, gradient, idx, image_example, jpeg,
message, npy, png, record_index, tfrecord (default: all)
TEXT
}

all_targets=(checkpoint cifar10 codec codec_spec compressed encoded exchange gradient idx image_example jpeg message npy png record_index
             tfrecord)
targets=()
seconds=
replay=false
corpus=${TERNGRAD_FUZZ_CORPUS:-}
while (($# > 0)); do
  case $1 in
    --seconds | --corpus)
      if (($# < 2)); then
        echo "fuzz.sh: $1: a value is missing" >&2
        exit 2
      fi
      set -- "$1=$2" "${@:3}"
      continue
      ;;
    --seconds=*)
      seconds=${1#*=}
      if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
        echo "fuzz.sh: --seconds: '$seconds' is refused, expected a positive number" >&2
        exit 2
      fi
      ;;
    --corpus=*)
      corpus=${1#*=}
      if [[ -z $corpus ]]; then
        echo "fuzz.sh: --corpus: '' is refused, expected a folder" >&2
        exit 2
      fi
      ;;
    --replay) replay=true ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      if [[ " ${all_targets[*]} " != *" $1 "* ]]; then
        echo "fuzz.sh: unknown argument '$1'; accepted: --seconds, --replay, --corpus, --help, ${all_targets[*]}" >&2
        exit 2
      fi
      targets+=("$1")
      ;;
  esac
  shift
done
if ((${#targets[@]} == 0)); then targets=("${all_targets[@]}"); fi
if $replay && [[ -n $seconds ]]; then
  echo "fuzz.sh: --seconds: '$seconds' is refused with --replay, which does not fuzz" >&2
  exit 2
fi
seconds=${seconds:-60}
if [[ -n $corpus ]]; then corpus=$(realpath -m -- "$corpus"); fi

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scripts/install_deps.sh --fuzz
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
# The cache size of scripts/test.sh: a smaller limit would evict its objects.
if [[ -z ${CCACHE_MAXSIZE-} && $(ccache --get-config max_size 2>/dev/null) == 5.0* ]]; then export CCACHE_MAXSIZE=15G; fi
started=$SECONDS
cmake --preset fuzz
cmake --build --preset fuzz --parallel "$(nproc)"
echo "fuzz.sh: $((SECONDS - started)) s to build"
seeds=build/fuzz/seeds
build/fuzz/bin/fuzz_make_corpus "$seeds"
corpus=${corpus:-$PWD/build/fuzz/corpus}

# run TARGET ARGUMENT...: runs one target and shows its log if it fails. Inputs of 64 KiB reach all code; an input that takes
# 10 s or 1 GiB counts as a finding.
run() {
  local target=$1 folder=build/fuzz/findings/$1 log=build/fuzz/findings/$1.log
  shift
  mkdir -p "$folder"
  local options=(-max_len=65536 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 "-artifact_prefix=$folder/")
  if ! "build/fuzz/bin/fuzz_$target" "${options[@]}" "$@" >"$log" 2>&1; then
    grep -vE '^#[0-9]+' "$log" | tail -n 60 >&2
    echo "fuzz.sh: $target: FAILED, see $folder and $log" >&2
    return 1
  fi
}

# shrink TARGET: minimizes the corpus, keeping its coverage.
shrink() {
  local kept=$corpus/$1 smaller
  if [[ -z $(ls "$kept") ]]; then return; fi
  smaller=$(mktemp -d "$corpus/.$1.XXXXXX")
  if run "$1" -merge=1 "$smaller" "$kept"; then
    rm -rf "$kept"
    mv "$smaller" "$kept"
  else
    rm -rf "$smaller"
    return 1
  fi
}

# fuzz TARGET: replays the corpus, or fuzzes from it for a limited time.
fuzz() {
  local target=$1 did
  mkdir -p "$corpus/$target"
  if $replay; then
    run "$target" -runs=0 "$corpus/$target" "$seeds/$target" || return 1
    did=replayed
  else
    run "$target" "-max_total_time=$seconds" "$corpus/$target" "$seeds/$target" || return 1
    did="in $seconds s"
  fi
  echo "fuzz.sh: $target: $(sed -nE 's/^stat::number_of_executed_units: *//p' "build/fuzz/findings/$target.log") inputs $did, no finding"
  if ! $replay; then shrink "$target"; fi
}
export -f fuzz run shrink
export corpus replay seconds seeds UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
# shellcheck disable=SC2016  # the target's name is for the inner shell to expand
printf '%s\n' "${targets[@]}" | xargs -n 1 -P "$(nproc)" bash -c 'fuzz "$1"' fuzz
