#!/usr/bin/env bash
# Runs all checks that do not need a GPU.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/check_all.sh [STAGE...]

Runs every check of the project: those of .ci/run, all slices, slow tests, and clang's static analyzer. To be run before a
release and whenever something larger is finished. Stages, all by default:

  test      all tests of the optimised build, those for GPUs compiled too, on several hosts where namespaces are allowed
  lint      layout, rules of folders, clang-tidy with the static analyzer
  asan      all tests under the address and undefined-behaviour sanitizers
  tsan      all tests under the thread sanitizer
  fuzz      every parser fuzzed for a minute, from the corpus kept so far
  consumer  programs that use the installed package; needs build/ci, which test makes

The commit that passed all of them is noted in ${XDG_CACHE_HOME:-~/.cache}/terngrad-check-all. A failure names the commits
since the last one that did.
TEXT
}

all_stages=(test lint asan tsan fuzz consumer)
stages=()
for argument in "$@"; do
  case $argument in
    --help | -h)
      usage
      exit 0
      ;;
    *)
      if [[ " ${all_stages[*]} " != *" $argument "* ]]; then
        echo "check_all.sh: unknown stage '$argument'; accepted: ${all_stages[*]}" >&2
        exit 2
      fi
      stages+=("$argument")
      ;;
  esac
done
if ((${#stages[@]} == 0)); then stages=("${all_stages[@]}"); fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
export CCACHE_DIR=${CCACHE_DIR-$HOME/.cache/ccache}
source scripts/dev/stages.sh
scripts/install_deps.sh --lint --fuzz --hosts --plot --formats --compare --python

for name in "${stages[@]}"; do
  case $name in
    test) run_stage test scripts/test.sh ci --all ;;
    lint) run_stage lint scripts/dev/lint.sh --all ;;
    asan | tsan) run_stage "$name" scripts/test.sh "$name" --all ;;
    fuzz) run_stage fuzz scripts/dev/fuzz.sh --seconds 60 ;;
    consumer) run_stage consumer check_consumers ;;
  esac
done

note=${XDG_CACHE_HOME:-$HOME/.cache}/terngrad-check-all
if ! finish_stages; then
  if last=$(cat "$note" 2>/dev/null) && git cat-file -e "$last" 2>/dev/null; then
    echo "commits since $last, the last one that passed:" >&2
    git log --oneline "$last..HEAD" >&2
  fi
  exit 1
fi
if [[ ${stages[*]} == "${all_stages[*]}" && -z $(git status --porcelain) ]]; then
  mkdir -p "$(dirname "$note")"
  git rev-parse HEAD >"$note"
fi
for name in test asan tsan; do
  if [[ -e $stage_logs/$name ]]; then grep -E '^[0-9]+ passed, [0-9]+ failed' "$stage_logs/$name" | tail -n 1; fi
done
