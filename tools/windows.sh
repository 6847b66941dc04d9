#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build nibble for 64-bit Windows on Debian, and run it under Wine: the library, the CPU backend and the tool.
#
#   windows.sh [FOLDER]     default: build/windows
#
# Left out of this build: threads (no pthreadpool), .npz (no libzip), nibble pull (no libcurl), the GPU. jansson comes from
# Debian's source package. Ends with "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mkdir -p "${1:-build/windows}" && cd "${1:-build/windows}" && pwd)
source=$PWD
toolchain=$source/cmake/mingw-w64.cmake

packages=(gcc-mingw-w64-x86-64-posix wine wine64 dpkg-dev ninja-build cmake)
missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
if [ ${#missing[@]} -gt 0 ]; then
  sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

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
  apt-get "${options[@]}" update -qq
  (cd "$out/apt" && apt-get "${options[@]}" source -qq jansson >/dev/null 2>&1)
  cmake -S "$(echo "$out"/apt/jansson-*/)" -B "$out/jansson" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" \
    -DCMAKE_INSTALL_PREFIX="$out/root" -DCMAKE_BUILD_TYPE=Release -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON \
    -DJANSSON_EXAMPLES=OFF >/dev/null
  cmake --build "$out/jansson" >/dev/null
  cmake --install "$out/jansson" >/dev/null
fi

export PKG_CONFIG_LIBDIR=$out/root/lib/pkgconfig
cmake -S . -B "$out/nibble" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DNIB_WINDOWS_ROOT="$out/root" -DNIB_NPZ=OFF \
  -DNIB_THREADS=OFF -DNIB_CURL=OFF -DNIB_WEBGPU=OFF -DBUILD_TESTING=OFF >/dev/null
cmake --build "$out/nibble" -j "$(nproc)" | tail -1

exec "$source/tests/windows/run.sh" "$out/nibble"
