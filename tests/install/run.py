#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Install a build into a folder, move the folder, and use what is in it.

  run.py BUILD COMPILER [SANITIZERS]

An outside program is built with pkg-config and with find_package, against the shared and the static library; the tool finds its library
and the kernels; completion works in the shells there are; the Debian package unpacks and runs. Ends with "N passed, N failed".
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD, COMPILER = sys.argv[1], sys.argv[2]
SANITIZE = [f"-fsanitize={sys.argv[3]}", "-fno-sanitize-recover=all"] if len(sys.argv) > 3 and sys.argv[3] else []
OP = "com.microsoft.MatMulBnb4"
CMAKE_LISTS = """cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES C)
find_package(nibble 0.1 REQUIRED)
foreach(library nibble nibble_static)
  add_executable(with_${library} outside.c)
  target_link_libraries(with_${library} PRIVATE nibble::${library})
endforeach()
"""


def run(*command, **options):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{' '.join(map(str, command))}: {result.stdout}{result.stderr}"
    return result.stdout


def plain_env():
    return {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "NIBBLE_KERNELS", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH")}


class Copy:
    """An installed copy at `prefix`; `libraries` is where its shared library lies."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.libraries = next(prefix.rglob("libnibble.so")).parent
        self.kernels = prefix / "share/nibble/kernels"

    def check_program(self, program):
        out = run(program, self.kernels / OP, env=plain_env() | {"LD_LIBRARY_PATH": str(self.libraries)})
        assert out.split()[1:] == [OP, "4", "4"], out


def with_pkg_config(copy, work):
    env = plain_env() | {"PKG_CONFIG_PATH": str(copy.libraries / "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "nibble", env=env).split()
    assert any(str(copy.prefix) in os.path.normpath(f[2:]) for f in flags if f.startswith("-L")), flags
    run(COMPILER, "-Wall", "-Werror", *SANITIZE, HERE / "outside.c", *flags, "-o", work / "shared")
    copy.check_program(work / "shared")
    assert "libnibble.so" in run("ldd", work / "shared")


def with_cmake(copy, work):
    (work / "CMakeLists.txt").write_text(CMAKE_LISTS)
    shutil.copy(HERE / "outside.c", work)
    flags = " ".join(["-Wall", "-Werror", *SANITIZE])
    run("cmake", "-S", work, "-B", work / "build", f"-DCMAKE_PREFIX_PATH={copy.prefix}", f"-DCMAKE_C_COMPILER={COMPILER}",
        f"-DCMAKE_C_FLAGS={flags}", env=plain_env())
    run("cmake", "--build", work / "build")
    for library in ("nibble", "nibble_static"):
        copy.check_program(work / "build" / f"with_{library}")
    assert "libnibble.so" not in run("ldd", work / "build/with_nibble_static")


def as_cxx(copy, work):
    """The headers are C++ headers too."""
    if not shutil.which("g++"):
        return print("NOT RUN: no C++ compiler")
    (work / "a.cc").write_text("#include <nibble/nibble.h>\nint main() { nib_error error = {}; return nib_version()[0] != '0' || error.line; }\n")
    run("g++", "-Wall", "-Werror", *SANITIZE, f"-I{copy.prefix}/include", work / "a.cc", f"-L{copy.libraries}", "-lnibble", "-o", work / "a")
    run(work / "a", env=plain_env() | {"LD_LIBRARY_PATH": str(copy.libraries)})


def tool(copy, work):
    nibble = copy.prefix / "bin/nibble"
    assert str(copy.libraries) in os.path.normpath(run("ldd", nibble, env=plain_env()).split("libnibble.so")[1].split("=> ")[1].split(" ")[0])
    first, second = copy.kernels / OP, copy.kernels / "v2" / OP
    for choice, folder in (([], second), (["--contract-version", "1"], first), (["--contract-version=2"], second)):
        out = run(nibble, "inspect", OP, *choice, env=plain_env(), cwd=work)
        assert str(folder) in os.path.normpath(out.split("folder ")[1].split("\n")[0]), out
    out = run(nibble, "test", OP, "--contract-version", "1", "--filter", "one_row", env=plain_env(), cwd=work)
    assert " 0 failed" in out and not out.startswith("0 passed"), out
    assert (copy.prefix / "share/man/man1/nibble.1").read_text().startswith(".TH NIBBLE 1")
    assert "0.1.0" in run(nibble, "--version")
    names = {p.name for p in copy.kernels.iterdir()} | {p.name for p in (copy.kernels / "v2").iterdir()}
    assert OP in names and not {"author.py", "shared"} & names, names


def bash_words(script, line):
    """What bash would offer at the end of the line."""
    words = line.split(" ")
    quoted = " ".join(f"'{w}'" for w in words)
    text = f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _nibble; echo \"${{COMPREPLY[*]}}\""
    return run("bash", "-c", text).split()


def completion(copy, work):
    share = copy.prefix / "share"
    bash = share / "bash-completion/completions/nibble"
    for line, words in (("nibble pu", ["pull"]), ("nibble run --ba", ["--backend"]), ("nibble run --backend ", ["auto", "cpu", "webgpu"]),
                        ("nibble run --backend = w", ["webgpu"]), ("nibble run --in ", []), ("nibble completion z", ["zsh"]),
                        ("nibble help ren", ["render"]), ("nibble plan --hel", ["--help"]), ("nibble test --ba", ["--backend"]),
                        ("nibble --v", ["--version"])):
        assert bash_words(bash, line) == words, (line, bash_words(bash, line))
    if shutil.which("fish"):
        script = share / "fish/vendor_completions.d/nibble.fish"
        for line, words in (("nibble pu", ["pull"]), ("nibble run --ba", ["--backend"]), ("nibble run --backend ", ["auto", "cpu", "webgpu"])):
            out = run("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'")
            assert [l.split("\t")[0] for l in out.splitlines()] == words, (line, out)
    else:
        print("NOT RUN: no fish to complete in")
    if shutil.which("zsh"):
        script = share / "zsh/site-functions/_nibble"
        run("zsh", "-n", script)
        # compinit finds the file by its first line.
        text = f"fpath=({script.parent} $fpath); autoload -Uz compinit; compinit -u -d {work}/dump; echo $_comps[nibble]; autoload +X _nibble"
        assert run("zsh", "-f", "-c", text).strip() == "_nibble"
    else:
        print("NOT RUN: no zsh to complete in")


def debian_package(copy, work):
    if not shutil.which("dpkg-shlibdeps"):
        return print("NOT RUN: no dpkg-shlibdeps to make a Debian package with")
    run("cpack", "-G", "DEB", "--config", f"{BUILD}/CPackConfig.cmake", "-B", work / "packages")
    package = next((work / "packages").glob("nibble_0.1.0*.deb"))
    fields = run("dpkg-deb", "--field", package)
    assert "Package: nibble\n" in fields and "libc6" in fields and "libjansson4" in fields, fields
    run("dpkg", "-x", package, work / "root")
    assert [p.name for p in (work / "root").iterdir()] == ["usr"]
    unpacked = Copy(work / "root/usr")
    for check in (tool, with_cmake):
        (work / check.__name__).mkdir()
        check(unpacked, work / check.__name__)


def make_alone(_copy, work):
    """The default target of the Makefile builds the library and the tool, and needs nothing that only tests need."""
    if not shutil.which("ninja"):
        return print("NOT RUN: no ninja to build with")
    commands = run("make", "-n", f"BUILD={work}/build", "all", cwd=ROOT).splitlines()
    configure = [c for c in commands if c.startswith("cmake -S")]
    assert len(configure) == 1 and any(c.startswith("cmake --build") and "--target" not in c for c in commands), commands
    run("bash", "-c", configure[0], cwd=ROOT)
    steps = run("ninja", "-n", "-v", "-C", work / "build")
    built = {pathlib.Path(w).name for w in steps.split() if w.endswith(".c")}
    assert {"call.c", "main.c", "cmd_run.c"} <= built, built
    for folder in ("tests", "bench", "examples"):
        assert f"{ROOT}/{folder}/" not in steps, f"make compiles {folder}/"


def make_install(_copy, work):
    """PREFIX is where it is used, DESTDIR what stands for / until then; nothing is built again."""
    names = [f"BUILD={BUILD}", "PREFIX=/opt/nibble", f"DESTDIR={work}/staged"]
    assert "cmake --build" not in run("make", "-n", *names, "install", cwd=ROOT)
    run("make", *names, "install", cwd=ROOT)
    root = work / "staged"
    assert [str(p.relative_to(root)) for p in root.glob("*/*")] == ["opt/nibble"]
    tool(Copy(root / "opt/nibble"), work)


def main():
    failed = 0
    checks = [with_pkg_config, with_cmake, as_cxx, tool, completion, debian_package, make_alone, make_install]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run("cmake", "--install", BUILD, "--prefix", folder / "first")
        (folder / "first").rename(folder / "moved")
        copy = Copy(folder / "moved")
        for check in checks:
            work = folder / check.__name__
            work.mkdir()
            try:
                check(copy, work)
            except Exception as error:  # each check stands for itself
                failed += 1
                print(f"FAILED {check.__name__}: {type(error).__name__}: {error}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
