#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole GPU benchmark on a host that has a GPU driver, python3 with onnx and numpy, and no network:
#
#   bench/gpu/run.sh BUNDLE.tar.xz [LIBONNXRUNTIME.so] [GPU-BENCH-ARGUMENT...]
#
# BUNDLE.tar.xz comes from tools/bundle-for-gpu-host.sh and holds gpu-bench, gpu-peer and their libraries. Without a library
# there are no ratios. VK_DRIVER_FILES may name the Vulkan driver's JSON file.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -ge 1 ] || { sed -n '5,8p' "$0"; exit 2; }
bundle=$1 library=
shift
if [ $# -ge 1 ] && [ "${1#--}" = "$1" ]; then library=$(realpath "$1") && shift; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar xJf "$bundle" -C "$work"
arguments=(--packages kernels/v2 --shapes bench/gpu/shapes.txt)
if [ -n "$library" ]; then
  python3 bench/gpu/models.py "$work/models"
  arguments+=(--peer "$work/run gpu-peer $library" --models "$work/models")
fi
NIBBLE_WEBGPU_MODULE=$work/libnibble-webgpu.so "$work/run" gpu-bench "${arguments[@]}" "$@"
