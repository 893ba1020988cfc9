# shellcheck shell=bash
# Stages of .ci/run and scripts/check_all.sh: runs commands and records wall time and CPU seconds. Source it in the root.

# Fuzzing extends this corpus, and tests replay it.
export TERNGRAD_FUZZ_CORPUS=${TERNGRAD_FUZZ_CORPUS-${XDG_CACHE_HOME:-$HOME/.cache}/terngrad-fuzz}

stage_logs=$(mktemp -d)
trap 'rm -rf "$stage_logs"' EXIT
stage_times=()
stage_failures=()
stages_started=$SECONDS

# child_cpu VARIABLE: user and system seconds of all ended children. (A subshell would count only its own.)
child_cpu() {
  times >"$stage_logs/times"
  printf -v "$1" '%s' "$(awk 'NR == 2 { gsub(/[ms]/, " "); printf "%d", 60 * $1 + $2 + 60 * $3 + $4 }' "$stage_logs/times")"
}

# run_stage NAME COMMAND...: runs a command, shows and saves its output, and records its time. A failure is remembered for
# finish_stages, so that one run reports all failures.
run_stage() {
  local name=$1 started=$SECONDS before after verdict=passed
  shift
  child_cpu before
  echo "=== $name: $*"
  if ! "$@" 2>&1 | tee "$stage_logs/$name"; then
    verdict=FAILED
    stage_failures+=("$name")
  fi
  child_cpu after
  stage_times+=("$(printf '%-10s %5d s wall  %5d s CPU  %s' "$name" $((SECONDS - started)) $((after - before)) "$verdict")")
  echo "=== ${stage_times[-1]}"
}

# Prints the table of stages. Fails if a stage has failed.
finish_stages() {
  local all
  child_cpu all
  echo
  printf '%s\n' "${stage_times[@]}"
  printf '%-10s %5d s wall  %5d s CPU\n' total $((SECONDS - stages_started)) "$all"
  if ((${#stage_failures[@]} > 0)); then
    echo "failed: ${stage_failures[*]}" >&2
    return 1
  fi
}

# build_against PREFIX FOLDER PROGRAM: builds a program outside the project against an installed package and runs it.
build_against() {
  local build=$stage_logs/$3-build
  # Joined by &&, because set -e is disabled in a function whose exit code is tested.
  cmake -S "$2" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$1" &&
    cmake --build "$build" &&
    "$build/$3"
}

# run_c_program PREFIX: builds a C program against an installed library without CMake, and runs it.
run_c_program() {
  local text flags
  text=$(PKG_CONFIG_PATH=$1/lib/pkgconfig pkg-config --cflags --libs terngrad) &&
    read -ra flags <<<"$text" &&
    cc -std=c99 -pedantic -Wall -Wextra -Werror examples/c/mean.c "${flags[@]}" "-Wl,-rpath,$1/lib" -lm -o "$stage_logs/mean" &&
    "$stage_logs/mean"
}

# Installs the ci build and uses it from other programs: for compression only, for training, and from C.
check_consumers() {
  cmake --install build/ci --prefix "$stage_logs/prefix" >/dev/null &&
    build_against "$stage_logs/prefix" tests/consumer consumer &&
    build_against "$stage_logs/prefix" docs/examples/own_net own_net &&
    build_against "$stage_logs/prefix" docs/examples/own_training own_training &&
    build_against "$stage_logs/prefix" examples/c mean &&
    run_c_program "$stage_logs/prefix"
}
