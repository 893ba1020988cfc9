#!/usr/bin/env bash
# Runs programs of a bundle made by scripts/gpu/bundle.sh; it is called `run` there.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: run PROGRAM [ARGUMENT...]
       run --library_path PROGRAM

Runs a program of the bundle's bin/ with the libraries of its lib/. Those of CUDA come from the machine: from where the
loader looks, CUDA_HOME, /usr/local/cuda*, or the packages of python3.

  --library_path  print the LD_LIBRARY_PATH that PROGRAM is run with, and exit
  --help          print this text and the names of the programs, and exit

Exit codes: the program's; 127 if there is no such program, or a library that it needs is nowhere.
TEXT
}

bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Folders where a machine may have CUDA's libraries.
cuda_folders() {
  local folder
  for folder in "${CUDA_HOME-}"/lib64 "${CUDA_HOME-}"/lib /usr/local/cuda{,-*}/{lib64,lib,targets/x86_64-linux/lib}; do
    if [[ $folder == /* && -d $folder ]]; then echo "$folder"; fi
  done
  if command -v python3 >/dev/null; then
    python3 -c 'import glob, sys
for folder in sys.path:
    for found in sorted(glob.glob(folder + "/nvidia/*/lib")): print(found)' 2>/dev/null || true
  fi
}

# Libraries that a program does not find on the given path. The loader lists them without running the program.
missing_libraries() {
  LD_LIBRARY_PATH=$2 LD_TRACE_LOADED_OBJECTS=1 "$1" | sed -nE 's,^[[:space:]]*([^ ]+) => not found.*,\1,p' | sort -u
}

# The bundle's libraries, then CUDA folders as needed, then the user's setting.
library_path() {
  local program=$1 path=$bundle/lib missing folder found
  local user=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  while missing=$(missing_libraries "$program" "$path$user") && [[ -n $missing ]]; do
    found=
    while IFS= read -r folder; do
      if [[ :$path: != *:$folder:* && -e $folder/${missing%%$'\n'*} ]]; then
        found=$folder
        break
      fi
    done < <(cuda_folders)
    if [[ -z $found ]]; then
      echo "run: ${program##*/} needs ${missing//$'\n'/ }, which this machine does not have" >&2
      return 127
    fi
    path+=:$found
  done
  with_opened "$program" "$path$user"
}

# cuDNN loads the run-time compiler by name, and nets load cuBLASLt, so the loader does not list them. If the path leads to
# cuDNN, their folders are appended. Programs without a GPU need neither; others report a missing library.
with_opened() {
  local path=$2 libraries major name folder
  libraries=$(LD_LIBRARY_PATH=$path LD_TRACE_LOADED_OBJECTS=1 "$1")
  if [[ $libraries =~ libcudnn\.so && $libraries =~ libcudart\.so\.([0-9]+) ]]; then
    major=${BASH_REMATCH[1]}
    for name in libcublasLt.so.$major libnvrtc.so.$major; do
      while IFS= read -r folder; do
        if [[ -e $folder/$name ]]; then
          if [[ :$path: != *:$folder:* ]]; then path+=:$folder; fi
          break
        fi
      done < <(cuda_folders)
    done
  fi
  echo "$path"
}

case ${1-} in
  --help | -h)
    usage
    echo
    echo "Programs: $(cd "$bundle/bin" && echo *)"
    exit 0
    ;;
  --library_path)
    only_print=true
    shift
    ;;
  -*)
    echo "run: unknown option '$1'; accepted: --library_path, --help" >&2
    exit 127
    ;;
  *) only_print=false ;;
esac
program=$bundle/bin/${1-}
if [[ ! -f $program || ! -x $program ]]; then
  echo "run: no program '${1-}' in $bundle/bin; there are: $(cd "$bundle/bin" && echo *)" >&2
  exit 127
fi
shift

# Programs started by the program must find their libraries, too.
needy=$program
if [[ ${program##*/} == resume_test && -x $bundle/bin/terngrad_train ]]; then needy=$bundle/bin/terngrad_train; fi
path=$(library_path "$needy")
if $only_print; then
  echo "$path"
  exit 0
fi
export LD_LIBRARY_PATH=$path
# resume_test finds its programs here instead of in a build folder.
export TERNGRAD_TRAIN_PROGRAM=$bundle/bin/terngrad_train
export TERNGRAD_FAIL_POINT_LIBRARY=$bundle/lib/libterngrad_fail_point.so
exec "$program" "$@"
