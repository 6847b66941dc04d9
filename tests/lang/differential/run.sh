#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh CHECK_PROGRAM TESTS_LANG_DIR WORK_DIR SEED COUNT
# Install the reference implementation into WORK_DIR, generate cases, replay them.
set -eu
check=$1 source=$2 work=$3 seed=$4 count=$5

for tool in node npm; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed: the differential test needs it" >&2; exit 1; }
done
mkdir -p "$work"
cp "$source"/differential/*.mjs "$source"/differential/package.json "$source"/differential/package-lock.json "$work"
cd "$work"
if ! cmp -s package-lock.json node_modules/.installed; then
    npm ci --no-audit --no-fund
    cp package-lock.json node_modules/.installed
fi
node gen.mjs "$seed" "$count" "$source/cases" >cases.jsonl
echo "seed $seed"
"$check" cases.jsonl "$count"
