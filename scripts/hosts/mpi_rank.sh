#!/usr/bin/env bash
# Runs a command as a rank of an MPI program so that it can be asked to stop: mpirun passes SIGUSR1 on to every rank, and
# this turns it into SIGTERM for the command. (To SIGTERM and Ctrl-C mpirun itself answers by ending its ranks in its own
# time: after odls_base_sigkill_timeout seconds, all of which it waits even if they have ended, and long before they
# have saved if it is short.) Used by slow_link.sh and run_hosts.sh:
#   mpirun ... bash -c "$(cat scripts/hosts/mpi_rank.sh)" rank COMMAND...
# needs no file on other hosts.
if (($# == 0)) || [[ $1 == --help ]]; then
  echo "Usage: mpi_rank.sh COMMAND...: runs a rank of an MPI program, which gets SIGTERM for the first SIGUSR1 or SIGTERM"
  exit 2
fi

stopped=false
child=
# Once only: a second signal would end what is just saving.
pass_on() {
  if $stopped || [[ -z $child ]]; then return; fi
  stopped=true
  kill -TERM "$child" 2>/dev/null
}
trap pass_on USR1 TERM
trap '' INT

# In its own session, out of reach of mpirun's signals to the group; but gone with this process.
setsid env --default-signal=INT,QUIT setpriv --pdeathsig KILL "$@" <&0 &
child=$!
while true; do
  wait "$child"
  status=$?
  if ! kill -0 "$child" 2>/dev/null; then break; fi
done

# Stopped as it was asked to: no failure, for which mpirun would end ranks that are still at it.
if $stopped && ((status == 128 + 15)); then exit 0; fi
if ((status != 0)); then
  how="ended with exit code $status"
  if ((status > 128)) && name=$(kill -l $((status - 128)) 2>/dev/null); then how+=" (SIG$name)"; fi
  echo "rank ${OMPI_COMM_WORLD_RANK-?} on host $(uname -n) $how" >&2
fi
(exit "$status")
