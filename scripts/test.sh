#!/usr/bin/env bash
# Builds one preset and runs its tests.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/test.sh [PRESET] [--all] [--targets "TARGET ..."] [CTEST-OPTION...]

Installs what is missing, builds the preset in build/PRESET and runs its tests except slow ones. Presets:

  ci (default)  optimised, warnings are errors, ccache
  asan          address and undefined-behaviour sanitizers
  tsan          thread sanitizer
  debug, release

  --all        slow tests too, and in ci those that need a GPU compiled
  --targets T  builds these targets only; none if T is empty

Further arguments go to ctest, for example: scripts/test.sh ci -L '^nets_test$' (tests/README.md has the labels, and how to run one
case). TERNGRAD_TEST_SEED, 1 to 99999, draws the order of the cases in a process; by default it is that of the commit. The
last line counts cases: N passed, N failed, N skipped.
TEXT
}

preset=ci
case ${1-} in
  --help | -h)
    usage
    exit 0
    ;;
  ci | asan | tsan | debug | release)
    preset=$1
    shift
    ;;
  "" | -*) ;;
  *)
    echo "test.sh: unknown preset '$1'; accepted: ci, asan, tsan, debug, release" >&2
    exit 2
    ;;
esac
configure_options=(-DTERNGRAD_BUILD_TESTS=ON) # which release leaves out
targets=(all)
selection=(-LE '^slow$')
while true; do
  case ${1-} in
    --all)
      selection=()
      if [[ $preset == ci ]]; then configure_options+=(-DTERNGRAD_GPU_TESTS=ON); fi
      ;;
    --targets)
      read -ra targets <<<"${2-}"
      shift
      ;;
    *) break ;;
  esac
  shift
done
# Explicit labels override the default selection.
for argument in "$@"; do
  if [[ $argument == -L* || $argument == --label* ]]; then selection=(); fi
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/install_deps.sh --test
jobs=$(nproc)
# Some tests mostly wait for processes and timeouts: with one test per processor a third of the time was idle.
tests_at_once=$((jobs + (jobs + 1) / 2))

run=()
if [[ $preset == tsan ]]; then
  # oneDNN's OpenMP is not instrumented; a single thread avoids false reports.
  export OMP_NUM_THREADS=1
  # The sanitizer's runtime does not start on kernels that randomise more address bits than it expects.
  if setarch "$(uname -m)" -R true 2>/dev/null; then run=(setarch "$(uname -m)" -R); fi
  # At exit, programs with threads sleep for this long (default: 1 s) to detect races of running threads with the exit. Our
  # threads have ended by then, and the emulation's fibers do not run.
  export TSAN_OPTIONS=${TSAN_OPTIONS-atexit_sleep_ms=20}
fi
export UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}

# Let clones in different folders share compiled objects, and avoid preprocessing.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
# Objects of all presets exceed the default cache size of 5 GB; a user's setting is kept.
if [[ -z ${CCACHE_MAXSIZE-} && $(ccache --get-config max_size 2>/dev/null) == 5.0* ]]; then export CCACHE_MAXSIZE=15G; fi

started=$SECONDS
cmake --preset "$preset" "${configure_options[@]}"
# With TERNGRAD_TEST_SHARDS=OFF programs list their tests during the build, which therefore runs in the sanitizer's environment.
if ((${#targets[@]} > 0)); then
  "${run[@]}" cmake --build --preset "$preset" --parallel "$jobs" --target "${targets[@]}"
fi
built=$SECONDS

# Test cases run in random order; the seed depends on the commit, so that a failure can be repeated.
commit=$(git rev-parse --short=8 HEAD 2>/dev/null || echo 0)
export TERNGRAD_TEST_SEED=${TERNGRAD_TEST_SEED-$((16#$commit % 99999 + 1))}

# A quick run takes only one of resume_test's kinds of failures, chosen by the number of commits.
if ((${#selection[@]} > 0)); then
  export TERNGRAD_RESUME_TURN=${TERNGRAD_RESUME_TURN-$(git rev-list --count HEAD 2>/dev/null || echo 0)}
fi

results=$PWD/build/$preset/Testing
rm -rf "$results/cases" "$results/entries.xml"
status=0
"${run[@]}" ctest --preset "$preset" --parallel "$tests_at_once" --no-tests=error --output-junit "$results/entries.xml" \
  "${selection[@]}" "$@" || status=$?

echo "test.sh ($preset): $((built - started)) s to build, $((SECONDS - built)) s to test in the order of TERNGRAD_TEST_SEED=$TERNGRAD_TEST_SEED"
# The file is missing if ctest rejected its arguments.
if [[ -f $results/entries.xml ]]; then python3 tests/support/count_cases.py "$results/entries.xml" "$results/cases" || status=1; fi
exit "$status"
