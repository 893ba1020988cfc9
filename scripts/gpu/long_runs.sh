#!/usr/bin/env bash
# Runs the experiments' driver on a machine that is available for minutes at a time and receives files in parts.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/gpu/long_runs.sh cut MIB PARTS_DIR FILE_OR_DIR...
       scripts/gpu/long_runs.sh keep PARTS_DIR
       scripts/gpu/long_runs.sh run OUT_DIR SECONDS DRIVER_ARGUMENT...

cut   here: packs a bundle (bundle.sh --trainings --pack), a folder of packed images named `images` (pack_images.py pack), and a
      folder named `runs` of an earlier loan, if there is one; cuts them into PARTS_DIR/part-aa, part-ab, ... of MIB MiB
keep  there, in each call but the last too: takes the parts in PARTS_DIR to ${TMPDIR:-/tmp}/terngrad-long-runs
run   there, in the last call: joins the parts, unpacks them, and runs experiments/terngrad_experiment.py run DRIVER_ARGUMENT...
      --device cuda on them. After SECONDS runs are stopped and saved. OUT_DIR gets results.jsonl, the driver's output, and
      the driver's folder, with the newest checkpoint of each unfinished run, cut into runs-aa, runs-ab, ... of 15 MiB, from
      which `cat runs-* | tar -x` makes the folder `runs` again

Exit codes: 0 all runs have ended, 1 something failed, 2 wrong usage, 124 runs were stopped and can be continued.
TEXT
}

refuse() {
  echo "long_runs.sh: $*" >&2
  exit 2
}
positive() {
  if [[ ! ${2-} =~ ^[1-9][0-9]*$ ]]; then refuse "$1: '${2-}' is refused, expected a positive number"; fi
}

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=${TMPDIR:-/tmp}/terngrad-long-runs

cut_parts() {
  positive MIB "${1-}"
  if (($# < 3)); then refuse "cut: needs MIB, PARTS_DIR and something to pack"; fi
  local mib=$1 parts=$2 path names=()
  shift 2
  for path in "$@"; do
    if [[ ! -e $path ]]; then refuse "cut: there is no '$path'"; fi
    names+=(-C "$(realpath "$(dirname "$path")")" "$(basename "$path")")
  done
  mkdir -p "$parts"
  if [[ -n $(ls -A "$parts") ]]; then refuse "PARTS_DIR '$parts': is not empty"; fi
  tar --owner=0 --group=0 --numeric-owner -cf - "${names[@]}" | split -b "${mib}M" - "$parts/part-"
  du -h --apparent-size "$parts"/part-*
}

keep_parts() {
  if [[ ! -d ${1-} ]]; then refuse "keep: there is no folder '${1-}'"; fi
  mkdir -p "$work"
  mv "$1"/part-* "$work/"
  echo "long_runs.sh: in $work: $(cd "$work" && echo part-*)"
}

# Packs the driver's files for the next session; of each unfinished run only the newest checkpoint.
pack_runs() {
  local run checkpoints keep parts out=$1
  if [[ ! -d $work/runs ]]; then return; fi
  if [[ -f $work/runs/results.jsonl ]]; then cp "$work/runs/results.jsonl" "$out/"; fi
  while IFS= read -r run; do
    mapfile -t checkpoints < <(find "$run" -maxdepth 1 -name 'checkpoint-*.safetensors' | sort -rV)
    keep=1
    # Finished runs need no checkpoint: the driver recognizes them by their last evaluation.
    if is_finished "$run"; then keep=0; fi
    if ((${#checkpoints[@]} > keep)); then rm "${checkpoints[@]:keep}"; fi
  done < <(find "$work/runs" -name config.json -printf '%h\n')
  # A run that did not end in time may still write.
  tar -C "$work" --warning=no-file-changed --exclude 'events.out.*' -cf - runs | split -b 15M - "$out/runs-"
  parts=$(find "$out" -name 'runs-*' | wc -l)
  if ((parts > 6)); then echo "long_runs.sh: $parts parts came of the runs: let fewer of them begin in one loan" >&2; fi
}
is_finished() {
  python3 - "$1" <<'PYTHON'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
steps = int(json.loads((folder / "config.json").read_text())["identity"]["max_steps"])
lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines() if line.endswith("}")]
sys.exit(0 if any(line.get("kind") == "test" and line["step"] == steps for line in lines) else 1)
PYTHON
}

run_driver() {
  if (($# < 3)); then refuse "run: needs OUT_DIR, SECONDS and what the driver is to run"; fi
  positive SECONDS "$2"
  local out=$1 seconds=$2 bundle rc=0
  shift 2
  if ! compgen -G "$work/part-*" >/dev/null; then refuse "run: $work has no parts; see keep"; fi
  mkdir -p "$out" "$work/bundle" "$work/data"
  cat "$work"/part-* | tar -C "$work" -xf -
  rm "$work"/part-*
  # Python may support xz if tar does not.
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r|xz").extractall(sys.argv[2])' "$work"/*.tar.xz "$work/bundle"
  bundle=$(dirname "$work"/bundle/*/MANIFEST)
  if [[ -d $work/images ]]; then python3 "$source/scripts/gpu/pack_images.py" unpack "$work/images" "$work/data/cifar10"; fi
  LD_LIBRARY_PATH=$("$bundle/run" --library_path terngrad_train)
  export LD_LIBRARY_PATH
  timeout -k 30 -s INT "$seconds" python3 "$source/experiments/terngrad_experiment.py" --programs "$bundle/bin" --data "$work/data" \
    --out "$work/runs" run --device cuda "$@" 2>&1 | tee "$out/driver.log" || rc=$?
  pack_runs "$out" || echo "long_runs.sh: what the runs left could not be packed" >&2
  return "$rc"
}

case ${1-} in
  cut) cut_parts "${@:2}" ;;
  keep) keep_parts "${@:2}" ;;
  run) run_driver "${@:2}" ;;
  --help | -h) usage ;;
  *) refuse "'${1-}' is refused; accepted: cut, keep, run, --help" ;;
esac
