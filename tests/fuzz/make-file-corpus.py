#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of the tensor-file corpora (corpus/{npy,npz,safetensors,gguf}) with the reference packages.

Usage: make-file-corpus.py [DIR]

Inputs that fuzzing found are added by hand, under the name of what they broke.
"""
import io
import json
import pathlib
import struct
import sys

import gguf
import numpy as np
import safetensors.numpy

ROOT = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus"
RNG = np.random.default_rng(1)


def write(kind, name, data):
    folder = ROOT / kind
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def npy(array, version=(1, 0)):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def make_npy():
    matrix = RNG.standard_normal((2, 3)).astype("f4")
    write("npy", "f4", npy(matrix))
    write("npy", "f4-fortran-v2", npy(np.asfortranarray(matrix), (2, 0)))
    write("npy", "f8-big-endian-v3", npy(matrix.astype(">f8"), (3, 0)))
    write("npy", "bool-scalar", npy(np.array(True)))
    write("npy", "i8-empty", npy(np.zeros((0, 4), "i8")))
    write("npy", "complex", npy(np.zeros(2, "c8")))
    whole = npy(matrix)
    write("npy", "cut-in-header", whole[:40])
    write("npy", "cut-in-data", whole[:-3])
    write("npy", "huge-dims", whole.replace(b"(2, 3)", b"(9223372036854775807, 9)"))
    write("npy", "long-header", b"\x93NUMPY\x02\0\xff\xff\xff\xff{")


def make_npz():
    for name, save in [("stored", np.savez), ("deflated", np.savez_compressed)]:
        out = io.BytesIO()
        save(out, a=np.arange(6, dtype="f4").reshape(2, 3), b=np.asfortranarray(np.eye(3, dtype="f8")))
        write("npz", name, out.getvalue())
        write("npz", name + "-cut", out.getvalue()[:-30])
    write("npz", "empty", b"PK\x05\x06" + bytes(18))


def safetensors_of(header, data=b""):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text)) + text + data


def make_safetensors():
    tensors = {"b": np.arange(3, dtype="u1"), "w": RNG.standard_normal((2, 2)).astype("f4"),
               "h": np.ones(3, "f2"), "e": np.zeros((0, 2), "i8")}
    write("safetensors", "mixed", safetensors.numpy.save(tensors, {"k": "v"}))
    entry = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
    write("safetensors", "bf16", safetensors_of({"a": entry}, bytes(4)))
    write("safetensors", "f4", safetensors_of({"a": dict(entry, dtype="F4", shape=[8])}, bytes(4)))
    write("safetensors", "overlap", safetensors_of({"a": entry, "b": entry}, bytes(4)))
    write("safetensors", "gap", safetensors_of({"a": dict(entry, data_offsets=[1, 5])}, bytes(5)))
    write("safetensors", "huge", safetensors_of({"a": dict(entry, shape=[2 ** 53, 2 ** 20])}, bytes(4)))
    write("safetensors", "twice", safetensors_of(b'{"a":{},"a":{}}'))
    write("safetensors", "deep", safetensors_of(b'{"a":' + b"[" * 300))
    write("safetensors", "long-header", struct.pack("<Q", 2 ** 63) + b"{}")


def gguf_of(tensors, entries=b"", entry_count=0, version=3, alignment=32):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), entry_count) + entries
    data = b""
    for name, dims, kind, raw in tensors:
        head += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(dims))
        head += struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, len(data))
        data += raw + bytes(-len(raw) % alignment)
    return head + bytes(-len(head) % alignment) + data


def string(text):
    return struct.pack("<Q", len(text)) + text


def make_gguf():
    types = gguf.GGMLQuantizationType
    for kind in [types.F32, types.F16, types.BF16, types.Q4_0, types.Q4_1, types.Q5_0, types.Q5_1,
                 types.Q8_0, types.Q4_K, types.Q5_K, types.Q6_K, types.Q2_K, types.F64, types.I64]:
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        raw = RNG.integers(0, 256, 2 * size, dtype=np.uint8).tobytes()
        write("gguf", kind.name.lower(), gguf_of([(b"w", (elements, 2), int(kind), raw)]))
    words = string(b"words") + struct.pack("<IIQ", 9, 8, 2) + string(b"a") + string(b"bc")
    nested = string(b"nested") + struct.pack("<IIQIQB", 9, 9, 1, 0, 1, 7)
    alignment = string(b"general.alignment") + struct.pack("<II", 4, 8)
    write("gguf", "metadata", gguf_of([(b"v", (3,), 0, bytes(12))], words + nested + alignment, 3, 2, 8))
    write("gguf", "two", gguf_of([(b"a", (4,), 0, bytes(16)), (b"b", (1,), 24, b"\x05")]))
    write("gguf", "huge-dims", gguf_of([(b"a", (2 ** 42 + 1, 2 ** 42), 0, bytes(16))]))
    write("gguf", "five-dims", gguf_of([(b"a", (1, 1, 1, 1, 1), 0, bytes(16))]))
    write("gguf", "many-tensors", b"GGUF" + struct.pack("<IQQ", 3, 2 ** 60, 0))
    write("gguf", "many-entries", b"GGUF" + struct.pack("<IQQ", 3, 0, 2 ** 64 - 1))
    write("gguf", "deep", gguf_of([], string(b"k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 20, 1))
    write("gguf", "big-endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0))


make_npy()
make_npz()
make_safetensors()
make_gguf()
