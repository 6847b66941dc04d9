#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the peer's one-node models (needs onnx and numpy): models.py DIR

The sizes are those of the lines marked `peer` in shapes.txt. drain.onnx is a tiny model that waits for the queue.
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

K, NQ, NKV, N, BLOCK = 4096, 4096, 1024, 14336, 32
random = np.random.default_rng(11)
codes = random.integers(0, 256, N * K // 2, dtype=np.uint8)


def constant(name, array):
    return numpy_helper.from_array(array, name)


def nbits(prefix, columns, k, dtype):
    scales = (random.random((columns, k // BLOCK)) * 0.02 + 0.001).astype(dtype)
    return [constant(prefix + "_B", codes[: columns * k // 2].reshape(columns, k // BLOCK, BLOCK // 2)),
            constant(prefix + "_scales", scales)]


def save(path, op, names, shape, outputs, constants, dtype, **attributes):
    kind = TensorProto.FLOAT if dtype == np.float32 else TensorProto.FLOAT16
    node = helper.make_node(op, names, [n for n, _ in outputs], domain="com.microsoft", **attributes)
    graph = helper.make_graph([node], "peer", [helper.make_tensor_value_info("A", kind, shape)],
                              [helper.make_tensor_value_info(n, kind, [*shape[:-1], c]) for n, c in outputs], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8
    onnx.save(model, str(path))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, dtype in (("f32", np.float32), ("f16", np.float16)):
        gain = constant("norm_scale", (random.random(K) + 0.5).astype(dtype))
        common = dict(bits=4, block_size=BLOCK, accuracy_level=0)
        for M in (1, 512):
            save(folder / f"qkv_{name}_m{M}.onnx", "MatMulNBitsQkv",
                 ["A", "", "norm_scale", "q_B", "q_scales", "", "k_B", "k_scales", "", "v_B", "v_scales", ""], [1, M, K],
                 [("Q", NQ), ("K", NKV), ("V", NKV)],
                 [gain, *nbits("q", NQ, K, dtype), *nbits("k", NKV, K, dtype), *nbits("v", NKV, K, dtype)], dtype,
                 K=K, Nq=NQ, Nkv=NKV, epsilon=1e-6, **common)
            save(folder / f"mlp_{name}_m{M}.onnx", "MatMulNBitsMlp",
                 ["A", "", "norm_scale", "gate_B", "gate_scales", "", "up_B", "up_scales", ""], [1, M, K], [("Y", N)],
                 [gain, *nbits("gate", N, K, dtype), *nbits("up", N, K, dtype)], dtype,
                 K=K, N=N, activation="silu", epsilon=1e-5, **common)
            absmax = constant("absmax", (random.random(NQ * K // 64) * 0.02 + 0.001).astype(dtype))
            save(folder / f"bnb4_{name}_m{M}.onnx", "MatMulBnb4", ["A", "B", "absmax"], [M, K], [("Y", NQ)],
                 [constant("B", codes[: NQ * K // 2]), absmax], dtype,
                 K=K, N=NQ, block_size=64, quant_type=1, training_mode=0, transB=1)
    save(folder / "drain.onnx", "MatMulNBits", ["A", "B", "scales"], [1, 1, 256], [("Y", 256)],
         [constant("B", codes[: 256 * 128].reshape(256, 8, 16)), constant("scales", random.random((256, 8)).astype(np.float32))],
         np.float32, K=256, N=256, bits=4, block_size=BLOCK, accuracy_level=0)


if __name__ == "__main__":
    main()
