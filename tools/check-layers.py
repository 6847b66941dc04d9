#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold every #include between the project's folders against the allowed directions.

Usage: check-layers.py [SOURCE_ROOT]

The table is the architecture: package -> expression and template -> plan -> backend, each stage seeing only what
stands before it. Prints one line per forbidden include, then "N passed, N failed" over the files read.
"""
import pathlib
import re
import sys

# folder: folders whose headers it may include ("include" is include/nibble)
ALLOWED = {
    "include": {"include"},
    "src/base": {"include"},
    "src/value": {"src/base"},
    "src/tensor": {"src/base"},
    "src/io": {"src/value", "src/tensor"},
    "src/jinja": {"src/value"},
    "src/expr": {"src/jinja", "src/tensor"},
    "src/template": {"src/expr"},
    "src/package": {"src/template"},
    "src/plan": {"src/package"},
    "src/backend": {"src/plan"},
    "src/backend/cpu": {"src/backend", "src/backend/cpu/kernels"},
    "src/backend/cpu/kernels": {"src/tensor"},  # leaves: raw pointers, own headers, the block formats
    "src/backend/webgpu": {"src/backend"},
    "src/windows": set(),  # what Windows lacks of POSIX, included by the build
    "cli": {"include"},  # the command line uses the public interface only
    "examples": {"include"},
    "bench": {"include", "src/backend/cpu", "src/backend/cpu/kernels", "src/tensor"},
}


def reach(folder):
    """The transitive closure of ALLOWED, so that a row lists only its nearest stages."""
    seen, todo = {folder}, [folder]
    while todo:
        for other in ALLOWED[todo.pop()]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen


def folder_of(path):
    """The deepest row of the table that holds a path, or None."""
    parts = path.split("/")
    for n in range(len(parts) - 1, 0, -1):
        name = "/".join(parts[:n])
        if name in ALLOWED:
            return name
    return None


def target_of(root, source, include):
    if include.startswith("nibble/"):
        return "include"
    for base in (source.parent.relative_to(root).as_posix(), "src"):
        candidate = pathlib.PurePosixPath(base) / include
        if (root / candidate).exists():
            return folder_of(candidate.as_posix())
    return None  # a system or library header


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    bad_files, files = set(), 0
    for top in ("include", "src", "cli", "examples", "bench"):
        for path in sorted((root / top).rglob("*.[ch]")):
            name = path.relative_to(root).as_posix()
            folder = folder_of(name)
            if folder is None:
                print(f"{name}: its folder is not in the table")
                bad_files.add(name)
                continue
            files += 1
            allowed = reach(folder)
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
                target = found and target_of(root, path, found.group(1))
                if target and target not in allowed:
                    print(f"{name}:{number}: {folder} must not include {target} ({found.group(1)})")
                    bad_files.add(name)
    print(f"{files - len(bad_files)} passed, {len(bad_files)} failed")
    return 1 if bad_files or files == 0 else 0


sys.exit(main())
