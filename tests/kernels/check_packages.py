#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of the kernel packages agree with each other. Without numpy; the numbers are check_expected.py's.

  check_packages.py NIBBLE
"""
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = sorted(p for p in (ROOT / "kernels").iterdir() if p.name.startswith("com."))
SECOND = sorted((ROOT / "kernels/v2").glob("com.*"))
NIBBLE = sys.argv.pop(1)
WEIGHTS = {"bT", "qBT", "kBT", "vBT", "gateBT", "upBT"}
SHARED_TEMPLATE = "matmul-nbits-fused-rms-norm.wgsl.jinja"


def load(package, name):
    return json.loads((package / "build/webgpu" / name).read_text())


def pack_check(package):
    return subprocess.run([NIBBLE, "pack", "--check", package], capture_output=True, text=True)


class Packages(unittest.TestCase):
    def test_the_three_are_there(self):
        self.assertEqual([p.name for p in PACKAGES],
                         [f"com.microsoft.{n}" for n in ("MatMulBnb4", "MatMulNBitsMlp", "MatMulNBitsQkv")])

    def test_metadata_is_current(self):
        self.assertEqual([p.name for p in SECOND], [p.name for p in PACKAGES])
        for package in PACKAGES + SECOND:
            with self.subTest(package):
                result = pack_check(package)
                self.assertEqual(result.returncode, 0, result.stderr)
                metadata = load(package, "metadata.json")
                self.assertEqual(metadata["version"], 2 if package in SECOND else 1)
                self.assertEqual(metadata["license"], "Apache-2.0")

    def test_a_changed_byte_is_noticed(self):
        for name in ("manifest.json", "test.json", "bench.json", "cast-scalar-x4.wgsl.jinja"):
            with tempfile.TemporaryDirectory() as folder:
                copy = pathlib.Path(folder) / "package"
                shutil.copytree(PACKAGES[0], copy)
                self.assertEqual(pack_check(copy).returncode, 0)
                with open(copy / "build/webgpu" / name, "a") as file:
                    file.write("\n")
                self.assertEqual(pack_check(copy).returncode, 1, name)

    def test_variants_of_metadata_are_the_manifests(self):
        for package in PACKAGES:
            with self.subTest(package.name):
                manifest, metadata = load(package, "manifest.json"), load(package, "metadata.json")
                variants = {v["id"]: {p["shader"] for p in v["passes"]} for v in manifest["variants"]}
                self.assertEqual({k: set(v) for k, v in metadata["webgpu"]["variants"].items()}, variants)
                self.assertEqual(len(variants), len(manifest["variants"]), "an id is used twice")

    def test_no_template_is_unused(self):
        for package in PACKAGES:
            with self.subTest(package.name):
                used = {p["shader"] for v in load(package, "manifest.json")["variants"] for p in v["passes"]}
                self.assertEqual({p.name for p in (package / "build/webgpu").glob("*.wgsl*")}, used)

    def test_every_derive_and_binding_is_used(self):
        for package in PACKAGES:
            with self.subTest(package.name):
                manifest = load(package, "manifest.json")
                templates = "".join(p.read_text() for p in (package / "build/webgpu").glob("*.wgsl*"))
                text = json.dumps(manifest)
                for name in manifest["derive"]:
                    found = len(re.findall(rf"\b{name}\b", text)) - 1 + len(re.findall(rf"\b{name}\b", templates))
                    self.assertGreater(found, 0, f"derive {name}")
                bound = {b for v in manifest["variants"] for p in v["passes"] for b in p["bindings"]}
                self.assertEqual(bound, set(manifest["bindings"]))

    def test_shared_template_is_one_text(self):
        texts = {p.joinpath("build/webgpu", SHARED_TEMPLATE).read_text() for p in PACKAGES if "NBits" in p.name}
        self.assertEqual(len(texts), 1)

    def test_templates_are_licensed_ascii(self):
        for package in PACKAGES:
            with self.subTest(package.name):
                for path in (package / "build/webgpu").glob("*.wgsl*"):
                    text = path.read_text(encoding="ascii")
                    self.assertTrue(text.startswith("{# SPDX-License-Identifier: Apache-2.0\n"), path.name)
                    self.assertIn("{{ env.wgsl.resourceDeclarations }}", text, path.name)

    def test_card_names_everything(self):
        for package in PACKAGES:
            with self.subTest(package.name):
                card = (package / "README.md").read_text()
                manifest = load(package, "manifest.json")
                self.assertTrue(card.startswith("---\nlibrary_name: kernels\nlicense: apache-2.0\n"))
                names = [f"| `{p['onnx']}` | `{k}` |" for s in ("inputs", "outputs") for k, p in manifest[s].items()]
                names += [f"| `{n}` |" for s in ("attributes", "tunables") for n in manifest[s]]
                names += [f"| `{v['id']}` |" for v in manifest["variants"]]
                names += [f"(build/webgpu/{p.name})" for p in (package / "build/webgpu").iterdir()]
                for name in names:
                    self.assertIn(name, card)

    def test_cases_are_well_formed(self):
        known = {"name", "provenance", "variant", "attrs", "want", "inputs", "error", "outputs"}
        for package in PACKAGES:
            with self.subTest(package.name):
                manifest, cases = load(package, "manifest.json"), load(package, "test.json")["cases"]
                variants = {v["id"] for v in manifest["variants"]}
                self.assertGreaterEqual(len(cases), 40)
                self.assertEqual(len({c["name"] for c in cases}), len(cases))
                for case in cases:
                    self.assertLessEqual(set(case), known, case["name"])
                    self.assertRegex(case["name"], r"^[a-z0-9_]+$")
                    self.assertLessEqual(set(case["inputs"]), set(manifest["inputs"]), case["name"])
                    self.assertLessEqual(set(case["outputs"]), set(manifest["outputs"]), case["name"])
                    self.assertEqual("error" in case, not case["outputs"], case["name"])
                    self.assertLessEqual({case.get("variant")}, variants | {None}, case["name"])
                    for tensor in [*case["inputs"].values(), *case["outputs"].values()]:
                        self.assert_data_fits(case["name"], tensor)

    def assert_data_fits(self, name, tensor):
        data = tensor.get("data", {})
        if data.get("kind") == "values":
            elements = 1
            for dim in tensor["shape"]:
                elements *= dim
            self.assertEqual(len(data["values"]), elements, name)

    def test_bench_cases_say_their_work(self):
        """work.flops counts two operations for each row and weight; 8 / bits weights are in a byte."""
        for package in PACKAGES + SECOND:
            with self.subTest(package.relative_to(ROOT)):
                bench = load(package, "bench.json")
                attributes = load(package, "manifest.json")["attributes"]
                for case in bench["cases"]:
                    shapes = {key: tensor["shape"] for key, tensor in case["inputs"].items()}
                    defaults = {k: a["default"] for k, a in attributes.items() if "default" in a}
                    scope = {"attrs": {**defaults, **case["attrs"]}, "shapes": shapes}
                    flops = subprocess.run([NIBBLE, "eval", bench["work"]["flops"], "--scope", "-"], input=json.dumps(scope),
                                           check=True, capture_output=True, text=True).stdout
                    in_byte = 8 // scope["attrs"].get("bits", 4)
                    weights = sum(in_byte * math.prod(shape) for key, shape in shapes.items() if key in WEIGHTS)
                    self.assertEqual(float(flops), 2 * shapes["aT"][0] * weights, case["name"])

    def test_bench_cases_are_well_formed(self):
        for package in PACKAGES + SECOND:
            with self.subTest(package.relative_to(ROOT)):
                manifest, cases = load(package, "manifest.json"), load(package, "bench.json")["cases"]
                self.assertEqual({c["role"] for c in cases}, {"decode", "prefill"})
                self.assertEqual(len({c["name"] for c in cases}), len(cases))
                required = {k for k, p in manifest["inputs"].items() if not p.get("optional")}
                for case in cases:
                    self.assertLessEqual(required, set(case["inputs"]), case["name"])
                    self.assertLessEqual(set(case["inputs"]), set(manifest["inputs"]), case["name"])


if __name__ == "__main__":
    unittest.main()
