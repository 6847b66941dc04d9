#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the command-line cases.

  run-cases.py NIBBLE [NAME...]

A case is a folder under cases/ with the files

  cmd    bash, run in a fresh empty folder; nibble is the tool, $CASE the case's folder, $ROOT the source tree
  out    what standard output must be, to the last line end   (no file: nothing)
  err    what standard error must be                          (no file: nothing)
  code   the exit code                                        (no file: 0)

What is wrong with a request is said in one line: cases named wrong-* have one line in err.

In out and err a "*" stands for any text within a line, and a line "..." for any number of lines. Ends with "N passed, N failed".
"""
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def pattern_of(expected):
    """A regular expression for the whole text, line ends included."""
    parts = []
    for line in expected.splitlines(keepends=True):
        if line == "...\n":
            parts.append(r"(?:[^\n]*\n)*")
        else:
            parts.append("[^\n]*".join(re.escape(piece) for piece in line.split("*")))
    return re.compile("".join(parts))


def expected_text(case, name):
    path = case / name
    return path.read_text() if path.exists() else ""


def difference(name, expected, got):
    if pattern_of(expected).fullmatch(got):
        return []
    lines = difflib.unified_diff(expected.splitlines(), got.splitlines(), f"expected {name}", f"got {name}", lineterm="")
    return list(lines) or [f"{name}: the line end differs"]


def run_case(nibble, case):
    """The differences, empty when the case passes."""
    with tempfile.TemporaryDirectory() as folder:
        bin_folder = pathlib.Path(folder, "bin")
        bin_folder.mkdir()
        (bin_folder / "nibble").symlink_to(nibble)
        work = pathlib.Path(folder, "work")
        work.mkdir()
        env = {**os.environ, "CASE": str(case), "ROOT": str(ROOT), "PATH": f"{bin_folder}:{os.environ['PATH']}",
               "XDG_CACHE_HOME": f"{folder}/cache"}
        result = subprocess.run(["bash", "-o", "pipefail", str(case / "cmd")], cwd=work, env=env, capture_output=True,
                                timeout=120, stdin=subprocess.DEVNULL)
    wrong = difference("out", expected_text(case, "out"), result.stdout.decode(errors="replace"))
    wrong += difference("err", expected_text(case, "err"), result.stderr.decode(errors="replace"))
    code = int(expected_text(case, "code") or 0)
    if result.returncode != code:
        wrong.append(f"exit code {result.returncode}, expected {code}")
    if case.name.startswith("wrong-") and result.stderr.count(b"\n") != 1:
        wrong.append("standard error is not one line")
    return wrong


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    nibble = pathlib.Path(sys.argv[1]).resolve()
    names = sys.argv[2:] or sorted(path.parent.name for path in HERE.glob("cases/*/cmd"))
    failed = 0
    for name in names:
        wrong = run_case(nibble, HERE / "cases" / name)
        failed += bool(wrong)
        if wrong:
            print(f"FAILED {name}", *wrong, sep="\n    ")
    print(f"{len(names) - failed} passed, {failed} failed")
    sys.exit(1 if failed or not names else 0)


if __name__ == "__main__":
    main()
