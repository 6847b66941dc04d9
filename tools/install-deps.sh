#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Install what building and testing nibble needs on Debian 12 (or a newer Debian or Ubuntu), if it is missing.
#
#   install-deps.sh [build|demo|check]     build: compiler and libraries; demo: and Python for make demo;
#                                          check (default): and all that the tests use
#   install-deps.sh mingw|wine             the compiler for Windows; Wine, to run what it makes
set -euo pipefail
build=(gcc g++ make cmake ninja-build pkg-config libjansson-dev libssl-dev libzip-dev libpthreadpool-dev
  libcurl4-openssl-dev)
demo=(python3 python3-venv)
check=(libcmocka-dev openssl zsh fish dpkg-dev file clang libclang-rt-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross
  qemu-user debootstrap)
case ${1:-check} in
build) packages=("${build[@]}") ;;
demo) packages=("${build[@]}" "${demo[@]}") ;;
check) packages=("${build[@]}" "${demo[@]}" "${check[@]}") ;;
mingw) packages=(gcc-mingw-w64-x86-64-posix cmake ninja-build pkg-config dpkg-dev) ;;
wine) packages=(wine wine64 python3 openssl) ;;
*) sed -n '5,7p' "$0" >&2; exit 2 ;;
esac
# The oracle of the language needs Node.js; a Node.js that is already there is as good as Debian's.
if [ "${1:-check}" = check ] && ! command -v npm >/dev/null; then packages+=(nodejs npm); fi

missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || {
    echo "install-deps.sh: missing packages, and neither root nor sudo: ${missing[*]}" >&2
    exit 1
  }
  sudo=sudo
fi
echo "installing: ${missing[*]}"
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
