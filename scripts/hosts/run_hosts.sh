#!/usr/bin/env bash
# Starts a training on several hosts over ssh through mpirun, after checking that they agree, and collects its logs.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/hosts/run_hosts.sh [OPTION...] HOSTFILE CONFIG

Runs terngrad_train on the hosts of HOSTFILE with the settings of CONFIG, by mpirun over ssh. Refuses hosts that do not
agree before anything is started.

HOSTFILE has a line for each host, ranks being numbered in this order:
  HOST [slots=S] [data_dir=DIR] [devices=LIST]
S processes (default: 1) that read their data in DIR and see the GPUs in LIST, such as 0,1. If one host has a data_dir,
all have. # begins a comment, here anywhere, in CONFIG a line.

CONFIG has lines `name = value`: options of terngrad_train, except for train_dir and resume, and settings of the launcher:
  launch.program = FILE   terngrad_train, the same path on all hosts (default: build/release/bin/terngrad_train of here)
  launch.ssh = COMMAND    how hosts are reached (default: ssh), such as ssh -p 2222; without a password
  launch.network = CIDR   network that messages take, such as 10.0.0.0/24 (default: Open MPI's choice)
  launch.mpirun = OPTIONS more options of mpirun, such as --mca coll_tuned_use_dynamic_rules 1
  launch.kill_timeout = N seconds that mpirun gives ranks which it ends itself, because one failed or because mpirun was
                          signalled (default: 5); it waits as long four times over

  --run_dir DIR   the run's folder (default: runs/hosts-DATE)
  --resume        resumes the run in DIR
  --dry_run       checks, prints mpirun's command line, and starts nothing
  --help          print this text and exit

DIR holds train/ (--train_dir, written by rank 0, the first process of the first host: the path must be right there too),
logs/rank-R.log with what each rank prints, logs/launcher.log with what mpirun says, and, while the run is under way,
`running`, by which scripts/hosts/stop_hosts.sh DIR stops it. The terminal shows what rank 0 prints and what others print on
stderr. Variables TERNGRAD_*, DNNL_* and OMP_* of the environment reach all ranks.

Ctrl-C, SIGTERM and SIGHUP ask all ranks to stop, which then save; the second time mpirun ends them. The exit code is
that of the first rank that failed, 128 plus a signal's number if the run was stopped, and 2 for what is refused.
TEXT
}

refuse() {
  echo "run_hosts.sh: $*" >&2
  exit 2
}
say() { echo "run_hosts.sh: $*" >&2; }

start_time() { sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 20; } # PROCESS, as the kernel counts
# is_alive PROCESS START: succeeds if the process runs and is not a later one with the same number.
is_alive() { [[ -r /proc/$1/stat && $(start_time "$1" 2>/dev/null) == "$2" ]]; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run_dir=
resume=false
dry_run=false
positional=()
while (($# > 0)); do
  case $1 in
    --run_dir | --run_dir=*)
      if [[ $1 == *=* ]]; then
        run_dir=${1#*=}
      else
        run_dir=${2-}
        shift
      fi
      if [[ -z $run_dir ]]; then refuse "--run_dir: needs a value"; fi
      ;;
    --resume) resume=true ;;
    --dry_run) dry_run=true ;;
    --help | -h)
      usage
      exit 0
      ;;
    -*) refuse "unknown option '$1'; accepted: --run_dir, --resume, --dry_run, --help" ;;
    *) positional+=("$1") ;;
  esac
  shift
done
if ((${#positional[@]} != 2)); then refuse "expected HOSTFILE CONFIG, got '${positional[*]-}'"; fi
hostfile=${positional[0]}
config=${positional[1]}
for file in "$hostfile" "$config"; do
  if [[ ! -r $file ]]; then refuse "'$file' cannot be read"; fi
done
command -v mpirun >/dev/null || refuse "needs mpirun; install openmpi-bin (scripts/install_deps.sh)"
if $resume && [[ -z $run_dir ]]; then refuse "--resume: needs --run_dir"; fi
if [[ -z $run_dir ]]; then run_dir=runs/hosts-$(date +%Y%m%d-%H%M%S); fi
run_dir=$(realpath --canonicalize-missing "$run_dir")
if $resume && [[ ! -d $run_dir ]]; then refuse "--resume: there is no run in '$run_dir'"; fi
if [[ -s $run_dir/running ]] && read -r host launcher launcher_start old_mpirun mpirun_start <"$run_dir/running"; then
  if [[ $host != "$(uname -n)" ]] || is_alive "$launcher" "$launcher_start" || is_alive "$old_mpirun" "$mpirun_start"; then
    refuse "--run_dir: the run in '$run_dir' is under way on host '$host'; scripts/hosts/stop_hosts.sh stops it"
  fi
fi
if ! $resume && [[ -e $run_dir ]]; then refuse "--run_dir: '$run_dir' is there already; --resume continues with it"; fi

trim() { # TEXT
  local text=${1#"${1%%[![:space:]]*}"}
  echo "${text%"${text##*[![:space:]]}"}"
}

# Parses HOSTFILE to arrays by host.
hosts=()
slots=()
data_dirs=()
devices=()
read_hostfile() {
  local line word words number=0 host
  while IFS= read -r line || [[ -n $line ]]; do
    number=$((number + 1))
    read -ra words <<<"${line%%#*}"
    if ((${#words[@]} == 0)); then continue; fi
    host=${words[0]}
    if ! [[ $host =~ ^[A-Za-z0-9_][A-Za-z0-9_.-]*$ ]]; then refuse "$hostfile:$number: '$host' is no name of a host"; fi
    if [[ " ${hosts[*]-} " == *" $host "* ]]; then refuse "$hostfile:$number: host '$host' is there twice; use slots="; fi
    hosts+=("$host")
    slots+=(1)
    data_dirs+=("")
    devices+=("")
    for word in "${words[@]:1}"; do
      case $word in
        slots=*) slots[-1]=${word#*=} ;;
        data_dir=?*) data_dirs[-1]=${word#*=} ;;
        devices=?*) devices[-1]=${word#*=} ;;
        *) refuse "$hostfile:$number: '$word' is refused; accepted: slots=, data_dir=, devices=" ;;
      esac
    done
    if ! [[ ${slots[-1]} =~ ^[1-9][0-9]{0,3}$ ]]; then
      refuse "$hostfile:$number: slots '${slots[-1]}' is refused, expected a positive number"
    fi
    if [[ -n ${devices[-1]} ]] && ! [[ ${devices[-1]} =~ ^[0-9]+(,[0-9]+)*$ ]]; then
      refuse "$hostfile:$number: devices '${devices[-1]}' is refused, expected numbers such as 0,1"
    fi
  done <"$hostfile"
  if ((${#hosts[@]} == 0)); then refuse "$hostfile: has no hosts"; fi
}

# Parses CONFIG: the launcher's settings, and those of terngrad_train as words of its command line.
program=$here/../../build/release/bin/terngrad_train
ssh=ssh
kill_timeout=5
network=
mpirun_options=
data_dir=
train_options=()
option_lines=()
read_config() {
  local line name value number=0 seen=' '
  while IFS= read -r line || [[ -n $line ]]; do
    number=$((number + 1))
    line=$(trim "$line")
    # As in terngrad_train --config: comments have their own lines, because values may contain #.
    if [[ -z $line || $line == "#"* ]]; then continue; fi
    if [[ $line != *=* ]]; then refuse "$config:$number: '$line' is refused, expected name = value"; fi
    name=$(trim "${line%%=*}")
    value=$(trim "${line#*=}")
    if [[ $name == launch.* || $name == data_dir ]]; then
      if [[ $seen == *" $name "* ]]; then refuse "$config:$number: '$name' is there twice"; fi
      seen+="$name "
      if [[ -z $value ]]; then refuse "$config:$number: '$name' needs a value"; fi
    fi
    case $name in
      launch.program) program=$value ;;
      launch.ssh) ssh=$value ;;
      launch.network) network=$value ;;
      launch.kill_timeout) kill_timeout=$value ;;
      launch.mpirun) mpirun_options=$value ;;
      launch.*)
        refuse "$config:$number: unknown name '$name'; accepted: launch.program, launch.ssh, launch.network," \
          "launch.mpirun, launch.kill_timeout"
        ;;
      data_dir) data_dir=$value ;;
      train_dir) refuse "$config:$number: 'train_dir' is refused: it is train in --run_dir" ;;
      resume) refuse "$config:$number: 'resume' is refused: it is an option of run_hosts.sh" ;;
      *)
        train_options+=("--$name=$value")
        option_lines+=("$number $name")
        ;;
    esac
  done <"$config"
  if [[ -n $network ]] && ! [[ $network =~ ^[0-9.]+/[0-9]+$ ]]; then
    refuse "launch.network: '$network' is refused, expected an IPv4 network such as 10.0.0.0/24"
  fi
  if ! [[ $kill_timeout =~ ^[1-9][0-9]{0,3}$ ]]; then
    refuse "launch.kill_timeout: '$kill_timeout' is refused, expected a positive number of seconds"
  fi
  if [[ $program != /* ]]; then refuse "launch.program: '$program' is refused, expected a path that begins with /"; fi
}

# on_host HOST COMMAND-LINE
on_host() {
  local words
  read -ra words <<<"$ssh"
  "${words[@]}" -n -o BatchMode=yes -o ConnectTimeout=10 "$1" "$2"
}

# check_data: requires a data folder for every host, or that of CONFIG for all.
check_data() {
  local i with=-1 without=-1
  for ((i = 0; i < ${#hosts[@]}; ++i)); do
    if [[ -n ${data_dirs[i]} ]]; then with=$i; else without=$i; fi
    if [[ -z ${data_dirs[i]} ]]; then data_dirs[i]=$data_dir; fi
    # ssh and mpirun resolve relative paths differently.
    if [[ -n ${data_dirs[i]} && ${data_dirs[i]} != /* ]]; then
      refuse "data_dir: '${data_dirs[i]}' of host '${hosts[i]}' is refused, expected a path that begins with /"
    fi
  done
  if ((with >= 0 && without >= 0)) && [[ -z $data_dir ]]; then
    refuse "host '${hosts[with]}' has a data_dir, host '${hosts[without]}' has none, nor has $config"
  fi
}

# check_host I: checks access, the program's version (as on the first host), Open MPI's version (as here), and data.
version=
check_host() {
  local host=${hosts[$1]} folder=${data_dirs[$1]} answer status=0 found mpi
  answer=$(on_host "$host" "printf 'version=%s\n' \"\$(${program@Q} --version 2>&1 | head -n 1)\"
    printf 'mpi=%s\n' \"\$(mpirun --version 2>&1 | head -n 1)\"
    if test -d ${folder@Q}; then echo data; fi; if test -x ${program@Q}; then echo program; fi" 2>&1) || status=$?
  if ((status == 255)) || [[ $answer != *version=* ]]; then refuse "host '$host' cannot be reached by $ssh: $answer"; fi
  if [[ $'\n'$answer$'\n' != *$'\n'program$'\n'* ]]; then refuse "host '$host' has no program '$program'"; fi
  found=$(sed -n 's/^version=//p' <<<"$answer")
  if [[ -z $version ]]; then version=$found; fi
  if [[ $found != "$version" ]]; then
    refuse "programs differ: host '${hosts[0]}' has '$version', host '$host' has '$found'"
  fi
  mpi=$(sed -n 's/^mpi=//p' <<<"$answer")
  found=$(mpirun --version | head -n 1)
  if [[ $mpi != "$found" ]]; then refuse "Open MPI differs: here it is '$found', host '$host' has '$mpi'"; fi
  if [[ -n $folder && $'\n'$answer$'\n' != *$'\n'data$'\n'* ]]; then refuse "host '$host' has no data folder '$folder'"; fi
}

# Rejects names in CONFIG that terngrad_train does not know. --help lists aliases as `(also --NAME)`.
check_options() {
  local text known line name
  text=$(on_host "${hosts[0]}" "${program@Q} --help" 2>&1) || refuse "host '${hosts[0]}': '$program --help' fails: $text"
  known=$(grep -oE '^ +--[a-z0-9_]+|\(also +--[a-z0-9_]+' < <(echo "$text" && echo "$text" | tr -s '\n ' ' ') |
    sed 's/.*--//' || true)
  for line in "${option_lines[@]}"; do
    name=${line#* }
    if ! grep -qxF -e "$name" <<<"$known" || [[ $name == config || $name == help || $name == version ]]; then
      refuse "$config:${line% *}: '$name' is no option of terngrad_train, nor a setting of the launcher"
    fi
  done
}

# Wrapper script of each rank.
rank_script=$(cat "$here/mpi_rank.sh")

# Sets the array `mpirun` to mpirun's command line.
make_command() {
  local i name shared=() own
  mpirun=(mpirun --tag-output --bind-to none --map-by slot)
  if ((EUID == 0)); then mpirun+=(--allow-run-as-root); fi
  mpirun+=(--mca plm_rsh_agent "$ssh -o BatchMode=yes -o ConnectTimeout=10")
  # Full host names in mpirun's messages: 10.0.0.2 instead of 10.
  mpirun+=(--mca orte_keep_fqdn_hostnames 1)
  mpirun+=(--mca odls_base_sigkill_timeout "$kill_timeout" --mca btl_tcp_flags 0x1)
  if [[ -n $network ]]; then
    mpirun+=(--mca oob_tcp_if_include "$network" --mca btl_tcp_if_include "$network")
    mpirun+=(--mca pml ob1 --mca btl 'tcp,vader,self')
  fi
  read -ra own <<<"$mpirun_options"
  mpirun+=("${own[@]}")
  while IFS= read -r name; do shared+=(-x "$name"); done < <(compgen -e | grep -E '^(TERNGRAD|DNNL|OMP)_' || true)
  if $resume; then train_options+=(--resume); fi
  for ((i = 0; i < ${#hosts[@]}; ++i)); do
    own=(--host "${hosts[i]}:${slots[i]}" -np "${slots[i]}" "${shared[@]}")
    if [[ -n ${devices[i]} ]]; then own+=(-x "CUDA_VISIBLE_DEVICES=${devices[i]}"); fi
    own+=(bash -c "$rank_script" rank "$program" --train_dir "$run_dir/train" "${train_options[@]}")
    if [[ -n ${data_dirs[i]} ]]; then own+=(--data_dir "${data_dirs[i]}"); fi
    if ((i > 0)); then mpirun+=(:); fi
    mpirun+=("${own[@]}")
  done
}

# sort_output: splits mpirun's output to a log for each rank, one for the launcher, and the terminal. (Not with awk, which may
# buffer lines.)
sort_output() {
  local line rank stream text of_rank='^\[[0-9]+,([0-9]+)\]<std(out|err|diag)>:(.*)$'
  while IFS= read -r line || [[ -n $line ]]; do
    if ! [[ $line =~ $of_rank ]]; then
      echo "$line" >>"$run_dir/logs/launcher.log"
      echo "$line"
      continue
    fi
    rank=${BASH_REMATCH[1]}
    stream=${BASH_REMATCH[2]}
    text=${BASH_REMATCH[3]}
    echo "$text" >>"$run_dir/logs/rank-$rank.log"
    if [[ $text =~ ^rank\ [0-9]+\ on\ host\ .*\ ended\ with\ exit\ code ]]; then echo "$text" >>"$run_dir/logs/ended"; fi
    if ((rank == 0)); then
      echo "$text"
    elif [[ $stream == err ]]; then
      echo "[rank $rank] $text"
    fi
  done
}

mpirun_process=
stopped_by=
signal_to_end=USR1
ask_to_stop() { # SIGNAL
  if [[ -n $stopped_by && -n $mpirun_process ]]; then
    signal_to_end=
    kill -TERM "$mpirun_process" 2>/dev/null || true
  fi
  stopped_by=$1
}

# Waits for mpirun and sets `status` to its exit code. After a request to stop, signals the ranks every second, because they may
# not handle signals yet.
await_end() {
  local told=-1
  while kill -0 "$mpirun_process" 2>/dev/null; do
    if [[ -n $stopped_by && -n $signal_to_end && $told != "$SECONDS" ]]; then
      told=$SECONDS
      kill -s "$signal_to_end" "$mpirun_process" 2>/dev/null || true
    fi
    sleep 0.1
  done
  status=0
  wait "$mpirun_process" || status=$?
}

# Describes the failure in one line: the first rank's error, or the launcher's.
who_failed() {
  local line
  if [[ -s $run_dir/logs/ended ]]; then
    head -n 1 "$run_dir/logs/ended"
    return
  fi
  line=$(tail -n +"$((launcher_lines + 1))" "$run_dir/logs/launcher.log" 2>/dev/null |
    grep -E 'process rank [0-9]+ .* on node|Remote daemon|executable:' | head -n 1 || true)
  echo "${line:-see $run_dir/logs/launcher.log}"
}

run() {
  local signal log rank=0 i j output=$run_dir/logs/output
  mkdir -p "$run_dir/logs"
  for ((i = 0; i < ${#hosts[@]}; ++i)); do
    for ((j = 0; j < slots[i]; ++j)); do
      echo "== $(date -Is) rank $rank on host ${hosts[i]}" >>"$run_dir/logs/rank-$rank.log"
      rank=$((rank + 1))
    done
  done
  log=$run_dir/logs/launcher.log
  echo "== $(date -Is) $version, $rank processes on ${hosts[*]}" >>"$log"
  launcher_lines=$(wc -l <"$log")
  rm -f "$run_dir/logs/ended" "$output"
  mkfifo "$output"
  trap 'rm -f "$run_dir/running" "$run_dir/logs/ended" "$run_dir/logs/output"' EXIT
  for signal in INT TERM HUP; do
    # shellcheck disable=SC2064  # each trap has its own signal
    trap "ask_to_stop $signal" "$signal"
  done
  # Separate sessions: Ctrl-C in the terminal reaches this process only, which forwards it.
  export -f sort_output
  run_dir=$run_dir setsid bash -c sort_output <"$output" &
  local sorter=$!
  # mpirun must ignore the signal before and after the time in which it forwards it.
  setsid env --default-signal=INT,QUIT --ignore-signal=USR1 setpriv --pdeathsig TERM "${mpirun[@]}" </dev/null >"$output" 2>&1 &
  mpirun_process=$!
  echo "$(uname -n) $$ $(start_time $$) $mpirun_process $(start_time "$mpirun_process")" >"$run_dir/running"
  say "$rank processes on ${#hosts[@]} hosts, run in $run_dir"
  await_end
  # A remaining daemon of mpirun may keep the output open.
  for ((i = 0; i < 50; ++i)); do kill -0 "$sorter" 2>/dev/null && sleep 0.1; done
  kill "$sorter" 2>/dev/null || true
  if ((status != 0)); then
    say "failed with exit code $status: $(who_failed)"
  elif [[ -n $stopped_by ]]; then
    say "stopped by SIG$stopped_by; --resume --run_dir $run_dir continues"
  fi
  if ((status == 0)) && [[ -n $stopped_by ]]; then status=$((128 + $(kill -l "$stopped_by"))); fi
}

read_hostfile
read_config
check_data
for ((i = 0; i < ${#hosts[@]}; ++i)); do check_host "$i"; done
check_options
make_command
if $dry_run; then
  # Quote the command line for a shell, with the script by its name.
  words=()
  for word in "${mpirun[@]}"; do
    if [[ $word == "$rank_script" ]]; then words+=("\"\$(cat ${here@Q}/mpi_rank.sh)\""); else words+=("${word@Q}"); fi
  done
  echo "${words[*]}"
  exit 0
fi
run
(exit "$status")
