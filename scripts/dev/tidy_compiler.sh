#!/usr/bin/env bash
# Stands in for g++ under ccache: runs clang-tidy with the options in the file TIDY_OPTIONS, and leaves an object without code and
# the list of included files, so that ccache remembers a source that passed. scripts/dev/tidy.py calls it; the source comes last.
set -euo pipefail

mapfile -t options <"$TIDY_OPTIONS"
# Without the runtime's package clang has no omp.h; g++'s serves, and comes last, because its other headers do not.
clang-tidy "${options[@]}" "${!#}" -- "$@" -idirafter "$(g++ -print-file-name=include)"
object=$(sed -E 's/.* -o ([^ ]+) .*/\1/' <<<" $* ")
g++ "$@" -M -MT "$object"
echo checked >"$object"
