#!/usr/bin/env bash
# Runs a command on several hosts joined by slow links: network namespaces of this machine with rate-limited interfaces.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/hosts/slow_link.sh [OPTION...] RATE N -- COMMAND...

Makes N hosts on this machine, joined by a switch through full-duplex links of RATE, and runs COMMAND on them with
mpirun, one process on each. Then says on stderr how many bytes the interface of each host sent and received, and takes
the hosts down again. The exit code is COMMAND's, or 128 plus the number of a signal that ended the run.

  RATE  such as 100mbit, 1gbit, 500kbit; none: as fast as the machine is
  N     hosts, 1 to 64

  --ranks_per_host R  processes on each host (default: 1); those of one host use its memory, not the link
  --iperf             first measures the link from host 0 to host 1 with iperf3
  --counters FILE     writes the bytes to FILE too, as JSON, with iperf3's rate
  --delay MS          of each packet on its way from host to host; needs the kernel's netem
  --burst KB          what an idle link lets pass at full speed (default: 64); lower it to time small messages
  --no-mpi            no mpirun: COMMAND runs once on each host, and finds in its environment TERNGRAD_HOST_RANK (0 to
                      N-1), TERNGRAD_HOST_COUNT, TERNGRAD_HOST_ADDRESS, TERNGRAD_HOST_ADDRESSES (of all hosts, with
                      commas, by rank) and TERNGRAD_HOST_INTERFACE. The first that fails ends the others
  --help              print this text and exit

Needs root, iproute2 and Open MPI. The environment reaches COMMAND; variables OMPI_MCA_NAME set parameters of Open MPI.
Each host has a name and a folder TMPDIR of its own; files, processors and memory are this machine's. Several runs at the
same time do not meet. SIGINT, SIGTERM and SIGHUP become SIGTERM to all processes of COMMAND, the second time SIGKILL.
TEXT
}

refuse() {
  echo "slow_link.sh: $*" >&2
  exit 2
}
fail() {
  echo "slow_link.sh: $*" >&2
  exit 1
}
say() { echo "slow_link.sh: $*" >&2; }

arguments=("$@")
ranks_per_host=1
iperf=false
counters=
delay=
burst=64
mpi=true
positional=()
while (($# > 0)) && [[ $1 != -- ]]; do
  option=${1%%=*}
  case $option in
    --ranks_per_host | --counters | --delay | --burst)
      if [[ $1 == *=* ]]; then
        value=${1#*=}
      else
        value=${2-}
        shift
      fi
      if [[ -z $value || $value == -- ]]; then refuse "$option: needs a value"; fi
      printf -v "${option#--}" '%s' "$value"
      ;;
    --iperf) iperf=true ;;
    --no-mpi) mpi=false ;;
    --help | -h)
      usage
      exit 0
      ;;
    -*)
      refuse "unknown option '$1'; accepted: --ranks_per_host, --iperf, --counters, --delay, --burst, --no-mpi, --help"
      ;;
    *) positional+=("$1") ;;
  esac
  shift
done
if (($# < 2)); then refuse "needs -- COMMAND"; fi
shift
command=("$@")
if ((${#positional[@]} != 2)); then refuse "expected RATE N before --, got '${positional[*]-}'"; fi
rate=${positional[0]}
num_hosts=${positional[1]}
if ! [[ $rate =~ ^[1-9][0-9]*(k|m|g)bit$|^none$ ]]; then
  refuse "RATE: '$rate' is refused, expected a number with kbit, mbit or gbit, or none"
fi
if ! [[ $num_hosts =~ ^[1-9][0-9]?$ ]] || ((num_hosts > 64)); then
  refuse "N: '$num_hosts' is refused, expected 1 to 64 hosts"
fi
if ! [[ $ranks_per_host =~ ^[1-9][0-9]{0,2}$ ]]; then
  refuse "--ranks_per_host: '$ranks_per_host' is refused, expected a positive number below 1000"
fi
if ! $mpi && ((ranks_per_host != 1)); then
  refuse "--ranks_per_host: '$ranks_per_host' is refused with --no-mpi, which runs COMMAND once on each host"
fi
if [[ -n $delay ]] && ! [[ $delay =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
  refuse "--delay: '$delay' is refused, expected milliseconds"
fi
# A bucket below 2 KB would not hold a packet.
if ! [[ $burst =~ ^[1-9][0-9]{0,5}$ ]] || ((burst < 2)); then
  refuse "--burst: '$burst' is refused, expected 2 KB or more"
fi
if $iperf && ((num_hosts < 2)); then refuse "--iperf: needs at least 2 hosts, N is $num_hosts"; fi
if [[ -n $counters ]] && { [[ -d $counters ]] || [[ ! -w $(dirname "$counters") ]]; }; then
  refuse "--counters: '$counters' cannot be written"
fi

needs() { # PROGRAM PACKAGE
  command -v "$1" >/dev/null || refuse "needs $1; install $2 (scripts/install_deps.sh --hosts)"
}

# Names of network namespaces exist in a mount namespace of this process and its children only; the kernel removes them when the
# last of these processes ends.
enter_mount_namespace() {
  if ((EUID != 0)); then refuse "needs root, to make network namespaces"; fi
  needs ip iproute2
  needs tc iproute2
  if $mpi; then needs mpirun openmpi-bin; fi
  if $iperf; then needs iperf3 iperf3; fi
  unshare --net --mount true 2>/dev/null ||
    refuse "needs the right to make network and mount namespaces, which this root does not have (CAP_SYS_ADMIN)"
  TERNGRAD_SLOW_LINK_PROCESS=$$ exec unshare --mount bash "${BASH_SOURCE[0]}" "${arguments[@]}"
}
if [[ ${TERNGRAD_SLOW_LINK_PROCESS-} != "$$" ]]; then enter_mount_namespace; fi
unset TERNGRAD_SLOW_LINK_PROCESS

readonly kNetwork=10.77.0
readonly kInterface=link0
readonly kSwitch=terngrad$$-switch
host_name() { echo "terngrad$$-$1"; } # HOST
address() { echo "$kNetwork.$(($1 + 1))"; } # HOST
state=
running=()
stopped_by=
# Signal that ends the processes in `running`.
signal_to_end=TERM

host_processes() {
  local host
  for ((host = 0; host < num_hosts; ++host)); do ip netns pids "$(host_name "$host")" 2>/dev/null || true; done
}

# Ends remaining processes on the hosts, after a short wait, because mpirun's daemons end on their own.
# (A bare `return` in a trap has the exit code of the previous command.)
end_processes() {
  local step signal tenths pids i
  for step in 0:10 TERM:50 KILL:50; do
    signal=${step%:*}
    tenths=${step#*:}
    mapfile -t pids < <(host_processes)
    if ((${#pids[@]} > 0)); then kill -s "$signal" "${pids[@]}" 2>/dev/null || true; fi
    for ((i = 0; i < tenths; ++i)); do
      if [[ -z $(host_processes) ]]; then return 0; fi
      sleep 0.1
    done
  done
}

take_down() {
  local host
  trap '' INT TERM HUP
  end_processes
  for ((host = 0; host < num_hosts; ++host)); do ip netns delete "$(host_name "$host")" 2>/dev/null || true; done
  ip netns delete "$kSwitch" 2>/dev/null || true
  if [[ -n $state ]]; then rm -rf "$state"; fi
}

# ask_to_stop SIGNAL: requests the running commands to stop; the second time it kills them.
ask_to_stop() {
  if [[ -n $stopped_by ]]; then signal_to_end=KILL; fi
  stopped_by=$1
}

stop_if_asked() {
  if [[ -n $stopped_by ]]; then exit $((128 + $(kill -l "$stopped_by"))); fi
}

# shape NAMESPACE INTERFACE [DELAY]: sets the rate at which an interface sends.
shape() {
  local add=(tc -n "$1" qdisc add dev "$2") parent=(root)
  if [[ -n ${3-} ]]; then
    "${add[@]}" root handle 1: netem delay "${3}ms" limit 100000
    parent=(parent 1:1)
  fi
  # Packets beyond a queue of 200 ms are dropped, as by a switch.
  if [[ $rate != none ]]; then
    "${add[@]}" "${parent[@]}" handle 2: tbf rate "$rate" burst "${burst}kb" latency 200ms
  fi
}

make_host() { # HOST
  local name port=port$1
  name=$(host_name "$1")
  ip netns add "$name"
  ip -n "$kSwitch" link add name "$port" type veth peer name $kInterface netns "$name"
  # Without IPv6, whose announcements would be counted.
  ip -n "$kSwitch" link set "$port" addrgenmode none master switch up
  ip -n "$name" link set $kInterface addrgenmode none
  ip -n "$name" link set lo up
  ip -n "$name" address add "$(address "$1")/24" dev $kInterface
  ip -n "$name" link set $kInterface up
  # Independent of the machine's default: BBR, for example, probes below the rate.
  ip -n "$name" route replace $kNetwork.0/24 dev $kInterface src "$(address "$1")" congctl cubic
  shape "$name" $kInterface "$delay"
  shape "$kSwitch" "$port"
  mkdir "$state/$1"
}

make_hosts() {
  local host
  mkdir -p /run/netns
  mount -t tmpfs terngrad /run/netns
  ip netns add "$kSwitch"
  if [[ -n $delay ]] && ! tc -n "$kSwitch" qdisc add dev lo root netem delay 1ms 2>/dev/null; then
    refuse "--delay: '$delay' is refused, this kernel has no netem (CONFIG_NET_SCH_NETEM); run without it"
  fi
  ip -n "$kSwitch" link add name switch type bridge
  ip -n "$kSwitch" link set switch addrgenmode none up
  for ((host = 0; host < num_hosts; ++host)); do make_host "$host"; done
}

# Creates $state/on_host ADDRESS COMMAND-LINE, a replacement for ssh.
make_agent() {
  cat >"$state/on_host" <<TEXT
#!/usr/bin/env bash
host=\$((\${1##*.} - 1))
name=$(host_name '')\$host
shift
export TMPDIR=$(printf %q "$state")/\$host
exec ip netns exec "\$name" unshare --uts bash -c "echo \$name >/proc/sys/kernel/hostname; \$*"
TEXT
  chmod +x "$state/on_host"
}

# start HOST WORD...: starts a command on a host. It ends with this process, even if that is killed. It has a separate session,
# so that Ctrl-C in the terminal reaches it through this process only.
start() {
  local host=$1
  shift
  setsid env --default-signal=INT,QUIT "$state/on_host" "$(address "$host")" exec setpriv --pdeathsig TERM "${@@Q}" \
    </dev/null &
  running+=($!)
}

# end_running SIGNAL: sends the signal to all started commands; SIGKILL goes to all processes on the hosts.
end_running() {
  local pids=("${running[@]}")
  if [[ $1 == KILL ]]; then mapfile -t pids < <(host_processes); fi
  if ((${#pids[@]} > 0)); then kill -s "$1" "${pids[@]}" 2>/dev/null || true; fi
}

# Waits until all commands have ended. The first failure ends the others, by SIGTERM and 10 s later by SIGKILL, and sets `status`
# to its exit code.
# On a request to stop, SIGTERM is sent once, other signals every second until the end, because a command may not handle
# signals yet.
await_all() {
  local process left code to_tell told='' patience_ends=''
  status=0
  while ((${#running[@]} > 0)); do
    left=()
    for process in "${running[@]}"; do
      if kill -0 "$process" 2>/dev/null; then
        left+=("$process")
        continue
      fi
      code=0
      wait "$process" || code=$?
      if ((code != 0 && status == 0)); then
        status=$code
        # Commands that were signalled already are stopping: a second signal would not let them finish.
        if [[ -z $told ]]; then end_running TERM; fi
        patience_ends=$((SECONDS + 10))
      fi
    done
    running=("${left[@]}")
    if ((${#running[@]} == 0)); then return; fi
    if [[ -n $patience_ends ]] && ((SECONDS >= patience_ends)); then end_running KILL; fi
    to_tell=$signal_to_end
    if [[ $to_tell != TERM ]]; then to_tell+=$SECONDS; fi
    if [[ -n $stopped_by && $told != "$to_tell" ]]; then
      told=$to_tell
      end_running "$signal_to_end"
    fi
    sleep 0.1
  done
}

# Sets `iperf_rate` to iperf3's rate from host 0 to host 1 in Mbit/s, measured by the receiver.
measure_link() {
  local name i
  name=$(host_name 1)
  start 1 iperf3 --server --one-off --bind "$(address 1)" --logfile "$state/iperf3_server"
  for ((i = 0; i < 100; ++i)); do
    if [[ -n $(ip netns exec "$name" ss -Hltn 'sport = :5201') ]]; then break; fi
    sleep 0.1
  done
  start 0 iperf3 --client "$(address 1)" --time 5 --omit 1 --format m >"$state/iperf3"
  await_all
  stop_if_asked
  iperf_rate=$(sed -nE 's,.* ([0-9.]+) Mbits/sec .*receiver$,\1,p' "$state/iperf3")
  if ((status != 0)) || [[ -z $iperf_rate ]]; then fail "iperf3 failed: $(cat "$state"/iperf3*)"; fi
  say "iperf3: $iperf_rate Mbit/s from host 0 to host 1"
}

# count_bytes: appends a line per host to the variable `counts`: bytes sent, bytes received.
count_bytes() {
  local host folder=/sys/class/net/$kInterface/statistics
  for ((host = 0; host < num_hosts; ++host)); do
    # In a namespace /sys shows its own interfaces.
    counts+=("$(ip netns exec "$(host_name "$host")" cat $folder/tx_bytes $folder/rx_bytes | paste -sd ' ')")
  done
}

# report_counts SECONDS: prints the bytes counted since the first `count_bytes`.
report_counts() {
  local host before after sent received separator='' json
  json="{\"rate\": \"$rate\", \"iperf3_mbit_per_s\": ${iperf_rate:-null}, \"seconds\": $1, \"exit_code\": $status, "
  json+='"hosts": ['
  for ((host = 0; host < num_hosts; ++host)); do
    read -ra before <<<"${counts[host]}"
    read -ra after <<<"${counts[num_hosts + host]}"
    sent=$((after[0] - before[0]))
    received=$((after[1] - before[1]))
    say "host $host ($(address "$host")) sent $sent bytes, received $received bytes"
    json+="$separator{\"host\": $host, \"address\": \"$(address "$host")\", "
    json+="\"sent_bytes\": $sent, \"received_bytes\": $received}"
    separator=', '
  done
  if [[ -n $counters ]]; then echo "$json]}" >"$counters"; fi
}

start_mpi() {
  local host hosts=''
  for ((host = 0; host < num_hosts; ++host)); do hosts+=,$(address "$host"):$ranks_per_host; done
  local options=(-np $((num_hosts * ranks_per_host)) --host "${hosts#,}" --map-by slot --bind-to none --allow-run-as-root)
  options+=(--mca plm_rsh_agent "$state/on_host" --mca plm_rsh_no_tree_spawn 1)
  options+=(--mca oob_tcp_if_include "$kNetwork.0/24" --mca btl_tcp_if_include "$kNetwork.0/24")
  # Send protocol only (no put and get), and yielding while waiting: with Open MPI's TCP defaults an all-reduce reaches only two
  # thirds of the link's rate.
  options+=(--mca pml ob1 --mca btl 'tcp,vader,self' --mca btl_tcp_flags 0x1 --mca mpi_yield_when_idle 1)
  signal_to_end=USR1
  # mpirun must ignore the signal before and after the time in which it forwards it.
  start 0 env --ignore-signal=USR1 mpirun "${options[@]}" bash -c "$rank_script" rank "${command[@]}"
}

start_without_mpi() {
  local host addresses=''
  for ((host = 0; host < num_hosts; ++host)); do addresses+=,$(address "$host"); done
  export TERNGRAD_HOST_COUNT=$num_hosts TERNGRAD_HOST_ADDRESSES=${addresses#,} TERNGRAD_HOST_INTERFACE=$kInterface
  for ((host = 0; host < num_hosts; ++host)); do
    TERNGRAD_HOST_RANK=$host TERNGRAD_HOST_ADDRESS=$(address "$host") start "$host" "${command[@]}"
  done
}

trap take_down EXIT
for signal in INT TERM HUP; do
  # shellcheck disable=SC2064  # each trap has its own signal
  trap "ask_to_stop $signal" "$signal"
done
rank_script=$(cat "$(dirname "${BASH_SOURCE[0]}")/mpi_rank.sh")
state=$(mktemp -d "${TMPDIR:-/tmp}/terngrad.XXXXXX")
make_hosts
make_agent
iperf_rate=
if $iperf; then measure_link; fi
stop_if_asked

counts=()
count_bytes
started=$(date +%s.%N)
if $mpi; then start_mpi; else start_without_mpi; fi
await_all
seconds=$(awk -v begin="$started" -v end="$(date +%s.%N)" 'BEGIN { printf "%.3f", end - begin }')
count_bytes
report_counts "$seconds"
stop_if_asked
(exit "$status")
