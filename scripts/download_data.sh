#!/usr/bin/env bash
# Downloads a public data set, verifies published checksums, and stores it where training finds it.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/download_data.sh mnist|cifar10 [--data_dir DIR] [--mirror URL] [--checksums FILE]

Downloads a data set to DIR (default: data/mnist, data/cifar10). What is there and right is left alone, so the script can
be run again after an interruption: it continues where it stopped. Every file is checked against the MD5 published for it;
one that differs is thrown away, one that was there before is renamed to FILE.other.

  mnist    four .gz files, 12 MB
  cifar10  the binary version, 170 MB to fetch; unpacked to DIR/cifar-10-batches-bin, 184 MB

  --data_dir DIR    where to put it
  --mirror URL      fetch from URL/FILE instead of the usual addresses; may be repeated, tried in this order
  --checksums FILE  check against these, as md5sum prints them, instead of the published ones: for a mirror of another
                    set in the same files, such as Fashion-MNIST
  --help            print this text and exit

Then: terngrad_train --dataset mnist --data_dir data/mnist
TEXT
}

fail() {
  echo "download_data.sh: $*" >&2
  exit 1
}
refuse() {
  echo "download_data.sh: $*" >&2
  exit 2
}

dataset=
data_dir=
mirrors=()
checksums=
while (($# > 0)); do
  case $1 in
    --data_dir=*) data_dir=${1#*=} ;;
    --mirror=*) mirrors+=("${1#*=}") ;;
    --checksums=*) checksums=${1#*=} ;;
    --data_dir | --mirror | --checksums)
      if [[ -z ${2-} ]]; then refuse "$1: a value is missing"; fi
      case $1 in
        --data_dir) data_dir=$2 ;;
        --mirror) mirrors+=("$2") ;;
        --checksums) checksums=$2 ;;
      esac
      shift
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    mnist | cifar10)
      if [[ -n $dataset ]]; then refuse "one data set at a time, got '$dataset' and '$1'"; fi
      dataset=$1
      ;;
    *) refuse "unknown argument '$1'; accepted: mnist, cifar10, --data_dir, --mirror, --checksums, --help" ;;
  esac
  shift
done
if [[ -z $dataset ]]; then refuse "which data set? accepted: mnist, cifar10"; fi
if [[ -n $checksums && ! -r $checksums ]]; then refuse "--checksums $checksums: there is no such file"; fi
# The user's folder is relative to the working directory, the default to the repository.
if [[ -z $data_dir ]]; then data_dir=$(dirname "${BASH_SOURCE[0]}")/../data/$dataset; fi

if ((${#mirrors[@]} == 0)); then
  case $dataset in
    # PyTorch's mirror first: MNIST's original site is often unavailable.
    mnist) mirrors=(https://ossci-datasets.s3.amazonaws.com/mnist https://yann.lecun.com/exdb/mnist) ;;
    cifar10) mirrors=(https://www.cs.toronto.edu/~kriz) ;;
  esac
fi

for tool in curl md5sum; do
  command -v "$tool" >/dev/null || fail "needs $tool"
done

has_md5() { # FILE MD5
  [[ -f $1 ]] && [[ $(md5sum <"$1" | cut -d ' ' -f 1) == "$2" ]]
}

# md5_of NAME: the expected checksum of NAME.
md5_of() {
  local md5
  if [[ -n $checksums ]]; then
    md5=$(awk -v name="$1" '{ sub(/^\*/, "", $2) } $2 == name { print $1; exit }' "$checksums")
    [[ -n $md5 ]] || fail "--checksums $checksums: has no line for $1"
    echo "$md5"
    return
  fi
  case $1 in
    train-images-idx3-ubyte.gz) echo f68b3c2dcbeaaa9fbdd348bbdeb94873 ;;
    train-labels-idx1-ubyte.gz) echo d53e105ee54ea40749a09fcbcd1e9432 ;;
    t10k-images-idx3-ubyte.gz) echo 9fb629c4189551a2d022fa330f9573f3 ;;
    t10k-labels-idx1-ubyte.gz) echo ec29112dd5afa0611ce80d1b7f02629c ;;
    cifar-10-binary.tar.gz) echo c32a1d4ab5d03f1284b67883e8d87530 ;;
  esac
}

size_of() { # FILE: its bytes, 0 if there is none
  if [[ -f $1 ]]; then stat -c %s "$1"; else echo 0; fi
}

# download URL PART: fetches the rest of PART, and retries after a broken connection as long as PART grows. An incomplete PART is
# kept for a later attempt.
download() {
  local url=$1 part=$2 anew=false before status
  local options=(--fail --location --silent --show-error --connect-timeout 20 --speed-limit 1000 --speed-time 60
    --retry 2 --output "$part")
  while true; do
    before=$(size_of "$part")
    status=0
    if ((before > 0)); then
      curl "${options[@]}" --continue-at - "$url" || status=$?
    else
      curl "${options[@]}" "$url" || status=$?
    fi
    if ((status == 0)); then return; fi
    if (($(size_of "$part") <= before)); then
      # 33: the server does not support ranges. 22: an HTTP error, such as 416 for a PART longer than the file. Start over
      # once.
      if $anew || ((before == 0)) || ((status != 22 && status != 33)); then return 1; fi
      anew=true
      rm -f "$part"
    fi
    sleep 1
  done
}

# fetch NAME: downloads NAME to data_dir. Only a file with the right checksum gets that name.
fetch() {
  local name=$1 md5 base found part=$data_dir/$1.part
  md5=$(md5_of "$name")
  if has_md5 "$data_dir/$name" "$md5"; then
    echo "$name: there already"
    return
  fi
  if [[ -e $data_dir/$name ]]; then
    echo "$name: has another MD5 than $md5, kept as $name.other"
    mv -f "$data_dir/$name" "$data_dir/$name.other"
  fi
  # An earlier run may have stopped between the last byte and the renaming.
  if has_md5 "$part" "$md5"; then
    mv -f "$part" "$data_dir/$name"
    echo "$name: fetched already"
    return
  fi
  for base in "${mirrors[@]%/}"; do
    # A partial file of an earlier run or another mirror may be damaged: the second attempt starts without it.
    for _ in 1 2; do
      echo "$name: fetching from $base"
      if ! download "$base/$name" "$part"; then break; fi
      if has_md5 "$part" "$md5"; then
        mv -f "$part" "$data_dir/$name"
        return
      fi
      found=$(md5sum <"$part" | cut -d ' ' -f 1)
      rm -f "$part"
      echo "download_data.sh: $base/$name: expected MD5 $md5, found $found; thrown away" >&2
    done
  done
  fail "$name could not be had from ${mirrors[*]}"
}

fetch_mnist() {
  local name
  for name in {train-images-idx3,train-labels-idx1,t10k-images-idx3,t10k-labels-idx1}-ubyte.gz; do fetch "$name"; done
}

# Succeeds if all six files are unchanged since unpacking, by recorded checksums or, without those, by size.
cifar10_is_there() {
  local folder=$1 name
  for name in data_batch_{1,2,3,4,5}.bin test_batch.bin; do
    if (($(size_of "$folder/$name") != 30730000)); then return 1; fi
  done
  if [[ ! -f $folder/MD5SUMS ]]; then return 0; fi
  (cd "$folder" && md5sum --check --status --strict MD5SUMS)
}

fetch_cifar10() {
  local archive=cifar-10-binary.tar.gz folder=$data_dir/cifar-10-batches-bin
  if cifar10_is_there "$folder"; then
    echo "cifar-10-batches-bin: there already"
    return
  fi
  fetch "$archive"
  # Unpack to a temporary folder and move file by file, checksums last, so that an interruption leaves no incomplete file.
  local aside=$data_dir/cifar-10.part
  rm -rf "$aside"
  mkdir "$aside"
  tar -xzf "$data_dir/$archive" -C "$aside" || fail "$archive cannot be unpacked"
  cifar10_is_there "$aside/cifar-10-batches-bin" || fail "$archive does not hold the six files of 30730000 bytes"
  (cd "$aside/cifar-10-batches-bin" && md5sum ./*.bin >"../MD5SUMS")
  mkdir -p "$folder"
  rm -f "$folder/MD5SUMS"
  mv -f "$aside"/cifar-10-batches-bin/* "$folder"
  mv -f "$aside/MD5SUMS" "$folder"
  rm -rf "$aside" "${data_dir:?}/$archive"
}

mkdir -p "$data_dir"
if [[ $dataset == mnist ]]; then fetch_mnist; else fetch_cifar10; fi
echo "download_data.sh: $dataset is in $data_dir"
