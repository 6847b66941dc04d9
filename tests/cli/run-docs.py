#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the commands of a document.

  run-docs.py [--gpu] [--without-curl] NIBBLE DOCUMENT...

The blocks marked "sh" run one after the other in one empty folder per document; those marked "sh gpu" only with --gpu,
those marked "sh hub" not with --without-curl. Every command must
succeed, except that a block marked "sh fails" must not. In the folder lie the kernels of this source tree, "nibble" is on the path, home and
cache are inside, and the Hub is one on the loopback interface that has com.microsoft.MatMulBnb4. Ends with "N passed, N failed", a block
being one test.
"""
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

NAME = "com.microsoft.MatMulBnb4"


def blocks(text):
    """(line number, mark, commands) of the shell blocks."""
    found, mark, lines, start = [], None, [], 0
    for number, line in enumerate(text.splitlines(), 1):
        opening = re.fullmatch(r"```(\w.*)?", line)
        if opening and mark is None:
            mark, lines, start = opening[1] or "", [], number
        elif line == "```" and mark is not None:
            if mark.split()[:1] == ["sh"]:
                found.append((start, mark, "\n".join(lines) + "\n"))
            mark = None
        elif mark is not None:
            lines.append(line)
    return found


def start_hub():
    package = ROOT / "kernels" / NAME
    hub = Server([f"webgpu-kernels/{NAME}"])
    commit = "1" * 40
    hub.commits = {commit: {str(p.relative_to(package)): p.read_bytes() for p in package.rglob("*") if p.is_file()}}
    hub.branches = {"v1": commit}
    return hub


def run_document(nibble, document, gpu, curl):
    """(passed, failed, left out)"""
    counts = [0, 0, 0]
    hub = start_hub()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in ("bin", "home", "work"):
            (folder / name).mkdir()
        (folder / "bin/nibble").symlink_to(nibble)
        (folder / "work/kernels").symlink_to(ROOT / "kernels")
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "XDG_"))}
        env = {**keep, "HOME": str(folder / "home"), "PATH": f"{folder}/bin:{os.environ['PATH']}", "HF_ENDPOINT": hub.url,
               "NO_PROXY": "127.0.0.1", "LC_ALL": "C.UTF-8"}
        for line, mark, commands in blocks(document.read_text()):
            words = mark.split()[1:]
            if "gpu" in words and not gpu:
                counts[2] += 1
            if ("gpu" in words and not gpu) or ("hub" in words and not curl):
                continue
            result = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=folder / "work", env=env, capture_output=True,
                                    text=True, timeout=900, stdin=subprocess.DEVNULL)
            good = (result.returncode != 0) == ("fails" in words)
            counts[0 if good else 1] += 1
            if not good:
                print(f"{document.name}, line {line}: exit code {result.returncode}", commands, result.stdout[-2000:], result.stderr[-2000:],
                      sep="\n")
    hub.close()
    return counts


def main():
    gpu = "--gpu" in sys.argv
    curl = "--without-curl" not in sys.argv
    nibble, *documents = [word for word in sys.argv[1:] if not word.startswith("--")]
    total = [0, 0, 0]
    for document in documents:
        counts = run_document(pathlib.Path(nibble).resolve(), pathlib.Path(document), gpu, curl)
        total = [a + b for a, b in zip(total, counts)]
    if total[2]:
        print(f"{total[2]} blocks need a GPU; tools/gpu-check.sh runs them")
    print(f"{total[0]} passed, {total[1]} failed")
    sys.exit(1 if total[1] or not total[0] else 0)


if __name__ == "__main__":
    main()
