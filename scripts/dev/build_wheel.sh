#!/usr/bin/env bash
# Builds a wheel of the Python package for other machines, including the libraries that Debian has only as shared ones.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/dev/build_wheel.sh [--gpus ARCHITECTURES] OUT_DIR

Builds the package of this checkout and copies Highway and ISA-L into its wheel, OUT_DIR/terngrad-*.whl. One wheel serves Python
3.10 and later on Linux with the glibc that its name says. Needs the environment of scripts/install_deps.sh --python.

  --gpus ARCHITECTURES  with kernels for GPUs of these, as CMAKE_CUDA_ARCHITECTURES has them (default: without kernels for GPUs)
TEXT
}

define=TERNGRAD_CUDA=OFF
out=
while (($# > 0)); do
  case $1 in
    --help | -h)
      usage
      exit 0
      ;;
    --gpus)
      if [[ -z ${2-} ]]; then
        echo "build_wheel.sh: --gpus needs architectures, e.g. 90" >&2
        exit 2
      fi
      define=CMAKE_CUDA_ARCHITECTURES=$2
      shift
      ;;
    -*)
      echo "build_wheel.sh: unknown option '$1'; accepted: --gpus, --help" >&2
      exit 2
      ;;
    *) out=$1 ;;
  esac
  shift
done
if [[ -z $out ]]; then
  usage >&2
  exit 2
fi

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
environment=${XDG_CACHE_HOME:-$HOME/.cache}/terngrad/python-venv
if [[ ! -x $environment/bin/auditwheel ]]; then
  echo "build_wheel.sh: there is no $environment (scripts/install_deps.sh --python makes it)" >&2
  exit 1
fi
export PATH=$environment/bin:$PATH CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache; fi
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
python -m pip --quiet --disable-pip-version-check wheel --no-deps --no-build-isolation -w "$built" --config-settings="cmake.define.$define" "$source"
python -m auditwheel repair -w "$out" "$built"/terngrad-*.whl
python -m auditwheel show "$out"/terngrad-*.whl
