#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the manifests and cards of the version 2 packages, and copy the shared templates into them.

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
    "DECODE_BATCH": (0, "Columns that a decode invocation sums at a time, a power of two; 0 lets the number of rows decide."),
    "DECODE_COLUMNS": (0, "Columns of one decode workgroup; 0 lets the size of the problem decide."),
    "DECODE_SLICE": (0, "Codes of a column that a decode invocation takes at once, and as much of the rows in registers: 8, 16 or 32; "
                        "0 lets the number of rows decide. Never more than a block."),
    "DECODE_DIGITS": (0, "Digits to base 256 that up to 4 rows are cut into for integer products: 3 (23 bits) or 4 (30 bits); "
                         "1 multiplies as float32; 0 lets the device and the type decide."),
    "DECODE_GROUPS": (0, "Times that a decode workgroup covers K: so many groups of its invocations share its columns; 0 lets the shape decide."),
    "DECODE_TABLE_COPIES": (0, "Copies of the table of a decode workgroup, 2 KiB each: 1, 2, 4, 8 or 16; 0 lets the workgroup memory decide."),
    "ROW_MAX_ROWS": (2, "Rows up to which subgroups walk over columns alone; at most 2."),
    "ROW_DIGITS": (0, "There: digits of an element, 3 or 4; 0 lets the type decide."),
    "ROW_SUBGROUPS": (8, "There: subgroups of a workgroup."),
    "ROW_COLUMNS": (0, "There: columns of a subgroup; 0 lets the size of the problem decide."),
    "ROW_WINDOW": (4, "There: steps of 16 bytes a lane whose codes are on their way."),
    "TILED_MIN_ROWS": (9, "Rows from which tiles are used where there are no matrix units."),
    "MATRIX_MIN_ROWS": (9, "Rows from which the matrix units are used."),
    "MATRIX_SUBGROUPS": (8, "Subgroups of a matrix workgroup that stand above each other."),
    "MATRIX_PARALLEL": (132, "Matrix workgroups that the device works on at a time: its multiprocessors or cores."),
    "MATRIX_WIDTH": (0, "Columns of a matrix workgroup, in units of the matrices' rows: 4, 2 or, but for mlp, 3; 0 lets the shape decide."),
    "MATRIX_SPLITS": (0, "float16: workgroups that share the depth of a tile of the last, incomplete round: 2, 4, or 1 for none; 0 lets the shape decide."),
    "MATRIX_CHAIN": (128, "float32: products that the matrix units add up before float32 additions take over, at least a tile's depth."),
    "MATRIX_ROW_TILES": (0, "Matrices of rows a subgroup holds at most, up to 4; 0 means 4."),
    "MATRIX_COLUMN_SUBGROUPS": (1, "Subgroups that share the columns of a tile: 1 or 2."),
    "MATRIX_AHEAD": (0, "Sets of rows a subgroup has in registers: 1, 2 or 4; 0 lets the shape decide."),
    "MATRIX_DEPTH": (128, "Depth of a tile of weights in workgroup memory at most: 128, 64 or 32."),
    "PACK_THREADS": (256, "Invocations that lay out one row for the matrix units."),
}

# Tiles of a matrix workgroup: matrices of rows that a subgroup holds, columns in units of the matrices' rows, and what a round
# of such workgroups costs, measured for float16 and float32. float32 needs more registers: wide tiles are not for it.
MATRIX_SHAPES = [(4, 4, 10, 1000), (4, 3, 9, 1000), (4, 2, 8, 7), (2, 4, 6.5, 1000), (2, 2, 1000, 4)]

# Tunables (or their beginnings) of passes that an operator has not got.
NOT_OF = {
    "MatMulBnb4": ("ROW_", "DECODE_DIGITS"),
    "MatMulNBitsQkv": ("ROW_", "DECODE_TABLE_COPIES", "MATRIX_SPLITS"),
    "MatMulNBitsMlp": ("DECODE_TABLE_COPIES",),
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
    # Metal has no integer dot product, so there dot4I8Packed is made of shifts.
    digits = {} if bnb4 else {
        "decodeIntegers": 'device.wgslLanguageFeatures.has("packed_4x8_integer_dot_product")',
        "decodeDigits": "pick([[tunables.DECODE_DIGITS == 1 or not decodeIntegers, 0], [tunables.DECODE_DIGITS > 1, tunables.DECODE_DIGITS], "
                        '[device.adapterInfo.vendor == "apple" or aRows > 4, 0], [tensorDtypes.aT == "float16", 3]], 4)'}
    block = "attrs.block_size"
    few, some, many = {"MatMulBnb4": (16, 32, 64), "MatMulNBitsQkv": (8, 24, 32), "MatMulNBitsMlp": (4, 8, 28)}[op]
    # Workgroup memory in floats besides the sums, with so many invocations.
    table = "512 * decodeCopies" if bnb4 else "0"
    other = lambda threads: (  # noqa: E731
        f"16 + {table} + (decodeRowTile * {threads} / laneWidth if laneWidth > 0 else "
        f"{threads} * max(decodeRowTile, decodeBatch * decodeSides * decodeRowTile) + decodeRowTile * decodeColumnGroups)")
    most = lambda threads: (  # noqa: E731
        f"floor((device.limits.maxComputeWorkgroupStorageSize / 4 - ({other(threads)})) / max(1, decodeColumnFloats))")
    fits = lambda codes: f"decodeSliceWanted >= {codes} and {block} >= {codes} and attrs.K % {codes} == 0"  # noqa: E731
    return {
        **digits,
        "decodeRowTile": f"pow2ceil({rows(op)})",
        "decodeSides": 2 if gated else 1,
        "decodeSliceWanted": "tunables.DECODE_SLICE if tunables.DECODE_SLICE > 0 else " + (
            "pick([[decodeRowTile == 1, 32], [decodeRowTile == 2, 16]], 8)" if bnb4 else
            "pick([[decodeRowTile == 1 or decodeDigits > 0 and decodeRowTile == 2, 32], [decodeRowTile == 2 or decodeDigits > 0 and decodeRowTile == 4, 16]], 8)"),
        "decodeSlice": f"pick([[{fits(32)}, 32], [{fits(16)}, 16]], 8)",
        "decodeBatch": f"({4 if gated else f'(2 if {columns(op)} <= 8192 else 4)' if bnb4 else 8} if decodeRowTile == 1 else {'(2 if decodeRowTile <= 4 else 1)' if gated else 2}) "
                       "if tunables.DECODE_BATCH == 0 else tunables.DECODE_BATCH",
        "decodeColumnsBase": f"({few} if {columns(op)} <= 2048 else ({some} if {columns(op)} <= 8192 else {many})) "
                             "if tunables.DECODE_COLUMNS == 0 else tunables.DECODE_COLUMNS",
        "decodeSlices": "ceilDiv(attrs.K, decodeSlice)",
        "decodeWidth": "laneWidth if laneWidth > 0 else 32",
        "decodeThreadsWanted": "ceilDiv(decodeSlices, decodeWidth) * decodeWidth",
        "decodeThreadsMost": "floor(min(tunables.DECODE_THREADS, workgroupLimit, 512 if laneWidth > 0 else 128) / decodeWidth) * decodeWidth",
        "decodeThreads": "min(decodeThreadsWanted, decodeThreadsMost)",
        "decodeColumnFloats": "decodeSides * decodeRowTile * (decodeThreads / laneWidth if laneWidth > 0 else 1)",
        **({} if not bnb4 else {
            "decodeCopies": "tunables.DECODE_TABLE_COPIES if tunables.DECODE_TABLE_COPIES > 0 else "
                            "pick([" + ", ".join(f"[device.limits.maxComputeWorkgroupStorageSize >= {c} * (3072 if laneWidth > 0 else 6144), {c}]" for c in (16, 8, 4, 2)) + "], 1)"}),
        "decodeGroupsMost": "floor(workgroupLimit / max(1, decodeThreads))",
        # More invocations share the work of filling the table.
        "decodeGroupsWanted": "floor(min(decodeThreadsMost / max(1, decodeThreads), decodeColumnsBase / decodeBatch))" if bnb4 else 1,
        "decodeColumnGroups": "max(1, min(decodeGroupsMost, tunables.DECODE_GROUPS if tunables.DECODE_GROUPS > 0 else decodeGroupsWanted))",
        "decodeColumnStep": "decodeBatch * decodeColumnGroups",
        "decodeColumnsMost": most("(decodeThreads * decodeColumnGroups)"),
        "decodeColumns": "floor(min(max(decodeColumnStep, decodeColumnsBase), decodeColumnsMost) / decodeColumnStep) * decodeColumnStep",
        "decodeOk": f"{rows(op)} >= 1 and decodeRowTile <= min(8, tunables.DECODE_MAX_ROWS) and attrs.K % decodeSlice == 0 and "
                    "decodeThreads >= 1 and decodeColumns >= decodeColumnStep and attrs.block_size >= 8 and pow2ceil(decodeBatch) == decodeBatch"
                    + (" and decodeCopies in [1, 2, 4, 8, 16]" if bnb4 else " and attrs.bits == 4 and decodeDigits in [0, 3, 4]") +
                    " and ceilDiv(decodeGroups, DISPATCH_FOLD_WIDTH) <= DISPATCH_FOLD_WIDTH",
        "decodeElement": '"vec4<u32>" if decodeSlice == 32 else ("vec2<u32>" if decodeSlice == 16 else "u32")',
        "aVec4": '"vec4<" ~ aScalarName ~ ">"',
    }


# MatMulNBitsMlp's shader for one or two rows. It is not for MatMulNBitsQkv, whose matrices are too small for it to pay.
ROW_DERIVE = {
    "walkDigits": 'tunables.ROW_DIGITS if tunables.ROW_DIGITS > 0 else (3 if tensorDtypes.aT == "float16" else 4)',
    "walkSubgroups": "min(tunables.ROW_SUBGROUPS, floor(workgroupLimit / max(1, laneWidth)))",
    # One round of workgroups: a multiprocessor takes 16 subgroups.
    "walkColumns": "min(tunables.ROW_COLUMNS if tunables.ROW_COLUMNS > 0 else max(1, ceilDiv(attrs.N, 16 * tunables.MATRIX_PARALLEL)), "
                   "floor(laneWidth / 2))",
    "walkSteps": "ceilDiv(ceilDiv(attrs.K, 32), max(1, laneWidth))",
    "walkWindow": "max(1, min(tunables.ROW_WINDOW, walkSteps))",
    "walkPadded": "ceilDiv(walkSteps, walkWindow) * walkWindow * laneWidth",
    "walkGroups": "ceilDiv(attrs.N, max(1, walkSubgroups * walkColumns))",
    "walkOk": "aRows >= 1 and aRows <= min(2, tunables.ROW_MAX_ROWS) and laneWidth >= 4 and walkSubgroups >= 1 and walkColumns >= 1 and "
              'device.wgslLanguageFeatures.has("packed_4x8_integer_dot_product") and device.adapterInfo.vendor != "apple" and '
              "walkDigits in [3, 4] and floor(walkSubgroups) == walkSubgroups and floor(walkColumns) == walkColumns and "
              "floor(walkWindow) == walkWindow and attrs.bits == 4 and attrs.K % 32 == 0 and attrs.block_size >= 32 and "
              "aRows * walkPadded * (32 * walkDigits + 8 + (4 if walkDigits == 4 else 0)) + aRows * walkSubgroups * 4 <= "
              "device.limits.maxComputeWorkgroupStorageSize and ceilDiv(walkGroups, DISPATCH_FOLD_WIDTH) <= DISPATCH_FOLD_WIDTH",
}


def row_variants(op):
    return [{
        "id": joined("row", kind[0]),
        "description": "One row or two, by integer dot products; the norm on the way.",
        "priority": 70,
        "when": kind[1] + ["walkOk"],
        "passes": [{
            "id": "main",
            "name": f"{op}.Row",
            "shader": "decode-row.wgsl.jinja",
            "derive": {
                "n": "attrs.N", "K": "attrs.K", "blockSize": "attrs.block_size", "blocks": "ceilDiv(attrs.K, attrs.block_size)",
                "rowCount": rows(op), "digits": "walkDigits", "subgroups": "walkSubgroups", "columns": "walkColumns",
                "window": "walkWindow", "aScalar": "aScalarName", **flags_derive(kind, op),
            },
            "bindings": activations(kind, "v_") + weights(matrices(op), op, "chunk_b") + biases(kind) + ["y"],
            "dispatch": {"workgroups": "walkGroups"},
        }],
    } for kind in kinds(op)]


TAIL_OK = ("matrixSplits > 1 and floor(matrixSplits) == matrixSplits and matrixShape == 44 and matrixWidth == 4 and matrixSubgroupDepth == 1 and "
           "matrixPaddedRows == matrixGroupRows and matrixPaddedK / matrixDepth >= matrixSplits and "
           "4 * matrixTail * matrixSplits * matrixGroupRows * matrixColumns <= "
           "min(device.limits.maxStorageBufferBindingSize, device.limits.maxBufferSize) and "
           "matrixTiles + matrixTail * matrixSplits <= 65535 and matrixTail * matrixGroupRows / matrixTileM <= 65535")


def tail_derive(m, tiles, cost):
    """The tiles of an incomplete last round may be cut along K. Adding their sums takes a tenth of a round."""
    return {
        "matrixTail": f"({tiles}) % tunables.MATRIX_PARALLEL if matrixParts == 1 and {m} <= 4 * matrixTileM * matrixSubgroupsMost and "
                      f"2 * pow2ceil(ceilDiv({m}, 4 * matrixTileM)) > matrixSubgroupsMost else 0",
        "matrixSplits": "pick([[matrixTail == 0 or tunables.MATRIX_SPLITS == 1, 1], [tunables.MATRIX_SPLITS > 1, tunables.MATRIX_SPLITS], "
                        "[matrixTail * 4 <= tunables.MATRIX_PARALLEL, 4], [matrixTail * 2 <= tunables.MATRIX_PARALLEL, 2]], 1)",
        "matrixCost4x4": f"{cost} if matrixSplits == 1 else 0 if tunables.MATRIX_SPLITS > 1 else "
                         f"(floor(({tiles}) / tunables.MATRIX_PARALLEL) + 1 / matrixSplits) * 10 + 1",
    }


def matrix_derive(op):
    """Tiles of the matrix shader: the largest configuration the adapter has, then what fits its limits."""
    m, pieces = rows(op), 2 if op == "MatMulNBitsMlp" else 1
    size = lambda name, value: f'selectattr("{name}", "equalto", {value})'  # noqa: E731
    # selectattr compares text only; an entry that is not there is undefined and equals no number.
    count = lambda a, b, c: " or ".join(  # noqa: E731
        f"matrixConfigs[{i}].M == {a} and matrixConfigs[{i}].N == {b} and matrixConfigs[{i}].K == {c}" for i in range(8))
    split = 'tensorDtypes.aT == "float32"'
    bytes_at = lambda depth: f"{depth} * (matrixColumns + 8) * 2 * matrixParts + matrixOtherBytes"  # noqa: E731
    counted = matrices(op)[:1] if op == "MatMulNBitsMlp" else matrices(op)
    tiles = lambda width: " + ".join(f"ceilDiv({n}, {width})" for _, n in counted)  # noqa: E731
    unit = "(%d * matrixTileM / 2)" if pieces == 2 else "(%d * matrixTileM)"
    shapes = [s for s in MATRIX_SHAPES if pieces == 1 or s[1] % 2 == 0]
    cost = lambda r, w, c16, c32: (  # noqa: E731
        f"ceilDiv(ceilDiv({m}, matrixSubgroupsMost * {r} * matrixTileM) * ({tiles(unit % w)}), tunables.MATRIX_PARALLEL) * "
        f"({c32} if matrixParts == 2 else {c16})")
    return {
        "matrixConfigs": "(device.adapterInfo.subgroupMatrixConfigs | " + size("componentType", '"f16"') + " | " +
                         size("resultComponentType", '"f32"') + ') if has(device.adapterInfo, "subgroupMatrixConfigs") else []',
        "matrix16": count(16, 16, 16),
        "matrix16x8": count(16, 8, 16),
        "matrix8": count(8, 8, 8),
        "matrixTileM": "16 if matrix16 or matrix16x8 else 8",
        "matrixTileN": "16 if matrix16 else 8",
        "matrixTileK": "16 if matrix16 or matrix16x8 else 8",
        "matrixParts": f"2 if {split} else 1",
        "matrixSubgroupsMost": "max(1, min(tunables.MATRIX_SUBGROUPS, floor(workgroupLimit / max(1, laneWidth)), "
                               "floor(device.limits.maxComputeWorkgroupStorageSize / (16 * matrixTileM * matrixTileN))))",
        # The shape of a workgroup's tile: the one whose rounds of workgroups cost least.
        **(tail_derive(m, tiles(unit % 4), cost(*shapes[0])) if len(matrices(op)) < 3 else
           {"matrixSplits": 1, "matrixCost4x4": cost(*shapes[0])}),
        **{f"matrixCost{s[0]}x{s[1]}": cost(*s) for s in shapes[1:]},
        "matrixShape": "pick([" + ", ".join(
            f"[{' and '.join(f'matrixCost{r}x{w} <= matrixCost{o[0]}x{o[1]}' for o in shapes if o[:2] != (r, w))}, {10 * r + w}]"
            for r, w, _, _ in shapes) + "], 44)",
        # The heights that the shapes have are for rows that fill them.
        "matrixRowTilesMost": f"tunables.MATRIX_ROW_TILES if tunables.MATRIX_ROW_TILES > 0 else floor(matrixShape / 10) if "
                              f"{m} > 2 * matrixTileM * matrixSubgroupsMost else 4",
        "matrixRowTiles": f"max(1, min(matrixRowTilesMost, ceilDiv({m}, matrixTileM)))",
        "matrixRowStacks": f"pow2ceil(ceilDiv({m}, matrixRowTiles * matrixTileM))",
        "matrixSubgroupColumns": "min(max(1, tunables.MATRIX_COLUMN_SUBGROUPS), matrixSubgroupsMost)",
        "matrixSubgroupRows": "max(1, min(floor(matrixSubgroupsMost / matrixSubgroupColumns), matrixRowStacks))",
        "matrixGroupRows": "matrixSubgroupRows * matrixRowTiles * matrixTileM",
        "matrixPaddedRows": f"ceilDiv({m}, matrixGroupRows) * matrixGroupRows",
        # A workgroup's columns, in units of matrixTileM: few for few rows.
        "matrixWidth": "tunables.MATRIX_WIDTH if tunables.MATRIX_WIDTH > 0 else 4 if matrixSubgroupColumns > 1 else "
                       "2 if matrixRowStacks == 1 else matrixShape % 10",
        "matrixColumns": "matrixWidth * matrixTileM",
        "matrixRealColumns": "matrixColumns / 2" if pieces == 2 else "matrixColumns",
        "matrixTiles": tiles("matrixRealColumns"),
        "matrixColumnTiles": "matrixColumns / matrixTileN / matrixSubgroupColumns",
        "matrixSlots": "pick([[matrixColumnTiles == 3, 3], [matrixColumnTiles % 2 == 0, 2]], 1)",
        "matrixOtherBytes": "matrixSubgroupsMost * 4 * matrixSlots * matrixTileM * matrixTileN + 8 * matrixColumns + 4 * matrixGroupRows + "
                            f"{1024 if op == 'MatMulBnb4' else 0}",
        "matrixDepth": f"pick([[{'matrixSplits == 1 and ' if pieces == 2 else ''}tunables.MATRIX_DEPTH >= 128 and {bytes_at(128)} <= device.limits.maxComputeWorkgroupStorageSize, 128], "
                       f"[tunables.MATRIX_DEPTH >= 64 and {bytes_at(64)} <= device.limits.maxComputeWorkgroupStorageSize, 64]], 32)",
        "matrixSubgroupDepth": "pick([[matrixSubgroupRows * matrixSubgroupColumns * 4 <= matrixSubgroupsMost and matrixDepth >= 8 * matrixTileK, 4], "
                               "[matrixSubgroupRows * matrixSubgroupColumns * 2 <= matrixSubgroupsMost and matrixDepth >= 4 * matrixTileK, 2]], 1)",
        "matrixOwnTiles": "matrixDepth / matrixTileK / matrixSubgroupDepth",
        "matrixAheadWanted": "min(2 if matrixParts == 2 else 4, tunables.MATRIX_AHEAD if tunables.MATRIX_AHEAD > 0 else pick([[matrixWidth == 2, 4], [matrixSplits > 1, 1]], 2))",
        "matrixAhead": "pick([[matrixAheadWanted >= 4 and matrixOwnTiles % 4 == 0, 4], "
                       "[matrixAheadWanted >= 2 and matrixOwnTiles % 2 == 0, 2]], 1)",
        "matrixPaddedK": "ceilDiv(attrs.K, matrixDepth) * matrixDepth",
        # The workgroups of pack-rows after the rows: 32 columns of a matrix each.
        "matrixScans": " + ".join(f"ceilDiv({n}, 32)" for _, n in matrices(op)),
        "matrixScratch": "matrixParts * matrixPaddedRows * matrixPaddedK + 8 * matrixPaddedRows + 32 * matrixScans",
        "packThreads": "min(tunables.PACK_THREADS, workgroupLimit)",
        "matrixOk": f"{m} >= tunables.MATRIX_MIN_ROWS and fixedSubgroups and (matrix16 or matrix16x8 or matrix8) and "
                    "attrs.K % 32 == 0 and attrs.block_size >= 32" + ("" if op == "MatMulBnb4" else " and attrs.bits == 4") +
                    f" and matrixColumnTiles >= 1 and {'matrixColumnTiles % 2 == 0' if pieces == 2 else 'true'} and floor(matrixColumnTiles) == matrixColumnTiles"
                    " and tunables.MATRIX_CHAIN >= 1 and tunables.MATRIX_CHAIN % 1 == 0"
                    f" and {bytes_at(32)} <= device.limits.maxComputeWorkgroupStorageSize and "
                    "2 * matrixScratch <= min(device.limits.maxStorageBufferBindingSize, device.limits.maxBufferSize) and "
                    "matrixScratch < 4294967296 and matrixTiles <= 65535 and matrixPaddedRows / matrixGroupRows <= 65535 and "
                    "(matrixPaddedRows + matrixScans) / 65535 <= 65535 and packThreads >= 1",
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


def scales(pairs, op):
    return ["absmax_v2"] if op == "MatMulBnb4" else [f"{p}_scales" for p, _ in pairs]


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
            "rowCount": rows(op), "rowTile": "decodeRowTile", "sliceCodes": "decodeSlice", "digits": 0 if op == "MatMulBnb4" else "decodeDigits", "threads": "decodeThreads",
            "columnGroups": "decodeColumnGroups", "copies": "decodeCopies" if op == "MatMulBnb4" else 0,
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


def matrix_passes(op, kind, tail=False):
    """tail: the tiles of an incomplete round are cut along K, and a third pass adds their sums."""
    pairs = matrices(op)
    shared = {
        "mats": mats_derive(pairs), "bnb4": op == "MatMulBnb4", "blockSize": "attrs.block_size",
        "blocks": "ceilDiv(attrs.K, attrs.block_size)",
        "K": "attrs.K", "paddedK": "matrixPaddedK", "paddedRows": "matrixPaddedRows", "rowCount": rows(op),
        "tileM": "matrixTileM", "tileK": "matrixTileK", "split": 'tensorDtypes.aT == "float32"', "aScalar": "aScalarName",
    }
    flags = flags_derive(kind, op) or {"hasNorm": False, "hasSkip": False, "writeResidual": False, "hasGateBias": False,
                                       "hasUpBias": False}
    row_flags = {k: flags[k] for k in ("hasNorm", "hasSkip", "writeResidual")}
    biased = {k: flags[k] for k in ("hasGateBias", "hasUpBias")}
    whole = "matrixTiles - matrixTail" if tail else "matrixTiles"
    cut = {"splits": "matrixSplits" if tail else 1, "wholeTiles": whole}
    passes = [
        {
            "id": "rows",
            "name": f"{op}.PackRows",
            "shader": "pack-rows.wgsl.jinja",
            "derive": {**shared, "threads": "packThreads", **row_flags},
            "bindings": activations(kind, "v_") + scales(pairs, op) + ["packed"],
            "dispatch": {"workgroups": "matrixPaddedRows + matrixScans"},
        },
        {
            "id": "main",
            "name": f"{op}.Matrix",
            "shader": "matrix.wgsl.jinja",
            "derive": {
                **shared, "gated": op == "MatMulNBitsMlp", "quantType": "attrs.quant_type" if op == "MatMulBnb4" else 0,
                "tileN": "matrixTileN", "rowTiles": "matrixRowTiles", "columnTiles": "matrixColumnTiles",
                "subgroupRows": "matrixSubgroupRows", "subgroupColumns": "matrixSubgroupColumns",
                "subgroupDepth": "matrixSubgroupDepth", "ahead": "matrixAhead",
                "tileDepth": "matrixDepth", "slots": "matrixSlots", "chain": "max(1, floor(tunables.MATRIX_CHAIN / matrixDepth))",
                **cut, **biased,
            },
            "bindings": ["packed_rows"] + weights(pairs, op, "chunk_b") + biases(kind) + outputs(pairs, op) +
                        (["partials"] if tail else []),
            "dispatch": {"x": f"{whole} + matrixTail * matrixSplits" if tail else whole, "y": "matrixPaddedRows / matrixGroupRows"},
        },
    ]
    if tail:
        passes.append({
            "id": "tail",
            "name": f"{op}.MatrixTail",
            "shader": "matrix-tail.wgsl.jinja",
            "derive": {
                **shared, "gated": op == "MatMulNBitsMlp", "tileN": "matrixTileN", "groupRows": "matrixGroupRows",
                "columns": "matrixColumns", "slots": "matrixSlots", "threads": "packThreads", **cut, **biased,
            },
            "bindings": ["packed_rows", "partial_sums"] + biases(kind) + outputs(pairs, op),
            "dispatch": {"x": "matrixTail * matrixGroupRows / matrixTileM"},
        })
    return passes


def matrix_variants(op):
    patterns = [{"componentType": "f16", "resultComponentType": "f32", "M": m, "N": n, "K": k}
                for m, n, k in ((16, 16, 16), (16, 8, 16), (8, 8, 8))]
    found = []
    for kind in kinds(op):
        for tail in [False] if op == "MatMulNBitsQkv" else [True, False]:
            packed = {"id": "packedRows", "dtype": "float16", "shape": "[matrixScratch]"}
            sums = {"id": "partialSums", "dtype": "float32", "shape": "[matrixTail * matrixSplits * matrixGroupRows * matrixColumns]"}
            found.append({
                "id": joined("matrix_tail" if tail else "matrix", kind[0]),
                "description": "The same; tiles that would not fill a last round of workgroups are cut along K." if tail else
                               "Many rows on the matrix units; float32 in two float16 halves.",
                "priority": 52 if tail else 50,
                "requires": {
                    "features": ["shader-f16", "subgroups", "chromium-experimental-subgroup-matrix"],
                    "subgroupMatrixConfigs": patterns,
                },
                "when": kind[1] + ["matrixOk"] + (["matrixTailOk"] if tail else []),
                "intermediates": [packed] + ([sums] if tail else []),
                "passes": matrix_passes(op, kind, tail),
            })
    return found


def tiled_pass(op, kind, pairs, ident):
    counted = pairs[:1] if op == "MatMulNBitsMlp" else pairs
    flags = flags_derive(kind, op) or {"hasGateBias": False, "hasUpBias": False}
    return {
        "id": ident,
        "name": f"{op}.Tiled{ident.capitalize() if ident != 'main' else ''}",
        "shader": "tiled.wgsl.jinja",
        "derive": {
            "mats": mats_derive(pairs), "gated": op == "MatMulNBitsMlp", "bnb4": op == "MatMulBnb4",
            "quantType": "attrs.quant_type" if op == "MatMulBnb4" else 0,
            "K": "attrs.K", "blockSize": "attrs.block_size", "blocks": "ceilDiv(attrs.K, attrs.block_size)",
            "rowCount": rows(op), "aScalar": "aScalarName",
            "hasGateBias": flags["hasGateBias"], "hasUpBias": flags["hasUpBias"],
        },
        "bindings": ["tiled_normed" if kind[2] else "tiled_a"] + weights(pairs, op, "word_b") + biases(kind) +
                    outputs(pairs, op),
        "dispatch": {"x": " + ".join(f"ceilDiv({n}, tiledColumns)" for _, n in counted), "y": f"ceilDiv({rows(op)}, 64)"},
    }


def tiled_variants(op):
    """Version 1's norm pass into float32, where there is a norm, then tiles."""
    found = []
    for kind in kinds(op):
        norm = [] if not kind[2] else [{
            "id": "norm",
            "name": f"{op}.RmsNorm",
            "shader": "matmul-nbits-fused-rms-norm.wgsl.jinja",
            "derive": flags_derive((*kind[:5], False, False), op) | {},
            "bindings": ["s_a"] + (["s_skip"] if kind[3] else []) + ["norm_scale", "normed"] +
                        (["s_residual"] if kind[4] else []) + ["params"],
            "dispatch": {"x": f"min({rows(op)}, DISPATCH_FOLD_WIDTH)", "y": f"ceilDiv({rows(op)}, DISPATCH_FOLD_WIDTH)"},
        }]
        scratch = [{"id": "normedA", "dtype": "float32", "shape": "[numel(shapes.aT)]"}] if kind[2] else None
        for split in ([False, True] if op == "MatMulNBitsQkv" else [False]):
            passes = [tiled_pass(op, kind, [p], p[0]) for p in matrices(op)] if split else \
                [tiled_pass(op, kind, matrices(op), "main")]
            variant = {
                "id": joined("split_tiled" if split else "tiled64" if op == "MatMulBnb4" else "tiled", kind[0]),
                "description": "Many rows without matrix units, float32 throughout." +
                               (" One matrix a pass, for devices with few storage buffers." if split else ""),
                "priority": 35 if split else 40,
                "when": kind[1] + ["tiledOk"],
                "intermediates": scratch,
                "passes": norm + passes,
            }
            found.append({k: v for k, v in variant.items() if v is not None})
    return found


def bindings(op):
    """Handles of the new passes. v_ marks the activations in vectors of four."""
    found = {}
    ro = "read-only-storage"
    found["v_a"] = {"name": "a", "arg": "aT", "buffer": ro, "elementType": "$aVec4"}
    if op != "MatMulBnb4":
        found["s_a"] = {"name": "a", "arg": "aT", "buffer": ro, "elementType": "$aScalarName"}
    if op != "MatMulNBitsQkv":
        found["tiled_a"] = {"name": "x", "arg": "aT", "buffer": ro, "elementType": "$aVec4"}
    if op != "MatMulBnb4":
        found["tiled_normed"] = {"scratch": "normedA", "name": "x", "buffer": ro, "elementType": "vec4<f32>"}
    found["packed"] = {"scratch": "packedRows", "name": "packed", "buffer": "storage", "elementType": "vec4<u32>"}
    found["packed_rows"] = {"scratch": "packedRows", "name": "rows", "buffer": ro, "elementType": "f16"}
    if op != "MatMulNBitsQkv":
        found["partials"] = {"scratch": "partialSums", "name": "partials", "buffer": "storage", "elementType": "f32"}
        found["partial_sums"] = {"scratch": "partialSums", "name": "partials", "buffer": ro, "elementType": "f32"}
    if op == "MatMulBnb4":
        found["word_b"] = {"name": "y_b", "arg": "bT", "buffer": ro, "elementType": "u32"}
        found["chunk_b"] = {"name": "y_b", "arg": "bT", "buffer": ro, "elementType": "vec4<u32>"}
        found["decode_b"] = {"name": "y_b", "arg": "bT", "buffer": ro, "elementType": "$decodeElement"}
        found["absmax_v2"] = {"name": "y_scales", "arg": "absmaxT", "buffer": ro, "elementType": "$absmaxScalar"}
        return found
    found["v_skip"] = {"name": "skip", "arg": "skipT", "buffer": ro, "elementType": "$aVec4"}
    found["v_norm_scale"] = {"name": "norm_scale", "arg": "normScaleT", "buffer": ro, "elementType": "$aVec4"}
    found["v_residual"] = {"name": "residual", "arg": "residualT", "buffer": "storage", "elementType": "$aVec4"}
    for name, arg, buffer in (("skip", "skipT", ro), ("residual", "residualT", "storage")):
        found["s_" + name] = {"name": name, "arg": arg, "buffer": buffer, "elementType": "$aScalarName"}
    for p, _ in matrices(op):
        found[f"{p}_word_b"] = {"name": f"{p}_b", "arg": f"{p}BT", "buffer": ro, "elementType": "u32"}
        found[f"{p}_chunk_b"] = {"name": f"{p}_b", "arg": f"{p}BT", "buffer": ro, "elementType": "vec4<u32>"}
        found[f"{p}_decode_b"] = {"name": f"{p}_b", "arg": f"{p}BT", "buffer": ro, "elementType": "$decodeElement"}
    return found


def manifest(op):
    m = json.loads((V1 / f"com.microsoft.{op}/build/webgpu/manifest.json").read_text())
    old_variants = m.pop("variants")
    m["tunables"].update({k: {"default": d, "description": t} for k, (d, t) in TUNABLES.items()
                          if not k.startswith(NOT_OF[op])})
    counted = matrices(op)[:1] if op == "MatMulNBitsMlp" else matrices(op)
    derive = m["derive"]
    derive["aScalarName"] = '"f16" if tensorDtypes.aT == "float16" else "f32"'
    derive.update(COMMON_DERIVE)
    decode = decode_derive(op)
    ok = decode.pop("decodeOk")
    derive.update(decode)
    derive["decodeGroups"] = " + ".join(f"ceilDiv({n}, max(1, decodeColumns))" for _, n in counted)
    derive["decodeOk"] = ok
    if op == "MatMulNBitsMlp":
        derive.update(ROW_DERIVE)
    derive.update(matrix_derive(op))
    if op != "MatMulNBitsQkv":
        derive["matrixTailOk"] = TAIL_OK
    derive["tiledColumns"] = 32 if op == "MatMulNBitsMlp" else 64
    derive["tiledOk"] = (f"{rows(op)} >= tunables.TILED_MIN_ROWS and attrs.K % 32 == 0 and attrs.block_size >= 16"
                         + ("" if op == "MatMulBnb4" else " and attrs.bits == 4") +
                         " and device.limits.maxComputeInvocationsPerWorkgroup >= 128 and device.limits.maxComputeWorkgroupSizeX >= 16"
                         " and device.limits.maxComputeWorkgroupSizeY >= 8 and device.limits.maxComputeWorkgroupStorageSize >= "
                         + str(2 * 16 * 32 * 16 + (64 if op == "MatMulBnb4" else 0)) +
                         " and " + " + ".join(f"ceilDiv({n}, tiledColumns)" for _, n in counted) + " <= 65535"
                         f" and ceilDiv({rows(op)}, 64) <= 65535")
    m["bindings"].update(bindings(op))
    if op == "MatMulBnb4":
        m["inputs"]["bT"]["layout"] = "packed"
        m["inputs"]["bT"]["description"] = m["inputs"]["bT"]["description"].replace(
            "The shaders read one u32 for each byte.", "Four bytes fill a u32.")
        m["bindings"]["y"] = {"arg": "yT", "buffer": "storage", "elementType": "$aScalar"}
    m["variants"] = (row_variants(op) if op == "MatMulNBitsMlp" else []) + decode_variants(op) + matrix_variants(op) + tiled_variants(op) + old_variants
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


CARD = """---
library_name: kernels
license: apache-2.0
tags:
- kernel
- webgpu
- wgsl
---
# com.microsoft.{op}, contract version 2

{description}

Tensors, attributes, semantics and limits are those of [version 1](../../com.microsoft.{op}/README.md). What is
different, how the variants work and how exact they are: [kernels/v2](../README.md).

## Inputs and outputs

| Name | Bind key | Dtype | Presence |
| --- | --- | --- | --- |
{ports}

## Attributes

| Attribute | Default |
| --- | --- |
{attributes}

## Variants, best first

| Variant | Priority | Passes | Storage buffers |
| --- | --- | --- | --- |
{variants}

## Tunables

| Tunable | Default | Description |
| --- | --- | --- |
{tunables}
"""


def buffers(m, variant):
    return max(sum("struct" not in m["bindings"][b] for b in p["bindings"]) for p in variant["passes"])


def card(op, m):
    ports = [f"| `{p['onnx']}` | `{key}` | `{p['dtype']}` | {'optional' if p.get('optional') else 'required'} |"
             for side in ("inputs", "outputs") for key, p in m[side].items()]
    variants = [f"| `{v['id']}` | {v.get('priority', 0)} | {', '.join(p['id'] for p in v['passes'])} | {buffers(m, v)} |"
                for v in sorted(m["variants"], key=lambda v: -v.get("priority", 0))]
    attributes = [f"| `{name}` | {json.dumps(a['default']) if 'default' in a else '-'} |" for name, a in m["attributes"].items()]
    tunables = [f"| `{name}` | {t['default']} | {t['description']} |" for name, t in m["tunables"].items()]
    return CARD.format(op=op, description=m["description"], ports="\n".join(ports), variants="\n".join(variants),
                       attributes="\n".join(attributes), tunables="\n".join(tunables))


def files(op):
    m = manifest(op)
    folder = HERE / f"com.microsoft.{op}"
    found = {"manifest.json": text(m) + "\n", **shader_files(op, m)}
    return {folder / "README.md": card(op, m), **{folder / "build/webgpu" / name: data for name, data in found.items()}}


def leftovers(op, wanted):
    """Templates of a package that nothing names any more."""
    return [p for p in (HERE / f"com.microsoft.{op}/build/webgpu").glob("*.wgsl.jinja") if p not in wanted]


def main():
    check = "--check" in sys.argv[1:]
    stale = []
    for op in ("MatMulNBitsQkv", "MatMulNBitsMlp", "MatMulBnb4"):
        wanted = files(op)
        changed = [p for p, data in wanted.items() if not p.exists() or p.read_text() != data]
        unused = leftovers(op, wanted)
        if check:
            stale += changed + unused
            continue
        for path in changed:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path])
        for path in unused:
            path.unlink()
    if stale:
        print("out of date, run kernels/v2/author.py: " + ", ".join(str(p.relative_to(HERE)) for p in stale), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
