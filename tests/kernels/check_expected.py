#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Expected values of test.json are what tools/make-kernel-tests.py makes, and that is right where it can be told by hand."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/make-kernel-tests.py"
spec = importlib.util.spec_from_file_location("make_kernel_tests", TOOL)
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)


def expected(op, name, output):
    cases = json.loads((ROOT / f"kernels/com.microsoft.{op}/build/webgpu/test.json").read_text())["cases"]
    case = next(c for c in cases if c["name"] == name)
    values = case["outputs"][output]
    return np.array([float(v) for v in values["data"]["values"]]).astype(make.DTYPES[values["dtype"]])


class Expected(unittest.TestCase):
    def test_files_are_current(self):
        result = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_codes_are_low_bits_first_around_the_midpoint(self):
        for bits, first in ((2, [0b11, 0b00, 0b01, 0b10]), (4, [0x3, 0xE]), (8, [0x93])):
            byte = sum(code << (i * bits) for i, code in enumerate(first))
            packed = np.array([[[byte]]], np.uint8)
            weight = make.unpack_nbits(packed, np.array([[0.5]]), bits, len(first), len(first))
            np.testing.assert_array_equal(weight[0], [(c - 2 ** (bits - 1)) * 0.5 for c in first])

    def test_padding_codes_are_dropped(self):
        packed = np.full((2, 2, 16), 0xFF, np.uint8)
        weight = make.unpack_nbits(packed, np.array([[1.0, 2.0], [3.0, 4.0]]), 4, 32, 33)
        self.assertEqual(weight.shape, (2, 33))
        np.testing.assert_array_equal(weight[:, 32], [14, 28])

    def test_bnb4_blocks_run_over_the_flat_index(self):
        packed = np.array([0x7F] * 13, np.uint8)  # NF4: 0 and 1 in turn
        absmax = np.array([1.0, 10.0])
        weight = make.unpack_bnb4(packed, absmax, 1, 16, 5, 5)
        flat = [0 if i % 2 == 0 else absmax[i // 16] for i in range(25)]
        np.testing.assert_array_equal(weight.reshape(-1), flat)

    def test_fp4_is_a_small_float_over_twelve(self):
        magnitudes = [0, 0.0625, 8, 12, 4, 6, 2, 3]
        np.testing.assert_allclose(make.CODEBOOKS[0], np.array(magnitudes + [-m for m in magnitudes]) / 12, rtol=1e-7)
        np.testing.assert_array_equal(expected("MatMulBnb4", "fp4_codebook_exact", "yT"), make.CODEBOOKS[0])

    def test_nf4_is_sorted_and_exact(self):
        self.assertTrue((np.diff(make.CODEBOOKS[1]) > 0).all())
        np.testing.assert_array_equal(expected("MatMulBnb4", "nf4_codebook_exact", "yT"), make.CODEBOOKS[1])

    def test_outlier(self):
        gate = 1000 + 31 * 3
        self.assertAlmostEqual(expected("MatMulNBitsMlp", "activation_outlier", "yT")[0], gate * gate / 1024, delta=1e-4)

    def test_silu(self):
        got = expected("MatMulNBitsMlp", "silu_extremes", "yT")
        np.testing.assert_allclose(got[:4], [0, 1e4, -4.1223071e-08, 20], rtol=1e-6, atol=1e-12)

    def test_half_overflow(self):
        got = expected("MatMulNBitsMlp", "f16_output_overflows", "yT")
        np.testing.assert_array_equal(got[:2], [np.inf, -np.inf])

    def test_zero_and_nan_rows(self):
        zero = expected("MatMulNBitsQkv", "zero_row", "qT").reshape(3, 8)
        self.assertTrue((zero[1] == 0).all() and (zero[[0, 2]] != 0).any())
        alone = expected("MatMulNBitsQkv", "nan_row_stays_alone", "qT").reshape(10, 8)
        self.assertEqual([bool(np.isnan(r).any()) for r in alone], [i == 4 for i in range(10)])


if __name__ == "__main__":
    unittest.main()
