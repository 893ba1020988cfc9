#!/usr/bin/env bash
# Checks programs built with CUDA on a machine with a GPU: tests, sanitizers, benchmarks, trainings, and a report.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/gpu_check.sh [OPTION...]

Runs what needs a GPU, from a build folder or from a bundle (scripts/bundle.sh), and reports. A part that fails or takes
too long does not stop the others.

  --build DIR         build folder (default: build/release, else build/ci); not in a bundle, which has its own programs
  --out DIR           where report.json, report.md, log.txt and bench*.json go (default: runs/gpu-check-DATE); they are
                      kept up to date from part to part
  --quick             fewer benchmarks (those with a target), one sanitizer, shorter trainings
  --parts LIST        of tests,targets,trainings,sanitizers,bench (default: all, in this order)
  --time_limit SECS   for all parts together: what is then left is cut off or not run (default: none)
  --mnist DIR         folder with MNIST (default: data/mnist if it is there, else the built-in data set)
  --cifar10 DIR       folder with CIFAR-10 (default: data/cifar10 if it is there, else constant images)
  --require_targets   a benchmark that misses its target is a failure too
  --help              print this text and exit

Exit codes: 0 all passed, 1 something failed, 2 wrong usage, no GPU, or something missing that the check itself needs.
TEXT
}

refuse() {
  echo "gpu_check.sh: $*" >&2
  exit 2
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=
out=
quick=false
parts=tests,targets,trainings,sanitizers,bench
time_limit=
mnist=
cifar10=
report_options=()
while (($# > 0)); do
  option=${1%%=*}
  case $option in
    --build | --out | --parts | --time_limit | --mnist | --cifar10)
      if [[ $1 == *=* ]]; then
        value=${1#*=}
      else
        value=${2-}
        shift
      fi
      if [[ -z $value ]]; then refuse "$option: needs a value"; fi
      printf -v "${option#--}" '%s' "$value"
      ;;
    --quick) quick=true ;;
    --require_targets) report_options=(--require_targets) ;;
    --help | -h)
      usage
      exit 0
      ;;
    *) refuse "unknown option '$1'; see --help" ;;
  esac
  shift
done
for part in ${parts//,/ }; do
  if [[ ! $part =~ ^(tests|targets|trainings|sanitizers|bench)$ ]]; then
    refuse "--parts: '$part' is unknown; accepted: tests, targets, trainings, sanitizers, bench"
  fi
done
if [[ -n $time_limit && ! $time_limit =~ ^[1-9][0-9]*$ ]]; then
  refuse "--time_limit: '$time_limit' is refused, expected a positive number of seconds"
fi
# The folder's absolute path; this script goes elsewhere.
folder_of() { (cd "$2" 2>/dev/null && pwd) || refuse "$1: there is no folder '$2'"; }
if [[ -n $mnist ]]; then mnist=$(folder_of --mnist "$mnist"); fi
if [[ -n $cifar10 ]]; then cifar10=$(folder_of --cifar10 "$cifar10"); fi
# Where scripts/download_data.sh puts them.
if [[ -z $mnist && -d $root/data/mnist ]]; then mnist=$root/data/mnist; fi
if [[ -z $cifar10 && -d $root/data/cifar10 ]]; then cifar10=$root/data/cifar10; fi
for tool in python3 timeout; do
  if ! command -v "$tool" >/dev/null; then refuse "$tool is missing"; fi
done

if [[ -f $root/MANIFEST && -x $root/run ]]; then
  if [[ -n $build ]]; then refuse "--build: this is a bundle, which has its own programs"; fi
  bin=$root/bin
  launch() { echo "$root/run"; }
  # The environment that a bundled program runs in.
  library_path() { "$root/run" --library_path "$1"; }
else
  if [[ -z $build ]]; then
    build=$root/build/release
    if [[ ! -x $build/bin/terngrad_bench ]]; then build=$root/build/ci; fi
  fi
  bin=$(cd "$build/bin" 2>/dev/null && pwd) || refuse "--build: '$build' has no bin/; build there first"
  launch() { :; }
  library_path() { echo "${LD_LIBRARY_PATH-}"; }
fi
if [[ ! -x $bin/terngrad_bench ]]; then refuse "$bin has no terngrad_bench; build it first"; fi

# program NAME: words of a command that runs a program of the build or the bundle, in the array `command`.
program() {
  if [[ -n $(launch) ]]; then command=("$(launch)" "$1"); else command=("$bin/$1"); fi
}

program terngrad_bench
if ! gpu=$(timeout -k 5 60 "${command[@]}" --gpu 2>&1); then
  echo "gpu_check.sh: no GPU to check on: ${gpu#terngrad_bench: error: no GPU: }" >&2
  exit 2
fi

out=${out:-$root/runs/gpu-check-$(date +%Y%m%d-%H%M%S)}
mkdir -p "$out"
out=$(cd "$out" && pwd)
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
: >"$out/log.txt"
: >"$state/parts.tsv"
started=$SECONDS
# Tests read documents by their paths from here.
cd "$root"

# What the report says of the machine.
describe_machine() {
  printf 'gpu\t%s\n' "$gpu"
  printf 'programs\t%s\n' "$("${command[@]}" --version 2>&1)"
  printf 'date\t%s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
  printf 'system\t%s\n' "$(uname -srm)"
  printf 'processor\t%s, %s threads\n' "$(sed -nE 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)"
  printf 'memory\t%s\n' "$(sed -nE 's/^MemTotal: *([0-9]+) kB/\1 KiB/p' /proc/meminfo)"
  if command -v nvidia-smi >/dev/null; then
    printf 'nvidia-smi\t%s\n' "$(timeout -k 5 30 nvidia-smi --format=csv,noheader \
      --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit 2>&1 | paste -sd ';')"
  fi
}
describe_machine >"$state/machine.tsv"

report() { python3 "$root/scripts/gpu_report.py" ${report_options[@]+"${report_options[@]}"} "$state" "$out"; }

# note KIND NAME RC SECONDS LIMIT TEXT: one line for the report. In place of an exit code: - for a part that cannot be run
# here, late for one that there was no time for; TEXT says why then, and else is the command.
note() { (
  IFS=$'\t'
  echo "$*"
) >>"$state/parts.tsv"; }

# part KIND NAME LIMIT COMMAND...: runs a command with a time limit and keeps its output and outcome.
part() {
  local kind=$1 name=$2 limit=$3 rc=0 began=$SECONDS
  shift 3
  if [[ -n $time_limit ]]; then
    local left=$((time_limit - (SECONDS - started)))
    if ((left < 5)); then
      note "$kind" "$name" late 0 "$limit" "--time_limit $time_limit was used up before it"
      return
    fi
    limit=$((left < limit ? left : limit))
  fi
  echo "gpu_check.sh: $name (at most $limit s): $*"
  timeout -k 10 "$limit" "$@" </dev/null >"$state/$name.log" 2>&1 || rc=$?
  {
    echo "===== $name: exit code $rc after $((SECONDS - began)) s: $*"
    cat "$state/$name.log"
  } >>"$out/log.txt"
  note "$kind" "$name" "$rc" $((SECONDS - began)) "$limit" "$*"
  if [[ -f $state/$name.bench.json ]]; then cp "$state/$name.bench.json" "$out/$name.json"; fi
  # The last one decides the exit code.
  report >/dev/null || true
}

# absent KIND NAME WHY: a part that cannot be run here, which is no failure.
absent() {
  echo "gpu_check.sh: $2: $3"
  note "$1" "$2" - 0 0 "$3"
}

run_tests() {
  local name
  # Layouts, options and gradients that a GPU and the CPU must give the same mean for.
  export TERNGRAD_RANDOM_LAYOUTS=${TERNGRAD_RANDOM_LAYOUTS-1000}
  for name in kernels_test contracts_test; do
    if [[ -x $bin/$name ]]; then
      program "$name"
      part tests "$name" 180 "${command[@]}" "--gtest_output=json:$state/$name.tests.json"
    else
      note tests "$name" 127 0 0 "$bin/$name is not there: build it"
    fi
  done
  # Those of other folders that use a GPU.
  for name in compress_test nets_test datasets_test trainers_test; do
    if [[ ! -x $bin/$name ]]; then continue; fi
    program "$name"
    if [[ $(timeout -k 5 60 "${command[@]}" --gtest_list_tests '--gtest_filter=*Cuda*' 2>/dev/null) != *Cuda* ]]; then continue; fi
    part tests "$name" 180 "${command[@]}" '--gtest_filter=*Cuda*' "--gtest_output=json:$state/$name.tests.json"
  done
}

# The rows that targets are stated for, by encoding and aggregation.
run_targets() {
  program terngrad_bench
  part bench bench_targets 180 "${command[@]}" "--benchmark_out=$state/bench_targets.bench.json" \
    '--benchmark_filter=^(encode_tensor|aggregate8_t2)/cuda/f32/(n:67108864/memory|n:[0-9]+/cache)|^encode_model/cuda/f32/lenet/cache'
}

run_bench() {
  if $quick; then return; fi
  program terngrad_bench
  part bench bench 480 "${command[@]}" '--benchmark_filter=/cuda/' "--benchmark_out=$state/bench.bench.json"
}

find_sanitizer() {
  local file
  for file in "$(command -v compute-sanitizer || true)" "${CUDA_HOME-}/bin/compute-sanitizer" /usr/local/cuda{,-*}/bin/compute-sanitizer; do
    if [[ $file == /* && -x $file ]]; then
      echo "$file"
      return
    fi
  done
}

run_sanitizers() {
  local sanitizer tool path limit=120 tools=(memcheck racecheck initcheck)
  if $quick; then
    tools=(memcheck)
    limit=90
  fi
  sanitizer=$(find_sanitizer)
  if [[ -z $sanitizer ]]; then
    absent sanitizer sanitizers "compute-sanitizer is not present on this machine"
    return
  fi
  path=$(library_path kernels_test)
  for tool in "${tools[@]}"; do
    # Tests of errors make calls that fail, on purpose.
    part sanitizer "$tool" "$limit" env ${path:+"LD_LIBRARY_PATH=$path"} "$sanitizer" --tool "$tool" --error-exitcode 9 \
      --print-limit 20 --report-api-errors no "$bin/kernels_test" '--gtest_filter=Cuda*'
  done
}

# training NAME LIMIT OPTIONS...: a training on the GPU.
training() {
  local name=$1 limit=$2
  shift 2
  program terngrad_train
  part training "$name" "$limit" "${command[@]}" --device cuda --train_dir "$state/$name.run" --tensorboard=false \
    --telemetry_steps 0 "$@"
}

run_trainings() {
  local steps=1000 cifar_steps=300 data
  if $quick; then
    steps=300
    cifar_steps=60
  fi
  if [[ ! -x $bin/terngrad_train ]]; then
    absent training trainings "terngrad_train is not there: trainings are not built"
    return
  fi
  program terngrad_train
  # The report sees where --device cuda is refused.
  if [[ $(timeout -k 5 60 "${command[@]}" --help 2>&1) != *--device* ]]; then
    absent training trainings "trainings on a GPU are not built: terngrad_train has no --device"
    return
  fi
  data=(--dataset synthetic)
  if [[ -n $mnist ]]; then data=(--dataset mnist --data_dir "$mnist"); fi
  training lenet_ternary 120 "${data[@]}" --grad_bits 1 --clip_factor 2.5 --num_nodes 8 --max_steps "$steps"
  training lenet_fp32 120 "${data[@]}" --max_steps "$steps"
  data=(--dataset cifar10 --benchmark_mode)
  if [[ -n $cifar10 ]]; then data=(--dataset cifar10 --data_dir "$cifar10"); fi
  training cifarnet_ternary 120 "${data[@]}" --grad_bits 1 --clip_factor 2.5 --num_nodes 2 --max_steps "$cifar_steps" \
    --log_steps 20
}

for part in ${parts//,/ }; do
  "run_$part"
done
report
