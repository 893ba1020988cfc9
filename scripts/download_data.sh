#!/usr/bin/env bash
# Downloads a public data set, verifies published checksums, and stores it where training finds it.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/download_data.sh mnist|cifar10|flowers|imagenet [--data_dir DIR] [--mirror URL] [--checksums FILE]

Downloads a data set to DIR (default: data/mnist and so on). What is there and right is left alone, so the script can be
run again after an interruption: it continues where it stopped. Every file is checked against the checksum published for
it; one that differs is thrown away, one that was there before is renamed to FILE.other.

  mnist     four .gz files, 12 MB
  cifar10   the binary version, 170 MB to fetch; unpacked to DIR/cifar-10-batches-bin, 184 MB
  flowers   3670 photographs in 5 classes, 229 MB to fetch; unpacked to DIR/train and DIR/test, which gets 100 of each
            class, spread evenly over the names
  imagenet  the archives of ILSVRC 2012, 155 GB, with two lists of synsets. They are given to registered users only: set
            IMAGENET_USERNAME and IMAGENET_ACCESS_KEY, which are sent by HTTP basic authentication to where the archives
            are fetched from (a --mirror too), or put the archives into DIR, where they are checked

  --data_dir DIR    where to put it
  --mirror URL      fetch from URL/FILE instead of the usual addresses; may be repeated, tried in this order
  --checksums FILE  check against these, as md5sum or sha256sum prints them, instead of the published ones: for a mirror
                    of another set in the same files, such as Fashion-MNIST
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
    mnist | cifar10 | flowers | imagenet)
      if [[ -n $dataset ]]; then refuse "one data set at a time, got '$dataset' and '$1'"; fi
      dataset=$1
      ;;
    *) refuse "unknown argument '$1'; accepted: mnist, cifar10, flowers, imagenet, --data_dir, --mirror, --checksums, --help" ;;
  esac
  shift
done
if [[ -z $dataset ]]; then refuse "which data set? accepted: mnist, cifar10, flowers, imagenet"; fi
if [[ -n $checksums && ! -r $checksums ]]; then refuse "--checksums $checksums: there is no such file"; fi
# The user's folder is relative to the working directory, the default to the repository.
if [[ -z $data_dir ]]; then data_dir=$(dirname "${BASH_SOURCE[0]}")/../data/$dataset; fi

# The TernGrad authors' repository.
original=https://raw.githubusercontent.com/wenwei202/terngrad/ec4f75e9a3a1e1c4b2e6494d830fbdfdd2e03ddc

# set_bases NAME: sets the array `bases` to the addresses that NAME is fetched from.
set_bases() {
  bases=("${mirrors[@]%/}")
  if ((${#bases[@]} > 0)); then return; fi
  case $1 in
    # PyTorch's mirror first: MNIST's original site is often unavailable.
    *-ubyte.gz) bases=(https://ossci-datasets.s3.amazonaws.com/mnist https://yann.lecun.com/exdb/mnist) ;;
    cifar-10-binary.tar.gz) bases=(https://www.cs.toronto.edu/~kriz) ;;
    flower_photos.tgz) bases=(https://storage.googleapis.com/download.tensorflow.org/example_images) ;;
    ILSVRC2012_*) bases=(https://image-net.org/data/ILSVRC/2012) ;;
    imagenet_*.txt) bases=("$original/terngrad/inception/data") ;;
  esac
}

for tool in curl md5sum sha256sum; do
  command -v "$tool" >/dev/null || fail "needs $tool"
done

# sum_of FILE SUM: the checksum of FILE, of the kind that SUM is.
sum_of() {
  if ((${#2} == 64)); then sha256sum <"$1" | cut -d ' ' -f 1; else md5sum <"$1" | cut -d ' ' -f 1; fi
}
kind_of() { # SUM
  if ((${#1} == 64)); then echo SHA-256; else echo MD5; fi
}
has_sum() { # FILE SUM
  [[ -f $1 ]] && [[ $(sum_of "$1" "$2") == "$2" ]]
}

# expected_sum NAME: the checksum that NAME must have.
expected_sum() {
  local sum
  if [[ -n $checksums ]]; then
    sum=$(awk -v name="$1" '{ sub(/^\*/, "", $2) } $2 == name { print $1; exit }' "$checksums")
    [[ -n $sum ]] || fail "--checksums $checksums: has no line for $1"
    echo "$sum"
    return
  fi
  case $1 in
    # TensorFlow Datasets, url_checksums/tf_flowers.txt.
    flower_photos.tgz) echo 4c54ace7911aaffe13a365c34f650e71dd5bf1be0a58b464e5a7183e3e595d9c ;;
    # torchvision.datasets.ImageNet.
    ILSVRC2012_img_train.tar) echo 1d675b47d978889d74fa0da5fadfb00e ;;
    ILSVRC2012_img_val.tar) echo 29b22e2961454d5413ddabcf34fc5622 ;;
    # The files of the TernGrad authors' repository.
    imagenet_lsvrc_2015_synsets.txt) echo 5ef135d00f8768c0f62853cd9dbc563d ;;
    imagenet_2012_validation_synset_labels.txt) echo eaa6788f6a51fca5fb184f235d0c4e62 ;;
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

# curl_as_user URL OPTION...: curl, for ImageNet's archives with the user's key. It comes by a pipe, since all users of the
# machine can see a command line.
curl_as_user() {
  local url=$1 user="${IMAGENET_USERNAME-}:${IMAGENET_ACCESS_KEY-}"
  shift
  if [[ $url == */ILSVRC2012_* && $user != : ]]; then
    user=${user//\\/\\\\}
    curl "$@" --config - "$url" <<<"user = \"${user//\"/\\\"}\""
  else
    curl "$@" "$url"
  fi
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
      curl_as_user "$url" "${options[@]}" --continue-at - || status=$?
    else
      curl_as_user "$url" "${options[@]}" || status=$?
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
  local name=$1 sum kind base found bases part=$data_dir/$1.part
  sum=$(expected_sum "$name")
  kind=$(kind_of "$sum")
  if has_sum "$data_dir/$name" "$sum"; then
    echo "$name: there already"
    return
  fi
  if [[ -e $data_dir/$name ]]; then
    echo "$name: has another $kind than $sum, kept as $name.other"
    mv -f "$data_dir/$name" "$data_dir/$name.other"
  fi
  # An earlier run may have stopped between the last byte and the renaming.
  if has_sum "$part" "$sum"; then
    mv -f "$part" "$data_dir/$name"
    echo "$name: fetched already"
    return
  fi
  set_bases "$name"
  for base in "${bases[@]}"; do
    # A partial file of an earlier run or another mirror may be damaged: the second attempt starts without it.
    for _ in 1 2; do
      echo "$name: fetching from $base"
      if ! download "$base/$name" "$part"; then break; fi
      if has_sum "$part" "$sum"; then
        mv -f "$part" "$data_dir/$name"
        return
      fi
      found=$(sum_of "$part" "$sum")
      rm -f "$part"
      echo "download_data.sh: $base/$name: expected $kind $sum, found $found; thrown away" >&2
    done
  done
  fail "$name could not be had from ${bases[*]}"
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

# Image floor(i n / 100) of the n of each class goes to the test set, for i from 0 to 99.
fetch_flowers() {
  local aside=$data_dir/flowers.part class name names i
  if [[ -d $data_dir/train && -d $data_dir/test ]]; then
    echo "train, test: there already"
    return
  fi
  for name in train test; do
    [[ ! -e $data_dir/$name ]] || fail "$data_dir has one of train and test already; remove it, or give another --data_dir"
  done
  fetch flower_photos.tgz
  rm -rf "$aside"
  mkdir -p "$aside/test"
  tar -xzf "$data_dir/flower_photos.tgz" -C "$aside" || fail "flower_photos.tgz cannot be unpacked"
  [[ -d $aside/flower_photos ]] || fail "flower_photos.tgz does not hold a folder flower_photos"
  for class in "$aside"/flower_photos/*/; do
    mapfile -t names < <(find "$class" -type f -name '*.jpg' -printf '%f\n' | LC_ALL=C sort)
    ((${#names[@]} > 100)) || fail "flower_photos.tgz: class $(basename "$class") has ${#names[@]} images, expected over 100"
    mkdir "$aside/test/$(basename "$class")"
    for ((i = 0; i < 100; ++i)); do
      name=${names[i * ${#names[@]} / 100]}
      mv "$class/$name" "$aside/test/$(basename "$class")/"
    done
  done
  mv "$aside/test" "$data_dir/test"
  for name in "$aside"/flower_photos/*.txt; do
    if [[ -f $name ]]; then mv "$name" "$data_dir"; fi
  done
  mv -T "$aside/flower_photos" "$data_dir/train"
  rm -rf "$aside" "${data_dir:?}/flower_photos.tgz"
  echo "next: terngrad_records build --input $data_dir --out $data_dir-records --train_shards 8 --test_shards 2"
}

fetch_imagenet() {
  local name
  if [[ -n ${IMAGENET_USERNAME-} && -z ${IMAGENET_ACCESS_KEY-} ]]; then
    refuse "IMAGENET_USERNAME is set without IMAGENET_ACCESS_KEY: set both, or neither"
  fi
  if ((${#mirrors[@]} == 0)) && [[ -z ${IMAGENET_USERNAME-} ]]; then
    for name in ILSVRC2012_img_{train,val}.tar; do
      [[ -f $data_dir/$name ]] || refuse "$name is given to users of image-net.org: set IMAGENET_USERNAME and" \
        "IMAGENET_ACCESS_KEY, or put it into $data_dir"
    done
  fi
  for name in imagenet_{lsvrc_2015_synsets,2012_validation_synset_labels}.txt ILSVRC2012_img_{val,train}.tar; do
    fetch "$name"
  done
  echo "next: docs/imagenet.md, section Records; boxes (ILSVRC2012_bbox_train_v2.tar.gz) are optional and not fetched here"
}

mkdir -p "$data_dir"
"fetch_$dataset"
echo "download_data.sh: $dataset is in $data_dir"
