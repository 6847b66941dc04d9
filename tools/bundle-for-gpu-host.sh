#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bundle programs that were built in the Debian root (tools/forky-root.sh) with every library they load, so that they run
# on a GPU host with an older C library.
#
#   bundle-for-gpu-host.sh BUILD OUT.tar.xz PROGRAM...    PROGRAMs are paths inside BUILD, the folder built in the root
#
# On the host:   mkdir d && tar xJf OUT.tar.xz -C d && d/run PROGRAM-NAME ARGUMENT...
# It needs the vendor's Vulkan driver (NVIDIA's opens libEGL.so.1: Debian's libegl1); VK_DRIVER_FILES may name its JSON
# file. A software driver of the host does not load beside the newer C library: run software tests in the root.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '3,11p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "$1") out=$(realpath -m "$2"); shift 2
root=$("$here/forky-root.sh" path)
bundle=$(mktemp -d); trap 'rm -rf "$bundle"' EXIT

# Libraries by their path in the root; those of the build folder have paths under /build.
libraries() {
  "$here/forky-root.sh" run "$here/.." "$build" ldd "/build/$1" | grep -oE '/[^ ]+' | sort -u
}
copy() {
  case $1 in
  /build/*) cp -Ln "$build/${1#/build/}" "$bundle/" ;;
  *) cp -Ln "$root$1" "$bundle/" 2>/dev/null || true ;;
  esac
}
# The backend's module is loaded at run time, so its libraries are not among the programs'.
modules=()
[ ! -e "$build/libnibble-webgpu.so" ] || modules=(libnibble-webgpu.so)
for program in "$@" "${modules[@]}"; do
  cp -L "$build/$program" "$bundle/"
  while read -r library; do copy "$library"; done < <(libraries "$program")
done
# What Dawn opens at run time.
for library in libvulkan.so.1 libwebgpu_dawn.so.0 libdl.so.2 libpthread.so.0 librt.so.1 libstdc++.so.6 libgcc_s.so.1; do
  copy "/usr/lib/x86_64-linux-gnu/$library"
done
for file in "$bundle"/*; do strip --strip-debug "$file" 2>/dev/null || true; done
cat >"$bundle/run" <<'RUN'
#!/bin/sh
d=$(cd "$(dirname "$0")" && pwd); p=$1; shift
[ -n "$NIBBLE_WEBGPU_MODULE" ] || export NIBBLE_WEBGPU_MODULE="$d/libnibble-webgpu.so"
exec "$d/ld-linux-x86-64.so.2" --library-path "$d:/usr/lib/x86_64-linux-gnu:/usr/local/nvidia/lib64:/usr/local/nvidia/lib" "$d/$p" "$@"
RUN
chmod +x "$bundle/run"
tar cJf "$out" -C "$bundle" .
ls -l "$out"
