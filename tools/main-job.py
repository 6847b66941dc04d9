#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The main job: layer 0 of SmolLM2-135M with quantized weights, checked against numpy.

  main-job.py --nibble BINARY --model MODEL.gguf --work FOLDER [--backend cpu|webgpu]

Rows of the token embedding are the activations. Each row is a sequence of one token, so attention returns V itself, and the
layer can be computed with the three operators alone:

  q, k, v = MatMulNBitsQkv(x, attn_norm)          nbits, 4 bits, block 32
  o       = MatMulBnb4(v of each head's group)    NF4, block 64
  m, h    = MatMulNBitsMlp(x, skip = o, ffn_norm) nbits, 4 bits, block 32; h = x + o
  y       = h + MatMulBnb4(m)                     NF4, block 64

Weights are quantized by `nibble quantize`, the operators run by `nibble run`. For each output two errors are printed:
"quantization" against the product with the float weights (dequantized from the model file by the gguf package), and "exactness"
against numpy in float64 with the same quantized weights, unpacked here from the formats' definitions. The job is OK when every
exactness is at most 1e-5. Quantization is ||got - want|| / ||want||, exactness max |got - want| / max |want|.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENS = [1, *range(42, 49152, 1260)]  # 40 of them, spread over the vocabulary
ROWS = [1, 40]                         # one token, as in decoding, and all of them, as in reading a prompt
HEADS, KV_HEADS = 9, 3
EPSILON = 1e-5
EXACT = 1e-5
NF4 = np.array([
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0])
LAYER = "blk.0."
NBITS = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "gate": "ffn_gate", "up": "ffn_up"}
BNB4 = {"o": "attn_output", "down": "ffn_down"}


class Job:
    def __init__(self, args):
        self.args = args
        self.work = pathlib.Path(args.work)
        self.work.mkdir(parents=True, exist_ok=True)
        self.rows = []       # (operator, output, shape, quantization, exactness)
        self.notes = []
        self.failures = []

    def nibble(self, *words):
        """Run the tool with --json and return its object."""
        result = subprocess.run([self.args.nibble, *map(str, words), "--json"], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"{result.stderr.strip()}\nFAIL: nibble {words[0]} ended with {result.returncode}")
        return json.loads(result.stdout)

    def file(self, name):
        return self.work / name

    def check(self, good, text):
        if not good:
            self.failures.append(text)


# ---- the model, through the gguf package


def load_floats(path):
    wanted = {LAYER + n + ".weight" for n in [*NBITS.values(), *BNB4.values(), "attn_norm", "ffn_norm"]}
    wanted.add("token_embd.weight")
    found, stored = {}, {}
    for tensor in gguf.GGUFReader(path).tensors:
        if tensor.name in wanted:
            short = tensor.name.removeprefix(LAYER).removesuffix(".weight")
            data = tensor.data[TOKENS] if short == "token_embd" else tensor.data
            found[short] = gguf.quants.dequantize(data, tensor.tensor_type).astype(np.float64)
            stored[short] = tensor.tensor_type.name
    assert len(found) == len(wanted), f"the model lacks {wanted - set(found)}"
    return found, stored


# ---- quantized weights, unpacked from the formats' definitions


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    dtypes = {"F32": np.float32, "F16": np.float16, "U8": np.uint8}
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            tensors[name] = np.frombuffer(data[begin:end], dtypes[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def unpack_nbits(packed, scales, K):
    """4 bits, low half first: value = (code - 8) * scale of its block along K."""
    codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(packed.shape[0], -1)[:, :K].astype(np.float64)
    return (codes - 8) * np.repeat(scales.astype(np.float64), 32, axis=1)[:, :K]


def unpack_bnb4(packed, absmax, N, K):
    """4 bits, high half first: value = NF4[code] * absmax of its block over the flattened weight."""
    codes = np.stack([packed >> 4, packed & 15], axis=-1).reshape(-1)[:N * K]
    return (NF4[codes] * np.repeat(absmax.astype(np.float64), 64)[:N * K]).reshape(N, K)


def quantize_all(job, floats):
    """Pack every matrix with the tool; return what the packed weights stand for."""
    unpacked = {}
    for name, tensor in {**NBITS, **BNB4}.items():
        form = "nbits" if name in NBITS else "bnb4"
        report = job.nibble("quantize", "--format", form, "--weight", f"{job.args.model}:{LAYER}{tensor}.weight", "--out",
                            job.file(name + ".safetensors"))
        N, K = floats[tensor].shape
        stored = read_safetensors(job.file(name + ".safetensors"))
        if form == "nbits":
            unpacked[name] = unpack_nbits(stored["B"], stored["scales"], K)
        else:
            unpacked[name] = unpack_bnb4(stored["B"], stored["absmax"], N, K)
        loss = norm_error(unpacked[name], floats[tensor])
        job.check(abs(loss - report["error"]["relative"]) < 1e-5,
                  f"quantize {name}: the tool says {report['error']['relative']:.3g}, numpy {loss:.3g}")
        job.notes.append(f"{tensor} [{N},{K}] to {form}" + (", exact" if report["exact"] else f", loss {loss:.2e}"))
    return unpacked


# ---- errors


def norm_error(got, want):
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


def max_error(got, want):
    return float(np.max(np.abs(got - want)) / np.max(np.abs(want)))


def compare(job, operator, output, got, exact, float_product):
    job.rows.append((operator, output, got.shape, norm_error(got, float_product), max_error(got, exact)))
    job.check(np.isfinite(got).all(), f"{operator} {output}: not finite")
    job.check(max_error(got, exact) <= EXACT, f"{operator} {output}: exactness {max_error(got, exact):.3g} > {EXACT}")


# ---- the operators: nibble on one side, numpy on the other


def rms_norm(x, gain):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPSILON) * gain


def run_operator(job, op, inputs, attrs, outputs):
    words = ["run", ROOT / "kernels" / f"com.microsoft.{op}", "--backend", job.args.backend]
    for key, spec in inputs.items():
        words += ["--in", f"{key}={spec}"]
    for name, value in attrs.items():
        words += ["--attr", f"{name}={value}"]
    for key in outputs:
        words += ["--out", f"{key}={job.file(op + '.safetensors')}"]
    report = job.nibble(*words)
    job.notes.append(f"{op}: variant {report['variant']} on {report['call']}")
    return {key: value.astype(np.float64) for key, value in read_safetensors(job.file(op + ".safetensors")).items()}


def weight_inputs(job, *names):
    return {f"{name}_{part}": f"{job.file(name + '.safetensors')}:{part}" for name in names for part in ("B", "scales")}


def save(job, name, values):
    np.save(job.file(name), values.astype(np.float32))
    return job.file(name)


def run_qkv(job, floats, weights, x):
    attrs = {"K": x.shape[1], "Nq": weights["q"].shape[0], "Nkv": weights["k"].shape[0], "block_size": 32, "epsilon": EPSILON}
    inputs = {"A": save(job, "x.npy", x), "norm_scale": f"{job.args.model}:{LAYER}attn_norm.weight"}
    got = run_operator(job, "MatMulNBitsQkv", inputs | weight_inputs(job, "q", "k", "v"), attrs, ["Q", "K", "V"])
    normed = rms_norm(x, floats["attn_norm"])
    for name in ("q", "k", "v"):
        compare(job, "MatMulNBitsQkv", name.upper(), got[name.upper()], normed @ weights[name].T,
                normed @ floats[NBITS[name]].T)
    return got["V"]


def run_bnb4(job, floats, weights, name, a):
    N, K = weights[name].shape
    file = job.file(name + ".safetensors")
    got = run_operator(job, "MatMulBnb4", {"A": save(job, name + ".npy", a), "B": f"{file}:B", "absmax": f"{file}:absmax"},
                       {"K": K, "N": N, "block_size": 64, "quant_type": 1}, ["Y"])["Y"]
    compare(job, f"MatMulBnb4 ({BNB4[name]})", "Y", got, a @ weights[name].T, a @ floats[BNB4[name]].T)
    return got


def run_mlp(job, floats, weights, x, o):
    attrs = {"K": x.shape[1], "N": weights["gate"].shape[0], "block_size": 32, "activation": "silu", "epsilon": EPSILON}
    inputs = {"A": job.file("x.npy"), "skip": save(job, "o-out.npy", o),
              "norm_scale": f"{job.args.model}:{LAYER}ffn_norm.weight"}
    got = run_operator(job, "MatMulNBitsMlp", inputs | weight_inputs(job, "gate", "up"), attrs, ["Y", "input_skip_bias_sum"])
    normed = rms_norm(x + o, floats["ffn_norm"])
    compare(job, "MatMulNBitsMlp", "Y", got["Y"], gated(normed, weights["gate"], weights["up"]),
            gated(normed, floats["ffn_gate"], floats["ffn_up"]))
    compare(job, "MatMulNBitsMlp", "residual", got["input_skip_bias_sum"], x + o, x + o)
    return got["Y"], got["input_skip_bias_sum"]


def gated(x, gate, up):
    g = x @ gate.T
    return g / (1 + np.exp(-g)) * (x @ up.T)


def spread_heads(v):
    """Each of the key-value heads serves HEADS / KV_HEADS query heads."""
    heads = v.reshape(v.shape[0], KV_HEADS, 1, -1)
    return np.repeat(heads, HEADS // KV_HEADS, axis=2).reshape(v.shape[0], -1)


def layer_in_numpy(x, floats, weights):
    """The whole layer in float64, with the given matrices."""
    v = rms_norm(x, floats["attn_norm"]) @ weights["v"].T
    h = x + spread_heads(v) @ weights["o"].T
    return h + gated(rms_norm(h, floats["ffn_norm"]), weights["gate"], weights["up"]) @ weights["down"].T


def run_layer(job, floats, weights, x):
    v = run_qkv(job, floats, weights, x)
    o = run_bnb4(job, floats, weights, "o", spread_heads(v))
    m, h = run_mlp(job, floats, weights, x, o)
    y = h + run_bnb4(job, floats, weights, "down", m)
    float_weights = {name: floats[tensor] for name, tensor in {**NBITS, **BNB4}.items()}
    compare(job, "whole layer", "y", y, layer_in_numpy(x, floats, weights), layer_in_numpy(x, floats, float_weights))


def run_job(job):
    floats, stored = load_floats(job.args.model)
    job.notes.append("stored as " + ", ".join(f"{name} {kind}" for name, kind in sorted(stored.items())))
    weights = quantize_all(job, floats)
    for rows in ROWS:
        # Rounded once to float32, so that both sides start from the same numbers.
        run_layer(job, floats, weights, floats["token_embd"][:rows].astype(np.float32).astype(np.float64))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nibble", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--backend", default="cpu", choices=["cpu", "webgpu"])
    job = Job(parser.parse_args())
    start = time.monotonic()
    run_job(job)
    print(f"model {pathlib.Path(job.args.model).name}, layer 0, {len(TOKENS)} token embeddings, "
          f"{time.monotonic() - start:.1f} s")
    for note in job.notes:
        print("  " + note)
    print(f"\n{'operator':<26} {'output':<9} {'shape':<10} {'quantization':>12} {'exactness':>10}")
    for operator, output, shape, quantization, exactness in job.rows:
        print(f"{operator:<26} {output:<9} {'x'.join(map(str, shape)):<10} {quantization:>12.2e} {exactness:>10.1e}")
    for failure in job.failures:
        print("wrong: " + failure)
    print("\n" + ("FAIL" if job.failures else f"OK: {len(job.rows)} outputs, every exactness at most {EXACT:g}"))
    sys.exit(1 if job.failures else 0)


if __name__ == "__main__":
    main()
