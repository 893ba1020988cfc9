#!/usr/bin/env bash
# Installs terngrad's build dependencies. Does nothing if they are installed.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/install_deps.sh [--test] [--lint] [--fuzz] [--compare] [--plot] [--hosts] [--formats] [--python]

Installs the packages that terngrad needs (Debian 12, Ubuntu 24.04 or later). Uses sudo unless run as root.

  --test     also what makes scripts/test.sh faster: lld; where it cannot be installed, the rest is installed without it
  --lint     also what scripts/dev/lint.sh uses: clang-format, clang-tidy, shellcheck
  --fuzz     also what scripts/dev/fuzz.sh uses: clang with its run-time libraries
  --compare  also what comparisons with PyTorch, NumPy and Pillow use: python3-torch, python3-numpy, python3-pil,
             libopenblas0; and python3-torchvision, without which the tests of its weights are skipped
  --plot     also what scripts/plot_run.py uses: python3-matplotlib
  --hosts    also what scripts/hosts/slow_link.sh and scripts/hosts/run_hosts.sh use: iproute2, iperf3, OpenSSH
  --formats  also what scripts/dev/check_formats.py uses: python3-venv, and TensorBoard's and safetensors' packages of PyPI, in the
             versions of scripts/dev/formats_requirements.txt, in their own environment in
             ${XDG_CACHE_HOME:-~/.cache}/terngrad/formats-venv, where the build finds it
  --python   also what the Python package is built and tested with: python3-dev, python3-venv, python3-numpy,
             python3-xxhash, and nanobind's packages of PyPI, in the versions of scripts/dev/python_requirements.txt, in
             their own environment in ${XDG_CACHE_HOME:-~/.cache}/terngrad/python-venv, where the build finds it; with
             --compare the hook for PyTorch is tested too
  --help     print this text and exit
TEXT
}

packages=(
  g++ cmake ninja-build ccache git                      # build
  pkgconf                                               # programs in C find the library by it
  libboost-program-options-dev                          # options of the commands
  libdnnl-dev ocl-icd-opencl-dev                        # nets; oneDNN's CMake package looks for OpenCL headers
  libhwy-dev                                            # SIMD
  libisal-dev                                           # checksums of messages and records
  nlohmann-json3-dev libfmt-dev                         # JSON, formatted text
  libxxhash-dev                                         # checksums of checkpoints
  zlib1g-dev liblzma-dev libjpeg-dev libpng-dev         # data: .gz, .xz, JPEG, PNG
  libopenmpi-dev openmpi-bin                            # several processes and hosts
  libprotobuf-dev protobuf-compiler                     # TensorBoard event files
  libgtest-dev libgmock-dev libbenchmark-dev            # tests and microbenchmarks
  libthrust-dev                                         # tests of kernels without a GPU
  curl ca-certificates                                  # scripts/download_data.sh
  python3                                               # runs and counts cases of tests; scripts
)

# Optional packages.
optional=()

environments=()
while (($# > 0)); do
  case $1 in
    --test) optional+=(lld) ;;
    --lint) packages+=(clang-format clang-tidy shellcheck) ;;
    --fuzz) packages+=(clang libclang-rt-dev) ;;
    --compare)
      packages+=(python3-torch python3-numpy python3-pil libopenblas0)
      optional+=(python3-torchvision)
      ;;
    --plot) packages+=(python3-matplotlib python3-scipy) ;;
    --hosts) packages+=(iproute2 iperf3 openssh-server openssh-client) ;;
    --formats)
      environments+=(formats)
      packages+=(python3-venv)
      ;;
    --python)
      environments+=(python)
      packages+=(python3-venv python3-dev python3-numpy python3-xxhash)
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      echo "install_deps.sh: unknown option '$1'; accepted: --test, --lint, --fuzz, --compare, --plot, --hosts, --formats, --python, --help" >&2
      exit 2
      ;;
  esac
  shift
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  cat >&2 <<'TEXT'
install_deps.sh: this system has no apt-get. Install these with its own package manager:
  a C++20 compiler (g++ 12 or later), CMake 3.25 or later, Ninja, ccache, git
  Highway, ISA-L, oneDNN 2.6 or later with its CMake package, Boost.Program_options, nlohmann-json, fmt, xxHash, zlib,
  liblzma, libjpeg, libpng, protobuf
  for several processes and hosts, which are optional: Open MPI 4.1 or another MPI 3; for scripts/hosts/slow_link.sh iproute2 and
  iperf3, for scripts/hosts/run_hosts.sh OpenSSH
  GoogleTest with GoogleMock, Thrust, Google Benchmark, Python 3.10 or later; for scripts/download_data.sh curl
  for GPUs, which are optional: CUDA Toolkit 12.4 or later, and between several of them NCCL 2.18 or later
TEXT
  exit 1
fi

is_installed() { [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null || true) == installed ]]; }

# Creates the environment of --formats or --python, unless it exists and contains a copy of the current list of versions.
make_environment() {
  local list folder=${XDG_CACHE_HOME:-$HOME/.cache}/terngrad/$1-venv
  list=$(dirname "${BASH_SOURCE[0]}")/dev/$1_requirements.txt
  if cmp -s "$list" "$folder/installed.txt"; then
    echo "install_deps.sh: $folder is there"
    return
  fi
  echo "install_deps.sh: making $folder"
  rm -rf "$folder"
  # The distribution's Python, as in tests, regardless of PATH; for the package with its numpy and PyTorch.
  local options=()
  if [[ $1 == python ]]; then options=(--system-site-packages); fi
  /usr/bin/python3 -m venv "${options[@]}" "$folder"
  if ! "$folder/bin/python" -m pip install -q --disable-pip-version-check --only-binary :all: --no-deps -r "$list"; then
    rm -rf "$folder"
    echo "install_deps.sh: the packages of $list cannot be installed: continuing without them, what needs them is skipped" >&2
    return
  fi
  # With system packages pip would check those, too.
  if [[ $1 != python ]]; then "$folder/bin/python" -m pip check --disable-pip-version-check; fi
  cp "$list" "$folder/installed.txt"
}
make_environments() {
  local name
  for name in "${environments[@]}"; do make_environment "$name"; done
}

missing=()
for package in "${packages[@]}"; do
  if ! is_installed "$package"; then missing+=("$package"); fi
done
missing_optional=()
for package in "${optional[@]}"; do
  if ! is_installed "$package"; then missing_optional+=("$package"); fi
done
if ((${#missing[@]} + ${#missing_optional[@]} == 0)); then
  echo "install_deps.sh: all $((${#packages[@]} + ${#optional[@]})) packages are installed"
  make_environments
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if command -v sudo >/dev/null; then
    as_root=(sudo)
  elif ((${#missing[@]} == 0)); then
    echo "install_deps.sh: not root and no sudo: continuing without ${missing_optional[*]}" >&2
    exit 0
  else
    echo "install_deps.sh: not root and no sudo; as root run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi
install_packages() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" </dev/null
}
echo "install_deps.sh: installing ${missing[*]} ${missing_optional[*]}"
# An unreachable repository may not be the one with these packages.
"${as_root[@]}" apt-get update -q || echo "install_deps.sh: apt-get update failed, continuing with the lists there are" >&2
if ((${#missing[@]} > 0)); then install_packages "${missing[@]}"; fi
if ((${#missing_optional[@]} > 0)); then
  install_packages "${missing_optional[@]}" || echo "install_deps.sh: continuing without ${missing_optional[*]}" >&2
fi
make_environments
echo "install_deps.sh: done"
