#!/usr/bin/env bash
# Runs a command as a rank of an MPI program that can be stopped gracefully: mpirun forwards SIGUSR1 to every rank, and this
# script converts it to SIGTERM for the command. (On SIGTERM and Ctrl-C mpirun kills its ranks after
# odls_base_sigkill_timeout seconds: it always waits that long, and ranks are killed before they have saved if it is short.)
# Used by slow_link.sh and run_hosts.sh, without a file on other hosts:
#   mpirun ... bash -c "$(cat scripts/hosts/mpi_rank.sh)" rank COMMAND...
if (($# == 0)) || [[ $1 == --help ]]; then
  echo "Usage: mpi_rank.sh COMMAND...: runs a rank of an MPI program, which gets SIGTERM for the first SIGUSR1 or SIGTERM"
  exit 2
fi

stopped=false
child=
# Only once: a second signal would kill a command that is saving, and could end `wait` just when the command ends, which hides
# the command's status.
pass_on() {
  if [[ -z $child ]]; then return; fi
  trap '' USR1 TERM
  stopped=true
  kill -TERM "$child" 2>/dev/null
}
trap pass_on USR1 TERM
trap '' INT

# A separate session protects it from mpirun's signals to the group; it is killed if this process ends.
setsid env --default-signal=INT,QUIT setpriv --pdeathsig KILL "$@" <&0 &
child=$!
wait "$child"
status=$?
# The signal has ended the first `wait`, in most cases before the command has ended.
if $stopped; then
  wait "$child"
  status=$?
fi

# Stopped on request: not a failure, on which mpirun would kill the other ranks while they save.
if $stopped && ((status == 128 + 15)); then exit 0; fi
if ((status != 0)); then
  how="ended with exit code $status"
  if ((status > 128)) && name=$(kill -l $((status - 128)) 2>/dev/null); then how+=" (SIG$name)"; fi
  echo "rank ${OMPI_COMM_WORLD_RANK-?} on host $(uname -n) $how" >&2
fi
(exit "$status")
