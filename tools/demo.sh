#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job on a real model's weights: get SmolLM2-135M and a Python environment once, then run tools/main-job.py.
#
#   demo.sh [BUILD_FOLDER] [OPTION...]     options go to main-job.py, e.g. --backend webgpu
#
# NIBBLE_PYTHON_ENV: folder of the Python environment, build/python by default.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
shift || true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/tools/install-deps.sh" demo
model=$("$root/tools/fetch-model.sh")
python=$("$root/tools/python-env.sh" "${NIBBLE_PYTHON_ENV:-$root/build/python}")
"$python" "$root/tools/main-job.py" --nibble "$build/cli/nibble" --model "$model" --work "$work" "$@"
