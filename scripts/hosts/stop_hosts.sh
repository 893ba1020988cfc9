#!/usr/bin/env bash
# Stops a run started by scripts/hosts/run_hosts.sh, and nothing else.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/hosts/stop_hosts.sh [OPTION...] RUN_DIR

Asks all ranks of the run in RUN_DIR to stop, on the host where run_hosts.sh was started, and waits until they have saved
and ended. run_hosts.sh --resume then resumes the run.

  --timeout SECS  how long to wait (default: 120); a run that has not ended by then is left as it is, exit code 1
  --now           does not wait for ranks to save: mpirun ends them. The run continues from its last checkpoint
  --help          print this text and exit
TEXT
}

refuse() {
  echo "stop_hosts.sh: $*" >&2
  exit 2
}

timeout=120
now=false
run_dir=
while (($# > 0)); do
  case $1 in
    --timeout | --timeout=*)
      if [[ $1 == *=* ]]; then
        timeout=${1#*=}
      else
        timeout=${2-}
        shift
      fi
      if ! [[ $timeout =~ ^[1-9][0-9]{0,5}$ ]]; then
        refuse "--timeout: '$timeout' is refused, expected a positive number of seconds"
      fi
      ;;
    --now) now=true ;;
    --help | -h)
      usage
      exit 0
      ;;
    -*) refuse "unknown option '$1'; accepted: --timeout, --now, --help" ;;
    *)
      if [[ -n $run_dir ]]; then refuse "one run at a time, got '$run_dir' and '$1'"; fi
      run_dir=$1
      ;;
  esac
  shift
done
if [[ -z $run_dir ]]; then refuse "expected RUN_DIR"; fi
if [[ ! -d $run_dir/logs ]]; then refuse "RUN_DIR: there is no run of run_hosts.sh in '$run_dir'"; fi
if [[ ! -s $run_dir/running ]]; then
  echo "stop_hosts.sh: the run in '$run_dir' is not under way"
  exit 0
fi
read -r host launcher launcher_start mpirun mpirun_start <"$run_dir/running"
if [[ $host != "$(uname -n)" ]]; then refuse "RUN_DIR: the run was started on host '$host'; stop it there"; fi

# is_alive PROCESS START: succeeds if the process runs and is not a later one with the same number.
is_alive() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  read -ra stat <<<"${stat##*) }"
  [[ ${stat[0]} != Z && ${stat[19]} == "$2" ]]
}

# Signals mpirun, which forwards SIGUSR1 to the ranks, for a run_hosts.sh that was killed.
ask() {
  if $now; then
    if is_alive "$mpirun" "$mpirun_start"; then kill -TERM "$mpirun" 2>/dev/null || true; fi
  elif is_alive "$launcher" "$launcher_start"; then
    kill -TERM "$launcher" 2>/dev/null || true
  elif is_alive "$mpirun" "$mpirun_start"; then
    kill -USR1 "$mpirun" 2>/dev/null || true
  fi
}

ask
end=$((SECONDS + timeout))
while is_alive "$launcher" "$launcher_start" || is_alive "$mpirun" "$mpirun_start"; do
  if ((SECONDS >= end)); then
    echo "stop_hosts.sh: the run in '$run_dir' has not ended after $timeout s; --now ends it" >&2
    exit 1
  fi
  sleep 0.1
done
echo "stop_hosts.sh: the run in '$run_dir' has ended"
