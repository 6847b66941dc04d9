#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare `nibble run` on the CPU with numpy in float64, and MatMulBnb4 with ONNX Runtime as well.

Usage: reference.py NIBBLE KERNELS_DIR

Each case runs on every kernel row of the processor. Bounds: float32 within 1e-5 of the largest magnitude of the output row
(for the gated product, of what such an error in gate and up becomes); float16 within one unit in the last place besides.
Prints a line per failure and "N passed, N failed".
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

ROWS = ["amx", "avx512vnni", "avx512", "avxvnni", "avx2", "neondot", "scalar"]
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
       0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
FP4 = [0, 5.208333333e-03, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4]
FP4 += [-x for x in FP4]


class Runner:
    def __init__(self, nibble, kernels, folder):
        self.nibble, self.kernels, self.folder = nibble, pathlib.Path(kernels), pathlib.Path(folder)
        self.passed = self.failed = 0
        self.ran = set()

    def run(self, op, inputs, attributes, outputs, row, relaxed=False):
        """The outputs as float64 arrays; None when the processor has no such row."""
        command = [self.nibble, "run", str(self.kernels / f"com.microsoft.{op}"), "--backend", "cpu", "--isa", row]
        for name, array in inputs.items():
            path = self.folder / f"{name}.npy"
            np.save(path, array)
            command += ["--in", f"{name}={path}"]
        for name, value in attributes.items():
            command += ["--attr", f"{name}={value}"]
        for name in outputs:
            command += ["--out", f"{name}={self.folder / name}.out.npy"]
        done = subprocess.run(command + (["--relaxed"] if relaxed else []), capture_output=True, text=True)
        if "there is no kernel row" in done.stderr:
            return None
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        if f"cpu: {row}," not in done.stderr:
            return None
        self.ran.add(row)
        return [np.load(f"{self.folder / name}.out.npy").astype(np.float64) for name in outputs]

    def check(self, text, is_, should, magnitude, half):
        bound = 1e-5 * magnitude + 1e-37
        if half:
            bound = bound + np.spacing(np.abs(should).astype(np.float16)).astype(np.float64)
        worst = float(np.max(np.abs(is_ - should) / bound)) if is_.size else 0.0
        if is_.shape == should.shape and worst <= 1:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {text}: {worst:.3g} of the bound, shapes {is_.shape} {should.shape}")


def largest(y):
    return np.max(np.abs(y), axis=-1, keepdims=True)


def unpack(codes, bits, K):
    """[N, blocks, blob] -> [N, K] codes, low bits first."""
    N = codes.shape[0]
    flat = codes.reshape(N, -1)
    parts = [flat >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(N, -1)[:, :K]


def nbits(codes, scales, bits, block, K):
    values = unpack(codes, bits, K).astype(np.float64) - 2 ** (bits - 1)
    return values * np.repeat(scales.astype(np.float64), block, axis=1)[:, :K]


def random_nbits(rng, N, K, bits, block, dtype):
    blocks = -(-K // block)
    codes = rng.integers(0, 256, (N, blocks, block * bits // 8), dtype=np.uint8)
    return codes, (rng.standard_normal((N, blocks)) * 0.05).astype(dtype)


def normalized(inputs, epsilon):
    x = inputs["A"].astype(np.float64)
    if "skip" in inputs:
        x = x + inputs["skip"].astype(np.float64)
    total = x
    if "norm_scale" in inputs:
        x = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * inputs["norm_scale"].astype(np.float64)
    return total, x


def activations(rng, shape, K, dtype, norm, skip):
    inputs = {"A": rng.standard_normal((*shape, K)).astype(dtype)}
    if skip:
        inputs["skip"] = rng.standard_normal((*shape, K)).astype(dtype)
    if norm:
        inputs["norm_scale"] = (rng.random(K) + 0.5).astype(dtype)
    return inputs


def qkv_case(runner, rng, shape, K, Nq, Nkv, dtype, skip, residual, epsilon):
    inputs = activations(rng, shape, K, dtype, True, skip)
    for name, N in (("q", Nq), ("k", Nkv), ("v", Nkv)):
        inputs[f"{name}_B"], inputs[f"{name}_scales"] = random_nbits(rng, N, K, 4, 32, dtype)
    attributes = {"K": K, "Nq": Nq, "Nkv": Nkv, "block_size": 32, "epsilon": epsilon}
    total, x = normalized(inputs, epsilon)
    expected = [x @ nbits(inputs[f"{n}_B"], inputs[f"{n}_scales"], 4, 32, K).T for n in "qkv"]
    outputs = ["Q", "K", "V"]
    if residual:
        outputs.append("input_skip_bias_sum")
        expected.append(total)
    for row in ROWS:
        got = runner.run("MatMulNBitsQkv", inputs, attributes, outputs, row)
        for name, y, should in zip(outputs, got or [], expected):
            runner.check(f"qkv {shape} {K} {Nq} {Nkv} {dtype.__name__} {row} {name}", y, should, largest(should),
                         dtype == np.float16)


def mlp_case(runner, rng, shape, K, N, bits, block, dtype, norm, skip, biases):
    inputs = activations(rng, shape, K, dtype, norm, skip)
    for name in ("gate", "up"):
        inputs[f"{name}_B"], inputs[f"{name}_scales"] = random_nbits(rng, N, K, bits, block, dtype)
        if name in biases:
            inputs[f"{name}_bias"] = rng.standard_normal(N).astype(dtype)
    attributes = {"K": K, "N": N, "bits": bits, "block_size": block, "activation": "silu"}
    _, x = normalized(inputs, 1e-5)
    parts = []
    for name in ("gate", "up"):
        y = x @ nbits(inputs[f"{name}_B"], inputs[f"{name}_scales"], bits, block, K).T
        parts.append(y + inputs.get(f"{name}_bias", np.zeros(N)).astype(np.float64))
    gate, up = parts
    with np.errstate(over="ignore"):
        sigmoid = 1 / (1 + np.exp(-gate))
        should = gate / (1 + np.exp(-gate)) * up
    magnitude = np.abs(sigmoid * (1 + gate * (1 - sigmoid)) * up) * largest(gate) + np.abs(gate * sigmoid) * largest(up)
    for row in ROWS:
        for y in runner.run("MatMulNBitsMlp", inputs, attributes, ["Y"], row) or []:
            runner.check(f"mlp {shape} {K} {N} bits {bits} block {block} {dtype.__name__} {row}", y, should,
                         np.maximum(magnitude, largest(should)), dtype == np.float16)


def onnx_bnb4(inputs, attributes, dtype):
    kind = {np.float32: TensorProto.FLOAT, np.float16: TensorProto.FLOAT16}[dtype]
    node = helper.make_node("MatMulBnb4", ["A", "B", "absmax"], ["Y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph([node], "g", [
        helper.make_tensor_value_info("A", kind, inputs["A"].shape),
        helper.make_tensor_value_info("B", TensorProto.UINT8, inputs["B"].shape),
        helper.make_tensor_value_info("absmax", kind, inputs["absmax"].shape),
    ], [helper.make_tensor_value_info("Y", kind, (inputs["A"].shape[0], attributes["N"]))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0].astype(np.float64)


def bnb4_case(runner, rng, M, K, N, block, quant_type, dtype):
    count = N * K
    inputs = {"A": rng.standard_normal((M, K)).astype(dtype),
              "B": rng.integers(0, 256, (count + 1) // 2, dtype=np.uint8),
              "absmax": (rng.random(-(-count // block)) * 0.2).astype(dtype)}
    attributes = {"K": K, "N": N, "block_size": block, "quant_type": quant_type}
    codes = np.stack([inputs["B"] >> 4, inputs["B"] & 15], axis=-1).reshape(-1)[:count]
    # The codebook is a table of float32 values.
    table = np.array(NF4 if quant_type else FP4, dtype=np.float32).astype(np.float64)
    weights = (table[codes] * np.repeat(inputs["absmax"].astype(np.float64), block)[:count]).reshape(N, K)
    should = inputs["A"].astype(np.float64) @ weights.T
    half = dtype == np.float16
    text = f"bnb4 {M} {K} {N} block {block} type {quant_type} {dtype.__name__}"
    # ONNX Runtime rounds float16 weights before it multiplies, and its own sums are float32.
    theirs = onnx_bnb4(inputs, attributes, dtype)
    close = np.max(np.abs(theirs - should)) / np.max(largest(should))
    assert close < (5e-3 if half else 2e-5), f"{text}: ONNX Runtime and numpy differ by {close:.3g}"
    for row in ROWS:
        for y in runner.run("MatMulBnb4", inputs, attributes, ["Y"], row) or []:
            runner.check(f"{text} {row}", y, should, largest(should), half)
            near = np.max(np.abs(y - theirs)) / np.max(largest(should))
            if near < (5e-3 if half else 2e-5):
                runner.passed += 1
            else:
                runner.failed += 1
                print(f"FAILED {text} {row}: {near:.3g} away from ONNX Runtime")


def main():
    rng = np.random.default_rng(20240607)
    f32, f16 = np.float32, np.float16
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(sys.argv[1], sys.argv[2], folder)
        for dtype in (f32, f16):
            qkv_case(runner, rng, (1,), 21, 5, 3, dtype, False, False, 1e-6)
            qkv_case(runner, rng, (1, 1), 576, 576, 192, dtype, False, False, 1e-5)
            qkv_case(runner, rng, (2, 3), 100, 33, 65, dtype, True, True, 1e-2)
            qkv_case(runner, rng, (41,), 321, 70, 18, dtype, True, False, 1e-6)
            mlp_case(runner, rng, (1,), 576, 130, 4, 32, dtype, True, False, ())
            mlp_case(runner, rng, (3, 2), 77, 31, 2, 16, dtype, True, True, ("gate",))
            mlp_case(runner, rng, (19,), 200, 45, 8, 64, dtype, False, False, ("gate", "up"))
            mlp_case(runner, rng, (5,), 48, 9, 4, 8, dtype, False, False, ("up",))
            for quant_type in (0, 1):
                bnb4_case(runner, rng, 1, 576, 66, 64, quant_type, dtype)
                bnb4_case(runner, rng, 2, 96, 17, 16, quant_type, dtype)
                bnb4_case(runner, rng, 23, 160, 47, 32, quant_type, dtype)
            bnb4_case(runner, rng, 1, 4096, 64, 64, 1, dtype)
        for M, K, N, block in ((1, 7, 5, 16), (3, 101, 13, 64), (9, 33, 21, 32)):
            bnb4_case(runner, rng, M, K, N, block, 1, f32)
    for row in ROWS:
        print(f"RAN: kernel row {row}" if row in runner.ran else f"NOT RUN: kernel row {row}, which this processor does not have")
    print(f"{runner.passed} passed, {runner.failed} failed")
    return 1 if runner.failed or "scalar" not in runner.ran else 0


sys.exit(main())
