#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build the kernel tests for AArch64 and run them under qemu, with the dot product extension and without it.
#
#   run.sh SOURCE_ROOT BUILD_DIR
#
# Needs aarch64-linux-gnu-gcc and qemu-aarch64 (Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user). Without
# them the test is not run, and says so.
set -euo pipefail
root=$1 build=$2
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
  if ! command -v $tool >/dev/null; then
    echo "NOT RUN: kernel row neondot, because $tool is not installed"
    exit 77
  fi
done
mkdir -p "$build"
cd "$root"
warnings="-Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion -Werror"
flags="-std=c17 -D_GNU_SOURCE -O2 $warnings -Iinclude -Isrc -Itests/cpu/cross"
objects=()
compile() { # SOURCE FLAG...
  local object="$build/$(basename "$1" .c).o" source=$1
  shift
  aarch64-linux-gnu-gcc $flags "$@" -c "$source" -o "$object"
  objects+=("$object")
}
for source in src/backend/cpu/{decode,detect,pool,prefill,problem_row,rows,solve}.c src/backend/cpu/kernels/scalar.c \
  src/tensor/{blocks,half}.c src/base/{error,memory}.c tests/cpu/cases.c tests/cpu/test_kernels.c; do
  compile "$source"
done
compile src/backend/cpu/kernels/neondot.c -march=armv8.2-a+dotprod
aarch64-linux-gnu-gcc -static "${objects[@]}" -o "$build/test_kernels" -lm
qemu-aarch64 -cpu max "$build/test_kernels" | tee "$build/log"
grep -q "RAN: kernel row neondot" "$build/log"
# A processor of the first generation: the row must not be chosen.
qemu-aarch64 -cpu cortex-a53 "$build/test_kernels" | tee "$build/log53" | grep -v '^ok'
grep -q "NOT RUN: kernel row neondot" "$build/log53"
