#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare nibble's files and formats with numpy and with the reference packages of safetensors and GGUF.

Usage: crosscheck.py IO_TOOL [unittest arguments]

IO_TOOL is the program of io_tool.c. Python comes from tools/python-env.sh.
"""
import itertools
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

import gguf
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

TOOL = ""
SEED = 20240607

DTYPES = ["float16", "float32", "int8", "int16", "int32", "int64", "uint8", "uint32", "bool"]
SHAPES = [(), (1,), (7,), (0,), (3, 5), (2, 0, 3), (2, 3, 4), (1, 2, 1, 3, 2)]


def tool(*args):
    """Run a command (or several, separated by "--") and return what it prints."""
    done = subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{args}: {done.stderr.strip()}")
    return done.stdout


def random_array(rng, dtype, shape):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


class Case(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(SEED)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def path(self, name):
        return str(self.dir / name)

    def read(self, spec):
        """What nibble makes of a spec, through its own npy writer and numpy's reader."""
        out = self.path("out.npy")
        tool("npy", spec, out)
        return np.load(out)

    def read_all(self, specs):
        """The same for many specs, in one run of the program."""
        args = []
        for i, spec in enumerate(specs):
            args += ["npy", spec, self.path(f"out{i}.npy"), "--"]
        tool(*args)
        return [np.load(self.path(f"out{i}.npy")) for i in range(len(specs))]

    def assert_same(self, got, expected):
        self.assertEqual(got.dtype, expected.dtype)
        self.assertEqual(got.shape, expected.shape)
        self.assertEqual(got.tobytes(), np.ascontiguousarray(expected).tobytes())


class Npy(Case):
    def test_all_dtypes_shapes_and_orders(self):
        cases = list(itertools.product(DTYPES, SHAPES, "CF"))
        arrays = [np.asarray(random_array(self.rng, dtype, shape), order=order)
                  for dtype, shape, order in cases]
        paths = [self.path(f"x{i}.npy") for i in range(len(cases))]
        for path, array in zip(paths, arrays):
            np.save(path, array)
        for case, got, array in zip(cases, self.read_all(paths), arrays):
            with self.subTest(case=case):
                self.assert_same(got, array)

    def test_versions(self):
        array = random_array(self.rng, "float32", (3, 4))
        for version in [(1, 0), (2, 0), (3, 0)]:
            with open(self.path("x.npy"), "wb") as file:
                np.lib.format.write_array(file, array, version=version)
            self.assert_same(self.read(self.path("x.npy")), array)

    def test_big_endian_and_float64(self):
        for kind in ["f2", "f4", "f8", "i2", "i4", "i8", "u4"]:
            for order in "CF":
                with self.subTest(kind=kind, order=order):
                    native = np.dtype("<" + kind)
                    array = np.asarray(random_array(self.rng, native.name, (3, 5)), order=order)
                    np.save(self.path("x.npy"), array.astype(">" + kind))
                    wanted = array.astype("<f4") if kind == "f8" else array
                    self.assert_same(self.read(self.path("x.npy")), wanted)

    def test_unsupported_types_are_refused(self):
        for dtype in ["complex64", "uint16", "uint64", "U3", "M8[s]", [("a", "f4")]]:
            with self.subTest(dtype=dtype):
                np.save(self.path("x.npy"), np.zeros(3, dtype))
                with self.assertRaisesRegex(RuntimeError, "NIB_UNSUPPORTED: .*x.npy: "):
                    tool("npy", self.path("x.npy"), self.path("y.npy"))

    def test_written_files_are_what_numpy_writes(self):
        cases = list(itertools.product(DTYPES, SHAPES))
        paths = [self.path(f"x{i}.npy") for i in range(len(cases))]
        for path, (dtype, shape) in zip(paths, cases):
            np.save(path, random_array(self.rng, dtype, shape))
        self.read_all(paths)
        for i, case in enumerate(cases):
            with self.subTest(case=case):
                self.assertEqual(pathlib.Path(self.path(f"out{i}.npy")).read_bytes(),
                                 pathlib.Path(paths[i]).read_bytes())


class Npz(Case):
    def test_both_kinds(self):
        arrays = {f"{dtype}/{i}": random_array(self.rng, dtype, shape)
                  for dtype in DTYPES for i, shape in enumerate(SHAPES)}
        arrays["fortran"] = np.asfortranarray(random_array(self.rng, "float32", (200, 300)))
        for save in [np.savez, np.savez_compressed]:
            save(self.path("x.npz"), **arrays)
            names = [line.split("\t")[0] for line in tool("list", self.path("x.npz")).splitlines()]
            self.assertEqual(names, list(arrays))
            tool("all", self.path("x.npz"), self.dir)
            for i, name in enumerate(arrays):
                with self.subTest(save=save.__name__, name=name):
                    self.assert_same(np.load(self.dir / f"{i}.npy"), arrays[name])
            self.assert_same(self.read(self.path("x.npz") + ":fortran"), arrays["fortran"])

    def test_a_zip_from_elsewhere(self):
        array = random_array(self.rng, "float32", (4, 4))
        np.save(self.path("x.npy"), array)
        with zipfile.ZipFile(self.path("x.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(self.path("x.npy"), "caf\u00e9/x.npy")
        self.assert_same(self.read(self.path("x.zip") + ":caf\u00e9/x"), array)


class Safetensors(Case):
    def test_the_reference_writer(self):
        arrays = {f"{dtype}.{i}": random_array(self.rng, dtype, shape)
                  for dtype in DTYPES for i, shape in enumerate(SHAPES)}
        safetensors.numpy.save_file(arrays, self.path("x.safetensors"), metadata={"a": "b"})
        specs = [self.path("x.safetensors") + ":" + name for name in arrays]
        for name, got in zip(arrays, self.read_all(specs)):
            with self.subTest(name=name):
                self.assert_same(got, arrays[name])

    def test_float64_and_bfloat16(self):
        wide = random_array(self.rng, "float64", (3, 5))
        brain = random_array(self.rng, "float32", (4, 6)).astype(ml_dtypes.bfloat16)
        safetensors.numpy.save_file({"wide": wide, "brain": brain}, self.path("x.safetensors"))
        self.assert_same(self.read(self.path("x.safetensors") + ":wide"), wide.astype("f4"))
        self.assert_same(self.read(self.path("x.safetensors") + ":brain"), brain.astype("f4"))

    def test_the_reference_reader(self):
        for dtype, shape in itertools.product(DTYPES, [(), (0,), (3, 5)]):
            with self.subTest(dtype=dtype, shape=shape):
                a = random_array(self.rng, "uint8", (3,))
                b = random_array(self.rng, dtype, shape)
                np.save(self.path("a.npy"), a)
                np.save(self.path("b.npy"), b)
                tool("safetensors", self.path("x.safetensors"), self.path("a.npy"), self.path("b.npy"))
                with safetensors.safe_open(self.path("x.safetensors"), "numpy") as file:
                    self.assertEqual(file.metadata(), {"key": 'a "value"'})
                    self.assert_same(file.get_tensor("a"), a)
                    self.assert_same(file.get_tensor("b b"), b)


class Gguf(Case):
    TYPES = gguf.GGMLQuantizationType
    READABLE = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K".split()
    # Where the half-precision scales stand in a block, to keep random blocks free of NaN and infinity.
    SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2],
              "Q5_K": [0, 2], "Q6_K": [208]}

    def write(self, tensors):
        writer = gguf.GGUFWriter(self.path("x.gguf"), "test")
        writer.add_uint32("test.number", 7)
        writer.add_array("test.words", ["a", "bc", ""])
        writer.add_array("test.numbers", [1.5, 2.5])
        for name, data, raw in tensors:
            writer.add_tensor(name, data, raw_dtype=raw)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def blocks(self, name, rows, blocks):
        size = gguf.GGML_QUANT_SIZES[self.TYPES[name]][1]
        data = self.rng.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
        for at in self.SCALES.get(name, []):
            scale = self.rng.standard_normal((rows, blocks)).astype("<f2")
            data[:, :, at:at + 2] = scale[..., None].view(np.uint8)
        return data.reshape(rows, blocks * size)

    def test_plain_types(self):
        arrays = {dtype: random_array(self.rng, dtype, (3, 5))
                  for dtype in ["float32", "float16", "int8", "int16", "int32", "int64"]}
        wide = random_array(self.rng, "float64", (2, 3, 4))
        brain = random_array(self.rng, "float32", (4, 6)).astype(ml_dtypes.bfloat16)
        tensors = [(name, array, None) for name, array in arrays.items()]
        tensors += [("wide", wide, None), ("brain", brain.view(np.uint8), self.TYPES.BF16)]
        self.write(tensors)
        for name, array in arrays.items():
            with self.subTest(name=name):
                self.assert_same(self.read(self.path("x.gguf") + ":" + name), array)
        self.assert_same(self.read(self.path("x.gguf") + ":wide"), wide.astype("f4"))
        self.assert_same(self.read(self.path("x.gguf") + ":brain"), brain.astype("f4"))

    def test_random_blocks_decode_as_the_reference_does(self):
        tensors = {name: self.blocks(name, 5, 3) for name in self.READABLE}
        self.write([(name, data, self.TYPES[name]) for name, data in tensors.items()])
        for name, data in tensors.items():
            with self.subTest(name=name):
                expected = gguf.quants.dequantize(data, self.TYPES[name]).astype("f4")
                got = self.read(self.path("x.gguf") + ":" + name)
                self.assertEqual(got.shape, expected.shape)
                self.assertGreater(np.abs(expected).max(), 1)
                np.testing.assert_array_equal(got, expected)

    def test_quantized_weights_come_close(self):
        weight = self.rng.standard_normal((16, 256)).astype("f4")
        for name in ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]:
            with self.subTest(name=name):
                kind = self.TYPES[name]
                self.write([("w", gguf.quants.quantize(weight, kind), kind)])
                got = self.read(self.path("x.gguf") + ":w")
                self.assertLess(np.linalg.norm(got - weight) / np.linalg.norm(weight), 0.12)

    def test_every_known_type_has_the_reference_size_and_name(self):
        """A file with all types has all its data in place only if every size is right."""
        plain = {"F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"}
        names = [t.name for t in self.TYPES if t.name not in plain]
        tensors = [(name, self.blocks(name, 2, 1), self.TYPES[name]) for name in names]
        known = []
        for name, data, kind in tensors:
            self.write([(name, data, kind)])
            try:
                line = tool("list", self.path("x.gguf")).rstrip("\n").split("\t")
            except RuntimeError as problem:
                self.assertIn("is not known", str(problem))
                continue
            known.append(name)
            elements = gguf.GGML_QUANT_SIZES[kind][0]
            self.assertEqual(line[:2], [name, name])
            self.assertEqual(line[2], f"{'float32' if name in self.READABLE else 'none'}[2,{elements}]")
            # One byte less must not fit.
            raw = pathlib.Path(self.path("x.gguf")).read_bytes()
            end = gguf.GGUFReader(self.path("x.gguf")).tensors[0]
            size = int(end.data_offset + end.n_bytes)
            pathlib.Path(self.path("short.gguf")).write_bytes(raw[:size])
            tool("list", self.path("short.gguf"))
            pathlib.Path(self.path("short.gguf")).write_bytes(raw[:size - 1])
            with self.assertRaisesRegex(RuntimeError, "reach beyond"):
                tool("list", self.path("short.gguf"))
        self.assertEqual(set(names) - set(known), {"Q8_1"})

    def test_q4_0_becomes_nbits(self):
        data = self.blocks("Q4_0", 6, 4)
        self.write([("w", data, self.TYPES.Q4_0)])
        tool("nbits", self.path("x.gguf"), "w", self.path("n.safetensors"))
        got = safetensors.numpy.load_file(self.path("n.safetensors"))
        self.assertEqual(got["packed"].shape, (6, 4, 16))
        self.assertEqual(got["scales"].dtype, np.float16)
        values = unpack_nbits(got["packed"], got["scales"], 4, 128)
        np.testing.assert_array_equal(values.astype("f4"),
                                      gguf.quants.dequantize(data, self.TYPES.Q4_0))


def unpack_nbits(packed, scales, bits, k):
    """[N, blocks, blob] to float64 [N, k]."""
    rows = packed.shape[0]
    fields = [packed >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)]
    codes = np.stack(fields, -1).reshape(rows, packed.shape[1], -1).astype("f8")
    return ((codes - (1 << bits - 1)) * scales.astype("f8")[..., None]).reshape(rows, -1)[:, :k]


# bitsandbytes' decision borders, as its quantizers state them, ascending, with the code of each interval
FP4_BORDERS = [0.00260417, 0.0859375, 0.20833333, 0.29166667, 0.4166667, 0.583333, 0.8333333]
FP4_CODES = [0, 1, 6, 7, 4, 5, 2, 3]
NF4_BORDERS = [-0.8480964004993439, -0.6106329262256622, -0.4599952697753906, -0.33967943489551544,
               -0.23460740596055984, -0.13791173323988914, -0.045525018125772476, 0.03979014977812767,
               0.1202552504837513, 0.2035212516784668, 0.2920137718319893, 0.3893125355243683,
               0.5016634166240692, 0.6427869200706482, 0.8614784181118011]


class Quantize(Case):
    def quantize(self, command, weight, option, block, dtype):
        np.save(self.path("w.npy"), weight)
        loss = tool(command, self.path("w.npy"), option, block, dtype, self.path("q.safetensors"))
        return safetensors.numpy.load_file(self.path("q.safetensors")), [float(x) for x in loss.split()]

    def check_loss(self, weight, values, loss):
        error = np.abs(weight.astype("f8") - values)
        wanted = [error.max(), np.sqrt((error ** 2).mean()),
                  np.linalg.norm(error) / np.linalg.norm(weight.astype("f8"))]
        np.testing.assert_allclose(loss, wanted, rtol=1e-9)

    def test_nbits(self):
        for bits, block, (n, k), dtype in itertools.product(
                [2, 4, 8], [16, 32, 128], [(3, 50), (1, 16), (5, 257)], ["float32", "float16"]):
            with self.subTest(bits=bits, block=block, shape=(n, k), dtype=dtype):
                weight = random_array(self.rng, dtype, (n, k))
                got, loss = self.quantize("quantize-nbits", weight, bits, block, dtype)
                values = unpack_nbits(got["packed"], got["scales"], bits, k)
                self.check_loss(weight, values, loss)
                np.testing.assert_array_equal(got["weight"], values.astype("f4"))
                # Nearest level for the stored scale.
                scales = np.repeat(got["scales"].astype("f8"), block, 1)[:, :k]
                half = 1 << bits - 1
                nearest = np.clip(np.rint(weight.astype("f8") / scales), -half, half - 1) * scales
                np.testing.assert_allclose(np.abs(values - weight), np.abs(nearest - weight), rtol=1e-9)

    def test_bnb4(self):
        for kind, block, (n, k), dtype in itertools.product(
                [0, 1], [16, 64, 256], [(3, 5), (7, 33), (16, 64)], ["float32", "float16"]):
            with self.subTest(kind=kind, block=block, shape=(n, k), dtype=dtype):
                weight = random_array(self.rng, "float32", (n, k))
                got, loss = self.quantize("quantize-bnb4", weight, kind, block, dtype)
                count = n * k
                codes = np.stack([got["packed"] >> 4, got["packed"] & 15], -1).reshape(-1)[:count]
                flat = weight.reshape(-1)
                starts = np.arange(0, count, block)
                np.testing.assert_array_equal(
                    got["scales"], np.maximum.reduceat(np.abs(flat), starts).astype(dtype))
                scales = np.repeat(got["scales"].astype("f8"), block)[:count]
                ratio = flat.astype("f8") / scales
                if kind == 1:
                    borders, wanted = NF4_BORDERS, np.searchsorted(NF4_BORDERS, ratio)
                else:
                    borders = FP4_BORDERS
                    wanted = np.array(FP4_CODES)[np.searchsorted(borders, np.abs(ratio))]
                    wanted = np.where((ratio < 0) & (wanted > 0), wanted + 8, wanted)
                # The published borders are rounded decimals; close to one, either neighbour is right.
                magnitude = ratio if kind == 1 else np.abs(ratio)
                close = np.abs(magnitude[:, None] - np.array(borders)).min(1) < 3e-6
                self.assertTrue(((codes == wanted) | close).all())
                self.assertLess(close.sum(), 3)
                self.assertFalse(((codes == 8) & (kind == 0)).any())
                book = bnb4_codebook(kind)
                values = (book[codes].astype("f8") * scales).reshape(n, k)
                self.check_loss(weight, values, loss)
                np.testing.assert_array_equal(
                    got["weight"].reshape(-1),
                    book[codes] * np.repeat(got["scales"].astype("f4"), block)[:count])


def bnb4_codebook(kind):
    """The 16 values, from the papers: NF4's from its quantiles, FP4's from its exponents and fractions."""
    if kind == 0:
        half = np.array([0, 0.0625, 8, 12, 4, 6, 2, 3]) / 12
        return np.concatenate([half, -half]).astype("f4")
    return np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
                     -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
                     0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
                     0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                     0.7229568362236023, 1.0], "f4")


class Half(Case):
    def test_all_halfs(self):
        halfs = np.arange(65536, dtype=np.uint16).view("f2")
        np.save(self.path("h.npy"), halfs)
        tool("convert", self.path("h.npy"), self.path("f.npy"))
        got, expected = np.load(self.path("f.npy")), halfs.astype("f4")
        nan = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(got), nan)
        np.testing.assert_array_equal(got.view("u4")[~nan], expected.view("u4")[~nan])

    def test_floats(self):
        bits = self.rng.integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
        near = (self.rng.integers(100, 145, 1 << 18) << 23 | self.rng.integers(0, 1 << 23, 1 << 18))
        near = near.astype(np.uint32) | (bits & np.uint32(0x80000000))
        ties = (near & np.uint32(0xFFFFE000)) | np.uint32(0x1000)
        floats = np.concatenate([bits, near, ties]).view("f4")
        np.save(self.path("f.npy"), floats)
        tool("convert", self.path("f.npy"), self.path("h.npy"))
        with np.errstate(all="ignore"):
            expected = floats.astype("f2")
        got = np.load(self.path("h.npy"))
        nan = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(got), nan)
        np.testing.assert_array_equal(got.view("u2")[~nan], expected.view("u2")[~nan])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    TOOL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
