#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tool for Windows under Wine.
#
#   run.sh BUILD     a build by tools/windows.sh
#
# Every case of the packages' test.json runs on the CPU backend, expressions and templates give the same text as anywhere,
# files are written and read back, damage is found. Ends with "N passed, N failed".
set -uo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'wineserver -k >/dev/null 2>&1; rm -rf "$work"' EXIT
export WINEPREFIX=$work/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree=;mshtml=" DISPLAY=
export WINEPATH="$build;$(dirname "$(x86_64-w64-mingw32-gcc-posix -print-file-name=libwinpthread-1.dll)")"
cd "$root"
nibble() { wine "$build/cli/nibble.exe" "$@" 2>"$work/err"; }

passed=0 failed=0
# check WHAT EXPECTED COMMAND...: the output holds the text (a pattern of grep -E)
check() {
  local what=$1 expected=$2 got
  shift 2
  got=$("$@")
  if echo "$got" | grep -qE -- "$expected"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED $what: $(echo "$got" | tail -3) $(tail -3 "$work/err")"
  fi
}
both() { nibble "$@"; cat "$work/err"; }
bytes() { nibble "$@" | od -An -c | tr -d ' \n'; }

check version '^nibble [0-9]+\.[0-9]+\.[0-9]+$' nibble --version
check expression '^\[2, ?4294967296\]$' nibble eval '[ceilDiv(7, 4), 2 ** 32]'
check 'line ends' '^4\\n$' bytes eval '2 + 2'
for package in kernels/com.*; do
  name=$(basename "$package")
  check "$name loads, verified" '\(verified\)' nibble inspect "$package"
  check "$name cases" '^[1-9][0-9]* passed, 0 failed' nibble test "$package" --backend cpu --isa scalar
  check "$name cases, best row" '^[1-9][0-9]* passed, 0 failed' nibble test "$package" --backend cpu
  check "$name packed" 'up to date' nibble pack "$package" --check
  check "$name lint" '^0 errors' nibble lint "$package"
done
check 'no GPU here' 'webgpu' both run kernels/com.microsoft.MatMulBnb4 --backend webgpu
check 'by name' '\(verified\)' env NIBBLE_KERNELS=kernels WINEPATH="$WINEPATH" wine "$build/cli/nibble.exe" inspect com.microsoft.MatMulBnb4

# A file with line ends and a ^Z in its bytes must survive the C library.
check quantize 'absmax float32\[32\]' nibble quantize --format bnb4 --weight 'float32[32,64]=rand:3' --out "$work/w.safetensors"
check 'run on it' 'wrote Y' both run kernels/com.microsoft.MatMulBnb4 --in 'A=float32[2,64]=rand:1' \
  --in "B=$work/w.safetensors:B" --in "absmax=$work/w.safetensors:absmax" --attr K=64 --attr N=32 --attr block_size=64 \
  --attr quant_type=1 --out "Y=$work/y.npy"
nibble run kernels/com.microsoft.MatMulBnb4 --in 'A=float32[2,64]=rand:1' --in "B=$work/w.safetensors:B" \
  --in "absmax=$work/w.safetensors:absmax" --attr K=64 --attr N=32 --attr block_size=64 --attr quant_type=1 --isa scalar \
  --out "Y=$work/y2.npy" >/dev/null
check 'an output is replaced' '^ok$' bash -c "nibble() { wine '$build/cli/nibble.exe' \"\$@\"; }; test \$(stat -c %s '$work/y2.npy') = 384 && echo ok"
python3 -c "import zipfile; zipfile.ZipFile('$work/none.npz', 'w').writestr('a.npy', 'x')"
check 'no npz' 'libzip' both run kernels/com.microsoft.MatMulBnb4 --in "A=$work/none.npz:a"
check 'no pull' 'libcurl' both pull webgpu-kernels/com.microsoft.MatMulBnb4 --version 1

cp -r kernels/com.microsoft.MatMulBnb4 "$work/damaged"
echo >>"$work/damaged/build/webgpu/manifest.json"
check 'damage is found' 'SHA-256' both inspect "$work/damaged"
check 'pack' 'written' nibble pack "$work/damaged"
check 'packed again' '\(verified\)' nibble inspect "$work/damaged"
check 'the same digest as elsewhere' '^same$' bash -c "[ \"\$(python3 -c \"import json;print(json.load(open('$work/damaged/build/webgpu/metadata.json'))['digest']['files']['manifest.json'])\")\" = \"\$(openssl dgst -sha256 -binary '$work/damaged/build/webgpu/manifest.json' | base64)\" ] && echo same"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
