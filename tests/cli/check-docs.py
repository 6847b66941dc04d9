#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hold the documents against the tool.

  check-docs.py NIBBLE            compare
  check-docs.py NIBBLE --write    bring the reference in docs/cli.md up to date

The reference part of docs/cli.md is what `nibble help --markdown` prints, every command has help, the manual page is free of troff
errors (where groff is there to say so), the commands of README.md work, and its map names all folders and documents. Ends with "N passed, N failed".
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOC = ROOT / "docs" / "cli.md"
BEGIN, END = "<!-- reference: begin -->\n", "<!-- reference: end -->\n"


def help_text(nibble, option):
    return subprocess.run([nibble, "help", option], check=True, capture_output=True, text=True).stdout


def check_reference(nibble, write):
    text = DOC.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    wanted = f"{before}{BEGIN}\n{help_text(nibble, '--markdown')}\n{END}{after}"
    if write:
        DOC.write_text(wanted)
    return [] if write or text == wanted else ["docs/cli.md is out of date: run tests/cli/check-docs.py NIBBLE --write"]


def check_manual(nibble):
    page = help_text(nibble, "--man")
    wrong = [] if page.startswith(".TH NIBBLE 1") else ["the manual page has no title"]
    if shutil.which("groff"):
        result = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z"], input=page, capture_output=True, text=True)
        wrong += result.stderr.splitlines()
    return wrong


def check_commands(nibble):
    """Each command of the overview has a section, and --help works for it."""
    reference = help_text(nibble, "--markdown")
    overview = subprocess.run([nibble, "--help"], check=True, capture_output=True, text=True).stdout
    commands = [line.split()[0] for line in overview.split("commands:\n")[1].splitlines() if line.startswith("  ")]
    wrong = [] if len(commands) >= 8 else ["commands are missing in the overview"]
    for command in commands:
        shown = subprocess.run([nibble, command, "--help"], capture_output=True, text=True)
        if f"### `nibble {command}" not in reference or not shown.stdout.startswith(f"usage: nibble {command}"):
            wrong.append(f"{command}: no help")
    return wrong


def check_readme(nibble):
    """Run the indented commands of "Try it", but make's."""
    section = (ROOT / "README.md").read_text().split("## Try it")[1].split("\n## ")[0]
    script = "".join(line[4:] for line in section.splitlines(keepends=True) if line.startswith("    "))
    commands = "".join(line for line in script.splitlines(keepends=True) if not line.startswith("make "))
    if commands.count("build/cli/nibble") < 3:
        return ["README.md shows no commands"]
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "build/cli").mkdir(parents=True)
        pathlib.Path(folder, "build/cli/nibble").symlink_to(pathlib.Path(nibble).resolve())
        pathlib.Path(folder, "kernels").symlink_to(ROOT / "kernels")
        result = subprocess.run(["bash", "-e"], input=commands, cwd=folder, capture_output=True, text=True)
    return [] if result.returncode == 0 else ["a command of README.md failed:", result.stderr]


def check_map():
    """README.md names every folder of the sources and every document."""
    text = (ROOT / "README.md").read_text()
    map_part = text.split("## How it is built")[1].split("\n## ")[0]
    is_build = lambda p: p.name == "build" or (p / "CMakeCache.txt").exists()  # noqa: E731
    folders = {p.name for p in ROOT.iterdir() if p.is_dir() and p.name[0] != "." and p.name != "src" and not is_build(p)}
    folders |= {f"src/{p.name}" for p in (ROOT / "src").iterdir() if p.is_dir() and any(p.iterdir())}
    wrong = [f"README.md's map lacks {f}" for f in sorted(folders) if not re.search(rf"(^|\s){f}(/\S*)?\s", map_part)]
    return wrong + [f"README.md does not list {d.name}" for d in (ROOT / "docs").glob("*.md") if f"](docs/{d.name})" not in text]


def main():
    nibble = sys.argv[1]
    checks = [check_reference(nibble, "--write" in sys.argv), check_manual(nibble), check_commands(nibble), check_readme(nibble), check_map()]
    for wrong in checks:
        for line in wrong:
            print(line)
    failed = sum(bool(wrong) for wrong in checks)
    print(f"{len(checks) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
