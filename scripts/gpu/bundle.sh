#!/usr/bin/env bash
# Collects built programs and their libraries in a folder that runs on another machine.
set -euo pipefail
shopt -s nullglob

usage() {
  cat <<'TEXT'
Usage: scripts/gpu/bundle.sh [OPTION...] [OUT_DIR]

Makes OUT_DIR, which must not exist or be empty, from a build:

  OUT_DIR/run PROGRAM ARGUMENT...   runs a program with the bundle's libraries
  OUT_DIR/scripts/gpu/gpu_check.py  checks programs and measures kernels on a machine with a GPU
  OUT_DIR/MANIFEST                  where it comes from, what is in it, what is not, what the machine must have

The other machine needs none of the packages that terngrad is built with. It needs bash, glibc in the version that
MANIFEST names or later, and for programs built with CUDA the toolkit's run-time libraries and a driver, which are not
bundled.

  --build        first configure and build the preset gpu-check: code for an H100 or H200 alone, with tests that need a GPU
  --build_dir DIR
                 where the build is (default: build/gpu-check). Where it has CUDA and this machine has no GPU, it must be
                 configured with -DTERNGRAD_GPU_TESTS=ON
  --trainings    bring along only what trains and evaluates
  --without_gpu_tests
                 make a bundle of a build that lacks them; scripts/gpu/gpu_check.py there then fails in its phase `tests`
  --mnist DIR    bring the files of MNIST in DIR along, for scripts/gpu/gpu_check.py there
  --cifar10 DIR  likewise those of CIFAR-10
  --python VERSION
                 bring the Python package along, for that version of Python (such as 3.12), with PyTorch that of the machine:
                 a wheel of this checkout, built for the GPUs that the build is for, with the libraries it needs in it
  --pack FILE    pack the bundle into FILE, a .tar.xz; then OUT_DIR may be left out
  --pack_limit MIB
                 refuse a packed bundle of this size or more (default: 41)
  --help         print this text and exit

Exit codes: 0 done, 1 a library is missing, a file cannot be written, or the packed bundle is too large, 2 wrong usage.
TEXT
}

refuse() {
  echo "bundle.sh: $*" >&2
  exit 2
}

words=()
mnist=
cifar10=
python=
pack=
pack_limit=41
build_dir=
build_first=false
with_gpu_tests=true
only_trainings=false
while (($# > 0)); do
  case $1 in
    --help | -h)
      usage
      exit 0
      ;;
    --mnist | --cifar10)
      if [[ ! -d ${2-} ]]; then refuse "$1: there is no folder '${2-}'"; fi
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --pack | --pack_limit | --build_dir | --python)
      if [[ -z ${2-} ]]; then refuse "$1: needs a value"; fi
      printf -v "${1#--}" '%s' "$2"
      shift
      ;;
    --build) build_first=true ;;
    --without_gpu_tests) with_gpu_tests=false ;;
    --trainings) only_trainings=true ;;
    -*) refuse "unknown option '$1'; see --help" ;;
    *) words+=("$1") ;;
  esac
  shift
done
set -- ${words[@]+"${words[@]}"}
if (($# == 0)) && [[ -z $pack ]]; then refuse "OUT_DIR: missing; see --help"; fi
if (($# > 1)); then refuse "'$2': too many arguments; see --help"; fi
if [[ -n $pack && $pack != *.tar.xz ]]; then refuse "--pack: '$pack' is refused, expected a name that ends in .tar.xz"; fi
if [[ -n $python && ! $python =~ ^3\.[0-9]+$ ]]; then refuse "--python: '$python' is refused, expected a version such as 3.12"; fi
if [[ ! $pack_limit =~ ^[1-9][0-9]*$ ]]; then refuse "--pack_limit: '$pack_limit' is refused, expected a positive number of MiB"; fi
# Existing files of the data sets (nullglob), with the names that trainings use.
data_of_mnist=()
data_of_cifar10=()
if [[ -n $mnist ]]; then
  data_of_mnist=("$mnist"/*-ubyte "$mnist"/*-ubyte.[gx]z)
  if ((${#data_of_mnist[@]} == 0)); then refuse "--mnist: '$mnist' has no files of MNIST"; fi
fi
if [[ -n $cifar10 ]]; then
  data_of_cifar10=("$cifar10"/*_batch*.bin "$cifar10"/*_batch*.bin.[gx]z)
  if ((${#data_of_cifar10[@]} == 0)); then refuse "--cifar10: '$cifar10' has no files of CIFAR-10"; fi
fi
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${build_dir:-$source/build/gpu-check}
# Programs that gpu_check.py runs, and the command that inspects training results.
programs=(terngrad_train terngrad_eval terngrad_bench kernels_test compress_test contracts_test nets_test datasets_test
  trainers_test resume_test)
if $only_trainings; then programs=("${programs[@]:0:2}"); fi
if $build_first; then
  if [[ -n $build_dir ]]; then refuse "--build_dir: leave it out, --build builds in build/gpu-check"; fi
  # Lets other clones and later builds share compiled objects, without preprocessing dependencies.
  export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
  (cd "$source" && cmake --preset gpu-check && cmake --build --preset gpu-check)
fi
if [[ ! -d $build/bin ]]; then refuse "'$build' has no bin/; build there first (--build), or name another folder (--build_dir)"; fi
temporary=()
trap 'rm -rf ${temporary[@]+"${temporary[@]}"}' EXIT
if (($# > 0)); then
  out=$1
  if [[ -e $out && (! -d $out || -n $(ls -A "$out")) ]]; then refuse "OUT_DIR '$out': exists and is no empty folder"; fi
else
  out=$(mktemp -d)/terngrad-bundle
  temporary+=("${out%/*}")
fi
cached() { sed -nE "s,^$1:[A-Z]+=,,p" "$build/CMakeCache.txt" 2>/dev/null || true; }
lacks_gpu_tests=$(cached TERNGRAD_LACKS_GPU_TESTS)
gpu_tests_hint="cmake -DTERNGRAD_GPU_TESTS=ON $build && cmake --build $build"
if $only_trainings; then
  with_gpu_tests=true # none are asked for
elif $with_gpu_tests && [[ $lacks_gpu_tests == ON ]]; then
  refuse "'$build': has no tests that need a GPU; run $gpu_tests_hint, or say --without_gpu_tests"
elif ! $with_gpu_tests && [[ $lacks_gpu_tests != ON ]]; then
  refuse "--without_gpu_tests: '$build' does not lack them"
fi
for tool in ldd readelf; do
  if ! command -v "$tool" >/dev/null; then refuse "$tool is missing: install binutils and libc-bin"; fi
done

# resume_test preloads it.
fail_point=$build/tests/libterngrad_fail_point.so

environment=${XDG_CACHE_HOME:-$HOME/.cache}/terngrad/python-venv
if [[ -n $python && ! -x $environment/bin/auditwheel ]]; then
  refuse "--python: needs the environment that scripts/install_deps.sh --python makes"
fi

# Libraries of the target machine: glibc's, which match kernel and loader, and CUDA's, which match the driver.
is_of_glibc() { [[ $1 =~ ^(lib(c|m|pthread|dl|rt|resolv|util|anl|mvec|BrokenLocale|thread_db)\.so|ld-linux|linux-vdso) ]]; }
is_of_cuda() {
  [[ $1 =~ ^lib(cuda|cudart|cublas|cublasLt|cudnn.*|nccl|nvrtc.*|nvJitLink|nvToolsExt|cufft|curand|cusolver.*|cusparse|nvidia-.*)\.so ]]
}

mkdir -p "$out"/{bin,lib,docs,scripts/{gpu,bench,common}}
missing=()
if ! $with_gpu_tests; then missing+=("tests that need a GPU (not built: $gpu_tests_hint)"); fi
for name in "${programs[@]}"; do
  if [[ -x $build/bin/$name ]]; then
    cp -L "$build/bin/$name" "$out/bin/"
  else
    missing+=("bin/$name (not built: cmake --build $build --target $name)")
  fi
done
if [[ -z $(ls "$out/bin") ]]; then refuse "'$build': bin/ holds none of ${programs[*]}"; fi
if $only_trainings; then
  fail_point=
elif [[ -f $fail_point ]]; then
  cp -L "$fail_point" "$out/lib/"
else
  missing+=("lib/${fail_point##*/} (not built: cmake --build $build --target terngrad_fail_point)")
fi

# Lines of ldd: "name => path (address)", "name => not found", "path (address)".
declare -A library_of=()
machine=()
absent=()
for file in "$out"/bin/* "$out"/lib/*; do
  while read -r name arrow path _; do
    name=${name##*/}
    if is_of_glibc "$name"; then continue; fi
    if is_of_cuda "$name"; then
      machine+=("$name")
    elif [[ $arrow == "=>" && $path == /* ]]; then
      library_of[$name]=$path
    elif [[ $arrow == "=>" ]]; then
      absent+=("$name, needed by ${file##*/}")
    fi
  done < <(ldd "$file")
  # Loaded by name when the first net is created on a GPU, so ldd does not list it.
  while IFS= read -r name; do machine+=("$name"); done < <(grep -aoE 'libcublasLt\.so\.[0-9]+' "$file" | sort -u)
done
if ((${#absent[@]} > 0)); then
  printf 'bundle.sh: this machine lacks %s\n' "${absent[@]}" >&2
  exit 1
fi
for name in "${!library_of[@]}"; do cp -L "${library_of[$name]}" "$out/lib/$name"; done

# The Python package as pip would install it there, and its dependency nanobind-backend, which differs between Python versions.
if [[ -n $python ]]; then
  wheels=$(mktemp -d)
  temporary+=("$wheels")
  gpus=()
  architectures=$(cached CMAKE_CUDA_ARCHITECTURES)
  if [[ -n $architectures ]]; then gpus=(--gpus "$architectures"); fi
  "$source/scripts/dev/build_wheel.sh" "${gpus[@]}" "$wheels/repaired"
  export PATH=$environment/bin:$PATH
  python -m pip --quiet --disable-pip-version-check download --no-deps --only-binary :all: --python-version "$python" \
    -d "$wheels/repaired" "$(grep nanobind-backend "$source/scripts/dev/python_requirements.txt")"
  for wheel in "$wheels"/repaired/*.whl; do python -m zipfile -e "$wheel" "$out/site"; done
fi

cp "$source/scripts/gpu/bundle_run.sh" "$out/run"
cp "$source"/scripts/gpu/{gpu_*,check_package}.py "$out/scripts/gpu/"
cp "$source/scripts/bench/bench_pytorch_gpu.py" "$out/scripts/bench/"
cp "$source"/scripts/common/{missing_package,pytorch_nets}.py "$out/scripts/common/"
mkdir "$out/examples"
cp "$source/examples/ddp_cifar10.py" "$out/examples/" # the net of check_package.py
cp "$source"/docs/{wire-format,codecs}.md "$out/docs/" # read by contracts_test
# copy_data FOLDER FILE...: copies data to where scripts/gpu/gpu_check.py finds them, decompressed, because xz then packs better.
copy_data() {
  local folder=$1 file name
  shift
  mkdir -p "$folder"
  for file in "$@"; do
    name=${file##*/}
    case $name in
      *.gz) gzip -dc "$file" >"$folder/${name%.gz}" ;;
      *.xz) xz -dc "$file" >"$folder/${name%.xz}" ;;
      *) cp -L "$file" "$folder/" ;;
    esac
  done
}
if [[ -n $mnist ]]; then copy_data "$out/data/mnist" "${data_of_mnist[@]}"; fi
if [[ -n $cifar10 ]]; then copy_data "$out/data/cifar10" "${data_of_cifar10[@]}"; fi
chmod -R u+w,a+rX "$out"

# The latest glibc symbol version that a file of the bundle requires.
needed_glibc() {
  local file
  for file in "$out"/bin/* "$out"/lib/* "$out"/site/terngrad/*.so; do readelf -V "$file"; done |
    grep -oE 'GLIBC_[0-9.]+' | sort -uV | sed -n '$s,GLIBC_,,p'
}
# The compilers recorded in the programs.
compilers() { readelf -p .comment "$out"/bin/* | sed -nE 's,^ *\[[^]]*\] +,,p' | sort -u | paste -sd ';'; }
nvcc_version() { sed -nE 's,^set\(CMAKE_CUDA_COMPILER_VERSION "(.+)"\),nvcc \1,p' "$build"/CMakeFiles/*/CMakeCUDACompiler.cmake 2>/dev/null; }
# The first line of a program's --version, run inside the bundle.
version() {
  local name said
  for name in terngrad_bench terngrad_train terngrad_eval; do
    if [[ -x $out/bin/$name ]] && said=$("$out/run" "$name" --version); then
      echo "${said%%$'\n'*}"
      return
    fi
  done
  echo unknown
}
list() { if (($# > 0)); then printf '  %s\n' "$@"; else echo "  nothing"; fi; }

{
  echo "version:    $(version || echo "unknown: it does not start here")"
  echo "source:     $(git -C "$source" describe --always --dirty --abbrev=12 2>/dev/null || echo "no git repository")"
  echo "made:       $(date -u +%Y-%m-%dT%H:%M:%SZ) on $(uname -sm)"
  echo "build type: $(cached CMAKE_BUILD_TYPE), threads $(cached TERNGRAD_THREADS)"
  echo "compilers:  $(compilers)$(nvcc_version | sed 's/^/; /')"
  echo
  echo "needed on the machine:"
  list "glibc $(needed_glibc) or later" bash "python3 for scripts/gpu/gpu_check.py" \
    ${python:+"Python $python with numpy and PyTorch for the package in site/"} \
    ${machine[@]+"${machine[@]}"} | awk '!seen[$0]++'
  echo
  echo "missing:"
  list ${missing[@]+"${missing[@]}"}
  echo
  echo "files (bytes):"
  (cd "$out" && find . -type f ! -name MANIFEST -printf '%10s %P\n' | sort -k 2)
} >"$out/MANIFEST"

for line in ${missing[@]+"${missing[@]}"}; do echo "bundle.sh: missing: $line" >&2; done
made=("$out"/bin/*)
echo "bundle.sh: $out: ${#made[@]} programs, ${#library_of[@]} libraries, $(du -sm "$out" | cut -f 1) MB; see MANIFEST"

if [[ -n $pack ]]; then
  # Each program contains a copy of the same kernels, which xz finds with a dictionary larger than two programs. One thread, since
  # several would split the input. Files are sorted by name, so that programs are adjacent.
  mkdir -p "$(dirname "$pack")"
  tar -C "$(dirname "$out")" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$(basename "$out")" |
    xz -T1 --lzma2=preset=9,dict=192MiB >"$pack"
  packed=$(stat -c %s "$pack")
  printf 'bundle.sh: %s: %d.%d MiB of %s MiB\n' "$pack" $((packed >> 20)) $(((packed & 1048575) * 10 >> 20)) "$pack_limit"
  if ((packed >= pack_limit << 20)); then
    rm "$pack"
    echo "bundle.sh: --pack_limit: removed, as it has $pack_limit MiB or more; the largest files (bytes):" >&2
    (cd "$out" && find . -type f -printf '%10s %P\n' | sort -rn | head -n 12) >&2
    exit 1
  fi
fi
