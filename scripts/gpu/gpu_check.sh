#!/usr/bin/env bash
# Checks programs built with CUDA on a machine with a GPU: tests, sanitizers, benchmarks, trainings, and a report.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/gpu/gpu_check.sh [OPTION...]

Runs what needs a GPU, from a build folder or from a bundle (scripts/gpu/bundle.sh), and reports. A part that fails or takes
too long does not stop the others.

  --build DIR         build folder (default: build/release; build/ci if that alone has tests); not in a bundle, which
                      has its own programs
  --out DIR           where report.json, report.md, log.txt and bench*.json go (default: runs/gpu-check-DATE); they are
                      kept up to date from part to part
  --quick             only the benchmarks with a target and those of training steps, one sanitizer, shorter trainings
  --parts LIST        of start,tests,repeats,moves,trainings,targets,steps,sanitizers,nccl,resume,processes,bench
                      (default: all, in this order)
  --piece N           the N-th piece of that, for machines that are lent for ten minutes at a time: 1 start,tests;
                      2 repeats,moves,trainings; 3 targets,steps; 4 sanitizers; 5 nccl,resume,processes; 6 bench; with
                      --time_limit 570
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

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=
out=
quick=false
all_parts=start,tests,repeats,moves,trainings,targets,steps,sanitizers,nccl,resume,processes,bench
pieces=("start,tests" "repeats,moves,trainings" "targets,steps" "sanitizers" "nccl,resume,processes" "bench")
piece=
parts=$all_parts
time_limit=
mnist=
cifar10=
report_options=()
while (($# > 0)); do
  option=${1%%=*}
  case $option in
    --build | --out | --parts | --piece | --time_limit | --mnist | --cifar10)
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
if [[ -n $piece ]]; then
  if [[ ! $piece =~ ^[1-9]$ ]] || ((piece > ${#pieces[@]})); then
    refuse "--piece: '$piece' is refused, expected a number from 1 to ${#pieces[@]}"
  fi
  if [[ $parts != "$all_parts" ]]; then refuse "--piece: leave out --parts, which says the same"; fi
  parts=${pieces[piece - 1]}
  time_limit=${time_limit:-570}
fi
for part in ${parts//,/ }; do
  if [[ -z $part || ,$all_parts, != *,$part,* ]]; then
    refuse "--parts: '$part' is unknown; accepted: ${all_parts//,/, }"
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
    # The preset release leaves tests out.
    if [[ ! -x $build/bin/terngrad_bench || (! -x $build/bin/kernels_test && -x $root/build/ci/bin/kernels_test) ]]; then
      build=$root/build/ci
    fi
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
  printf 'programs\t%s\n' "$("${command[@]}" --version 2>&1 | paste -sd ';')"
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

report() { python3 "$root/scripts/gpu/gpu_report.py" ${report_options[@]+"${report_options[@]}"} "$state" "$out"; }

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

# The first training: versions, engines, graphs, and a step that is replayed.
run_start() {
  if ! can_train training start; then return; fi
  train training start 120 cuda "${digits[@]}" "${ternary[@]}" --num_nodes 2 --max_steps 20
}

# Tests that use a GPU or its libraries, by name.
device_tests='*Cuda*:ConvolutionPlan*:CudnnGraph*:Libraries*'

run_tests() {
  local name
  # Layouts, options and gradients that a GPU and the CPU must give the same mean for.
  export TERNGRAD_RANDOM_LAYOUTS=${TERNGRAD_RANDOM_LAYOUTS-1000}
  for name in kernels_test contracts_test; do
    if [[ -x $bin/$name ]]; then
      program "$name"
      if [[ $(timeout -k 5 60 "${command[@]}" --gtest_list_tests "--gtest_filter=$device_tests" 2>/dev/null) != *Cuda* ]]; then
        note tests "$name" 127 0 0 "$bin/$name is compiled without its tests of a GPU: configure with -DTERNGRAD_GPU_TESTS=ON"
        continue
      fi
      part tests "$name" 180 "${command[@]}" "--gtest_output=json:$state/$name.tests.json"
    else
      note tests "$name" 127 0 0 "$bin/$name is not there: build it, with -DTERNGRAD_BUILD_TESTS=ON"
    fi
  done
  # Those of other folders that use a GPU, or its libraries.
  for name in compress_test nets_test datasets_test trainers_test; do
    if [[ ! -x $bin/$name ]]; then
      absent tests "$name" "it is not built"
      continue
    fi
    program "$name"
    if [[ $(timeout -k 5 60 "${command[@]}" --gtest_list_tests "--gtest_filter=$device_tests" 2>/dev/null) != *Cuda* ]]; then
      absent tests "$name" "it has no tests of a GPU"
      continue
    fi
    part tests "$name" 180 "${command[@]}" "--gtest_filter=$device_tests" "--gtest_output=json:$state/$name.tests.json"
  done
}

# NCCL itself with one rank: eager, captured, replayed, a graph destroyed and a communicator aborted in flight.
run_nccl() {
  program compress_test
  if [[ ! -x $bin/compress_test || $(timeout -k 5 60 "${command[@]}" --gtest_list_tests 2>/dev/null) != *CudaNcclOneRank* ]]; then
    absent tests nccl_one_rank "compress_test is not built with NCCL's tests of one rank"
    return
  fi
  part tests nccl_one_rank 120 "${command[@]}" '--gtest_filter=CudaNcclOneRank.*' \
    "--gtest_output=json:$state/nccl_one_rank.tests.json"
}

# The rows that targets are stated for, by encoding and aggregation.
run_targets() {
  program terngrad_bench
  part bench bench_targets 180 "${command[@]}" "--benchmark_out=$state/bench_targets.bench.json" \
    '--benchmark_filter=^(encode_tensor|aggregate8_t2)/cuda/f32/(n:67108864/memory|n:[0-9]+/cache)|^encode_model/cuda/f32/lenet/cache'
}

# The parts of a training step.
run_steps() {
  program terngrad_bench
  part bench bench_steps 180 "${command[@]}" "--benchmark_out=$state/bench_steps.bench.json" \
    '--benchmark_filter=^train_step/cuda/'
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

# sanitize TOOL LIMIT PROGRAM: the tests of the CUDA backend in a program under one of the sanitizer's tools.
sanitize() {
  local path
  if [[ ! -x $bin/$3 ]]; then return; fi
  path=$(library_path "$3")
  # Tests of errors make calls that fail, on purpose.
  part sanitizer "$1_$3" "$2" env ${path:+"LD_LIBRARY_PATH=$path"} "$sanitizer" --tool "$1" --error-exitcode 9 \
    --print-limit 20 --report-api-errors no "$bin/$3" '--gtest_filter=*Cuda*'
}

run_sanitizers() {
  local sanitizer tool name share limit=120 programs=(kernels_test nets_test datasets_test trainers_test)
  if $quick; then limit=30; fi
  # Each gets its share: one that is cut off is no failure, one that is not run at all is.
  if [[ -n $time_limit ]]; then
    share=$(((time_limit - (SECONDS - started)) / (2 * ${#programs[@]} + 2)))
    limit=$((share < limit ? share : limit))
  fi
  sanitizer=$(find_sanitizer)
  if [[ -z $sanitizer ]]; then
    absent sanitizer sanitizers "compute-sanitizer is not present on this machine"
    return
  fi
  for name in "${programs[@]}"; do sanitize memcheck "$limit" "$name"; done
  if $quick; then return; fi
  for name in "${programs[@]}"; do sanitize racecheck "$limit" "$name"; done
  # Not where libraries of the toolkit compute, whose kernels read what they do not use.
  for name in kernels_test datasets_test; do sanitize initcheck "$limit" "$name"; done
}

# Words before the command of a training that a launcher of processes starts.
launcher=()

# train KIND NAME LIMIT DEVICE OPTIONS...: a training in its own folder.
train() {
  local kind=$1 name=$2 limit=$3 device=$4
  shift 4
  program terngrad_train
  part "$kind" "$name" "$limit" ${launcher[@]+"${launcher[@]}"} "${command[@]}" --device "$device" --train_dir "$state/$name.run" --tensorboard=false \
    --telemetry_steps 0 --histogram_steps 0 "$@"
}

# can_train KIND NAME: whether there are trainings on a GPU; else they are noted as absent.
can_train() {
  if [[ ! -x $bin/terngrad_train ]]; then
    absent "$1" "$2" "terngrad_train is not there: trainings are not built"
    return 1
  fi
  program terngrad_train
  # The report sees where --device cuda is refused.
  if [[ $(timeout -k 5 60 "${command[@]}" --help 2>&1) != *--device* ]]; then
    absent "$1" "$2" "trainings on a GPU are not built: terngrad_train has no --device"
    return 1
  fi
}

ternary=(--grad_bits 1 --clip_factor 2.5)
digits=(--dataset synthetic)
if [[ -n $mnist ]]; then digits=(--dataset mnist --data_dir "$mnist"); fi
pictures=(--dataset cifar10 --benchmark_mode)
if [[ -n $cifar10 ]]; then pictures=(--dataset cifar10 --data_dir "$cifar10"); fi

run_trainings() {
  local steps=1000 fp32_steps=1000 min=0.9 cifar_steps=2000
  if ! can_train training trainings; then return; fi
  if $quick; then
    steps=300
    fp32_steps=300
    cifar_steps=300
  fi
  # The recipe of the original, to the end; in a quick check for the ternary run only.
  if [[ -n $mnist ]]; then
    steps=10000
    min=0.99
    if ! $quick; then fp32_steps=10000; fi
  fi
  echo "$min" >"$state/lenet_ternary.min_top1"
  if ((fp32_steps < 10000)); then min=0.9; fi
  echo "$min" >"$state/lenet_fp32.min_top1"
  train training lenet_ternary 120 cuda "${digits[@]}" "${ternary[@]}" --quantize_logits --num_nodes 8 --max_steps "$steps"
  train training lenet_fp32 120 cuda "${digits[@]}" --max_steps "$fp32_steps"
  train training cifarnet_ternary 120 cuda "${pictures[@]}" "${ternary[@]}" --num_nodes 2 --max_steps "$cifar_steps" \
    --log_steps 20
}

# Runs that are killed with SIGKILL at random moments and continue, as often as tests/resume asks for.
run_resume() {
  if [[ ! -x $bin/resume_test ]]; then
    absent resume resume_test "it is not built"
    return
  fi
  if ! can_train resume resume_test; then return; fi
  program resume_test
  part resume resume_test 600 env TERNGRAD_TEST_DEVICE=cuda "${command[@]}" '--gtest_filter=Kill.*' \
    "--gtest_output=json:$state/resume_test.tests.json"
}

# move NAME FROM DEVICE: what the run FROM was at its first checkpoint continues on another device, to the same step.
move() {
  local name=$1 from=$2 device=$3 checkpoints
  shift 3
  if [[ -d $state/$from.run ]]; then cp -r "$state/$from.run" "$state/$name.run"; fi
  # All checkpoints but the first are taken away, in the order of their steps.
  mapfile -t checkpoints < <(find "$state/$name.run" -maxdepth 1 -name 'checkpoint-*.safetensors' 2>/dev/null | sort -V)
  if ((${#checkpoints[@]} > 1)); then rm "${checkpoints[@]:1}"; fi
  echo "$from" >"$state/$name.other"
  train move "$name" 60 "$device" "$@" --resume
}

# Float32 exchanges and products, so that devices differ in the order of sums only.
run_moves() {
  local run=("${digits[@]}" --num_nodes 4 --max_steps 200 --save_iter 100 --keep_checkpoints 0 --log_steps 10)
  if ! can_train move moves; then return; fi
  train training unmoved_gpu 60 cuda "${run[@]}" --math fp32
  train training unmoved_cpu 60 cpu "${run[@]}"
  move from_gpu_to_cpu unmoved_gpu cpu "${run[@]}"
  move from_cpu_to_gpu unmoved_cpu cuda "${run[@]}" --math fp32
}

# repeat NAME OPTIONS...: a run twice, which must end with the same bits.
repeat() {
  local name=$1
  shift
  train training "${name}_first" 60 cuda "$@"
  echo "${name}_first" >"$state/$name.other"
  train repeat "$name" 60 cuda "$@"
}

run_repeats() {
  local steps=(--max_steps 300 --log_steps 50) math
  if ! can_train repeat repeats; then return; fi
  for math in tf32 fp32; do
    repeat "repeated_lenet_$math" "${digits[@]}" "${ternary[@]}" --num_nodes 4 --math "$math" "${steps[@]}"
    repeat "repeated_cifarnet_$math" "${pictures[@]}" "${ternary[@]}" --num_nodes 4 --math "$math" "${steps[@]}"
  done
}

# How many GPUs programs see here, at least the one that was found.
num_gpus() {
  local listed
  if [[ -n ${CUDA_VISIBLE_DEVICES-} ]]; then
    listed=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)
  else
    listed=$(timeout -k 5 30 nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || true
  fi
  echo $((listed > 1 ? listed : 1))
}

# same OTHER NAME OPTIONS...: a run that must end with the bits of the run OTHER.
same() {
  local other=$1 name=$2
  shift 2
  echo "$other" >"$state/$name.other"
  train repeat "$name" 60 cuda "$@"
}

# A run of one process with one GPU, with the exchange beside the backward pass, behind a launcher, on two GPUs of a process, and
# on a GPU of each of two processes: NCCL refuses ranks that share a GPU. Where gradients are exchanged in host memory, two
# processes take one GPU.
run_processes() {
  local run=("${digits[@]}" "${ternary[@]}" --num_nodes 4 --max_steps 300 --log_steps 50) gpus
  local served=(--strategy ps --pull parameters)
  if ! can_train repeat processes; then return; fi
  gpus=$(num_gpus)
  train training processes_one 60 cuda "${run[@]}"
  same processes_one processes_overlap "${run[@]}" --overlap on
  if ((gpus > 1)); then same processes_one processes_two_gpus "${run[@]}" --num_gpus 2; fi
  train training processes_served 60 cuda "${run[@]}" "${served[@]}"
  if ! command -v mpirun >/dev/null; then
    absent repeat processes_launched "mpirun is not present on this machine"
    return
  fi
  if [[ $(ldd "$bin/terngrad_train" 2>/dev/null) != *libmpi* ]]; then
    absent repeat processes_launched "terngrad_train is built without MPI"
    return
  fi
  # Open MPI wants to be asked twice to run for root, who is the user in a container.
  launcher=(env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --bind-to none -np)
  launcher+=(1)
  same processes_one processes_launched "${run[@]}"
  launcher[-1]=2
  if ((gpus > 1)); then same processes_one processes_two "${run[@]}" --num_gpus 1 --check_replicas 50; fi
  same processes_served processes_two_served "${run[@]}" "${served[@]}"
  launcher=()
  if ((gpus == 1)); then absent repeat processes_two "there is one GPU, and each process needs one of its own"; fi
}

for part in ${parts//,/ }; do
  "run_$part"
done
report
