#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build and pass all tests.
#
#   check.sh              everything
#   check.sh STAGE...     some of: gcc sanitize clang gpu windows
#
# Stages: gcc (warnings are errors, all tests), sanitize (the same tests under ASan and UBSan; gcc's
# warnings about instrumented code are not counted), clang (build of library
# and fuzz targets with warnings as errors), gpu (the tests of the WebGPU backend on a software GPU, in a Debian root
# that has Dawn), windows (library, CPU backend and tool built with mingw-w64, tested under Wine).
# Ends with "N passed, N failed" over the stages' tests.
set -euo pipefail
cd "$(dirname "$0")/.."
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(gcc sanitize clang gpu windows)
out=${NIBBLE_CHECK_DIR:-build/check}
jobs=$(nproc)
mkdir -p "$out"
tools/install-deps.sh check
# One Python environment for all stages, made while the first one compiles.
python=$PWD/build/python
tools/python-env.sh "$python" >"$out/python.log" 2>&1 &

passed=0 failed=0 notes=()
# run_tests STAGE DIR: run ctest there and add up its counts; ctest's own summary stays visible.
run_tests() {
  local log="$out/$1.log" total bad
  (cd "$2" && ctest --output-on-failure -j "$jobs") 2>&1 | tee "$log" | grep -vE '^ *(Start|[0-9]+/[0-9]+) ' || true
  total=$(sed -nE 's/.* tests passed, [0-9]+ tests failed out of ([0-9]+)$/\1/p; s/^100% tests passed, 0 tests failed out of ([0-9]+)$/\1/p' "$log" | tail -1)
  bad=$(sed -nE 's/.* ([0-9]+) tests failed out of .*/\1/p' "$log" | tail -1)
  if [ -z "$total" ]; then total=1 bad=1; notes+=("$1: no test ran"); fi
  passed=$((passed + total - bad)) failed=$((failed + bad))
  notes+=("$1: $((total - bad)) passed, $bad failed")
  # What a test could not run here is said again at the end, so that nobody misses it.
  while read -r line; do notes+=("$1: $line"); done < <(grep -h 'NOT RUN' "$2"/Testing/Temporary/LastTest.log 2>/dev/null | sort -u)
}

# run_script STAGE LINES COMMAND...: a stage that counts by itself; its last lines are shown.
run_script() {
  local log="$out/$1.log" stage=$1 lines=$2 line
  shift 2
  if "$@" 2>&1 | tee "$log" | tail -n "$lines"; then :; fi
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -1 || true)
  if [ -z "$line" ]; then line="0 passed, 1 failed"; notes+=("$stage: no test ran, see $log"); fi
  passed=$((passed + $(echo "$line" | sed -E 's/^([0-9]+) passed.*/\1/')))
  failed=$((failed + $(echo "$line" | sed -E 's/.*, ([0-9]+) failed.*/\1/')))
  notes+=("$stage: $line")
  while read -r line; do notes+=("$stage: $line"); done < <(grep -h 'NOT RUN' "$log" | sort -u)
}

for stage in "${stages[@]}"; do
  echo "== $stage"
  case $stage in
  gcc)
    cmake -S . -B "$out/gcc" -G Ninja -DCMAKE_C_COMPILER=gcc -DNIB_WERROR=ON -DNIB_PYTHON_ENV="$python" >/dev/null
    cmake --build "$out/gcc" -j "$jobs" | tail -1
    run_tests gcc "$out/gcc" ;;
  sanitize)
    cmake -S . -B "$out/sanitize" -G Ninja -DCMAKE_C_COMPILER=gcc -DNIB_SANITIZE=address,undefined \
      -DNIB_PYTHON_ENV="$python"       -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="-O1 -g" >/dev/null
    cmake --build "$out/sanitize" -j "$jobs" | tail -1
    run_tests sanitize "$out/sanitize" ;;
  clang)
    cmake -S . -B "$out/clang" -G Ninja -DCMAKE_C_COMPILER=clang -DNIB_WERROR=ON -DNIB_FUZZ=ON -DBUILD_TESTING=ON >/dev/null
    if cmake --build "$out/clang" -j "$jobs" >"$out/clang.log" 2>&1; then
      passed=$((passed + 1)) notes+=("clang: builds without a warning")
    else
      grep -E 'error|warning' "$out/clang.log" | head -20 || true
      failed=$((failed + 1)) notes+=("clang: build FAILED, see $out/clang.log")
    fi ;;
  gpu) run_script gpu 40 tools/gpu-check.sh ;;
  windows) run_script windows 15 tools/windows.sh "$out/windows" ;;
  *) sed -n '4,13p' "$0" >&2; exit 2 ;;
  esac
done

echo
printf '%s\n' "${notes[@]}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
