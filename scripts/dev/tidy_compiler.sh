#!/usr/bin/env bash
# Replaces g++ under ccache: runs clang-tidy with the options in the file TIDY_OPTIONS, and writes an empty object file and the
# list of included files, so that ccache remembers sources that passed. Called by scripts/dev/tidy.py; the source comes last.
set -euo pipefail

mapfile -t options <"$TIDY_OPTIONS"
# clang lacks omp.h without its runtime's package: use g++'s folder, last, because its other headers do not suit clang.
clang-tidy "${options[@]}" "${!#}" -- "$@" -idirafter "$(g++ -print-file-name=include)"
object=$(sed -E 's/.* -o ([^ ]+) .*/\1/' <<<" $* ")
g++ "$@" -M -MT "$object"
echo checked >"$object"
