#!/usr/bin/env bash
# Checks that need no test run: formatting, clang-tidy, and rules about folders.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/dev/lint.sh [--fast | --all | --fix]

  --fast  everything except clang-tidy, which takes minutes where much has changed
  --all   also clang's static analyzer, which takes three times as long
  --fix   no checks: reformats all sources with clang-format
  --help  print this text and exit
TEXT
}

fast=false
fix=false
tidy_options=()
if (($# > 1)); then
  echo "lint.sh: one option at a time, got: $*" >&2
  exit 2
fi
case ${1-} in
  "") ;;
  --fast) fast=true ;;
  --all) tidy_options=(--all) ;;
  --fix) fix=true ;;
  --help | -h)
    usage
    exit 0
    ;;
  *)
    echo "lint.sh: unknown option '$1'; accepted: --fast, --all, --fix, --help" >&2
    exit 2
    ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scripts/install_deps.sh --lint

# Files of the working tree, including untracked ones; deleted files are still in git's index.
list_files() {
  git ls-files --cached --others --exclude-standard -- "$@" | while IFS= read -r file; do
    if [[ -f $file ]]; then echo "$file"; fi
  done
}
mapfile -t cpp_files < <(list_files '*.h' '*.c' '*.cpp' '*.cu' '*.cuh')
mapfile -t sources < <(list_files {kernels,compress,nets,datasets,trainers}/'*.cpp' {kernels,nets,datasets,trainers}/'*.cu')
mapfile -t shell_files < <(list_files 'scripts/*.sh' '.ci/run')

if $fix; then
  clang-format -i "${cpp_files[@]}"
  exit 0
fi

num_failures=0
fail() {
  echo "lint.sh: $*" >&2
  num_failures=$((num_failures + 1))
}

check_format() {
  local output differing
  output=$(clang-format --dry-run -Werror "${cpp_files[@]}" 2>&1) && return
  differing=$(sed -nE 's/^([^:]+):[0-9]+:[0-9]+: error: code should be clang-formatted.*/\1/p' <<<"$output" | sort -u)
  fail "layout differs (scripts/dev/lint.sh --fix repairs it): ${differing:-$output}"
}

# Sources without a test of their name, with the reason.
is_exempt_from_tests() {
  case $1 in
    kernels/codes/cpu/ternarize_chunk.cpp) return 0 ;; # inner loop of kernels/codes/ternarize, tested there on every SIMD target
    nets/cuda/*layer.cpp | nets/cuda/pool_layers.cpp) return 0 ;; # all in nets/cuda/cuda_net, tested there beside a reference
    nets/cuda/pass_runner.cpp) return 0 ;;       # the inside of nets/cuda/cuda_net
    trainers/loop/device_replica.cpp) return 0 ;;     # the inside of trainers/device_trainer
    trainers/run/device_factory.cpp | trainers/run/device_replica_factory.cpp) return 0 ;; # tested as trainers/train_on_gpu
    trainers/run/run_start.cpp) return 0 ;;      # tested as trainers/commands/train_resume
    trainers/run/train_run.cpp | trainers/run/train_rank.cpp | trainers/run/run_reports.cpp) return 0 ;; # tested as the command
    trainers/optim/*worker_gradients.c*) return 0 ;; # what trainers/optim/gradient_transform is made of, tested there
    trainers/optim/moments.cpp) return 0 ;;           # the base of trainers/optim/adam and nadam, tested there
    trainers/loop/trainer.cpp) return 0 ;;            # the base of trainers/host_trainer and device_trainer, tested there
    compress/codec/*coder.cpp | compress/codecs/*coder.cpp) return 0 ;;     # the work of codecs, tested as these and in exchanges, on either device
    compress/codec/block_codec.cpp) return 0 ;; # the base of codecs, tested as these
    */cuda/stub.cpp) return 0 ;;                 # in builds without CUDA, where no device leads to it
    *) return 1 ;;
  esac
}

# Every source x.cpp has tests/<folder>/x_test.cpp. One test serves an operation and its implementation in a backend's
# folder (kernels/codes/ternarize.cpp and kernels/codes/cpu/ternarize.cpp); a file that only a backend has may have its test in
# that backend's folder. A CUDA source has its own test, which compares it with the CPU's. Main programs are tested through the
# commands.
check_tests_mirror_sources() {
  local source folder name test
  for source in "${sources[@]}"; do
    folder=$(dirname "$source")
    name=$(basename "${source%.*}")
    if [[ -f tests/$folder/${name}_test.cpp ]]; then continue; fi
    test=tests/$(dirname "$folder")/${name}_test.cpp
    # The test of a CUDA source must use testing::CudaTest.
    if [[ -f $test ]] && { [[ $source != *.cu ]] || grep -q 'testing::CudaTest' "$test"; }; then continue; fi
    if is_exempt_from_tests "$source" || grep -qE '^int main\(' "$source"; then continue; fi
    fail "$source has no tests/$folder/${name}_test.cpp"
  done
}

# Tests that no CMakeLists.txt lists are never compiled.
check_tests_are_registered() {
  local test name
  while IFS= read -r test; do
    name=$(basename "$test" _test.cpp)
    if ! list_files 'tests/*CMakeLists.txt' | xargs grep -qE "(^|[ /])$name(_test\.cpp)?([ )]|\$)"; then
      fail "$test is in no CMakeLists.txt"
    fi
  done < <(list_files 'tests/*_test.cpp')
}

# Each test has its own namespace, named after the file, because several tests are compiled together.
check_test_namespaces() {
  local test
  while IFS= read -r test; do
    if ! grep -qE "^namespace terngrad::([a-z_]+::)?([a-z]+_)?$(basename "$test" .cpp) \{$" "$test"; then
      fail "$test has no namespace terngrad::$(basename "$test" .cpp)"
    fi
  done < <(list_files 'tests/*_test.cpp')
}

# Includes only go to lower libraries.
check_includes() {
  local file folder allowed included wrong
  for file in "${cpp_files[@]}"; do
    folder=${file%%/*}
    case $folder in
      kernels) allowed='kernels' ;;
      compress | nets | datasets) allowed="kernels|$folder" ;;
      trainers) allowed='kernels|compress|nets|datasets|trainers' ;;
      python) allowed='kernels|compress|python' ;;
      capi) allowed='kernels|compress|capi' ;;
      *) continue ;; # bench, tests and experiments may include everything
    esac
    wrong=$(grep -nE '^ *# *include "' "$file" | grep -vE "include \"($allowed)/" || true)
    if [[ -n $wrong ]]; then fail "$file may include from $allowed only, by paths from the root: $wrong"; fi
    # Headers in a backend's folder are internal to the folder above it, except that all CUDA sources may use kernels' .cuh files.
    while IFS= read -r included; do
      if [[ $file == */cuda/* && $included == kernels/*/cuda/*.cuh ]]; then continue; fi
      if [[ ${included%%/*} != "$folder" ]]; then fail "$file includes $included, which is internal"; fi
    done < <(sed -nE 's,^ *# *include "([a-z_/]+/(cpu|cuda|common)/[^"]*)".*,\1,p' "$file")
  done
}

# Floors of rooms, circles of includes, and crowded folders.
check_rooms() {
  scripts/dev/check_rooms.py || fail "check_rooms.py found something"
}

# A comment is a sentence with a subject, or a noun of the field.
check_comments() {
  local found
  found=$(list_files '*.h' '*.cpp' '*.cu' '*.cuh' '*.c' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' '.ci/run' |
    xargs -d '\n' grep -nE '^\s*(///?|#|""") *(Of|What|Whether|That which)\b' || true)
  if [[ -n $found ]]; then fail "begin these comments with a subject, or with a noun of the field: $found"; fi
}

check_open_ends() {
  local found
  found=$(list_files '*.h' '*.cpp' '*.cu' '*.cuh' '*.cmake' '*CMakeLists.txt' '*.sh' '*.md' '.ci/run' |
    xargs -d '\n' grep -nwE 'TO[D]O|FIX[M]E|X[X]X' || true)
  if [[ -n $found ]]; then fail "finish these, or open an issue and cite it: $found"; fi
}

# Links in documents lead to files of the project.
check_links() {
  local file target
  while IFS= read -r file; do
    while IFS= read -r target; do
      if [[ ! -e $(dirname "$file")/$target ]]; then fail "$file links to $target, which is not there"; fi
    done < <(grep -oE '\]\([A-Za-z0-9_./-]+(#[^) ]*)?\)' "$file" | sed -E 's/^..//; s/(#.*)?\)$//' | grep '[./]')
  done < <(list_files '*.md')
}

# Subjects of the newest commits: the room first, at most 72 characters.
check_commit_subjects() {
  local subject
  while IFS= read -r subject; do
    if ((${#subject} > 72)); then fail "commit subject of ${#subject} characters, at most 72: $subject"; fi
    if [[ ! $subject =~ ^[a-z_/]+(,\ [a-z_/]+)*:\ [^\ ] ]]; then fail "commit subject without its room (compress: ...): $subject"; fi
  done < <(git log -20 --no-merges --format=%s 2>/dev/null)
}

check_scripts() {
  local script
  for script in "${shell_files[@]}"; do
    bash -n "$script" || fail "$script does not parse"
    # Scripts without #! are sourced by others.
    if [[ ! -x $script && $(head -c 2 "$script") == '#!' ]]; then fail "$script is not executable"; fi
  done
  shellcheck "${shell_files[@]}" || fail "shellcheck found something"
}

check_tidy() {
  cmake --preset ci >/dev/null
  cmake --build --preset ci --target terngrad_generated >/dev/null # headers that sources include
  scripts/dev/tidy.py "${tidy_options[@]}" build/ci/compile_commands.json || fail "clang-tidy found something"
}

run_check() {
  local started=$SECONDS
  "$1"
  echo "lint.sh: $1 took $((SECONDS - started)) s"
}

run_check check_format
run_check check_tests_mirror_sources
run_check check_tests_are_registered
run_check check_test_namespaces
run_check check_includes
run_check check_rooms
run_check check_comments
run_check check_open_ends
run_check check_links
run_check check_commit_subjects
run_check check_scripts
if ! $fast; then run_check check_tidy; fi

if ((num_failures > 0)); then
  echo "lint.sh: $num_failures failed" >&2
  exit 1
fi
echo "lint.sh: all passed"
