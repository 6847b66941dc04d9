#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nibble pack and nibble lint.

  run.py NIBBLE

A package without a mistake has no finding; then one mistake at a time is made, and exactly the finding it deserves must come. Ends with
"N passed, N failed".
"""
import base64
import copy
import hashlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent

MANIFEST = {
    "domain": "test",
    "name": "Add",
    "typeConstraints": {"T": ["float32", "float16"]},
    "inputs": {"x": {"dtype": "T"}, "y": {"dtype": "T"}},
    "outputs": {"z": {"dtype": "T", "shape": "shapes.x"}},
    "attributes": {"scale": {"default": 1}, "mode": {"default": 0}},
    "attributeConstraints": {"mode": {"values": [0]}},
    "tunables": {"WG": {"default": 64}},
    "derive": {"count": "numel(shapes.x)", "f16Fine": "f16Ok(tensorDtypes.x)", "isWide": "count % 4 == 0", "vec": "\"vec4<f16>\" if tensorDtypes.x == \"float16\" else \"vec4<f32>\""},
    "when": ["f16Fine", "sameShape(shapes.x, shapes.y)"],
    "bindings": {"params": {"struct": [{"name": "count", "type": "u32", "value": "count"}, {"name": "scale", "type": "f32", "value": "attrs.scale"}]}},
    "variants": [
        {
            "id": "wide",
            "priority": 10,
            "when": ["isWide"],
            "passes": [
                {
                    "shader": "add.wgsl.jinja",
                    "bindings": [{"arg": "x", "name": "x", "elementType": "$vec"}, {"arg": "y", "name": "y", "elementType": "$vec"},
                                 {"arg": "z", "name": "z", "elementType": "$vec"}, "params"],
                    "dispatch": {"threads": "count / 4", "workgroupSize": "tunables.WG"},
                }
            ],
        },
        {
            "id": "plain",
            "passes": [{"shader": "add.wgsl.jinja", "bindings": ["x", "y", "z", "params"], "dispatch": {"threads": "count", "workgroupSize": "tunables.WG"}}],
        },
    ],
}
SHADER = """{{ env.wgsl.resourceDeclarations }}
{% include "index.wgsl" %}
@compute @workgroup_size({{ tunables.WG }})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.count) { z[id.x] = (x[id.x] + y[id.x]) * T(params.scale); }
}
"""
CASE = {
    "name": "small",
    "attrs": {"scale": 2},
    "inputs": {"x": {"dtype": "float32", "shape": [2], "data": {"kind": "values", "values": {"$ref": "#/fixtureArrays/two"}}},
               "y": {"dtype": "float32", "shape": [2], "data": {"kind": "values", "values": [3, 1e300]}}},
    "outputs": {"z": {"dtype": "float32", "shape": [2]}},
}


class Package:
    def __init__(self, nibble, folder):
        self.nibble = nibble
        self.root = pathlib.Path(folder)
        self.folder = self.root / "build/webgpu"
        self.folder.mkdir(parents=True)
        self.manifest = copy.deepcopy(MANIFEST)
        self.tests = {"fixtureArrays": {"two": [1, 2]}, "cases": [copy.deepcopy(CASE)]}
        self.bench = {"cases": [copy.deepcopy(CASE)]}
        self.bench["cases"][0]["inputs"]["x"].pop("data")
        self.write("add.wgsl.jinja", SHADER)
        self.write("index.wgsl", "// nothing yet\n")

    def write(self, name, text):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def save(self):
        self.write("manifest.json", json.dumps(self.manifest))
        self.write("test.json", json.dumps(self.tests))
        self.write("bench.json", json.dumps(self.bench))

    def run(self, *arguments):
        return subprocess.run([self.nibble, *arguments], capture_output=True, text=True, timeout=60)

    def pack(self, *arguments):
        return self.run("pack", str(self.root), *arguments)

    def lint(self):
        """The findings as (rule, path), and that the exit code goes with them."""
        result = self.run("lint", str(self.root), "--json")
        report = json.loads(result.stdout)
        findings = report["findings"]
        assert report["errors"] == sum(f["severity"] == "error" for f in findings)
        assert report["warnings"] == sum(f["severity"] == "warning" for f in findings)
        assert result.returncode == (1 if report["errors"] else 0), result.stderr
        text = self.run("lint", str(self.root))
        assert text.returncode == result.returncode
        assert len(text.stdout.splitlines()) == len(findings) + 1
        return [(f["rule"], f["path"]) for f in findings]

    def metadata(self):
        return json.loads((self.folder / "metadata.json").read_text())


# ---- lint: one mistake at a time ----

WIDE, PLAIN = 0, 1
MISTAKES = []


def mistake(*findings, packed=True):
    """A function that makes a mistake, and the findings it deserves."""
    def register(function):
        MISTAKES.append((function, list(findings), packed))
        return function
    return register


def first_pass(p, variant):
    return p.manifest["variants"][variant]["passes"][0]


@mistake()
def none(p):
    pass


@mistake(("unused-binding", "bindings.spare"))
def unused_handle(p):
    p.manifest["bindings"]["spare"] = {"struct": [{"name": "a", "type": "u32", "value": "1"}]}


@mistake()
def handle_of_a_family(p):
    p.manifest["bindings"]["spare_a"] = {"arg": "x", "name": "x"}
    family = {"cases": [{"v": "a"}], "variants": [copy.deepcopy(p.manifest["variants"][PLAIN])]}
    family["variants"][0]["id"] = "f_{v}"
    family["variants"][0]["priority"] = 20
    family["variants"][0]["when"] = ["count < 9"]
    family["variants"][0]["passes"][0]["bindings"][0] = "spare_{v}"
    p.manifest["variants"].append(family)


@mistake(("unused-binding", "variants[1].passes[0].bindings[3]"))
def binding_that_the_shader_ignores(p):
    first_pass(p, PLAIN)["bindings"].append("params")
    first_pass(p, PLAIN)["bindings"][3] = {"name": "extra", "arg": "x"}


@mistake(("unused-field", "variants[0].passes[0].bindings[3].struct[2]"), ("unused-field", "variants[1].passes[0].bindings[3].struct[2]"))
def field_that_the_shader_ignores(p):
    p.manifest["bindings"]["params"]["struct"].append({"name": "offset", "type": "u32", "value": "0"})


@mistake(("unused-port", "inputs.w"))
def unused_input(p):
    p.manifest["inputs"]["w"] = {"dtype": "T", "optional": True}


@mistake(("unused-intermediate", "variants[1].intermediates[0]"))
def unused_scratch(p):
    p.manifest["variants"][PLAIN]["intermediates"] = [{"id": "tmp", "dtype": "float32", "shape": "shapes.x"}]


@mistake()
def used_scratch(p):
    p.manifest["variants"][PLAIN]["intermediates"] = [{"id": "y2", "dtype": "float32", "shape": "shapes.x"}]
    group = {"repeat": {"count": 2, "index": "i"}, "passes": [copy.deepcopy(first_pass(p, PLAIN))]}
    group["passes"][0]["bindings"][1] = {"scratch": "y2", "name": "y"}
    p.manifest["variants"][PLAIN]["passes"].insert(0, group)


@mistake(("unused-derive", "derive.spare"))
def unused_derive(p):
    p.manifest["derive"]["spare"] = "count + 1"


@mistake(("unused-derive", "variants[1].derive.a"), ("unused-derive", "variants[1].passes[0].derive.b"))
def unused_inner_derives(p):
    p.manifest["variants"][PLAIN]["derive"] = {"a": "1"}
    first_pass(p, PLAIN)["derive"] = {"b": "2"}


@mistake()
def derive_that_a_template_reads(p):
    p.manifest["derive"]["spare"] = "count + 1"
    p.write("index.wgsl", "const spare = {{ derive.spare }};\n")


@mistake()
def derives_that_are_read_by_a_computed_name(p):
    p.manifest["derive"]["spare"] = "count + 1"
    p.write("index.wgsl", "const spare = {{ derive[\"sp\" ~ \"are\"] }};\n")


@mistake(("unused-name", "tunables.SPARE"), ("unused-name", "attributes.spare"))
def unused_names(p):
    p.manifest["tunables"]["SPARE"] = {"default": 1}
    p.manifest["attributes"]["spare"] = {}


@mistake(("unused-name", "args.spare"))
def unused_argument(p):
    p.manifest["args"] = {"spare": {"kind": "u32"}}


@mistake(("unreachable-variant", "variants[0].when[2]"))
def constant_condition(p):
    p.manifest["variants"][WIDE]["when"] = ["1 > 2"]
    p.manifest["derive"].pop("isWide")


@mistake(("unreachable-variant", "variants[0].when[3]"))
def constant_condition_through_derives(p):
    p.manifest["derive"]["LIMIT"] = 4
    p.manifest["derive"]["twice"] = "LIMIT * 2"
    p.manifest["variants"][WIDE]["when"].append("twice < LIMIT")


@mistake(("unreachable-variant", "variants[0].when[2]"))
def condition_that_is_a_number(p):
    p.manifest["variants"][WIDE]["when"] = ["1", "isWide"]


@mistake()
def constant_condition_that_holds(p):
    p.manifest["variants"][WIDE]["when"].append("2 > 1")


@mistake()
def condition_of_the_device_or_a_tunable(p):
    p.manifest["variants"][WIDE]["when"] += ["f16Ok(\"float16\")", "tunables.WG == 65"]


@mistake(("unreachable-variant", "variants[0].when[2]"))
def contradiction(p):
    p.manifest["variants"][WIDE]["when"].append("not isWide")


@mistake(("unreachable-variant", "variants[0]"))
def hidden_variant(p):
    p.manifest["variants"][PLAIN]["priority"] = 20


@mistake(("unreachable-variant", "variants[1]"))
def hidden_by_the_same(p):
    p.manifest["variants"].insert(1, {**copy.deepcopy(p.manifest["variants"][PLAIN]), "id": "twin"})
    p.manifest["variants"].reverse()  # wide last, though its priority is the highest


@mistake()
def not_hidden_because_of_requirements(p):
    p.manifest["variants"][PLAIN] |= {"priority": 20, "requires": {"limits": {"maxBufferSize": 1 << 30}}}
    p.manifest["variants"].append({**copy.deepcopy(p.manifest["variants"][PLAIN]), "id": "last", "priority": -1, "requires": {}})


@mistake()
def not_hidden_because_demoted(p):
    p.manifest["variants"][PLAIN] |= {"priority": 20, "demoteWhen": ["isWide"]}


def many_inputs(p, variant, count):
    names = [f"a{i}" for i in range(count)]
    p.manifest["inputs"] |= {name: {"dtype": "T"} for name in names}
    first_pass(p, variant)["bindings"] += names
    p.write("index.wgsl", "// " + " ".join(f"a{i}" for i in range(9)) + "\n")


@mistake()
def a_variant_over_budget_with_a_split_one(p):
    many_inputs(p, WIDE, 6)


@mistake(("no-split-variant", "variants[1].passes"))
def all_variants_over_budget(p):
    many_inputs(p, WIDE, 7)
    many_inputs(p, PLAIN, 6)


F16 = [("f16-guard", f"variants[{v}].passes[0].bindings[{b}].elementType") for v in (0, 1) for b in (0, 1, 2)]


@mistake(*F16)
def no_f16_guard(p):
    p.manifest["when"].remove("f16Fine")
    p.manifest["derive"].pop("f16Fine")


@mistake()
def f16_guard_by_requires(p):
    p.manifest["when"].remove("f16Fine")
    p.manifest["derive"].pop("f16Fine")
    p.manifest["requires"] = {"features": ["shader-f16"]}


SUBGROUPS = "fn total(v: f32) -> f32 { return subgroupAdd(v); }\n"


@mistake(("subgroup-guard", "variants[0].requires.features"), ("subgroup-guard", "variants[1].requires.features"))
def no_subgroup_guard(p):
    p.write("index.wgsl", SUBGROUPS)


@mistake()
def subgroup_guard_by_requires(p):
    p.write("index.wgsl", SUBGROUPS)
    p.manifest["requires"] = {"features": ["subgroups"]}


@mistake()
def subgroup_guard_by_when(p):
    p.write("index.wgsl", SUBGROUPS)
    p.manifest["derive"]["hasSubgroups"] = "device.features.has(\"subgroups\")"
    p.manifest["when"].append("hasSubgroups")


@mistake()
def subgroup_guard_in_the_template(p):
    p.write("index.wgsl", "{% if withSubgroups %}\n" + SUBGROUPS + "{% endif %}\n")
    p.manifest["derive"]["withSubgroups"] = "device.features.has(\"subgroups\")"


@mistake()
def subgroups_in_a_comment(p):
    p.write("index.wgsl", "// subgroupAdd(x) would be faster\n")


@mistake(("subgroup-guard", "variants[0].requires.features"), ("subgroup-guard", "variants[1].requires.features"))
def subgroup_matrix_with_the_wrong_guard(p):
    p.write("index.wgsl", "fn f() { let m = subgroupMatrixLoad<subgroup_matrix_left<f32, 8, 8>>(&x, 0, false, 8); }\n")
    p.manifest["requires"] = {"features": ["subgroups"]}


@mistake(("unknown-name", "derive.isWide"))
def misspelt_derive(p):
    p.manifest["derive"]["isWide"] = "coutn % 4 == 0"


@mistake(("unknown-name", "when[2]"))
def misspelt_attribute(p):
    p.manifest["when"].append("attrs.scala > 0 or attrs.scale > 0")


@mistake(("unknown-name", "variants[0].when[3]"))
def misspelt_limit(p):
    p.manifest["variants"][WIDE]["when"].append("device.limits.maxComputeInvocationsPerWorkgrop >= 64")


@mistake(("unknown-name", "variants[1].passes[0].dispatch.threads"), ("unknown-name", "variants[0].passes[0].dispatch.workgroupSize"))
def misspelt_in_a_dispatch(p):
    first_pass(p, PLAIN)["dispatch"]["threads"] = "numel(shapes.q) + count"
    first_pass(p, WIDE)["dispatch"]["workgroupSize"] = "tunables.WGS"


@mistake()
def names_that_only_look_misspelt(p):
    p.manifest["when"] += ["device.adapterInfo.vendor != \"attrs.vendor\"", "has(attrs, \"other\") == false", "device.features.has(\"subgroups\") or true",
                           "device.limits.maxComputeInvocationsPerWorkgroup >= 64", "nothing is undefined"]


@mistake(("unused-template", "old/spare.wgsl"))
def unused_template(p):
    p.write("old/spare.wgsl", "")


@mistake(("no-cases", "test.json"), ("no-cases", "bench.json"))
def no_cases(p):
    (p.folder / "test.json").unlink()
    (p.folder / "bench.json").unlink()


def in_case(change, *findings):
    def make(p):
        change(p.tests["cases"][0])
    mistake(*findings)(make)


in_case(lambda c: c.pop("name"), ("cases", "test.json:cases[0]"))
in_case(lambda c: c["inputs"].update(q=c["inputs"]["x"]), ("cases", "test.json:cases[0].inputs.q"))
in_case(lambda c: c["outputs"].update(q=c["outputs"]["z"]), ("cases", "test.json:cases[0].outputs.q"))
in_case(lambda c: c["inputs"]["x"].update(dtype="int32"), ("cases", "test.json:cases[0].inputs.x"))
in_case(lambda c: (c["inputs"]["x"].update(dtype="int32"), c.update(error="dtype")))
in_case(lambda c: c["attrs"].update(scala=2), ("cases", "test.json:cases[0].attrs"))
in_case(lambda c: c.update(args={"n": 2}), ("cases", "test.json:cases[0].args"))
in_case(lambda c: c.update(variant="wode"), ("cases", "test.json:cases[0]"))
in_case(lambda c: c.update(variant="wide"))
in_case(lambda c: c["inputs"]["x"]["data"].update(values={"$ref": "#/fixtureArrays/three"}), ("cases", "test.json:cases[0].inputs.x"))


@mistake(("cases", "bench.json:cases[1]"))
def two_cases_of_one_name(p):
    p.bench["cases"].append(copy.deepcopy(p.bench["cases"][0]))


@mistake(("cases", "test.json:cases"))
def no_list_of_cases(p):
    p.tests = {"cases": []}


@mistake(("metadata", "metadata.json"), packed=False)
def never_packed(p):
    pass


@mistake(("contract", "variants[1].passes[0].dispatch.x"), packed=False)
def broken_contract(p):
    first_pass(p, PLAIN)["dispatch"] = {"x": 1, "threads": 2}


@mistake(("template", "missing.wgsl"), packed=False)
def missing_include(p):
    p.write("add.wgsl.jinja", SHADER.replace("index.wgsl", "missing.wgsl"))


@mistake(("template", "add.wgsl.jinja:5:38"), packed=False)
def broken_template(p):
    p.write("index.wgsl", "// one\n// two\n// three\n")
    p.write("add.wgsl.jinja", SHADER.replace("z[id.x]", "{{ z[ }}"))


@mistake(("template", "index.wgsl:2:4"), packed=False)
def broken_include(p):
    p.write("index.wgsl", "// one\n{{ }}\n")


def check_mistake(nibble, make, findings, packed):
    with tempfile.TemporaryDirectory() as folder:
        p = Package(nibble, folder)
        p.save()
        make(p)
        gone = [name for name in ("test.json", "bench.json") if not (p.folder / name).exists()]
        p.save()
        for name in gone:
            (p.folder / name).unlink()
        if packed:
            result = p.pack("--quiet")
            assert result.returncode == 0, result.stderr
        got = p.lint()
        assert sorted(got) == sorted(findings), f"{make.__name__}: {got} instead of {findings}"


# ---- pack ----


def packed(nibble, folder):
    p = Package(nibble, folder)
    p.save()
    return p


def digest(path):
    return base64.b64encode(hashlib.sha256(path.read_bytes()).digest()).decode()


def test_pack(nibble, folder):
    p = packed(nibble, folder)
    result = p.pack()
    assert result.returncode == 0 and "written" in result.stdout, result.stderr
    metadata = p.metadata()
    names = ["manifest.json", "test.json", "bench.json", "add.wgsl.jinja", "index.wgsl"]
    assert metadata["digest"] == {"algorithm": "sha256", "files": {name: digest(p.folder / name) for name in names}}
    assert list(metadata["digest"]["files"]) == names
    # The included template is in the list (format 1.8).
    assert metadata["webgpu"] == {"manifestSpec": "2.1", "variants": {v: ["add.wgsl.jinja", "index.wgsl"] for v in ("wide", "plain")}}
    assert metadata["name"] == "test.Add" and metadata["version"] == 1 and metadata["backend"] == {"type": "webgpu"}
    before = (p.folder / "metadata.json").stat().st_mtime_ns
    assert "up to date" in p.pack().stdout and (p.folder / "metadata.json").stat().st_mtime_ns == before
    assert json.loads(p.run("inspect", str(p.root), "--json").stdout)["verified"]


def test_pack_keeps_what_it_does_not_know(nibble, folder):
    p = packed(nibble, folder)
    mine = {"id": "x1", "license": "MIT", "version": 3, "provenance": {"commit": "abc"}, "webgpu": {"minimum": 7}, "digest": {"files": {"gone": "x"}}}
    p.write("metadata.json", json.dumps(mine))
    assert p.pack("--quiet").returncode == 0
    metadata = p.metadata()
    assert {k: metadata[k] for k in ("id", "license", "version", "provenance")} == {k: mine[k] for k in ("id", "license", "version", "provenance")}
    assert metadata["webgpu"]["minimum"] == 7 and "gone" not in metadata["digest"]["files"]
    assert p.pack("--version", "4").returncode == 0 and p.metadata()["version"] == 4
    assert p.pack("--version", "0").returncode == 2


def test_pack_over_rubbish(nibble, folder):
    p = packed(nibble, folder)
    p.write("metadata.json", "{ broken")
    assert p.pack().returncode == 0 and p.metadata()["name"] == "test.Add"


def test_pack_check(nibble, folder):
    p = packed(nibble, folder)
    assert p.pack("--check").returncode == 1 and not (p.folder / "metadata.json").exists()
    p.pack()
    assert p.pack("--check").returncode == 0
    for name in ("manifest.json", "test.json", "add.wgsl.jinja", "index.wgsl"):
        text = (p.folder / name).read_text()
        p.write(name, text + "\n")
        assert p.pack("--check").returncode == 1, name
        p.write(name, text)
    assert p.pack("--check").returncode == 0


def test_pack_refuses(nibble, folder):
    p = packed(nibble, folder)
    p.pack()
    good = (p.folder / "metadata.json").read_bytes()
    first_pass(p, PLAIN)["shader"] = "add.txt"
    p.write("add.txt", SHADER)
    p.save()
    result = p.pack("--json")
    assert result.returncode == 1 and "add.txt" in json.loads(result.stdout)["error"]["message"]
    first_pass(p, PLAIN)["shader"] = "nowhere.wgsl"
    p.save()
    assert p.pack().returncode == 1
    p.manifest.pop("variants")
    p.save()
    assert p.pack().returncode == 1
    assert (p.folder / "metadata.json").read_bytes() == good


def test_pack_ours(nibble, folder):
    """The packages of this project are packed as they should be, and a fresh packing gives the same bytes."""
    for source in sorted((ROOT / "kernels").glob("com.*")):
        target = pathlib.Path(folder, source.name)
        shutil.copytree(source, target)
        path = target / "build/webgpu/metadata.json"
        before = path.read_bytes()
        metadata = json.loads(before)
        for part in ("digest", "webgpu"):
            metadata[part] = {}
        path.write_text(json.dumps(metadata))
        subprocess.run([nibble, "pack", str(target), "--quiet"], check=True, stdout=subprocess.DEVNULL)
        assert path.read_bytes() == before, source.name


def test_pack_killed(nibble, folder):
    """metadata.json is the old one or the new one at every moment."""
    p = packed(nibble, folder)
    p.pack()
    whole = time.monotonic()
    p.pack("--version", "2")
    whole = time.monotonic() - whole
    for i in range(20):
        version = i % 5 + 1
        process = subprocess.Popen([nibble, "pack", str(p.root), "--version", str(version), "--quiet"], stdout=subprocess.DEVNULL)
        time.sleep(whole * i / 20)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert p.metadata()["digest"]["files"]["index.wgsl"] == digest(p.folder / "index.wgsl")
        assert json.loads(p.run("inspect", str(p.root), "--json").stdout)["verified"]


def test_lint_ours(nibble, folder):
    for source in sorted((ROOT / "kernels").glob("com.*")):
        result = subprocess.run([nibble, "lint", str(source), "--json"], capture_output=True, text=True)
        assert json.loads(result.stdout)["errors"] == 0, result.stdout


def test_lint_where_nothing_is(nibble, folder):
    result = subprocess.run([nibble, "lint", folder], capture_output=True, text=True)
    assert result.returncode == 1 and "manifest.json" in result.stderr
    assert subprocess.run([nibble, "lint"], capture_output=True).returncode == 2


def test_lint_rules(nibble, folder):
    """Every rule is listed, and every rule has a mistake here."""
    listed = json.loads(subprocess.run([nibble, "lint", "--rules", "--json"], check=True, capture_output=True, text=True).stdout)["rules"]
    made = {rule for _, findings, _ in MISTAKES for rule, _ in findings}
    assert {row["rule"] for row in listed} == made


def main():
    nibble = str(pathlib.Path(sys.argv[1]).resolve())
    tests = [(f"lint {make.__name__}", lambda m=make, f=findings, k=packed_: check_mistake(nibble, m, f, k)) for make, findings, packed_ in MISTAKES]
    for name, function in list(globals().items()):
        if name.startswith("test_"):
            def run(f=function):
                with tempfile.TemporaryDirectory() as folder:
                    f(nibble, folder)
            tests.append((name, run))
    failed = 0
    for name, run in tests:
        try:
            run()
        except Exception as error:  # each test stands for itself
            failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(1 if failed or not tests else 0)


if __name__ == "__main__":
    main()
