#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the manifests of the version 2 packages, and copy the shared templates into them.

  kernels/v2/author.py [--check]

A version 2 manifest is the version 1 contract (ports, attributes, constraints, the conditions on shapes, and its variants as
the last resort) plus the variants below. One table entry stands for a whole family: what is present (norm, skip, biases)
decides the bindings. --check compares instead of writing and exits 1 when a file is out of date.
"""
import copy
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
V1 = HERE.parent
SHARED = HERE / "shared"

TUNABLES = {
    "DECODE_MAX_ROWS": (8, "Rows up to which every row is in registers while the weights pass once; at most 8."),
    "DECODE_THREADS": (512, "Invocations that a decode workgroup has at most; longer rows are taken in several steps."),
    "DECODE_COLUMNS": (0, "Columns of one decode workgroup; 0 lets the size of the problem decide."),
}

# Facts about the device, and what every decode variant derives. Values are expressions.
COMMON_DERIVE = {
    "workgroupLimit": "min(device.limits.maxComputeInvocationsPerWorkgroup, device.limits.maxComputeWorkgroupSizeX)",
    "fixedSubgroups": 'device.features.has("subgroups") and has(device.adapterInfo, "subgroupMinSize") and '
                      'has(device.adapterInfo, "subgroupMaxSize") and '
                      'device.adapterInfo.subgroupMinSize == device.adapterInfo.subgroupMaxSize and '
                      'device.wgslLanguageFeatures.has("subgroup_id")',
    "laneWidth": "device.adapterInfo.subgroupMinSize if fixedSubgroups else 0",
}


def decode_derive(op):
    """Sizes of the decode shader; `rows`, `sides` and `columnsInAll` differ by operator."""
    bnb4 = op == "MatMulBnb4"
    gated = op == "MatMulNBitsMlp"
    block = "attrs.block_size"
    return {
        "decodeRowTile": f"pow2ceil({rows(op)})",
        "decodeSides": 2 if gated else 1,
        "decodeSlice": f"min({block}, 32 if decodeRowTile == 1 else (16 if decodeRowTile == 2 else 8))",
        "decodeBatch": "(2 if decodeRowTile <= 2 else 1)" if gated else
                       "(4 if decodeRowTile == 1 else 2)",
        "decodeColumnsWanted": f"(4 if {columns(op)} <= 2048 else (8 if {columns(op)} <= 8192 else 16)) "
                               "if tunables.DECODE_COLUMNS == 0 else tunables.DECODE_COLUMNS",
        "decodeSlices": "ceilDiv(attrs.K, decodeSlice)",
        "decodeWidth": "laneWidth if laneWidth > 0 else 32",
        "decodeThreadsWanted": "ceilDiv(decodeSlices, decodeWidth) * decodeWidth",
        "decodeThreadsMost": "floor(min(tunables.DECODE_THREADS, workgroupLimit, 512 if laneWidth > 0 else 128) / decodeWidth) * decodeWidth",
        "decodeThreads": "min(decodeThreadsWanted, decodeThreadsMost)",
        "decodeColumnFloats": "decodeSides * decodeRowTile * (decodeThreads / laneWidth if laneWidth > 0 else 1)",
        "decodeOtherFloats": "16 + (decodeRowTile * decodeThreads / laneWidth if laneWidth > 0 else "
                             "decodeThreads * max(decodeRowTile, decodeBatch * decodeSides * decodeRowTile) + decodeRowTile)",
        "decodeColumnsMost": "floor((device.limits.maxComputeWorkgroupStorageSize / 4 - decodeOtherFloats) / max(1, decodeColumnFloats))",
        "decodeColumns": "floor(min(decodeColumnsWanted, decodeColumnsMost) / decodeBatch) * decodeBatch",
        "decodeOk": f"{rows(op)} >= 1 and decodeRowTile <= min(8, tunables.DECODE_MAX_ROWS) and attrs.K % decodeSlice == 0 and "
                    "decodeThreads >= 1 and decodeColumns >= decodeBatch and decodeSlice >= 8"
                    + ("" if bnb4 else " and attrs.bits == 4") +
                    " and ceilDiv(decodeGroups, DISPATCH_FOLD_WIDTH) <= DISPATCH_FOLD_WIDTH",
        "decodeElement": '"vec4<u32>" if decodeSlice == 32 else ("vec2<u32>" if decodeSlice == 16 else "u32")',
        "aVec4": '"vec4<" ~ aScalarName ~ ">"',
    }


def rows(op):
    return "mRows" if op == "MatMulBnb4" else "aRows"


def columns(op):
    return {"MatMulBnb4": "attrs.N", "MatMulNBitsMlp": "attrs.N", "MatMulNBitsQkv": "(attrs.Nq + 2 * attrs.Nkv)"}[op]


def matrices(op):
    """prefix and number of columns of each weight matrix"""
    return {"MatMulBnb4": [("y", "attrs.N")],
            "MatMulNBitsMlp": [("gate", "attrs.N"), ("up", "attrs.N")],
            "MatMulNBitsQkv": [("q", "attrs.Nq"), ("k", "attrs.Nkv"), ("v", "attrs.Nkv")]}[op]


def mats_derive(pairs):
    return [{"p": json.dumps(p), "n": n} for p, n in pairs]


def kinds(op):
    """(name, when, has norm, has skip, writes the residual, gate bias, up bias) of each family member"""
    if op == "MatMulBnb4":
        return [("", [], False, False, False, False, False)]
    base = [("norm", ["not present.skipT", "not present.residualT"], True, False, False),
            ("skip", ["present.skipT", "not present.residualT"], True, True, False),
            ("skipsum", ["present.skipT", "present.residualT"], True, True, True)]
    if op == "MatMulNBitsQkv":
        return [(*b, False, False) for b in base]
    plain = ("plain", ["not present.normScaleT", "not present.skipT"], False, False, False)
    base[0] = ("norm", ["present.normScaleT", "not present.skipT"], True, False, False)
    found = []
    for name, when, *flags in [plain, *base]:
        for suffix, gate, up in (("", False, False), ("_gate_bias", True, False), ("_up_bias", False, True),
                                 ("_biases", True, True)):
            conditions = [("" if gate else "not ") + "present.gateBiasT", ("" if up else "not ") + "present.upBiasT"]
            found.append((name + suffix, when + conditions, *flags, gate, up))
    return found


def joined(*parts):
    return "_".join(p for p in parts if p)


def flags_derive(kind, op):
    _, _, norm, skip, residual, gate, up = kind
    if op == "MatMulBnb4":
        return {}
    return {"hasNorm": norm, "hasSkip": skip, "writeResidual": residual, "hasGateBias": gate, "hasUpBias": up}


def activations(kind, prefix=""):
    _, _, norm, skip, residual, _, _ = kind
    return [prefix + "a"] + ([prefix + "skip"] if skip else []) + ([prefix + "norm_scale"] if norm else []) + \
        ([prefix + "residual"] if residual else [])


def weights(pairs, op, codes):
    return [b for p, _ in pairs for b in ((codes, "absmax_v2") if op == "MatMulBnb4" else (f"{p}_{codes}", f"{p}_scales"))]


def biases(kind):
    return (["gate_bias"] if kind[5] else []) + (["up_bias"] if kind[6] else [])


def outputs(pairs, op):
    return ["y"] if op != "MatMulNBitsQkv" else [p for p, _ in pairs]


def decode_pass(op, kind, pairs, ident, residual=True):
    kind = kind if residual else (*kind[:4], False, *kind[5:])
    counted = pairs[:1] if op == "MatMulNBitsMlp" else pairs
    short = op.removeprefix("MatMul")
    return {
        "id": ident,
        "name": f"{op}.Decode{ident.capitalize() if ident != 'main' else ''}",
        "shader": "decode.wgsl.jinja",
        "derive": {
            "mats": mats_derive(pairs), "gated": op == "MatMulNBitsMlp", "bnb4": op == "MatMulBnb4",
            "quantType": "attrs.quant_type" if op == "MatMulBnb4" else 0,
            "K": "attrs.K", "blockSize": "attrs.block_size", "blocks": "ceilDiv(attrs.K, attrs.block_size)",
            "rowCount": rows(op), "rowTile": "decodeRowTile", "sliceCodes": "decodeSlice", "threads": "decodeThreads",
            "groupColumns": "decodeColumns", "batchColumns": "decodeBatch", "aScalar": "aScalarName",
            **(flags_derive(kind, op) or {"hasNorm": False, "hasSkip": False, "writeResidual": False, "hasGateBias": False,
                                         "hasUpBias": False}),
        },
        "bindings": activations(kind, "v_") + weights(pairs, op, "decode_b") + biases(kind) + outputs(pairs, op),
        "dispatch": {"workgroups": " + ".join(f"ceilDiv({n}, decodeColumns)" for _, n in counted)},
    }


def decode_variants(op):
    found = []
    for kind in kinds(op):
        name, when = kind[:2]
        found.append({
            "id": joined("decode", name),
            "description": "A few rows, all weights read once, the norm on the way.",
            "priority": 60,
            "when": when + ["decodeOk"],
            "passes": [decode_pass(op, kind, matrices(op), "main")],
        })
        if op == "MatMulNBitsQkv":
            found.append({
                "id": joined("split_decode", name),
                "description": "The same, one matrix a pass, for devices with few storage buffers.",
                "priority": 55,
                "when": when + ["decodeOk"],
                "passes": [decode_pass(op, kind, [pair], pair[0], residual=pair[0] == "q") for pair in matrices(op)],
            })
    return found


def bindings(op):
    """Handles of the new passes. v_ marks the activations in vectors of four."""
    found = {}
    ro = "read-only-storage"
    found["v_a"] = {"name": "a", "arg": "aT", "buffer": ro, "elementType": "$aVec4"}
    if op == "MatMulBnb4":
        found["decode_b"] = {"name": "y_b", "arg": "bT", "buffer": ro, "elementType": "$decodeElement"}
        found["absmax_v2"] = {"name": "y_scales", "arg": "absmaxT", "buffer": ro, "elementType": "$absmaxScalar"}
        return found
    found["v_skip"] = {"name": "skip", "arg": "skipT", "buffer": ro, "elementType": "$aVec4"}
    found["v_norm_scale"] = {"name": "norm_scale", "arg": "normScaleT", "buffer": ro, "elementType": "$aVec4"}
    found["v_residual"] = {"name": "residual", "arg": "residualT", "buffer": "storage", "elementType": "$aVec4"}
    for p, _ in matrices(op):
        found[f"{p}_decode_b"] = {"name": f"{p}_b", "arg": f"{p}BT", "buffer": ro, "elementType": "$decodeElement"}
    return found


def manifest(op):
    m = json.loads((V1 / f"com.microsoft.{op}/build/webgpu/manifest.json").read_text())
    old_variants = m.pop("variants")
    m["tunables"].update({k: {"default": d, "description": t} for k, (d, t) in TUNABLES.items()})
    counted = matrices(op)[:1] if op == "MatMulNBitsMlp" else matrices(op)
    derive = m["derive"]
    derive["aScalarName"] = '"f16" if tensorDtypes.aT == "float16" else "f32"'
    derive.update(COMMON_DERIVE)
    decode = decode_derive(op)
    ok = decode.pop("decodeOk")
    derive.update(decode)
    derive["decodeGroups"] = " + ".join(f"ceilDiv({n}, max(1, decodeColumns))" for _, n in counted)
    derive["decodeOk"] = ok
    m["bindings"].update(bindings(op))
    if op == "MatMulBnb4":
        m["inputs"]["bT"]["layout"] = "packed"
        m["inputs"]["bT"]["description"] = m["inputs"]["bT"]["description"].replace(
            "The shaders read one u32 for each byte.", "Four bytes fill a u32.")
        m["bindings"]["y"] = {"arg": "yT", "buffer": "storage", "elementType": "$aScalar"}
    m["variants"] = decode_variants(op) + old_variants
    return m


WIDTH = 128


def text(value, indent=0):
    """JSON with short members on one line."""
    flat = json.dumps(value)
    if not isinstance(value, (dict, list)) or not value:
        return flat
    brief = "{ " + flat[1:-1] + " }" if isinstance(value, dict) else flat
    if len(brief) + 2 * indent <= WIDTH - 20 and indent > 1 and "\"passes\"" not in brief:
        return brief
    pad = "  " * (indent + 1)
    if isinstance(value, dict):
        inner = ",\n".join(f"{pad}{json.dumps(k)}: {text(v, indent + 1)}" for k, v in value.items())
        return "{\n" + inner + "\n" + "  " * indent + "}"
    if all(isinstance(v, str) for v in value):
        return flat if len(flat) + 2 * indent <= WIDTH else "[\n" + ",\n".join(pad + json.dumps(v) for v in value) + "\n" + "  " * indent + "]"
    return "[\n" + ",\n".join(pad + text(v, indent + 1) for v in value) + "\n" + "  " * indent + "]"


def shader_files(op, m):
    """Every template the manifest names, with what those include."""
    wanted, seen = [p["shader"] for v in m["variants"] for p in v["passes"]], {}
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        source = SHARED / name
        if not source.exists():
            source = V1 / f"com.microsoft.{op}/build/webgpu" / name
        seen[name] = source.read_text()
        wanted += [line.split('"')[1] for line in seen[name].splitlines() if line.startswith("{% include")]
    return seen


def files(op):
    m = manifest(op)
    found = {"manifest.json": text(m) + "\n", **shader_files(op, m)}
    return {HERE / f"com.microsoft.{op}/build/webgpu" / name: data for name, data in found.items()}


def main():
    check = "--check" in sys.argv[1:]
    stale = []
    for op in ("MatMulNBitsQkv", "MatMulNBitsMlp", "MatMulBnb4"):
        for path, data in files(op).items():
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(data)
            elif not path.exists() or path.read_text() != data:
                stale.append(str(path.relative_to(HERE)))
    if stale:
        print("out of date, run kernels/v2/author.py: " + ", ".join(stale), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
