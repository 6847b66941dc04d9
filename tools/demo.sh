#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job on a real model's weights: fetch SmolLM2-135M once, then tools/main-job.py.
#
#   demo.sh [BUILD_FOLDER] [OPTION...]     options go to main-job.py, e.g. --backend webgpu
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
shift || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=$("$root/tools/fetch-model.sh")
python=$("$root/tools/python-env.sh")
"$python" "$root/tools/main-job.py" --nibble "$build/cli/nibble" --model "$model" --work "$work" "$@"
