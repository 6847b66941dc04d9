#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make a Python environment with the packages of tests/requirements.txt, and print the path of its interpreter.
#
#   python-env.sh DIR
#
# An environment that is complete and of the same requirements is used again. Safe to call from several tests at once.
set -euo pipefail
[ $# = 1 ] || { echo "usage: python-env.sh DIR" >&2; exit 2; }
requirements=$(cd "$(dirname "$0")/.." && pwd)/tests/requirements.txt
mkdir -p "$1"
dir=$(cd "$1" && pwd)

fail() { echo "python-env.sh: $*" >&2; exit 1; }
command -v python3 >/dev/null || fail "python3 is missing (Debian: apt-get install python3 python3-venv)"

exec 9>"$dir/.lock"
flock 9
stamp=$(python3 --version; cat "$requirements")
if [ ! -x "$dir/venv/bin/python" ] || [ "$(cat "$dir/.complete" 2>/dev/null)" != "$stamp" ]; then
  rm -rf "$dir/venv" "$dir/.complete"
  python3 -m venv "$dir/venv" >"$dir/log" 2>&1 ||
    { cat "$dir/log" >&2; fail "python3 -m venv failed (Debian: apt-get install python3-venv)"; }
  "$dir/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements" \
    >"$dir/log" 2>&1 || { tail -5 "$dir/log" >&2; fail "pip could not install tests/requirements.txt"; }
  printf '%s\n' "$stamp" >"$dir/.complete"
fi
echo "$dir/venv/bin/python"
