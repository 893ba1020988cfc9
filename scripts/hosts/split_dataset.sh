#!/usr/bin/env bash
# Gives each worker its part of a data set of image files or of records: folders of symbolic links, or lists of files.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/hosts/split_dataset.sh [OPTION...] DATA_DIR NUM_WORKERS [WORKER]

Divides train/CLASS/* of DATA_DIR, or its shards of records train-00000-of-01024 and so on, among NUM_WORKERS workers and
makes for each (or for WORKER alone, counted from 0) a folder DATA_DIR/worker_W_of_N of symbolic links: a data set for
--dataset folder, imagenet, flowers, records, cifar10 or mnist, with all of the test set.

Of shards of records, in the order of names, a worker gets a run; two workers' numbers of shards differ by one at most.
The indexes and labels.txt are linked for all.

Of each class of images, in the byte order of names, a worker gets a run; so all workers have all classes, which is what
numbers the labels. What does not divide evenly goes to the workers in turn: the numbers of images that two workers have
differ by one at most. Names that begin with a dot, Thumbs.db and desktop.ini are passed over. The same arguments always
give the same shards.

  --out DIR  where the folders are made (default: DATA_DIR)
  --lists    no folders but files worker_W_of_N.txt, one path a line, relative to DATA_DIR: for
             rsync --files-from=worker_0_of_4.txt DATA_DIR HOST:DIR
  --help     print this text and exit

Links are relative to where they are: DATA_DIR and DIR can be moved, together. To copy a shard to another host, follow
them: rsync -rL DATA_DIR/worker_0_of_4/ HOST:DIR
TEXT
}

refuse() {
  echo "split_dataset.sh: $*" >&2
  exit 2
}
fail() {
  echo "split_dataset.sh: $*" >&2
  exit 1
}

out=
lists=false
positional=()
while (($# > 0)); do
  case $1 in
    --out | --out=*)
      if [[ $1 == *=* ]]; then
        out=${1#*=}
      else
        out=${2-}
        shift
      fi
      if [[ -z $out ]]; then refuse "--out: needs a value"; fi
      ;;
    --lists) lists=true ;;
    --help | -h)
      usage
      exit 0
      ;;
    -*) refuse "unknown option '$1'; accepted: --out, --lists, --help" ;;
    *) positional+=("$1") ;;
  esac
  shift
done
if ((${#positional[@]} < 2 || ${#positional[@]} > 3)); then
  refuse "expected DATA_DIR NUM_WORKERS [WORKER], got '${positional[*]-}'"
fi
data_dir=${positional[0]}
num_workers=${positional[1]}
only_worker=${positional[2]-}
if ! [[ $num_workers =~ ^[1-9][0-9]{0,4}$ ]]; then
  refuse "NUM_WORKERS: '$num_workers' is refused, expected a positive number below 100000"
fi
if [[ -n $only_worker ]] && { ! [[ $only_worker =~ ^(0|[1-9][0-9]{0,4})$ ]] || ((only_worker >= num_workers)); }; then
  refuse "WORKER: '$only_worker' is refused, expected 0 to $((num_workers - 1))"
fi
# named PATTERN...: prints the names of files in DATA_DIR like one of the patterns, in byte order.
named() {
  local patterns=()
  for pattern; do patterns+=(-o -name "$pattern"); done
  find -L "$data_dir/" -mindepth 1 -maxdepth 1 -type f \( "${patterns[@]:1}" \) -printf '%f\n' | LC_ALL=C sort
}
shards=()
if [[ -d $data_dir && ! -d $data_dir/train ]]; then
  mapfile -t shards < <(named 'train-[0-9]*-of-[0-9]*' '*_train_[0-9]*-of-[0-9]*.tfrecord')
fi
if ((${#shards[@]} == 0)); then
  for subset in train test; do
    if [[ ! -d $data_dir/$subset ]]; then
      refuse "DATA_DIR: '$data_dir' has no folder $subset/, nor shards train-00000-of-... of records"
    fi
  done
elif ((${#shards[@]} < num_workers)); then
  fail "'$data_dir' has ${#shards[@]} shards for $num_workers workers: one would have no records"
fi
# Physical paths, since relative links start there.
data_dir=$(realpath "$data_dir")
if [[ -z $out ]]; then out=$data_dir; fi
mkdir -p "$out" || refuse "--out: '$out' cannot be made"
out=$(realpath "$out")
case $out/ in
  "$data_dir"/train/* | "$data_dir"/test/*) refuse "--out: '$out' is inside the data set's images" ;;
esac

workers=("$only_worker")
if [[ -z $only_worker ]]; then mapfile -t workers < <(seq 0 $((num_workers - 1))); fi
suffix=
if $lists; then suffix=.txt; fi
shard_of() { echo "worker_$1_of_$num_workers$suffix"; } # WORKER
for worker in "${workers[@]}"; do
  shard=$out/$(shard_of "$worker")
  if [[ -e $shard ]]; then refuse "'$shard' is there already; remove it, or choose another --out"; fi
done

# Build in a temporary folder and rename at the end, so that an interruption leaves no incomplete shard.
aside=$(mktemp -d "$out/.split.XXXXXX")
trap 'rm -rf "$aside"' EXIT

# entries FOLDER TYPE: sets the array `names` to the names in FOLDER, which must all have one type (d, f), in byte order.
entries() {
  local other
  # Ignores the same names as --dataset folder.
  local -a find_named=(find "$1/" -mindepth 1 -maxdepth 1 ! -name '.*' ! -iname thumbs.db ! -iname desktop.ini)
  other=$("${find_named[@]}" ! -xtype "$2" -print -quit)
  if [[ -n $other ]]; then fail "'$other' is not a $([[ $2 == d ]] && echo folder || echo file)"; fi
  other=$("${find_named[@]}" -name $'*\n*' -print -quit)
  if [[ -n $other ]]; then fail "'$other' has a line break in its name"; fi
  mapfile -t names < <("${find_named[@]}" -printf '%f\n' | LC_ALL=C sort)
}

# give WORKER FOLDER/ NAME...: adds files of DATA_DIR/FOLDER to a shard; FOLDER/ may be empty.
give() {
  local worker=$1 folder=$2 shard up=$2 name paths=()
  shard=$aside/$(shard_of "$worker")
  shift 2
  if ! $lists; then
    up=$(realpath --canonicalize-missing --relative-to "$out/$(shard_of "$worker")/$folder" "$data_dir/$folder")/
  fi
  for name; do paths+=("$up$name"); done
  if $lists; then
    printf '%s\n' "${paths[@]}" >>"$shard"
    return
  fi
  mkdir -p "$shard/$folder"
  printf '%s\0' "${paths[@]}" | xargs -0 ln -s -t "$shard/$folder" --
}

num_given=()
for worker in "${workers[@]}"; do num_given[worker]=0; done

split_records() {
  local -a shared
  local worker begin=0 size
  mapfile -t shared < <(named 'validation-*' 'test-*' '*_validation_*.tfrecord' '*_test_*.tfrecord' '*.index' labels.txt)
  for ((worker = 0; worker < num_workers; ++worker)); do
    size=$((${#shards[@]} / num_workers + (worker < ${#shards[@]} % num_workers ? 1 : 0)))
    if [[ -n ${num_given[worker]-} ]]; then
      give "$worker" "" "${shards[@]:begin:size}" "${shared[@]}"
      num_given[worker]=$size
    fi
    begin=$((begin + size))
  done
}

split_images() {
  local class classes worker next each over begin size
  entries "$data_dir/train" d
  classes=("${names[@]}")
  if ((${#classes[@]} == 0)); then fail "'$data_dir/train' has no classes"; fi
  next=0 # the worker that gets the first of the images that are left over
  for class in "${classes[@]}"; do
    entries "$data_dir/train/$class" f
    each=$((${#names[@]} / num_workers))
    over=$((${#names[@]} % num_workers))
    if ((each == 0)); then
      fail "'$data_dir/train/$class' has ${#names[@]} images for $num_workers workers: one would be without this class"
    fi
    begin=0
    for ((worker = 0; worker < num_workers; ++worker)); do
      size=$((each + ((worker - next + num_workers) % num_workers < over ? 1 : 0)))
      if [[ -n ${num_given[worker]-} ]]; then
        give "$worker" "train/$class/" "${names[@]:begin:size}"
        ((num_given[worker] += size))
      fi
      begin=$((begin + size))
    done
    next=$(((next + over) % num_workers))
  done

  # Every shard gets all of test/.
  entries "$data_dir/test" d
  for class in "${names[@]}"; do
    entries "$data_dir/test/$class" f
    if ((${#names[@]} == 0)); then fail "'$data_dir/test/$class' has no images"; fi
    for worker in "${workers[@]}"; do give "$worker" "test/$class/" "${names[@]}"; done
  done
}

things=images
if ((${#shards[@]} > 0)); then
  things=shards
  split_records
else
  split_images
fi
for worker in "${workers[@]}"; do
  mv -T "$aside/$(shard_of "$worker")" "$out/$(shard_of "$worker")"
  echo "split_dataset.sh: $out/$(shard_of "$worker"): ${num_given[worker]} training $things"
done
