#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold "Members of --json" in docs/cli.md against what the commands print.

  check-json.py [--without-curl] NIBBLE

Every member that a command prints must be in its table, and every member of the table must be printed by one of the calls below (those of
GPU_ONLY may be absent: there may be no GPU). A path ending in "…" covers all below it. Ends with "N passed, N failed", a command being one test.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE / "hub"))
from server import Server  # noqa: E402

BNB4, QKV = "kernels/com.microsoft.MatMulBnb4", "kernels/com.microsoft.MatMulNBitsQkv"
SHAPES = ["A=float32[2,64]", "B=uint8[256]", "absmax=float32[8]"]
ATTRIBUTES = ["--attr", "K=64", "--attr", "N=8", "--attr", "block_size=64", "--attr", "quant_type=1"]
TENSORS = [w for s in SHAPES for w in ("--tensor", s)] + ATTRIBUTES
INPUTS = [w for s in SHAPES for w in ("--in", s + "=rand:1")] + ATTRIBUTES
CASE = ["--backend", "cpu", "--case", "smollm2_135m_m1_f32"]
CALLS = {
    "run": [["run", BNB4, *INPUTS], ["run", BNB4, *INPUTS, "--out", "Y=y.npy", "--compare", "cpu"], ["run", BNB4, "--in", "A=float32[1]=1"]],
    "plan": [["plan", BNB4, *TENSORS], ["plan", "list", "--tensor", "aT=float32[2]"],
             ["plan", QKV, "--tensor", "A=float32[2,64]", "--tensor", "norm_scale=float32[64]", "--tensor", "q_B=uint8[8,2,16]",
              "--tensor", "q_scales=float32[8,2]", "--tensor", "k_B=uint8[4,2,16]", "--tensor", "k_scales=float32[4,2]",
              "--tensor", "v_B=uint8[4,2,16]", "--tensor", "v_scales=float32[4,2]", "--attr", "K=64", "--attr", "Nq=8",
              "--attr", "Nkv=4", "--attr", "block_size=32", "--caps", "small.json"],
             ["plan", "scale", "--tensor", "x=float32[8]", "--arg", "mode=fast"]],
    "inspect": [["inspect", BNB4], ["inspect", "list"], ["inspect", "scale"]],
    "explain": [["explain", BNB4, *TENSORS, "--backend", "cpu"], ["explain", BNB4, *TENSORS, "--attr=N=8", "--caps", "small.json"],
                ["explain", BNB4, *TENSORS, "--caps", "small.json"], ["explain", BNB4, *TENSORS[:-8], "--caps", "small.json",
                "--attr", "K=65", "--attr", "N=8", "--attr", "block_size=64", "--attr", "quant_type=1"],
                ["explain", "scale", "--tensor", "x=float32[8]", "--backend", "cpu"]],
    "test": [["test", BNB4, "--filter", "one_row"], ["test", BNB4, "--filter", "one_row", "--all-variants"],
             ["test", "scale"]],
    "verify": [["verify", BNB4], ["verify", "scale"]],
    "bench": [["bench", BNB4, *CASE], ["bench", BNB4, *CASE, "--all-variants", "--baseline", "bench.json"], ["bench", "odd", "--backend", "cpu"]],
    "tune": [["tune", BNB4, "--backend", "cpu"]],
    "devices": [["devices", BNB4, "scale"]],
    "quantize": [["quantize", "--format", f, "--weight", "float32[8,64]=rand:1", "--out", "w.safetensors"] for f in ("nbits", "bnb4")],
    "pull": [["pull", "webgpu-kernels/com.microsoft.MatMulBnb4", "--version", "1"]],
    "pack": [["pack", BNB4, "--check"]],
    "lint": [["lint", "scale"], ["lint", "--rules"]],
}
# Printed only where there is a GPU.
GPU_ONLY = {
    "bench": r"cases\[\]\.alternatives\[\]\.reason",
    "explain": r"gpu\.(device|call)",
    "tune": r".*",
    "devices": r"devices\[\]\.(?!backend|name|kind|rows).*|missing.*",
}
# Set in the tool's source, but no member of a table: of errors, of scopes, inside metadata.json and the tuning file, and of the device that
# a pinned variant is planned for.
INSIDE = {"line", "column", "status", "source", "path", "attrs", "shapes", "algorithm", "manifestSpec", "type", "webgpu", "entries",
          "M", "componentType", "resultComponentType", "subgroupMatrixConfigs", "subgroupMinSize", "subgroupMaxSize"}


def documented():
    """command -> its paths"""
    section = (ROOT / "docs/cli.md").read_text().split("\n## Members of `--json`\n")[1].split("\n## ")[0]
    tables = {}
    for part in section.split("\n### ")[1:]:
        cells = [line.split(" | ")[0] for line in part.splitlines() if line.startswith("| `")]
        tables[part.split("\n")[0]] = [path for cell in cells for path in re.findall(r"`([^`]+)`", cell)]
    return tables


def paths(value, path=""):
    if isinstance(value, list):
        for item in value:
            yield from paths(item, path + "[]")
    elif isinstance(value, dict):
        for name, member in value.items():
            here = f"{path}.{name.replace('.', '_')}" if path else name
            yield here
            yield from paths(member, here)


def covers(documented_path, printed):
    """The path itself, what leads to it, and with "…" what is below it."""
    open_ended = documented_path.endswith("…")
    want, have = documented_path.rstrip("…").split("."), printed.split(".")
    for w, h in zip(want, have):
        if w != h and w != "*":
            return (open_ended and w == want[-1] and h.split("[")[0] == w) or (w == h + "[]" and len(have) < len(want))
    return len(have) <= len(want) or open_ended


def reaches(documented_path, printed):
    want, have = documented_path.rstrip("…").split("."), printed.split(".")
    return len(want) == len(have) and all(w in ("*", h) for w, h in zip(want, have))


def prepare(work):
    (work / "kernels").symlink_to(ROOT / "kernels")
    (work / "scale").symlink_to(HERE / "packages/scale")
    (work / "small.json").write_text('{"limits": {"maxStorageBuffersPerShaderStage": 8}}')
    manifest = json.loads((ROOT / "tests/fuzz/corpus/manifest/list-base.json").read_text())
    for binding in manifest["bindingSets"]["main"][:1]:
        binding["length"] = 2
    manifest["variants"][0]["passes"][0]["constants"] = {"rows": 1}
    (work / "list").mkdir()
    (work / "list/manifest.json").write_text(json.dumps(manifest))
    # a benchmark whose case cannot run
    package = work / "odd"
    package.mkdir()
    (package / "manifest.json").write_bytes((ROOT / BNB4 / "build/webgpu/manifest.json").read_bytes())
    bench = json.loads((ROOT / BNB4 / "build/webgpu/bench.json").read_text())
    bench["cases"] = bench["cases"][:1]
    bench["cases"][0]["attrs"]["K"] = 7
    (package / "bench.json").write_text(json.dumps(bench))


def start_hub():
    package, commit = ROOT / BNB4, "1" * 40
    hub = Server(["webgpu-kernels/com.microsoft.MatMulBnb4"])
    hub.commits = {commit: {str(p.relative_to(package)): p.read_bytes() for p in package.rglob("*") if p.is_file()}}
    hub.branches = {"v1": commit}
    return hub


def printed_by(nibble, command, work, env):
    found = set()
    for call in CALLS[command]:
        result = subprocess.run([nibble, *call, "--json", "--quiet"], cwd=work, env=env, capture_output=True, text=True, timeout=300)
        assert result.stdout, f"{call}: {result.stderr}"
        value = json.loads(result.stdout)
        found.update(p for p in paths(value) if set(value) != {"error"})
        if command == "bench":
            (work / "bench.json").write_text(result.stdout)
    return found


def check(command, table, printed):
    wrong = [f"printed, but not documented: {p}" for p in sorted(printed) if not any(covers(d, p) for d in table)]
    may_be_absent = re.compile(GPU_ONLY.get(command, "(?!)"))
    wrong += [f"documented, but not printed: {d}" for d in table
              if not any(reaches(d, p) for p in printed) and not may_be_absent.fullmatch(d)]
    return wrong


def unmentioned(tables):
    """Members that the source sets and no table names, in case no call above prints them."""
    known = {part.strip("[]…") for table in tables.values() for path in table for part in path.split(".")}
    names = set()
    for source in [*ROOT.glob("cli/*.c"), ROOT / "src/plan/dump.c"]:
        names.update(re.findall(r'(?:json_object_set(?:_new)?|\bset_\w+|\bput(?:_\w+)?)\(\w+, (?:\w+, )?"(\w+)"', source.read_text()))
    assert len(names) > 100
    return sorted(names - known - INSIDE)


def main():
    nibble = str(pathlib.Path(sys.argv[-1]).resolve())
    tables, failed = documented(), 0
    commands = dict(CALLS)
    if "--without-curl" in sys.argv:
        print("NOT RUN: members of nibble pull --json, there is no libcurl")
        del commands["pull"], tables["pull"]
    with tempfile.TemporaryDirectory() as folder:
        work, hub = pathlib.Path(folder), start_hub()
        prepare(work)
        keep = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
        env = {**keep, "NO_PROXY": "127.0.0.1", "XDG_CACHE_HOME": f"{folder}/cache", "HF_HUB_CACHE": f"{folder}/hub", "HF_ENDPOINT": hub.url}
        for command in commands:
            wrong = check(command, tables.get(command, []), printed_by(nibble, command, work, env))
            failed += bool(wrong)
            if wrong:
                print(f"FAILED {command}", *wrong, sep="\n    ")
    extra = [f"a table without a call: {c}" for c in set(tables) - set(commands)]
    extra += [f"set in the source, but in no table: {name}" for name in unmentioned(documented())]
    if extra:
        print("FAILED", *extra, sep="\n    ")
    failed += bool(extra)
    print(f"{len(commands) + 1 - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
