#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Debian "forky" root that has Dawn (webgpu.h) and a software Vulkan driver, for systems that have neither.
#
#   forky-root.sh make                           make the root, or add what it lacks (about a minute, 1.3 GB)
#   forky-root.sh run SOURCE BUILD COMMAND...    run COMMAND in BUILD, seen as /build, with SOURCE read-only at /src
#   forky-root.sh path                           where the root is
#
# The root stays in ${XDG_CACHE_HOME:-~/.cache}/nibble/forky-root; NIBBLE_FORKY_ROOT names another place. Needs root (or
# sudo) and Debian's debootstrap. Debian's mirror is the one this system's apt uses; NIBBLE_DEBIAN_MIRROR overrides it.
set -euo pipefail
root=${NIBBLE_FORKY_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/nibble/forky-root}
packages=(gcc g++ libc6-dev make cmake ninja-build pkg-config ca-certificates
  libwebgpu-dawn-dev mesa-vulkan-drivers libvulkan1
  libjansson-dev libssl-dev libzip-dev libpthreadpool-dev libcmocka-dev python3)

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

need_root() {
  [ "$(id -u)" = 0 ] || command -v sudo >/dev/null || {
    echo "forky-root.sh: a Debian root can only be made and entered by root, and there is no sudo" >&2
    exit 1
  }
}

mirror() { # the first plain Debian archive of this system's apt
  local found=${NIBBLE_DEBIAN_MIRROR:-}
  [ -n "$found" ] || found=$(grep -rhoE 'https?://[^ ]+' /etc/apt/sources.list /etc/apt/sources.list.d/*.sources \
    /etc/apt/sources.list.d/*.list 2>/dev/null | grep -E '/debian/?$' | sed -n 1p || true)
  [ -n "$found" ] || found=http://deb.debian.org/debian
  echo "${found%/}"
}

# Into a folder beside it and then renamed: an interrupted attempt leaves no half root.
bootstrap() {
  command -v debootstrap >/dev/null || as_root apt-get install -y -qq debootstrap >/dev/null
  local fresh=$root.new log=$root.log include
  include=$(IFS=,; echo "${packages[*]}")
  mkdir -p "$(dirname "$root")"
  as_root rm -rf "$fresh"
  echo "making a Debian forky root in $root (about a minute)"
  # Debian 12's debootstrap does not know forky; its script for sid is the same for every newer release.
  as_root debootstrap --variant=minbase --include="$include" forky "$fresh" "$(mirror)" \
    /usr/share/debootstrap/scripts/sid >"$log" 2>&1 || {
    tail -5 "$log" >&2
    echo "forky-root.sh: debootstrap failed, see $log" >&2
    exit 1
  }
  # A mirror may be a copy whose Release file is old.
  echo 'Acquire::Check-Valid-Until "false";' | as_root tee "$fresh/etc/apt/apt.conf.d/10frozen-mirror" >/dev/null
  as_root touch "$fresh/.complete"
  as_root mv "$fresh" "$root"
}

# What a root of an earlier version of this list lacks.
missing() {
  local p
  for p in "${packages[@]}"; do
    compgen -G "$root/var/lib/dpkg/info/$p.list" >/dev/null || compgen -G "$root/var/lib/dpkg/info/$p:*.list" >/dev/null ||
      echo "$p"
  done
}

complete() {
  local wanted
  mapfile -t wanted < <(missing)
  [ ${#wanted[@]} -gt 0 ] || return 0
  echo "adding to the Debian root: ${wanted[*]}"
  as_root cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
  as_root chroot "$root" apt-get update -qq
  as_root chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${wanted[@]}" >/dev/null
}

case "${1:-}" in
make)
  need_root
  [ -e "$root/.complete" ] || bootstrap
  complete ;;
run)
  need_root
  [ $# -ge 4 ] || { echo "usage: forky-root.sh run SOURCE BUILD COMMAND..." >&2; exit 2; }
  source=$(realpath "$2"); mkdir -p "$3"; build=$(realpath "$3"); shift 3
  # A mount namespace of its own: the mounts vanish with the command, whatever happens to it.
  as_root unshare --mount --propagation private bash -c '
    root=$1 source=$2 build=$3; shift 3
    mkdir -p "$root/src" "$root/build"
    mount --bind "$source" "$root/src"; mount -o remount,bind,ro "$root/src"
    mount --bind "$build" "$root/build"
    mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"; mount -t tmpfs tmpfs "$root/tmp"
    exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LANG=C.UTF-8 \
      bash -c "cd /build && exec \"\$@\"" bash "$@"' bash "$root" "$source" "$build" "$@" ;;
path) echo "$root" ;;
*) sed -n '3,11p' "$0"; exit 2 ;;
esac
