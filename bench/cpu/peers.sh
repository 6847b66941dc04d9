#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The peers of the CPU benchmark: fetch them by package name, and time them next to the kernels.
#
#   peers.sh ort [BENCH-CPU OPTION...]     ONNX Runtime (npm package onnxruntime-node), pair by pair inside bench-cpu
#   peers.sh ggml [BENCH-CPU OPTION...]    ggml's q4_0 (Debian package llama.cpp-tests), in turn with bench-cpu
#
# With --machine avx2 the peer sees no AVX-512 either. ROUNDS: how often ggml is compared (5).
# BENCH names the bench-cpu program (default: build/bench/cpu/bench-cpu). What is fetched stays in
# ${XDG_CACHE_HOME:-~/.cache}/nibble. ggml needs Debian testing and runs in the root that tools/forky-root.sh makes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nibble
bench=${BENCH:-$source/build/bench/cpu/bench-cpu}
ort_version=1.30.0
rounds=${ROUNDS:-5}

usage() { sed -n '3,11p' "$0"; exit 2; }
fail() { echo "peers.sh: $*" >&2; exit 1; }
[ -x "$bench" ] || fail "there is no $bench: build first, or set BENCH"

fetch_ort() {
  local dir=$cache/ort-$ort_version inside=package/bin/napi-v6/linux/x64
  if [ ! -e "$dir/$inside/libonnxruntime.so.1" ]; then
    command -v npm >/dev/null || fail "npm is missing (Debian: apt-get install npm)"
    mkdir -p "$dir"
    (cd "$dir" && npm pack --silent "onnxruntime-node@$ort_version" >/dev/null && tar xzf onnxruntime-node-*.tgz "$inside")
  fi
  echo "$dir/$inside/libonnxruntime.so.1"
}

tests=/usr/libexec/x86_64-linux-gnu/llama.cpp-tests/test-backend-ops

# What test-backend-ops prints about one product of 4096 x 14336 q4_0 weights with N activation rows. It uses half as many
# threads as the machine has processors, and has no option for it: the preloaded library counts for it.
run_ggml() { # ROOT N THREADS
  unshare --mount bash -c 'mount -t proc proc "$1/proc" && chroot "$1" env LD_PRELOAD=/tmp/libbench-preload.so \
    BENCH_MACHINE="$4" BENCH_PROCESSORS="$5" "$2" perf -o MUL_MAT -b CPU -p "$3"' bash "$1" "$tests" \
    "type_a=q4_0.*n=$2,k=14336" "$machine" $((2 * $3)) 2>&1
}

# Its microseconds.
time_ggml() { run_ggml "$@" | sed -nE 's/.* ([0-9.]+) us\/run.*/\1/p' | head -1; }

# The machine and the number of threads among the options of bench-cpu, for the peer.
read_options() {
  machine='' threads=$(nproc)
  while [ $# -gt 1 ]; do
    case $1 in
    --machine) machine=$2 ;;
    --threads) threads=$2 ;;
    esac
    shift 2
  done
}

# Milliseconds of gate and up together: twice those weights.
time_nibble() { # M OPTION...
  local rows=$1
  shift
  "$bench" --shapes <(echo "mlp M=$rows K=4096 N=14336") --seconds 1 "$@" | sed -nE 's/^  nibble [^:]*: ([0-9.]+) ms.*/\1/p'
}

compare_ggml() {
  local root rows
  read_options "$@"
  root=$("$source/tools/forky-root.sh" path)
  "$source/tools/forky-root.sh" make
  chroot "$root" test -x "$tests" ||
    chroot "$root" apt-get install -y -qq --no-install-recommends llama.cpp-tests >/dev/null
  chroot "$root" dpkg-query -W -f '${Package} ${Version}\n' llama.cpp-tests libggml0 2>/dev/null || true
  cp "$(dirname "$bench")/libbench-preload.so" "$root/tmp/"
  run_ggml "$root" 1 "$threads" | sed -nE 's/.*\/(libggml-cpu-.*)/ggml: \1/p;/CANNOT/p'
  for rows in 1 512; do
    for ((i = 0; i < rounds; i++)); do
      mine=$(time_nibble $rows "$@")
      for count in "$threads" $(((threads + 1) / 2)); do
        echo "M=$rows,_ggml_with_${count}_threads $mine $(time_ggml "$root" $rows "$count")"
      done
    done
  done | awk '{ gsub("_", " ", $1); key = $1; n[key]++; mine[key, n[key]] = $2; theirs[key, n[key]] = 2 * $3 / 1000
                ratio[key, n[key]] = theirs[key, n[key]] / $2 }
              function middle(a, key, q,    i, j, t, s) {
                for (i = 1; i <= n[key]; i++) s[i] = a[key, i]
                for (i = 1; i <= n[key]; i++) for (j = i + 1; j <= n[key]; j++) if (s[j] < s[i]) { t = s[i]; s[i] = s[j]; s[j] = t }
                return s[int(q * (n[key] - 1) + 0.5) + 1]
              }
              END { for (key in n) printf "%s: nibble %.2f ms, ggml 2 products %.2f ms, %.2f times as long (quartiles %.2f to %.2f)\n",
                      key, middle(mine, key, 0.5), middle(theirs, key, 0.5), middle(ratio, key, 0.5), middle(ratio, key, 0.25),
                      middle(ratio, key, 0.75) }' | sort
}

peer=${1:-}
[ -n "$peer" ] || usage
shift
case $peer in
ort)
  library=$(fetch_ort)
  exec "$bench" --ort "$library" "$@" ;;
ggml) compare_ggml "$@" ;;
*) usage ;;
esac
