#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build with the WebGPU backend and pass its tests on whatever adapter there is; a software one will do.
#
#   gpu-check.sh [CTEST-ARGUMENT...]
#
# A system that has Dawn is used as it is; elsewhere a Debian root with Dawn and a software Vulkan driver is made first
# (tools/forky-root.sh). Says what ran and what did not, and ends with "N passed, N failed".
#   NIBBLE_GPU_BUILD     build folder (build/gpu)
#   NIBBLE_GPU_SANITIZE  sanitizers of the build, e.g. address,undefined or thread
#   NIBBLE_TEST_ADAPTER  index or name of the adapter (the best one)
set -euo pipefail
cd "$(dirname "$0")/.."
sanitize=${NIBBLE_GPU_SANITIZE:-}
build=${NIBBLE_GPU_BUILD:-build/gpu${sanitize:+-${sanitize//,/-}}}
log=$build/gpu-tests.log

has_dawn() {
  local probe found=0
  probe=$(mktemp -d)
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES C)\nfind_package(Dawn CONFIG REQUIRED)\n' >"$probe/CMakeLists.txt"
  cmake -S "$probe" -B "$probe/b" >/dev/null 2>&1 && found=1
  rm -rf "$probe"
  [ "$found" = 1 ]
}

mkdir -p "$build"
if has_dawn; then
  echo "Dawn: this system's"
  source=$PWD folder=$build
  enter() { "$@"; }
else
  tools/forky-root.sh make
  echo "Dawn: in the Debian root $(tools/forky-root.sh path)"
  source=/src folder=/build
  enter() { tools/forky-root.sh run "$PWD" "$build" "$@"; }
fi

# gcc 16 sees uninitialized variables where an error status is always a failure; it is not the compiler of the gcc stage.
enter cmake -S "$source" -B "$folder" -G Ninja -DNIB_WEBGPU=ON -DNIB_SANITIZE="$sanitize" -DBUILD_TESTING=ON \
  -DCMAKE_C_FLAGS=-Wno-maybe-uninitialized >"$build/configure.log" 2>&1 || {
  tail -20 "$build/configure.log"
  echo "0 passed, 1 failed"
  exit 1
}
enter cmake --build "$folder" -j "$(nproc)" --target gpu_tests >"$build/build.log" 2>&1 || {
  grep -E -A5 ' error|FAILED' "$build/build.log" | head -40
  echo "the build failed: $build/build.log"
  echo "0 passed, 1 failed"
  exit 1
}

options=(TSAN_OPTIONS=suppressions="$source"/tests/gpu/tsan.supp
  NIBBLE_TEST_ADAPTER="${NIBBLE_TEST_ADAPTER:-}")
enter env "${options[@]}" ctest --test-dir "$folder" -L gpu -V -j "$(nproc)" "$@" >"$log" 2>&1 || true

# Every program reports its cases itself, cmocka's line by line and the command line in a summary. A program that dies in
# the middle is a failure too.
passed=$(grep -cE '^[0-9]+: \[ +OK \]' "$log" || true)
failed=$(grep -E '^[0-9]+: \[  FAILED  \] ' "$log" | grep -vcE 'test\(s\), listed below' || true)
failed=$((failed / 2)) # each is said twice
while read -r good bad; do
  passed=$((passed + good)) failed=$((failed + bad))
done < <(sed -nE 's/^[0-9]+: ([0-9]+) passed, ([0-9]+) failed.*/\1 \2/p' "$log")
programs=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#' "$log" || true)
broken=$(grep -E '^ *[0-9]+/[0-9]+ Test +#' "$log" | grep -vcE ' Passed ' || true)
if [ "$broken" -gt 0 ] && [ "$failed" -eq 0 ]; then failed=$broken; fi
if [ "$programs" -eq 0 ]; then failed=$((failed + 1)) && echo "NO TEST PROGRAM RAN, see $log"; fi

echo
grep -hoE '(webgpu: .*|encode: .*|matrix: .*|run [0-9]: .*)' "$log" | sort | uniq -c | sort -rn | head -20 || true
echo
echo "test programs: $programs, of which $broken failed"
grep -E '^ *[0-9]+/[0-9]+ Test +#' "$log" | grep -vE ' Passed ' || true
grep -E '^[0-9]+: \[  (FAILED|ERROR)  \]' "$log" | sort -u | head -20 || true
grep -hE 'NOT RUN' "$log" | sed -E 's/^[0-9]+: //' | sort | uniq -c || true
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
