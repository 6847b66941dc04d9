#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nibble pull against a Hub on the loopback interface that also lies.

  run.py NIBBLE [NAME...]
  run.py --without-curl NIBBLE     a build that cannot fetch says so, and finds what is in the cache

Each test function gets a Hub with the package webgpu-kernels/com.microsoft.MatMulBnb4 at branch v1 and a cache of its own. Ends with
"N passed, N failed".
"""
import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from server import Server  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
NAME = "com.microsoft.MatMulBnb4"
REPO = f"webgpu-kernels/{NAME}"
PACKAGE = ROOT / "kernels" / NAME
ONE, TWO = "1" * 40, "2" * 40
SHADER = "matmul-bnb4-gemv.wgsl.jinja"


def package_files():
    files = {str(p.relative_to(PACKAGE)): p.read_bytes() for p in PACKAGE.rglob("*") if p.is_file()}
    assert SHADER in {path.rsplit("/", 1)[-1] for path in files}
    return files


def second_version(files):
    """The same package with another shader text, its digest put right."""
    path = f"build/webgpu/{SHADER}"
    files = dict(files)
    files[path] = files[path] + b"// fixed\n"
    metadata = json.loads(files["build/webgpu/metadata.json"])
    metadata["digest"]["files"][SHADER] = base64.b64encode(hashlib.sha256(files[path]).digest()).decode()
    files["build/webgpu/metadata.json"] = json.dumps(metadata).encode()
    return files


class Bench:
    """A Hub, a cache, and the tool."""

    def __init__(self, nibble, certificate=None):
        self.nibble = nibble
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="nibble-hub-"))
        self.files = package_files()
        self.hub = Server([REPO, f"someone/{NAME}"], certificate)
        self.hub.elsewhere = Server()
        self.hub.elsewhere.is_store = True
        self.hub.commits = {ONE: self.files, TWO: second_version(self.files)}
        self.hub.branches = {"v1": ONE, "refs/pr/7": TWO}
        self.repo_folder = self.home / "hub" / f"kernels--webgpu-kernels--{NAME}"

    def env(self, extra=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGINGFACE_", "CURL_CA", "SSL_CERT", "NIBBLE_"))}
        env |= {"HF_ENDPOINT": self.hub.url, "HF_HOME": str(self.home), "HF_HUB_DOWNLOAD_TIMEOUT": "2", "NO_PROXY": "127.0.0.1"}
        return env | (extra or {})

    def run(self, *arguments, env=None):
        return subprocess.run([self.nibble, *arguments], env=self.env(env), capture_output=True, text=True, timeout=100, cwd=self.home)

    def pull(self, *arguments, repo=REPO, env=None):
        if not any(a.startswith(("--version", "--revision")) for a in arguments):
            arguments += ("--version", "1")
        return self.run("pull", repo, *arguments, env=env)

    def snapshot(self, commit=ONE):
        return self.repo_folder / "snapshots" / commit

    def check_whole(self, commit=ONE):
        """The snapshot is there, byte by byte, and loads by its name."""
        for path, data in self.hub.commits[commit].items():
            assert (self.snapshot(commit) / path).read_bytes() == data, path
        result = self.run("inspect", f"{REPO}@{commit}", "--json")
        assert result.returncode == 0 and json.loads(result.stdout)["verified"], result.stderr

    def check_nothing(self):
        """No snapshot and no ref, and the name is not found."""
        assert not (self.repo_folder / "refs").exists() or not list((self.repo_folder / "refs").iterdir())
        snapshots = self.repo_folder / "snapshots"
        assert not snapshots.exists() or not list(snapshots.iterdir())
        assert self.run("inspect", REPO).returncode == 1

    def requests(self, name):
        return [entry for entry in self.hub.log if entry[0].split("?")[0].endswith("/" + name)]

    def close(self):
        self.hub.elsewhere.close()
        self.hub.close()
        shutil.rmtree(self.home)


def ok(result):
    assert result.returncode == 0, result.stderr
    return result


def refused(result, *texts, code=1):
    assert result.returncode == code, (result.returncode, result.stdout, result.stderr)
    for text in texts:
        assert text in result.stderr, (text, result.stderr)
    return result


# ---- what should work ----


def test_pull_and_use(b):
    result = ok(b.pull())
    assert result.stdout.strip() == str(b.snapshot())
    b.check_whole()
    assert (b.repo_folder / "refs" / "v1").read_text() == ONE
    # metadata.json by branch, everything else by the commit it named.
    assert "/resolve/v1/" in b.hub.log[0][0] and b.hub.log[0][0].endswith("metadata.json")
    assert all(f"/resolve/{ONE}/" in path for path, _ in b.hub.log[1:])
    listed = json.loads(b.files["build/webgpu/metadata.json"])["digest"]["files"]
    assert len(b.hub.log) == 2 + len(listed)
    for command in (["inspect", REPO], ["inspect", f"{REPO}@v1"], ["test", REPO, "--filter", "one_row", "--quiet"]):
        ok(b.run(*command, env={"HF_ENDPOINT": "http://127.0.0.1:1"}))
    call = "--tensor aT=float32[1,64] --tensor bT=uint8[2048] --tensor absmaxT=float32[64] --attr K=64 --attr N=64"
    ok(b.run("plan", REPO, *call.split(), *"--attr block_size=64 --attr quant_type=1".split()))


def test_second_pull_fetches_nothing(b):
    ok(b.pull())
    b.hub.reset()
    result = json.loads(ok(b.pull("--json")).stdout)
    assert result["cached"] and result["fetched"] == 0 and result["commit"] == ONE
    assert len(b.hub.log) == 1


def test_force(b):
    ok(b.pull())
    result = json.loads(ok(b.pull("--json", "--force")).stdout)
    assert not result["cached"] and result["fetched"] == len(result["files"])
    b.check_whole()


def test_damaged_cache_is_repaired(b):
    ok(b.pull())
    path = b.snapshot() / "build/webgpu" / SHADER
    path.chmod(0o644)
    path.write_bytes(b"damaged")  # the blob too: it is the same file
    ok(b.pull())
    b.check_whole()


def test_links_of_other_tools_are_replaced(b):
    """The Python tools make symbolic links into blobs/."""
    ok(b.pull())
    for path in b.snapshot().rglob("*"):
        if path.is_file():
            target = b.repo_folder / "blobs" / hashlib.sha1(path.read_bytes()).hexdigest()
            path.rename(target)
            path.symlink_to(os.path.relpath(target, path.parent))
    refused(b.run("inspect", REPO), "symbolic links", "nibble pull")
    ok(b.pull())
    b.check_whole()


def test_revisions(b):
    ok(b.pull("--revision", TWO))
    b.check_whole(TWO)
    assert not (b.repo_folder / "refs").exists()
    ok(b.run("inspect", REPO))  # the only commit
    ok(b.pull("--revision", "refs/pr/7"))
    assert "/resolve/refs%2Fpr%2F7/" in b.hub.log[-1][0]
    assert (b.repo_folder / "refs/refs/pr/7").read_text() == TWO
    ok(b.pull("--version", "1", "--revision", TWO))  # the revision wins
    assert f"/resolve/{TWO}/" in b.hub.log[-1][0]


def test_newest_version_is_the_default(b):
    b.hub.branches["v10"] = TWO
    ok(b.pull("--version", "1"))
    ok(b.pull("--version", "10"))
    for arguments, commit in ((["--contract-version", "1"], ONE), ([], TWO), (["--contract-version", "10"], TWO)):
        assert commit in json.loads(ok(b.run("inspect", REPO, "--json", *arguments)).stdout)["directory"]
    refused(b.run("inspect", REPO, "--contract-version", "2"), "not in the cache")


def test_moved_branch(b):
    """The branch moves after metadata.json was read: the files are those of the first commit."""
    b.hub.after["metadata.json"] = lambda: b.hub.branches.update(v1=TWO)
    ok(b.pull())
    b.check_whole(ONE)
    ok(b.pull())
    b.check_whole(TWO)
    assert (b.repo_folder / "refs/v1").read_text() == TWO


def test_no_card(b):
    del b.files["README.md"]
    assert "README" not in ok(b.pull()).stderr
    assert not (b.snapshot() / "README.md").exists()


def test_renamed_repository(b):
    b.hub.plan["metadata.json"] = ["moved", "ok"]
    ok(b.pull())
    b.check_whole()


# ---- trust, names, tokens ----


def test_trust(b):
    other = f"someone/{NAME}"
    refused(b.pull(repo=other), "--trust-remote-code")
    assert not b.hub.log, "refused after a fetch"
    ok(b.pull("--trust-remote-code", repo=other))
    refused(b.run("inspect", other), "--trust-remote-code")
    ok(b.run("inspect", other, "--trust-remote-code"))


def test_usage(b):
    for arguments in (["x"], ["a/b/c"], ["./x"], ["../x"], ["a/.."], ["a/b--c"], ["a/b c"], ["https://h/x"]):
        refused(b.run("pull", *arguments, "--version", "1"), "owner/name", code=2)
    refused(b.run("pull", REPO), "--version", code=2)
    for version in ("-1", "1.5", "9007199254740992", "v1", ""):
        refused(b.run("pull", REPO, f"--version={version}", "--revision", ONE), "whole number", code=2)
    for revision in ("../x", "a//b", "", "a b", "/x"):
        refused(b.run("pull", REPO, f"--revision={revision}"), "--revision", code=2)
    assert not b.hub.log


def test_wrong_name(b):
    b.hub.repos.add("webgpu-kernels/com.microsoft.Other")
    refused(b.pull(repo="webgpu-kernels/com.microsoft.Other"), NAME)
    other = b.home / "hub/kernels--webgpu-kernels--com.microsoft.Other"
    assert not (other / "snapshots").exists() or not list((other / "snapshots").iterdir())


def test_token(b):
    b.hub.plan[SHADER] = ["redirect"]
    result = ok(b.pull("--verbose", "--json", env={"HF_TOKEN": " hf_Secret \n"}))
    assert "hf_Secret" not in result.stdout + result.stderr
    assert all(headers.get("Authorization") == "Bearer hf_Secret" for _, headers in b.hub.log)
    assert len(b.hub.elsewhere.log) == 1
    assert all("Authorization" not in headers for _, headers in b.hub.elsewhere.log)
    b.check_whole()


def test_no_token(b):
    ok(b.pull(env={"HF_TOKEN": ""}))
    assert all("Authorization" not in headers for _, headers in b.hub.log)


def test_forged_token(b):
    refused(b.pull(env={"HF_TOKEN": "a\r\nX-Evil: 1"}), "HF_TOKEN")
    assert not b.hub.log


def test_signed_address_is_not_shown(b):
    b.hub.elsewhere.stored = b""
    b.hub.plan[SHADER] = ["redirect"]
    b.hub.elsewhere.is_store = False  # answers 404
    result = refused(b.pull("--verbose"), "404")
    assert "hush" not in result.stderr


# ---- lies and failures ----


def lie(name, behaviour, *texts):
    def test(b):
        b.hub.plan[name] = [behaviour]
        refused(b.pull(), *texts)
        b.check_nothing()
        b.hub.reset()
        ok(b.pull())
        b.check_whole()

    return test


test_wrong_digest = lie(SHADER, "wrong", SHADER, "SHA-256")
test_wrong_manifest = lie("manifest.json", "wrong", "manifest.json", "SHA-256")
test_short = lie(SHADER, "short", SHADER, "SHA-256")
test_cut = lie(SHADER, "cut", SHADER)
test_endless = lie(SHADER, "huge", "larger than")
test_endless_metadata = lie("metadata.json", "huge", "larger than")
test_broken_metadata = lie("metadata.json", "short", "metadata.json")
test_not_found = lie(SHADER, 404, SHADER, "404")
test_forbidden = lie("metadata.json", 403, "403", "HF_TOKEN")
test_always_500 = lie(SHADER, 500, SHADER, "500")
test_drip = lie(SHADER, "drip", SHADER)
test_loop = lie(SHADER, "loop", "redirects more than")
test_no_commit = lie("metadata.json", "nocommit", "x-repo-commit")


def test_no_such_version(b):
    refused(b.pull("--version", "2"), "404")
    b.check_nothing()


def test_no_commit_by_commit(b):
    b.hub.plan["metadata.json"] = ["nocommit"]
    ok(b.pull("--revision", ONE))
    b.check_whole()


def test_commit_that_is_another(b):
    b.hub.branches[TWO] = ONE
    refused(b.pull("--revision", TWO), "commit")
    b.check_nothing()


def test_path_out_of_the_package(b):
    for path in ("../../evil", "/etc/evil", "a//b", "a/../b", ""):
        metadata = json.loads(package_files()["build/webgpu/metadata.json"])
        metadata["digest"]["files"][path] = metadata["digest"]["files"]["manifest.json"]
        b.files["build/webgpu/metadata.json"] = json.dumps(metadata).encode()
        refused(b.pull(), "digest.files")
    b.check_nothing()


def test_digest_that_is_none(b):
    metadata = json.loads(package_files()["build/webgpu/metadata.json"])
    for digest in ("", "AAAA", "A" * 43 + "B", "_" * 43 + "=", 7):
        metadata["digest"]["files"][SHADER] = digest
        b.files["build/webgpu/metadata.json"] = json.dumps(metadata).encode()
        refused(b.pull(), "SHA-256")
    b.check_nothing()


def test_metadata_that_breaks_a_rule(b):
    """All files are right and fetched, yet it is no package: a variant is missing in the list (format 1.7)."""
    metadata = json.loads(b.files["build/webgpu/metadata.json"])
    metadata["webgpu"]["variants"].popitem()
    b.files["build/webgpu/metadata.json"] = json.dumps(metadata).encode()
    refused(b.pull(), "variant")
    b.check_nothing()


def test_trouble_then_success(b):
    for name, behaviours in ((SHADER, [503, 500, "ok"]), ("metadata.json", [502, 429, "ok"]), ("manifest.json", ["cut", "ok"])):
        b.hub.plan[name] = behaviours
    ok(b.pull())
    b.check_whole()
    assert len(b.requests(SHADER)) == 3
    # The cut file was continued, not begun anew.
    assert b.requests("manifest.json")[1][1]["Range"] == f"bytes={len(b.files['build/webgpu/manifest.json']) // 2}-"


def test_hang_then_success(b):
    b.hub.plan["metadata.json"] = ["hang", "ok"]
    ok(b.pull())
    b.check_whole()


def test_out_of_time(b):
    b.hub.plan["metadata.json"] = ["hang"]
    start = time.monotonic()
    refused(b.pull("--timeout", "1"), "metadata.json")
    assert time.monotonic() - start < 10
    b.check_nothing()


def partial(b, data):
    digest = hashlib.sha256(b.files[f"build/webgpu/{SHADER}"]).hexdigest()
    path = b.repo_folder / "blobs" / f"{digest}.incomplete"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)


def test_partial_blobs(b):
    """Whatever a partial blob holds, and whatever the server makes of ranges, the file comes out right."""
    whole = b.files[f"build/webgpu/{SHADER}"]
    parts = {"start": whole[:100], "all": whole, "other": b"x" * 100, "longer": whole + b"x", "as long": b"x" * len(whole)}
    for what, data in parts.items():
        for behaviour in ("ok", "norange", "badrange"):
            shutil.rmtree(b.repo_folder, ignore_errors=True)
            b.hub.reset()
            b.hub.plan[SHADER] = [behaviour]
            partial(b, data)
            ok(b.pull())
            b.check_whole()
            if what == "all":
                assert not b.requests(SHADER)
            if what == "start":
                assert b.requests(SHADER)[0][1]["Range"] == "bytes=100-"


def test_card_trouble(b):
    b.hub.plan["README.md"] = [403]
    assert "README.md is left out" in ok(b.pull()).stderr
    assert not (b.snapshot() / "README.md").exists()


def test_offline(b):
    off = {"HF_HUB_OFFLINE": "1"}
    refused(b.pull(env=off), "HF_HUB_OFFLINE")
    ok(b.pull())
    b.hub.reset()
    for revision in (["--version", "1"], ["--revision", ONE]):
        assert json.loads(ok(b.pull("--json", *revision, env=off)).stdout)["cached"]
    refused(b.pull("--version", "2", env=off), "HF_HUB_OFFLINE")
    ok(b.run("inspect", REPO, env=off))
    assert not b.hub.log


def test_cache_folders(b):
    ok(b.pull(env={"HF_HUB_CACHE": str(b.home / "elsewhere")}))
    assert (b.home / "elsewhere" / b.repo_folder.name / "snapshots" / ONE).is_dir()
    home = b.home / "user"
    ok(b.pull(env={"HF_HOME": "", "HOME": str(home), "XDG_CACHE_HOME": ""}))
    assert (home / ".cache/huggingface/hub" / b.repo_folder.name / "snapshots" / ONE).is_dir()
    for name, inside in (("HF_HOME", "~/own"), ("HF_HUB_CACHE", "~/own/hub2")):
        ok(b.pull(env={name: inside, "HOME": str(home)}))
    for hub in ("hub", "hub2"):
        assert (home / "own" / hub / b.repo_folder.name / "snapshots" / ONE).is_dir()


def test_unwritable_cache(b):
    (b.home / "file").write_text("in the way")
    refused(b.pull(env={"HF_HUB_CACHE": str(b.home / "file")}), "cannot create the folder")


def test_error_is_json(b):
    b.hub.plan[SHADER] = ["wrong"]
    result = b.pull("--json")
    assert result.returncode == 1 and json.loads(result.stdout)["error"]["status"] == "NIB_INTEGRITY"


def test_two_at_once(b):
    for name in ("manifest.json", SHADER):
        b.hub.plan[name] = ["slow"]
    command = [b.nibble, "pull", REPO, "--version", "1", "--quiet"]
    both = [subprocess.Popen(command, env=b.env(), stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [p.wait(60) for p in both] == [0, 0, 0]
    b.check_whole()
    assert len(b.requests(SHADER)) == 1


def test_kill(b):
    """Killed at a random moment, again and again: the name is never a broken package, and the last pull succeeds."""
    generator = random.Random(7)
    names = [path.rsplit("/", 1)[-1] for path in b.files]
    b.hub.plan = {name: ["slow"] for name in names}
    start = time.monotonic()
    ok(b.pull())
    whole = time.monotonic() - start
    shutil.rmtree(b.home / "hub")
    finished = 0
    for _ in range(25):
        b.hub.branches["v1"] = generator.choice((ONE, TWO))
        options = generator.choice(([], ["--force"]))
        process = subprocess.Popen([b.nibble, "pull", REPO, "--version", "1", "--quiet", *options], env=b.env(), stdout=subprocess.DEVNULL)
        time.sleep(generator.uniform(0, whole * 1.1))
        process.send_signal(signal.SIGKILL)
        finished += process.wait() == 0
        for snapshot in b.repo_folder.glob("snapshots/*"):
            b.check_whole(snapshot.name)
        ref = b.repo_folder / "refs/v1"
        assert not ref.exists() or b.snapshot(ref.read_text()).is_dir()
    assert finished < 25, "nothing was killed"
    ok(b.pull())
    b.check_whole(b.hub.branches["v1"])
    left = [p.name for p in b.repo_folder.iterdir() if "incomplete" in p.name or p.name.endswith(".tmp")]
    assert not left, left


# ---- TLS ----


def make_certificate(folder):
    paths = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
    return paths


def tls_test(nibble):
    with tempfile.TemporaryDirectory() as folder:
        certificate = make_certificate(pathlib.Path(folder))
        b = Bench(nibble, certificate)
        try:
            refused(b.pull(), "certificate")  # nobody vouches for it
            assert not b.hub.log
            b.check_nothing()
            trusted = {"CURL_CA_BUNDLE": str(certificate[0]), "HF_TOKEN": "hf_Secret"}
            b.hub.plan[SHADER] = ["redirect"]
            refused(b.pull(env=trusted), "not https")  # from https to http
            assert not b.hub.elsewhere.log
            b.hub.elsewhere.close()
            b.hub.elsewhere = Server(certificate=certificate)
            b.hub.elsewhere.is_store = True
            ok(b.pull(env=trusted))
            assert all(h.get("Authorization") == "Bearer hf_Secret" for _, h in b.hub.log)
            assert len(b.hub.elsewhere.log) == 1 and "Authorization" not in b.hub.elsewhere.log[0][1]
            b.check_whole()
        finally:
            b.close()


def without_curl(b):
    refused(b.pull(), "libcurl")
    b.check_nothing()
    refused(b.pull(env={"HF_HUB_OFFLINE": "1"}), "HF_HUB_OFFLINE")
    for path, data in b.files.items():
        (b.snapshot() / path).parent.mkdir(parents=True, exist_ok=True)
        (b.snapshot() / path).write_bytes(data)
    b.check_whole()
    ok(b.pull("--revision", ONE, env={"HF_HUB_OFFLINE": "1"}))


def run_test(name, nibble):
    """What went wrong, or None."""
    b = None
    try:
        if name == "test_tls":
            return tls_test(nibble)
        b = Bench(nibble)
        globals()[name](b)
    except Exception as error:  # each test stands for itself
        return f"FAILED {name}: {type(error).__name__}: {error}"
    finally:
        if b:
            b.close()


def main():
    arguments = [a for a in sys.argv[1:] if a != "--without-curl"]
    nibble = str(pathlib.Path(arguments[0]).resolve())
    names = arguments[1:] or [n for n in globals() if n.startswith("test_")] + ["test_tls"]
    if "--without-curl" in sys.argv:
        names = ["without_curl"]
    # They mostly wait: for time to run out, for a server that drips.
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        failures = [text for text in pool.map(lambda name: run_test(name, nibble), names) if text]
    for text in failures:
        print(text)
    print(f"{len(names) - len(failures)} passed, {len(failures)} failed")
    sys.exit(1 if failures or not names else 0)


if __name__ == "__main__":
    main()
