#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write test.json of the three kernel packages.

  tools/make-kernel-tests.py            write test.json of kernels/* and of kernels/v2/*, which has more cases
  tools/make-kernel-tests.py --check    compare instead, exit 1 when a file is out of date

Inputs come from a fixed generator, expected values from numpy in float64 straight from the operators' definitions, rounded
once to the output's dtype. Nothing here shares code with the library. Needs numpy.
"""
import json
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAN, INF = float("nan"), float("inf")
DTYPES = {"float32": np.float32, "float16": np.float16, "uint8": np.uint8}
# Allowed |got - want| / max(1, |want|): format 9.1 leaves the meaning open, kernels/README.md fixes it.
TOLERANCE = {"float32": 2e-5, "float16": 2e-3}

FP4 = [0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25]
CODEBOOKS = [
    np.array(FP4 + [-v for v in FP4], np.float32),
    np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
              -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
              0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
              1.0], np.float32),
]


class Numbers:
    """splitmix64: the same sequence whatever numpy's version is."""

    def __init__(self, seed):
        self.state = seed

    def word(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    def whole(self, low, high, shape):
        count = int(np.prod(shape))
        return np.array([low + self.word() % (high - low) for _ in range(count)], np.int64).reshape(shape)

    def real(self, shape, step=1 / 512):
        """Multiples of `step`; by default -2 to 2 in 1/512, exact in float16."""
        return self.whole(-1024, 1025, shape) * step

    def bytes(self, shape):
        return self.whole(0, 256, shape).astype(np.uint8)


# Inputs: a Tensor keeps the values (already rounded to its dtype) and how test.json spells them.
class Tensor:
    def __init__(self, dtype, values, spell=None):
        self.dtype = dtype
        with np.errstate(over="ignore"):
            self.values = np.asarray(values).astype(DTYPES[dtype])
        self.spell = spell

    @property
    def exact(self):
        return self.values.astype(np.float64)

    def put(self, changes):
        for index, value in changes:
            self.values[index] = value

    def record(self):
        data = self.spell or {"kind": "values", "values": spell_values(self.values)}
        return {"dtype": self.dtype, "shape": list(self.values.shape), "data": data}


def wave(dtype, shape, sin_step, cos_step, scale):
    """fillFloat32: scale * (sin(i * sinStep) + cos(i * cosStep)) for flat index i."""
    i = np.arange(int(np.prod(shape)), dtype=np.float64)
    values = scale * (np.sin(i * sin_step) + np.cos(i * cos_step))
    spell = {"kind": "fillFloat32", "sinStep": sin_step, "cosStep": cos_step, "scale": scale}
    return Tensor(dtype, values.reshape(shape), spell)


def spell_number(value):
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, np.integer):
        return int(value)
    number = float(str(value))  # the shortest decimal that rounds back
    return int(number) if number == int(number) and not (number == 0 and np.signbit(value)) else number


def spell_values(values):
    return [spell_number(v) for v in values.reshape(-1)]


def round_to(dtype, values):
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float64).astype(DTYPES[dtype])


# The operators, in float64.
def unpack_nbits(packed, scales, bits, block_size, K):
    """[N, K] of (code - 2^(bits-1)) * scale; codes past K are dropped."""
    N = packed.shape[0]
    per_byte = 8 // bits
    shifts = np.arange(per_byte) * bits
    codes = (packed[..., None].astype(np.int64) >> shifts) & (2**bits - 1)
    codes = codes.reshape(N, -1)[:, :K]
    scale = np.repeat(scales, block_size, axis=1)[:, :K]
    return (codes - 2 ** (bits - 1)) * scale


def unpack_bnb4(packed, absmax, quant_type, block_size, N, K):
    codes = np.stack([packed >> 4, packed & 15], axis=1).reshape(-1)[: N * K]
    scale = np.repeat(absmax, block_size)[: N * K]
    return (CODEBOOKS[quant_type].astype(np.float64)[codes] * scale).reshape(N, K)


def rms_norm(x, gain, epsilon):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * gain


def silu(x):
    return x / (1 + np.exp(-x))


# Building cases. A spec is a dict; every key has a default below.
COMMON = dict(lead=(1,), dtype="float32", seed=None, put={}, wave=None, scale_step=1 / 4096, variant=None, error=None, drop=(),
              reshape={}, attrs={}, tunables={}, drop_attrs=(), want=(), expect=True, exact=False, notes=None, tolerance=None)


def activations(spec, numbers, name, K):
    shape = tuple(spec["lead"]) + (K,)
    if spec["wave"] and name in spec["wave"]:
        return wave(spec["dtype"], shape, *spec["wave"][name])
    return Tensor(spec["dtype"], numbers.real(shape))


def finish(spec, inputs, outputs, attrs):
    """The case record: applies the spec's damage for expected failures."""
    case = {"name": spec["name"]}
    if spec["notes"]:
        case["provenance"] = {"notes": spec["notes"]}
    if spec["variant"]:
        case["variant"] = spec["variant"]
    attrs = {k: v for k, v in {**attrs, **spec["attrs"]}.items() if k not in spec["drop_attrs"]}
    case["attrs"] = attrs
    if spec["tunables"]:
        case["tunables"] = spec["tunables"]
    if spec["want"]:
        case["want"] = list(spec["want"])
    for name, shape in spec["reshape"].items():
        inputs[name] = Tensor(inputs[name].dtype, np.ones(shape))
    case["inputs"] = {n: t.record() for n, t in inputs.items() if n not in spec["drop"]}
    if spec["error"]:
        case["error"] = spec["error"]
        case["outputs"] = {}
        return case
    case["outputs"] = {n: expectation(spec, v) for n, v in outputs.items()}
    return case


def expectation(spec, values):
    dtype = spec["dtype"]
    rounded = round_to(dtype, values)
    tolerance = 0 if spec["exact"] else spec["tolerance"] or TOLERANCE[dtype]
    record = {"dtype": dtype, "shape": list(rounded.shape), "tolerance": tolerance}
    if spec["expect"]:
        record["data"] = {"kind": "values", "values": spell_values(rounded)}
        if np.isnan(rounded).any():
            record["allowNaN"] = True
    return record


def put_all(spec, inputs):
    for name, changes in spec["put"].items():
        inputs[name].put(changes)


def nbits_pair(spec, numbers, N, K, block_size, bits):
    blocks = -(-K // block_size)
    packed = Tensor("uint8", numbers.bytes((N, blocks, block_size * bits // 8)))
    scales = Tensor(spec["dtype"], numbers.real((N, blocks), spec["scale_step"]))
    return packed, scales


def qkv_case(spec):
    spec = {**COMMON, "skip": False, "epsilon": None, "block_size": 32, **spec}
    numbers = Numbers(spec["seed"] or name_seed(spec["name"]))
    K, Nq, Nkv = spec["K"], spec["Nq"], spec["Nkv"]
    inputs = {"aT": activations(spec, numbers, "aT", K)}
    if spec["skip"]:
        inputs["skipT"] = activations(spec, numbers, "skipT", K)
    inputs["normScaleT"] = Tensor(spec["dtype"], 1 + numbers.real((K,), 1 / 2048))
    for p, N in (("q", Nq), ("k", Nkv), ("v", Nkv)):
        inputs[p + "BT"], inputs[p + "ScalesT"] = nbits_pair(spec, numbers, N, K, 32, 4)
    put_all(spec, inputs)
    attrs = {"K": K, "Nq": Nq, "Nkv": Nkv, "block_size": spec["block_size"]}
    if spec["epsilon"] is not None:
        attrs["epsilon"] = spec["epsilon"]
    outputs = {}
    with np.errstate(all="ignore"):
        x = inputs["aT"].exact + (inputs["skipT"].exact if spec["skip"] else 0)
        normed = rms_norm(x, inputs["normScaleT"].exact, attrs.get("epsilon", 9.999999974752427e-7))
        for p in "qkv":
            weight = unpack_nbits(inputs[p + "BT"].values, inputs[p + "ScalesT"].exact, 4, 32, K)
            outputs[p + "T"] = normed @ weight.T
    if "residualT" in spec["want"]:
        outputs["residualT"] = x
    return finish(spec, inputs, outputs, attrs)


def mlp_case(spec):
    spec = {**COMMON, "skip": False, "norm": False, "epsilon": None, "bits": 4, "block_size": 32, "gate_bias": False,
            "up_bias": False, **spec}
    numbers = Numbers(spec["seed"] or name_seed(spec["name"]))
    K, N, bits, block_size = spec["K"], spec["N"], spec["bits"], spec["block_size"]
    inputs = {"aT": activations(spec, numbers, "aT", K)}
    if spec["skip"]:
        inputs["skipT"] = activations(spec, numbers, "skipT", K)
    if spec["norm"] or spec["skip"]:
        inputs["normScaleT"] = Tensor(spec["dtype"], 1 + numbers.real((K,), 1 / 2048))
    for p in ("gate", "up"):
        inputs[p + "BT"], inputs[p + "ScalesT"] = nbits_pair(spec, numbers, N, K, block_size, bits)
        if bits == 8:
            inputs[p + "ScalesT"] = Tensor(spec["dtype"], inputs[p + "ScalesT"].values / 16)
        if spec[p + "_bias"] is True:
            inputs[p + "BiasT"] = Tensor(spec["dtype"], numbers.real((N,)))
        elif spec[p + "_bias"]:
            inputs[p + "BiasT"] = Tensor(spec["dtype"], spec[p + "_bias"])
    put_all(spec, inputs)
    attrs = {"K": K, "N": N, "block_size": block_size, "activation": "silu"}
    if bits != 4:
        attrs["bits"] = bits
    if spec["epsilon"] is not None:
        attrs["epsilon"] = spec["epsilon"]
    with np.errstate(all="ignore"):
        x = inputs["aT"].exact + (inputs["skipT"].exact if spec["skip"] else 0)
        read = rms_norm(x, inputs["normScaleT"].exact, attrs.get("epsilon", 1e-5)) if "normScaleT" in inputs else x
        sums = []
        for p in ("gate", "up"):
            weight = unpack_nbits(inputs[p + "BT"].values, inputs[p + "ScalesT"].exact, bits, block_size, K)
            bias = inputs[p + "BiasT"].exact if p + "BiasT" in inputs else 0
            sums.append(read @ weight.T + bias)
        outputs = {"yT": silu(sums[0]) * sums[1]}
    if "residualT" in spec["want"]:
        outputs["residualT"] = x
    return finish(spec, inputs, outputs, attrs)


def bnb4_case(spec):
    spec = {**COMMON, "quant_type": 1, "block_size": 32, "one_hot": False, **spec}
    numbers = Numbers(spec["seed"] or name_seed(spec["name"]))
    K, N, block_size = spec["K"], spec["N"], spec["block_size"]
    inputs = {"aT": activations(spec, numbers, "aT", K)}
    if spec["one_hot"]:
        inputs["aT"] = Tensor(spec["dtype"], np.eye(K))
    inputs["bT"] = Tensor("uint8", numbers.bytes((-(-N * K // 2),)))
    absmax = np.abs(numbers.real((-(-N * K // block_size),))) + 0.25
    inputs["absmaxT"] = Tensor(spec["dtype"], absmax)
    put_all(spec, inputs)
    attrs = {"K": K, "N": N, "block_size": block_size, "quant_type": spec["quant_type"]}
    quant_type = spec["quant_type"] if spec["quant_type"] in (0, 1) else 0
    with np.errstate(all="ignore"):
        weight = unpack_bnb4(inputs["bT"].values, inputs["absmaxT"].exact, quant_type, block_size, N, K)
        outputs = {"yT": inputs["aT"].exact @ weight.T}
    return finish(spec, inputs, outputs, attrs)


def name_seed(name):
    """FNV-1a, so that a case's numbers do not depend on its place in the list."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    return seed


H = dict(dtype="float16")
SMALL = dict(K=64, Nq=8, Nkv=4)
FULL = slice(None)

QKV = [
    dict(name="one_row", **SMALL),
    dict(name="one_row_f16", **SMALL, **H),
    dict(name="card_example", K=21, Nq=5, Nkv=3, notes="K below one block: 11 codes of each blob are padding"),
    dict(name="one_row_k_not_multiple_of_block", K=77, Nq=9, Nkv=3),
    dict(name="one_row_k_not_multiple_of_block_f16", K=77, Nq=9, Nkv=3, **H),
    dict(name="one_row_long", K=1056, Nq=6, Nkv=2),
    dict(name="one_row_long_odd", K=1001, Nq=3, Nkv=2),
    dict(name="rows_3_several_words_a_lane", lead=(3,), K=200, Nq=4, Nkv=2),
    dict(name="no_rows", lead=(0,), **SMALL),
    dict(name="no_rows_rank3", lead=(2, 0), **SMALL, skip=True, want=("residualT",)),
    dict(name="rows_2", lead=(2,), K=64, Nq=10, Nkv=7),
    dict(name="rows_2_f16", lead=(2,), K=64, Nq=10, Nkv=7, **H),
    dict(name="rows_15", lead=(15,), K=96, Nq=17, Nkv=5),
    dict(name="rows_16_f16", lead=(16,), K=96, Nq=8, Nkv=8, **H),
    dict(name="rows_64", lead=(64,), K=32, Nq=5, Nkv=3),
    dict(name="rows_127_odd", lead=(127,), K=33, Nq=3, Nkv=1, wave={"aT": (0.37, 0.11, 0.8)}),
    dict(name="rank3", lead=(2, 3), K=45, Nq=9, Nkv=6),
    dict(name="rank3_f16_skip", lead=(3, 2), K=45, Nq=6, Nkv=2, skip=True, **H),
    dict(name="kv_wider_than_q", lead=(3,), K=64, Nq=3, Nkv=11),
    dict(name="one_column_each", lead=(2,), K=1, Nq=1, Nkv=1),
    dict(name="skip_one_row", **SMALL, skip=True),
    dict(name="skip_rows", lead=(9,), K=50, Nq=7, Nkv=5, skip=True),
    dict(name="skip_residual_one_row", **SMALL, skip=True, want=("residualT",)),
    dict(name="skip_residual_one_row_f16", **SMALL, skip=True, want=("residualT",), **H),
    dict(name="skip_residual_rows", lead=(11,), K=50, Nq=7, Nkv=5, skip=True, want=("residualT",)),
    dict(name="skip_residual_rank3_f16", lead=(2, 5), K=34, Nq=4, Nkv=3, skip=True, want=("residualT",), **H),
    dict(name="split_norm", lead=(3,), K=70, Nq=9, Nkv=5, variant="split_norm"),
    dict(name="split_norm_one_row", K=64, Nq=9, Nkv=5, variant="split_norm"),
    dict(name="split_skip", lead=(3,), K=70, Nq=9, Nkv=5, skip=True, variant="split_skip"),
    dict(name="split_skipsum_f16", lead=(3,), K=70, Nq=9, Nkv=5, skip=True, want=("residualT",), variant="split_skipsum",
         **H),
    dict(name="epsilon_large", lead=(2,), **SMALL, epsilon=0.5),
    dict(name="epsilon_zero", **SMALL, epsilon=0),
    dict(name="zero_row", lead=(3,), **SMALL, put={"aT": [((1, FULL), 0)]}, notes="a row of zeros gives zeros"),
    dict(name="nan_row_stays_alone", lead=(10,), **SMALL, put={"aT": [((4, 7), NAN)]}),
    dict(name="nan_row_stays_alone_f16", lead=(3,), K=40, Nq=8, Nkv=4, put={"aT": [((1, 7), NAN)]}, **H,
         notes="K is not a multiple of the block: the lanes past a row's end belong to the next row"),
    dict(name="nan_last_column", lead=(3,), K=33, Nq=4, Nkv=4, put={"aT": [((0, 32), NAN), ((2, 0), NAN)]}),
    dict(name="inf_row_stays_alone", lead=(3,), **SMALL, put={"aT": [((1, 5), INF)]},
         notes="the root mean square is infinite: Inf / Inf is NaN"),
    dict(name="scale_zero", lead=(2,), **SMALL, put={"qScalesT": [((0, FULL), 0)], "vScalesT": [((2, 1), 0)]}),
    dict(name="scale_negative", **SMALL, put={"qScalesT": [((FULL, 0), -0.0625)], "kScalesT": [((1, FULL), -0.5)]}),
    dict(name="scale_infinite_at_midpoint", lead=(2,), K=32, Nq=4, Nkv=2,
         put={"qScalesT": [((0, 0), INF)], "qBT": [((0, 0, FULL), 0x88)]}, notes="0 * Inf is NaN"),
    dict(name="codes_all_bit_patterns", lead=(2,), K=32, Nq=16, Nkv=1,
         put={"qBT": [((FULL, 0, FULL), np.arange(256).reshape(16, 16))]}),
    dict(name="codes_that_look_like_nan", K=32, Nq=4, Nkv=2,
         put={"qBT": [((0, 0, FULL), 0xFF), ((1, 0, FULL), [0xFF, 0x7F] * 8), ((2, 0, FULL), [0, 0x7C] * 8)]},
         notes="as half or float words these bytes are NaN and Inf"),
    dict(name="f16_output_overflows", lead=(2,), **SMALL, **H, scale_step=1 / 4,
         put={"qScalesT": [((0, FULL), 30000), ((1, FULL), -30000)]}),
    dict(name="f16_residual_overflows", lead=(2,), **SMALL, **H, skip=True, want=("residualT",),
         put={"aT": [((0, 3), 60000)], "skipT": [((0, 3), 60000)]},
         notes="the sum is normalized before it is rounded, so only the residual is infinite"),
    dict(name="f32_activation_beyond_f16", lead=(2,), **SMALL, put={"aT": [((0, 3), 70000)]},
         notes="no float16 staging of float32 values"),
    dict(name="rows_65535", lead=(65535,), K=8, Nq=1, Nkv=1, wave={"aT": (0.013, 0.007, 1.5)}, expect=False,
         notes="as many rows as a dispatch axis holds"),
    dict(name="error_residual_without_skip", **SMALL, want=("residualT",), error="'residualT'"),
    dict(name="error_skip_shape", lead=(2,), **SMALL, skip=True, reshape={"skipT": (1, 64)}, error="'skipT'"),
    dict(name="error_rank1", lead=(), **SMALL, error="'aT'"),
    dict(name="error_k_differs", **SMALL, attrs={"K": 63}, error="'aT'"),
    dict(name="error_weight_shape", **SMALL, reshape={"kBT": (4, 1, 16)}, error="'kBT'"),
    dict(name="error_scales_shape", **SMALL, reshape={"vScalesT": (4, 3)}, error="'vScalesT'"),
    dict(name="error_block_size", **SMALL, block_size=64, error="block_size"),
    dict(name="error_bits", **SMALL, attrs={"bits": 8}, error="bits"),
    dict(name="error_accuracy_level", **SMALL, attrs={"accuracy_level": 4}, error="accuracy_level"),
    dict(name="error_unknown_attribute", **SMALL, attrs={"blocksize": 32}, error="blocksize"),
    dict(name="error_attribute_missing", **SMALL, drop_attrs=("Nkv",), error="Nkv"),
    dict(name="error_scales_missing", **SMALL, drop=("qScalesT",), error="qScalesT"),
]

TINY = dict(K=64, N=6)
MLP = [
    dict(name="card_example", lead=(2,), K=16, N=4, block_size=8),
    dict(name="one_row", **TINY),
    dict(name="one_row_f16", **TINY, **H),
    dict(name="one_row_k_not_multiple_of_block", K=77, N=9),
    dict(name="one_row_k_not_multiple_of_block_f16", K=77, N=9, **H),
    dict(name="rows_3_several_words_a_lane", lead=(3,), K=200, N=4),
    dict(name="one_row_long", K=1056, N=5),
    dict(name="no_rows", lead=(0,), **TINY),
    dict(name="no_rows_rank3_residual", lead=(0, 3), **TINY, skip=True, want=("residualT",)),
    dict(name="rows_2", lead=(2,), K=64, N=11),
    dict(name="rows_15_f16", lead=(15,), K=70, N=9, **H),
    dict(name="rows_16", lead=(16,), K=96, N=8),
    dict(name="rows_64", lead=(64,), K=32, N=7),
    dict(name="rows_127_odd", lead=(127,), K=33, N=3, wave={"aT": (0.37, 0.11, 0.8)}),
    dict(name="rank3", lead=(2, 3), K=45, N=9),
    dict(name="one_by_one", K=1, N=1, block_size=16),
    dict(name="bits2_block16", lead=(3,), K=40, N=5, bits=2, block_size=16),
    dict(name="bits2_block8_two_byte_blobs", lead=(3,), K=29, N=5, bits=2, block_size=8),
    dict(name="bits2_block4_one_byte_blobs", K=11, N=5, bits=2, block_size=4),
    dict(name="bits2_block128_one_row", K=256, N=5, bits=2, block_size=128),
    dict(name="bits4_block2_one_byte_blobs", lead=(2,), K=7, N=5, block_size=2),
    dict(name="bits4_block16_one_row", K=80, N=6, block_size=16),
    dict(name="bits4_block128_one_row", K=384, N=6, block_size=128),
    dict(name="bits4_block128_one_row_padded", K=300, N=6, block_size=128),
    dict(name="bits4_block256", lead=(4,), K=64, N=6, block_size=256),
    dict(name="bits8_block16_one_row", K=48, N=7, bits=8, block_size=16),
    dict(name="bits8_block32", lead=(5,), K=70, N=7, bits=8),
    dict(name="bits8_block32_f16", lead=(5,), K=70, N=7, bits=8, **H),
    dict(name="bits8_block1_one_row", K=5, N=3, bits=8, block_size=1),
    dict(name="gate_bias", lead=(2,), **TINY, gate_bias=True),
    dict(name="up_bias", lead=(2,), **TINY, up_bias=True),
    dict(name="biases_one_row", **TINY, gate_bias=True, up_bias=True),
    dict(name="biases_rows_f16", lead=(9,), **TINY, gate_bias=True, up_bias=True, **H),
    dict(name="norm_one_row", **TINY, norm=True),
    dict(name="norm_rows_f16", lead=(9,), K=50, N=6, norm=True, **H),
    dict(name="norm_biases", lead=(3,), K=50, N=6, norm=True, gate_bias=True, up_bias=True),
    dict(name="norm_up_bias", **TINY, norm=True, up_bias=True, notes="an absent optional input leaves no gap"),
    dict(name="norm_gate_bias_f16", lead=(2,), **TINY, norm=True, gate_bias=True, **H),
    dict(name="norm_epsilon", lead=(2,), **TINY, norm=True, epsilon=0.25),
    dict(name="norm_zero_row", lead=(2,), **TINY, norm=True, put={"aT": [((0, FULL), 0)]}),
    dict(name="skip_one_row", **TINY, skip=True),
    dict(name="skip_rows", lead=(10,), K=50, N=6, skip=True, gate_bias=True),
    dict(name="skip_biases_f16", lead=(3,), K=50, N=6, skip=True, gate_bias=True, up_bias=True, **H),
    dict(name="skip_residual", lead=(3,), K=50, N=6, skip=True, want=("residualT",)),
    dict(name="skip_residual_up_bias", lead=(3,), K=34, N=5, skip=True, want=("residualT",), up_bias=True),
    dict(name="skip_residual_biases_f16", lead=(2, 3), K=50, N=6, skip=True, want=("residualT",), gate_bias=True,
         up_bias=True, **H),
    dict(name="split_plain", lead=(3,), K=50, N=9, variant="split_plain"),
    dict(name="split_plain_one_row_f16", K=64, N=9, variant="split_plain", **H),
    dict(name="split_norm_biases", lead=(3,), K=50, N=9, norm=True, gate_bias=True, up_bias=True,
         variant="split_norm_biases"),
    dict(name="split_skip_up_bias", lead=(3,), K=50, N=9, skip=True, up_bias=True, variant="split_skip_up_bias"),
    dict(name="split_skipsum_gate_bias", K=50, N=9, skip=True, gate_bias=True, want=("residualT",),
         variant="split_skipsum_gate_bias"),
    dict(name="silu_extremes", K=16, N=10, block_size=16, put={"aT": [(FULL, 0)], "upBiasT": [(FULL, 1)]}, up_bias=True,
         gate_bias=[-1e4, 1e4, -20, 20, -88, -104, 88, 0, -1, 3e38],
         notes="silu(-20) is -4.1e-08 and not 0, nothing is NaN"),
    dict(name="silu_of_infinities", K=16, N=3, block_size=16, put={"aT": [(FULL, 0)], "upBiasT": [(FULL, 1)]},
         up_bias=True, gate_bias=[INF, -INF, NAN], notes="silu(-Inf) is -Inf * 0, NaN"),
    dict(name="f16_output_overflows", K=16, N=3, block_size=16, gate_bias=[300, 300, -1], up_bias=[300, -300, 2], **H,
         put={"aT": [(FULL, 0)]}),
    dict(name="f16_sum_beyond_f16", K=16, N=2, block_size=16, gate_bias=[1, 1], up_bias=[1, 1], **H,
         put={"aT": [(FULL, 60000)], "gateBT": [(FULL, 0xFF)], "gateScalesT": [(FULL, 1)], "upBT": [(FULL, 0x99)],
              "upScalesT": [(FULL, 0)]}, notes="the gate sum of 6.7e6 is kept in float32; the product overflows to Inf"),
    dict(name="f32_activation_beyond_f16", lead=(2,), **TINY, put={"aT": [((0, 3), 70000)]}),
    dict(name="activation_outlier", K=32, N=1, put={"aT": [(FULL, 3), ((0, 0), 1000)], "gateBT": [(FULL, 0x99)],
         "gateScalesT": [(FULL, 1)], "upBT": [(FULL, 0x99)], "upScalesT": [(FULL, 1 / 1024)]},
         notes="the gate is 1093 exactly; int8 activations would give 1000"),
    dict(name="nan_row_stays_alone", lead=(10,), K=40, N=6, put={"aT": [((4, 39), NAN)]}),
    dict(name="inf_row_stays_alone", lead=(3,), K=40, N=6, norm=True, put={"aT": [((1, 0), INF)]}),
    dict(name="scale_negative_and_zero", lead=(2,), **TINY, put={"gateScalesT": [((0, FULL), -0.25), ((1, FULL), 0)]}),
    dict(name="rows_70000", lead=(70000,), K=8, N=1, norm=True, wave={"aT": (0.013, 0.007, 1.5)}, expect=False,
         notes="more rows than a dispatch axis holds"),
    dict(name="error_activation", **TINY, attrs={"activation": "gelu"}, error="activation"),
    dict(name="error_activation_missing", **TINY, drop_attrs=("activation",), error="activation"),
    dict(name="error_bits", **TINY, attrs={"bits": 3}, error="bits"),
    dict(name="error_block_size_not_power_of_two", **TINY, attrs={"block_size": 24}, error="block_size"),
    dict(name="error_skip_without_norm_scale", **TINY, skip=True, drop=("normScaleT",), error="'normScaleT'"),
    dict(name="error_residual_without_skip", **TINY, norm=True, want=("residualT",), error="'residualT'"),
    dict(name="error_gate_bias_shape", **TINY, gate_bias=True, reshape={"gateBiasT": (7,)}, error="'gateBiasT'"),
    dict(name="error_up_weight_shape", **TINY, reshape={"upBT": (6, 3, 16)}, error="'upBT'"),
    dict(name="error_rank4", lead=(1, 1, 2), **TINY, error="'aT'"),
    dict(name="error_up_scales_missing", **TINY, drop=("upScalesT",), error="upScalesT"),
]

ALL_CODES = [0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF]
BNB4 = [
    dict(name="nf4_codebook_exact", lead=(16,), K=16, N=1, block_size=16, one_hot=True, exact=True,
         put={"bT": [(FULL, ALL_CODES)], "absmaxT": [(FULL, 1)]}, notes="row i of A picks code i"),
    dict(name="fp4_codebook_exact", lead=(16,), K=16, N=1, block_size=16, one_hot=True, exact=True, quant_type=0,
         put={"bT": [(FULL, ALL_CODES)], "absmaxT": [(FULL, 1)]}),
    dict(name="one_row_nf4", K=64, N=8),
    dict(name="one_row_fp4", K=64, N=8, quant_type=0),
    dict(name="one_row_f16", K=64, N=8, **H),
    dict(name="one_row_fp4_f16", K=64, N=8, quant_type=0, **H),
    dict(name="one_row_odd_k", K=45, N=7, block_size=16, notes="every second row starts in the low half of a byte"),
    dict(name="one_row_odd_k_f16", K=45, N=7, block_size=16, **H),
    dict(name="one_row_long", K=1000, N=3, block_size=64),
    dict(name="one_by_one", K=1, N=1, block_size=16, put={"bT": [(0, 0xF3)]}, notes="the high half of the only byte"),
    dict(name="one_by_one_two_rows", lead=(2,), K=1, N=1, block_size=16, quant_type=0),
    dict(name="k_one", lead=(2,), K=1, N=9, block_size=16),
    dict(name="n_one", lead=(3,), K=33, N=1, block_size=16),
    dict(name="no_rows", lead=(0,), K=64, N=8),
    dict(name="rows_2", lead=(2,), K=64, N=9),
    dict(name="rows_2_f16", lead=(2,), K=64, N=9, **H),
    dict(name="rows_15_odd_blocks_cross_rows", lead=(15,), K=37, N=11, block_size=32),
    dict(name="rows_16", lead=(16,), K=64, N=8),
    dict(name="rows_16_odd", lead=(16,), K=37, N=11, block_size=16),
    dict(name="rows_17_fp4_f16", lead=(17,), K=40, N=13, quant_type=0, **H),
    dict(name="rows_64", lead=(64,), K=32, N=10, block_size=64),
    dict(name="rows_65_two_tiles", lead=(65,), K=19, N=66, block_size=16, wave={"aT": (0.61, 0.23, 0.7)}),
    dict(name="rows_127_f16", lead=(127,), K=24, N=5, block_size=16, wave={"aT": (0.37, 0.11, 0.5)}, **H),
    dict(name="block_64", lead=(3,), K=128, N=5, block_size=64),
    dict(name="block_larger_than_weight", lead=(3,), K=20, N=3, block_size=256),
    dict(name="block_4096", K=64, N=3, block_size=4096),
    dict(name="last_block_partial", lead=(2,), K=50, N=3, block_size=64),
    dict(name="scalar_forced", lead=(1,), K=50, N=7, block_size=16, variant="scalar"),
    dict(name="scalar_forced_rows_20", lead=(20,), K=21, N=5, block_size=16, variant="scalar", **H),
    dict(name="tiled_forced_rows_16", lead=(16,), K=50, N=7, block_size=16, variant="tiled"),
    dict(name="gemv_forced", K=99, N=3, block_size=16, variant="gemv"),
    dict(name="absmax_zero", lead=(2,), K=32, N=4, block_size=16, put={"absmaxT": [(1, 0), (2, 0)]}),
    dict(name="absmax_negative", lead=(2,), K=32, N=4, block_size=16, put={"absmaxT": [(1, -2), (4, -0.5)]}),
    dict(name="absmax_infinite", lead=(1,), K=32, N=2, block_size=16,
         put={"absmaxT": [(0, INF)], "bT": [(slice(0, 8), 0x77)]}, notes="code 7 of NF4 is 0, and 0 * Inf is NaN"),
    dict(name="nan_row_stays_alone", lead=(18,), K=21, N=5, block_size=16, put={"aT": [((3, 20), NAN)]}),
    dict(name="nan_row_stays_alone_few_rows", lead=(3,), K=21, N=5, block_size=16, put={"aT": [((1, 0), NAN)]}),
    dict(name="inf_row_one_row", K=21, N=5, block_size=16, put={"aT": [((0, 3), INF)]}),
    dict(name="f16_output_overflows", lead=(2,), K=32, N=3, block_size=16, **H,
         put={"aT": [((0, FULL), 30000)], "bT": [(slice(0, 16), 0xFF)]}),
    dict(name="f32_activation_beyond_f16", lead=(17,), K=32, N=3, put={"aT": [((2, 3), 70000)]}),
    dict(name="bytes_that_look_like_nan", lead=(2,), K=32, N=2, quant_type=0, put={"bT": [(FULL, [0xFF, 0x7F] * 16)]}),
    dict(name="wide_output_folds", K=1, N=70001, block_size=4096, expect=False,
         put={"absmaxT": [(FULL, 0.5)]}, notes="more outputs than a dispatch axis holds"),
    dict(name="rows_70000", lead=(70000,), K=3, N=2, block_size=16, wave={"aT": (0.013, 0.007, 1.5)}, expect=False),
    dict(name="error_rank3", lead=(2, 3), K=32, N=4, error="'aT'"),
    dict(name="error_quant_type", K=32, N=4, quant_type=2, error="quant_type"),
    dict(name="error_quant_type_missing", K=32, N=4, drop_attrs=("quant_type",), error="quant_type"),
    dict(name="error_block_size_small", K=32, N=4, attrs={"block_size": 8}, error="block_size"),
    dict(name="error_block_size_not_power_of_two", K=32, N=4, attrs={"block_size": 48}, error="block_size"),
    dict(name="error_b_too_long", K=32, N=4, reshape={"bT": (65,)}, error="'bT'"),
    dict(name="error_b_too_short", K=32, N=4, reshape={"bT": (63,)}, error="'bT'"),
    dict(name="error_absmax_too_long", K=32, N=4, reshape={"absmaxT": (5,)}, error="'absmaxT'"),
    dict(name="error_k_differs", K=32, N=4, attrs={"K": 16}, error="'aT'"),
    dict(name="error_transposed", K=32, N=4, attrs={"transB": 0}, error="transB"),
    dict(name="error_training", K=32, N=4, attrs={"training_mode": 1}, error="training_mode"),
    dict(name="error_absmax_missing", K=32, N=4, drop=("absmaxT",), error="absmaxT"),
]

PACKAGES = {"MatMulNBitsQkv": (qkv_case, QKV), "MatMulNBitsMlp": (mlp_case, MLP), "MatMulBnb4": (bnb4_case, BNB4)}


# Only in kernels/v2: shapes that its further variants take. Every variant that is pinned here also runs when it is chosen.
QKV_V2 = [
    dict(name="decode_one_row", K=256, Nq=33, Nkv=9, variant="decode_norm"),
    dict(name="decode_one_row_f16", K=256, Nq=33, Nkv=9, variant="decode_norm", **H),
    dict(name="decode_rows_2", lead=(2,), K=128, Nq=18, Nkv=5, variant="decode_norm"),
    dict(name="decode_rows_3_f16", lead=(3,), K=128, Nq=18, Nkv=5, variant="decode_norm", **H),
    dict(name="decode_rows_5", lead=(5,), K=96, Nq=18, Nkv=5, variant="decode_norm"),
    dict(name="decode_rows_8", lead=(8,), K=64, Nq=18, Nkv=5, variant="decode_norm"),
    dict(name="decode_k_rest", lead=(4,), K=40, Nq=6, Nkv=3, variant="decode_norm", notes="K ends inside a block"),
    dict(name="decode_long", K=5152, Nq=5, Nkv=2, variant="decode_norm", notes="several steps where subgroups are narrow"),
    dict(name="decode_skip", lead=(2,), K=160, Nq=9, Nkv=4, skip=True, variant="decode_skip"),
    dict(name="decode_skipsum", K=160, Nq=9, Nkv=4, skip=True, want=("residualT",), variant="decode_skipsum"),
    dict(name="decode_skipsum_f16", lead=(3,), K=80, Nq=9, Nkv=4, skip=True, want=("residualT",), variant="decode_skipsum",
         **H),
    dict(name="split_decode_norm", lead=(2,), K=64, Nq=9, Nkv=4, variant="split_decode_norm"),
    dict(name="split_decode_skip", lead=(2,), K=64, Nq=9, Nkv=4, skip=True, variant="split_decode_skip"),
    dict(name="split_decode_skipsum", K=64, Nq=9, Nkv=4, skip=True, want=("residualT",), variant="split_decode_skipsum"),
]
MLP_V2 = [
    dict(name="decode_plain", K=256, N=33, variant="decode_plain"),
    dict(name="decode_plain_f16", K=256, N=33, variant="decode_plain", **H),
    dict(name="decode_block_16", lead=(2,), K=48, N=17, block_size=16, variant="decode_plain"),
    dict(name="decode_block_128", K=384, N=9, block_size=128, variant="decode_plain"),
    dict(name="decode_rows_8_f16", lead=(8,), K=64, N=19, norm=True, variant="decode_norm", **H),
    dict(name="decode_rows_7_biases", lead=(7,), K=72, N=19, norm=True, gate_bias=True, up_bias=True,
         variant="decode_norm_biases"),
    dict(name="decode_long", K=4128, N=5, norm=True, variant="decode_norm"),
    dict(name="decode_inf_activation", K=64, N=5, put={"aT": [((0, 3), INF)]}, variant="decode_plain"),
]
BNB4_V2 = [
    dict(name="decode_nf4", K=256, N=33, block_size=64, variant="decode"),
    dict(name="decode_fp4_f16", K=256, N=33, quant_type=0, variant="decode", **H),
    dict(name="decode_block_16", K=48, N=17, block_size=16, variant="decode"),
    dict(name="decode_rows_2", lead=(2,), K=96, N=17, variant="decode"),
    dict(name="decode_rows_8_f16", lead=(8,), K=64, N=17, variant="decode", **H),
    dict(name="decode_block_crosses_rows", lead=(3,), K=40, N=13, block_size=64, variant="decode"),
    dict(name="decode_long", K=4128, N=5, block_size=4096, variant="decode"),
    dict(name="decode_codebook", lead=(8,), K=16, N=2, block_size=16, exact=True, put={"bT": [(FULL, ALL_CODES * 2)],
         "absmaxT": [(FULL, 1)], "aT": [(FULL, np.eye(16)[::2])]}, variant="decode"),
]

# Rows are cut into digits, each slice of a row by its greatest element.
OUTLIERS = [((FULL, slice(3, None, 40)), 1900)]
QKV_V2 += [
    dict(name="decode_rows_4_f16", lead=(4,), K=96, Nq=10, Nkv=3, variant="decode_norm", **H),
    dict(name="decode_rows_6_skip", lead=(6,), K=104, Nq=10, Nkv=3, skip=True, variant="decode_skip"),
    dict(name="decode_rest_of_a_workgroup_f16", K=1056, Nq=10, Nkv=3, variant="decode_norm", **H),
    dict(name="decode_outliers", lead=(2,), K=160, Nq=9, Nkv=4, put={"aT": OUTLIERS}, variant="decode_norm"),
    dict(name="decode_outliers_f16", lead=(3,), K=160, Nq=9, Nkv=4, skip=True, put={"aT": OUTLIERS}, variant="decode_skip", **H),
    dict(name="decode_tiny_and_huge_rows", lead=(4,), K=96, Nq=9, Nkv=4, epsilon=0, variant="decode_norm",
         put={"aT": [((0, slice(0, None, 3)), 1e-15), ((0, slice(1, None, 3)), -3e-15), ((0, slice(2, None, 3)), 7e-16),
                     ((1, slice(0, None, 2)), 1e15), ((1, slice(1, None, 2)), -3e14)]}),
    dict(name="decode_subnormal_and_huge_rows_f16", lead=(2,), K=96, Nq=9, Nkv=4, epsilon=0, variant="decode_norm", **H,
         put={"aT": [((0, slice(0, None, 3)), 6e-8), ((0, slice(1, None, 3)), -5e-6), ((0, slice(2, None, 3)), 2e-5),
                     ((1, slice(0, None, 2)), 65504), ((1, slice(1, None, 2)), -30000)]}),
    dict(name="decode_zero_row", lead=(2,), K=64, Nq=9, Nkv=4, put={"aT": [((0, FULL), 0)]}, variant="decode_norm"),
    dict(name="decode_nan_and_inf_rows", lead=(4,), K=96, Nq=9, Nkv=4, variant="decode_norm",
         put={"aT": [((1, 5), NAN), ((3, 90), INF)]}),
    dict(name="decode_nan_row_f16", lead=(2,), K=96, Nq=9, Nkv=4, skip=True, variant="decode_skip", **H,
         put={"aT": [((1, 5), INF)], "skipT": [((1, 5), -INF)]}, notes="the sum is NaN"),
    dict(name="decode_inf_gain", lead=(2,), K=96, Nq=9, Nkv=4, variant="decode_norm", put={"normScaleT": [(40, INF)],
         "qBT": [(FULL, 0x79)], "kBT": [(FULL, 0xA6)], "vBT": [(FULL, 0x97)]}, notes="no weight is 0"),
    dict(name="decode_floats", lead=(2,), K=160, Nq=9, Nkv=4, skip=True, tunables={"DECODE_DIGITS": 1}, variant="decode_skip"),
    dict(name="decode_floats_f16", K=256, Nq=9, Nkv=4, tunables={"DECODE_DIGITS": 1}, variant="decode_norm", **H),
    dict(name="decode_four_digits_f16", K=256, Nq=9, Nkv=4, tunables={"DECODE_DIGITS": 4}, variant="decode_norm", **H),
    dict(name="decode_slices_of_8", lead=(2,), K=160, Nq=9, Nkv=4, tunables={"DECODE_SLICE": 8}, variant="decode_norm"),
    dict(name="decode_groups", lead=(2,), K=160, Nq=29, Nkv=13, skip=True, want=("residualT",), tunables={"DECODE_GROUPS": 3},
         variant="decode_skipsum"),
]
MLP_V2 += [
    dict(name="decode_block_64_f16", lead=(2,), K=192, N=17, block_size=64, variant="decode_plain", **H),
    dict(name="decode_block_8", K=40, N=9, block_size=8, variant="decode_plain"),
    dict(name="decode_rows_4_block_128", lead=(4,), K=272, N=9, block_size=128, variant="decode_plain",
         notes="K ends inside a block"),
    dict(name="decode_outliers_f16", K=160, N=9, scale_step=1 / 65536, put={"aT": OUTLIERS}, variant="decode_plain", **H),
    dict(name="decode_rows_apart", lead=(3,), K=64, N=6, put={"aT": [((1, FULL), 6e-6), ((2, FULL), 60000)],
         "gateScalesT": [((0, FULL), 3e-7), ((1, 0), 1e-5)], "upScalesT": [((2, 1), 12000)]}, variant="decode_plain"),
    dict(name="decode_inf_and_nan_rows_f16", lead=(3,), K=96, N=9, put={"aT": [((0, 3), INF), ((1, 40), NAN), ((2, 95), -INF)],
         "gateBT": [(FULL, 0x79)], "upBT": [(FULL, 0xA6)]}, variant="decode_plain", notes="no weight is 0", **H),
    dict(name="decode_inf_meets_zero", K=64, N=5, put={"aT": [((0, 3), INF)], "gateBT": [((1, 0, 1), 0x88)]},
         variant="decode_plain"),
    dict(name="decode_floats_inf_activation", K=64, N=5, put={"aT": [((0, 3), INF)]}, tunables={"DECODE_DIGITS": 1},
         variant="decode_plain"),
    dict(name="decode_groups", K=160, N=29, norm=True, tunables={"DECODE_GROUPS": 2}, variant="decode_norm"),
]
BNB4_V2 += [
    dict(name="decode_rows_4", lead=(4,), K=104, N=70, variant="decode"),
    dict(name="decode_rows_7_fp4", lead=(7,), K=72, N=33, quant_type=0, variant="decode"),
    dict(name="decode_nan_and_inf_rows", lead=(3,), K=64, N=9, put={"aT": [((0, 3), NAN), ((2, 9), INF)], "bT": [(FULL, 0x2C)]},
         variant="decode"),
    dict(name="decode_one_copy", K=96, N=41, tunables={"DECODE_TABLE_COPIES": 1}, variant="decode"),
    dict(name="decode_two_copies_fp4", K=96, N=41, quant_type=0, tunables={"DECODE_TABLE_COPIES": 2}, variant="decode"),
    dict(name="decode_four_copies", lead=(2,), K=96, N=41, tunables={"DECODE_TABLE_COPIES": 4}, variant="decode"),
    dict(name="decode_one_group", lead=(2,), K=96, N=41, tunables={"DECODE_GROUPS": 1}, variant="decode"),
    dict(name="decode_three_groups", lead=(2,), K=96, N=41, tunables={"DECODE_GROUPS": 3}, variant="decode"),
]

# On the matrix units a float16 weight or activation is rounded once more, before the product.
ROUNDED = dict(dtype="float16", tolerance=6e-3)
QKV_V2 += [
    dict(name="matrix_rows_9", lead=(9,), K=64, Nq=34, Nkv=9, variant="matrix_norm"),
    dict(name="matrix_rows_16_f16", lead=(16,), K=64, Nq=33, Nkv=16, variant="matrix_norm", **ROUNDED),
    dict(name="matrix_rows_33", lead=(33,), K=160, Nq=35, Nkv=31, variant="matrix_norm", notes="K is padded to a tile"),
    dict(name="matrix_rank3_skip_f16", lead=(2, 10), K=96, Nq=9, Nkv=3, skip=True, variant="matrix_skip", **ROUNDED),
    dict(name="matrix_skipsum", lead=(19,), K=32, Nq=9, Nkv=3, skip=True, want=("residualT",), variant="matrix_skipsum"),
    dict(name="matrix_nan_and_inf_rows", lead=(12,), K=64, Nq=9, Nkv=3, put={"aT": [((3, 5), NAN), ((7, 1), INF)]},
         variant="matrix_norm"),
]
MLP_V2 += [
    dict(name="matrix_plain", lead=(20,), K=64, N=37, variant="matrix_plain"),
    dict(name="matrix_plain_f16", lead=(40,), K=64, N=37, scale_step=1 / 16384, variant="matrix_plain", **ROUNDED),
    dict(name="matrix_norm_biases", lead=(10,), K=128, N=17, norm=True, gate_bias=True, up_bias=True, block_size=64,
         variant="matrix_norm_biases"),
    dict(name="matrix_skipsum_f16", lead=(11,), K=96, N=17, scale_step=1 / 16384, skip=True, want=("residualT",),
         variant="matrix_skipsum", **ROUNDED),
    dict(name="matrix_inf_activation", lead=(10,), K=32, N=5, put={"aT": [((2, 3), INF)], "gateBT": [(FULL, 0x79)],
         "upBT": [(FULL, 0xA6)]}, variant="matrix_plain", notes="no weight is 0, so infinite sums keep their sign"),
    dict(name="matrix_scales_apart", lead=(9,), K=64, N=6, put={"aT": [((1, FULL), 6e-6), ((2, FULL), 60000)],
         "gateScalesT": [((0, FULL), 3e-7), ((1, 0), 1e-5)], "upScalesT": [((2, 1), 12000)]}, variant="matrix_plain",
         notes="rows and columns far from 1 in float32"),
    dict(name="matrix_activation_outlier", lead=(9,), K=64, N=4, put={"aT": [(FULL, 3), ((slice(0, 9), 0), 100000)],
         "gateBT": [((FULL, 0, 0), 0x98)], "upBT": [((FULL, 0, 0), 0x98)]}, variant="matrix_plain",
         notes="the outlier meets a weight of 0; what is left must be exact"),
]
BNB4_V2 += [
    dict(name="matrix_nf4", lead=(20,), K=96, N=37, block_size=32, variant="matrix"),
    dict(name="matrix_fp4_f16", lead=(33,), K=64, N=37, quant_type=0, block_size=64, variant="matrix", **ROUNDED),
    dict(name="matrix_block_crosses_rows", lead=(9,), K=96, N=13, block_size=64, variant="matrix"),
    dict(name="matrix_inf_row", lead=(12,), K=32, N=5, put={"aT": [((2, 3), INF)], "bT": [(FULL, 0x2C)]}, variant="matrix"),
    dict(name="matrix_f32_beyond_f16", lead=(12,), K=32, N=5, put={"aT": [((2, 3), 1e6), ((3, FULL), 1e-30), ((4, FULL), 1e26)],
         "absmaxT": [(1, 1e-20), (2, 3e9)]}, variant="matrix"),
]
QKV_V2 += [
    dict(name="matrix_deep_f16", lead=(40,), K=544, Nq=34, Nkv=6, scale_step=1 / 16384, variant="matrix_norm", **ROUNDED),
    dict(name="matrix_deep", lead=(34,), K=416, Nq=6, Nkv=3, variant="matrix_norm"),
    dict(name="tiled_rows_9", lead=(9,), K=64, Nq=35, Nkv=9, variant="tiled_norm"),
    dict(name="tiled_rows_70_f16", lead=(70,), K=32, Nq=66, Nkv=5, variant="tiled_norm", **H),
    dict(name="tiled_skip", lead=(17,), K=96, Nq=9, Nkv=70, skip=True, variant="tiled_skip"),
    dict(name="split_tiled_skipsum", lead=(17,), K=64, Nq=9, Nkv=4, skip=True, want=("residualT",),
         variant="split_tiled_skipsum"),
    dict(name="split_tiled_norm_f16", lead=(12,), K=64, Nq=9, Nkv=4, variant="split_tiled_norm", **H),
]
MLP_V2 += [
    dict(name="tiled_plain_f16", lead=(66,), K=64, N=37, variant="tiled_plain", **H),
    dict(name="tiled_norm_biases", lead=(13,), K=96, N=33, norm=True, gate_bias=True, up_bias=True, block_size=16,
         variant="tiled_norm_biases"),
    dict(name="tiled_skipsum", lead=(10,), K=32, N=5, skip=True, want=("residualT",), variant="tiled_skipsum"),
    dict(name="tiled_inf_activation", lead=(9,), K=32, N=5, put={"aT": [((2, 3), INF)], "gateBT": [(FULL, 0x79)],
         "upBT": [(FULL, 0xA6)]}, variant="tiled_plain"),
]
BNB4_V2 += [
    dict(name="tiled64_nf4", lead=(20,), K=96, N=67, block_size=16, variant="tiled64"),
    dict(name="tiled64_fp4_f16", lead=(65,), K=64, N=37, quant_type=0, block_size=128, variant="tiled64", **H),
]


# One row or two, each subgroup on its own columns. Wide subgroups take these K in one step, narrow ones in several.
MLP_V2 += [
    dict(name="row_plain", K=96, N=41, variant="row_plain"),
    dict(name="row_norm_f16", K=288, N=37, norm=True, variant="row_norm", **H),
    dict(name="row_norm_biases", lead=(2,), K=160, N=19, norm=True, gate_bias=True, up_bias=True, variant="row_norm_biases"),
    dict(name="row_skip_f16", lead=(2,), K=96, N=9, skip=True, variant="row_skip", **H),
    dict(name="row_skipsum", K=640, N=7, skip=True, want=("residualT",), gate_bias=True, variant="row_skipsum_gate_bias"),
    dict(name="row_deep", K=2208, N=5, norm=True, block_size=128, variant="row_norm", notes="more steps than the window has"),
    dict(name="row_deep_f16", lead=(1, 2), K=1312, N=6, block_size=64, tunables={"ROW_WINDOW": 3}, variant="row_plain", **H),
    dict(name="row_groups", K=64, N=300, tunables={"ROW_SUBGROUPS": 3, "ROW_COLUMNS": 2}, variant="row_plain"),
    dict(name="row_three_digits", K=128, N=9, tunables={"ROW_DIGITS": 3}, variant="row_plain"),
    dict(name="row_four_digits_f16", K=128, N=9, tunables={"ROW_DIGITS": 4}, variant="row_plain", **H),
    dict(name="row_last_block_is_short", K=96, N=9, block_size=64, variant="row_plain"),
    dict(name="row_outliers", lead=(2,), K=192, N=9, put={"aT": [((0, 37), 1000), ((1, 3), -3000)]}, variant="row_plain"),
    dict(name="row_tiny_and_huge", lead=(2,), K=64, N=6, put={"aT": [((0, FULL), 6e-6), ((1, FULL), 60000)],
         "gateScalesT": [((0, FULL), 3e-7)], "upScalesT": [((2, 1), 12000)]}, variant="row_plain"),
    dict(name="row_inf_and_nan_f16", lead=(2,), K=96, N=9, put={"aT": [((0, 3), INF), ((1, 40), NAN)], "gateBT": [(FULL, 0x79)],
         "upBT": [(FULL, 0xA6)]}, variant="row_plain", **H),
    dict(name="row_inf_times_zero", K=64, N=5, put={"aT": [((0, 9), INF)], "gateBT": [((2, 0, 4), 0x88)]}, variant="row_plain"),
    dict(name="row_nan_stays_alone", lead=(2,), K=64, N=5, norm=True, put={"aT": [((1, 9), NAN)]}, variant="row_norm"),
    dict(name="row_zeros", lead=(2,), K=64, N=5, norm=True, epsilon=1e-6, put={"aT": [((0, FULL), 0)]}, variant="row_norm"),
]
# Tiles cut along K; tiles of every height.
TAIL = {"MATRIX_SUBGROUPS": 1, "MATRIX_WIDTH": 4, "MATRIX_PARALLEL": 4, "MATRIX_SPLITS": 2, "MATRIX_DEPTH": 32}
MANY = {"aT": (0.37, 0.11, 0.8)}
MLP_V2 += [
    dict(name="matrix_tail_norm_biases_f16", lead=(20,), K=96, N=150, norm=True, gate_bias=True, up_bias=True, scale_step=1 / 16384,
         tunables=TAIL, variant="matrix_tail_norm_biases", **ROUNDED),
    dict(name="matrix_tail_plain_f16", lead=(32,), K=128, N=9, scale_step=1 / 16384, tunables={**TAIL, "MATRIX_SPLITS": 4},
         variant="matrix_tail_plain", **ROUNDED),
    dict(name="matrix_rows_140", lead=(140,), K=64, N=11, wave=MANY, variant="matrix_plain"),
    dict(name="matrix_rows_140_f16", lead=(140,), K=64, N=11, scale_step=1 / 16384, wave=MANY, tunables={"MATRIX_SPLITS": 1},
         variant="matrix_plain", **ROUNDED),
    dict(name="matrix_rows_270_f16", lead=(270,), K=64, N=11, scale_step=1 / 16384, wave=MANY, variant="matrix_plain", **ROUNDED),
]
BNB4_V2 += [
    dict(name="matrix_tail_nf4_f16", lead=(20,), K=160, N=70, tunables=TAIL, variant="matrix_tail", dtype="float16", tolerance=1e-2),
    dict(name="matrix_tail_fp4_f16", lead=(31,), K=128, N=300, quant_type=0, tunables={**TAIL, "MATRIX_SPLITS": 4}, variant="matrix_tail",
         dtype="float16", tolerance=1e-2),
    dict(name="matrix_rows_270_f16", lead=(270,), K=64, N=70, wave=MANY, variant="matrix", **ROUNDED),
]


def with_matrix_tolerance(spec):
    """Version 2 gives float16 cases of many rows to the matrix units where it can."""
    many = int(np.prod(spec.get("lead", (1,)))) >= 9 and spec.get("dtype") == "float16"
    return {**spec, "tolerance": 6e-3} if many and "tolerance" not in spec else spec


V2 = {"MatMulNBitsQkv": QKV_V2, "MatMulNBitsMlp": MLP_V2, "MatMulBnb4": BNB4_V2}


def test_text(cases):
    """One member a line; a tensor and an expectation a line."""
    lines = ['{', '  "cases": [']
    for at, case in enumerate(cases):
        lines.append("    {")
        members = []
        for key, value in case.items():
            if key in ("inputs", "outputs") and value:
                tensors = ",\n".join(f"        {json.dumps(n)}: {json.dumps(t)}" for n, t in value.items())
                members.append(f"      {json.dumps(key)}: {{\n{tensors}\n      }}")
            else:
                members.append(f"      {json.dumps(key)}: {json.dumps(value)}")
        lines.append(",\n".join(members))
        lines.append("    }" + ("," if at + 1 < len(cases) else ""))
    return "\n".join(lines + ["  ]", "}", ""])


def main():
    check = "--check" in sys.argv[1:]
    stale = []
    for op, (build, specs) in PACKAGES.items():
        for folder, cases in (("kernels", specs), ("kernels/v2", [with_matrix_tolerance(s) for s in specs + V2[op]])):
            names = [spec["name"] for spec in cases]
            assert len(set(names)) == len(names), f"{op}: a case name is used twice"
            text = test_text([build(spec) for spec in cases])
            path = ROOT / f"{folder}/com.microsoft.{op}/build/webgpu/test.json"
            if not check:
                path.write_text(text)
            elif not path.exists() or path.read_text() != text:
                stale.append(str(path.relative_to(ROOT)))
    if stale:
        print("out of date, run tools/make-kernel-tests.py: " + ", ".join(stale), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
