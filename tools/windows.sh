#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build nibble for 64-bit Windows on Debian, and run it under Wine: the library, the CPU backend and the tool.
#
#   windows.sh [FOLDER]     default: build/windows
#
# Left out of this build: threads (no pthreadpool), .npz (no libzip), nibble pull (no libcurl), the GPU. jansson comes from
# Debian's source package. About a minute; what cannot be had here is said in a line with NOT RUN. Ends with
# "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mkdir -p "${1:-build/windows}" && cd "${1:-build/windows}" && pwd)
source=$PWD
toolchain=$source/cmake/mingw-w64.cmake

not_run() {
  echo "NOT RUN: the Windows build: $1"
  echo "0 passed, 0 failed"
  exit 0
}
tools/install-deps.sh mingw || not_run "mingw-w64 cannot be installed here (Debian: gcc-mingw-w64-x86-64-posix)"
wine=1
tools/install-deps.sh wine || wine=0

# The system's package sources, with source packages, in lists of their own.
if [ ! -f "$out/root/lib/libjansson.a" ]; then
  mkdir -p "$out/apt/parts" "$out/apt/lists/partial"
  shopt -s nullglob
  for list in /etc/apt/sources.list.d/*.sources; do
    sed 's/^Types: .*/Types: deb-src/' "$list" >"$out/apt/parts/$(basename "$list")"
  done
  for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$list" ] || continue
    sed 's/^deb /deb-src /' "$list" >"$out/apt/parts/$(basename "${list%.list}").list"
  done
  shopt -u nullglob
  options=(-o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$out/apt/parts" -o "Dir::State::Lists=$out/apt/lists")
  { apt-get "${options[@]}" update -qq && (cd "$out/apt" && apt-get "${options[@]}" source -qq jansson >/dev/null 2>&1); } ||
    not_run "Debian's source of jansson cannot be fetched (apt-get source jansson)"
  cmake -S "$(echo "$out"/apt/jansson-*/)" -B "$out/jansson" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" \
    -DCMAKE_INSTALL_PREFIX="$out/root" -DCMAKE_BUILD_TYPE=Release -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON \
    -DJANSSON_EXAMPLES=OFF >/dev/null
  cmake --build "$out/jansson" >/dev/null
  cmake --install "$out/jansson" >/dev/null
fi

export PKG_CONFIG_LIBDIR=$out/root/lib/pkgconfig
cmake -S . -B "$out/nibble" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DNIB_WINDOWS_ROOT="$out/root" -DNIB_NPZ=OFF \
  -DNIB_THREADS=OFF -DNIB_CURL=OFF -DNIB_WEBGPU=OFF -DNIB_EXTRAS=OFF -DBUILD_TESTING=OFF >/dev/null
if ! cmake --build "$out/nibble" -j "$(nproc)" >"$out/build.log" 2>&1; then
  grep -E 'error|undefined|FAILED' "$out/build.log" | head -20 || true
  echo "the build failed: $out/build.log"
  echo "0 passed, 1 failed"
  exit 1
fi
if [ "$wine" = 0 ] || ! command -v wine >/dev/null; then
  echo "NOT RUN: nibble.exe builds, but nothing ran it: Wine cannot be installed here (Debian: wine, wine64)"
  echo "1 passed, 0 failed"
  exit 0
fi
exec "$source/tests/windows/run.sh" "$out/nibble"
