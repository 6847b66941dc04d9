#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write metadata.json of kernel packages: digests of their files, templates of each variant (format 1.2, 1.6).

  tools/pack-metadata.py [--check] [PACKAGE...]     default: every package in kernels/ and kernels/v2/

--check compares instead of writing and exits 1 when a file is out of date. Manifests must have no variant families.
"""
import base64
import hashlib
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def digest(path):
    return base64.b64encode(hashlib.sha256(path.read_bytes()).digest()).decode()


def shaders(passes):
    """Templates of the passes, those inside repeat groups included."""
    names = []
    for item in passes:
        names += shaders(item["passes"]) if "repeat" in item else [item["shader"]]
    return names


def metadata(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    files = [folder / "manifest.json"]
    files += [folder / name for name in ("test.json", "bench.json") if (folder / name).exists()]
    files += sorted(p for p in folder.glob("*.wgsl*"))
    return {
        "name": f'{manifest["domain"]}.{manifest["name"]}',
        "version": 2 if "v2" in folder.parts else 1,
        "license": "Apache-2.0",
        "backend": {"type": "webgpu"},
        "webgpu": {
            "manifestSpec": "2.1",
            "variants": {v["id"]: sorted(set(shaders(v["passes"]))) for v in manifest["variants"]},
        },
        "digest": {"algorithm": "sha256", "files": {p.name: digest(p) for p in files}},
        "provenance": {"project": "nibble"},
    }


def text(value, indent=0):
    """Two-space JSON, lists on one line."""
    if not isinstance(value, dict):
        return json.dumps(value)
    pad = "  " * (indent + 1)
    members = ",\n".join(f"{pad}{json.dumps(k)}: {text(v, indent + 1)}" for k, v in value.items())
    return "{\n" + members + "\n" + "  " * indent + "}"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    check = "--check" in sys.argv[1:]
    packages = [pathlib.Path(a) for a in arguments] or sorted((ROOT / "kernels").glob("**/com.*"))
    stale = []
    for package in packages:
        path = package / "build/webgpu/metadata.json"
        wanted = text(metadata(path.parent)) + "\n"
        if not check:
            path.write_text(wanted)
        elif not path.exists() or path.read_text() != wanted:
            stale.append(package.name)
    if stale:
        print("metadata.json is out of date, run tools/pack-metadata.py: " + ", ".join(stale), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
