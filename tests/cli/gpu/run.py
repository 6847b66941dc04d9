#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tools around a package on a GPU: devices, test, verify, bench, explain and tune.

  run.py NIBBLE

NIBBLE_TEST_ADAPTER chooses the adapter. Ends with "N passed, N failed", which tools/gpu-check.sh counts.
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
BNB4 = str(ROOT / "kernels/com.microsoft.MatMulBnb4")
MLP = str(ROOT / "kernels/com.microsoft.MatMulNBitsMlp")
SMALL = "smollm2_135m_m1_f32"
REQUEST = ["--attr", "K=64", "--attr", "N=16", "--attr", "block_size=64", "--attr", "quant_type=1"]
TENSORS = ["--tensor", "A=float32[1,64]", "--tensor", "B=uint8[512]", "--tensor", "absmax=float32[16]"]
INPUTS = ["--in", "A=float32[1,64]=rand:1", "--in", "B=uint8[512]=rand:2", "--in", "absmax=float32[16]=rand:3"]


class Tool:
    def __init__(self, nibble, folder):
        self.nibble, self.folder = nibble, pathlib.Path(folder)
        self.env = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        adapter = os.environ.get("NIBBLE_TEST_ADAPTER")
        self.adapter = ["--adapter", adapter] if adapter else []

    def command(self, *words):
        return [self.nibble, *map(str, words)]

    def run(self, *words, code=0):
        result = subprocess.run(self.command(*words), env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=500)
        assert result.returncode == code, f"{words}: exit code {result.returncode}\n{result.stdout[-1500:]}\n{result.stderr[-1500:]}"
        return result

    def json(self, *words, code=0):
        return json.loads(self.run(*words, "--json", code=code).stdout)

    def gpu(self, *words, code=0):
        return self.json(*words, "--backend", "webgpu", *self.adapter, code=code)


def test_devices_name_the_adapter(t):
    listed = t.json("devices", BNB4)
    adapters = [d for d in listed["devices"] if d["backend"] == "webgpu"]
    assert adapters and not listed["missing"], listed
    for adapter in adapters:
        assert adapter["driver"] and adapter["kind"] and adapter["caps"]["limits"]["maxBufferSize"] > 0
        variants = adapter["packages"]["com.microsoft.MatMulBnb4"]
        assert variants["scalar"] is True and variants["tiled"] is True, variants
        assert all(answer is True or answer.startswith("needs ") for answer in variants.values()), variants


def test_every_variant_is_forced(t):
    result = t.gpu("test", MLP, "--all-variants", "--filter", "one_row")
    ran = {name for name, count in result["variants"].items() if count}
    assert result["failed"] == 0 and len(ran) >= 4, result["variants"]
    assert {c["variant"] for c in result["cases"]} >= ran


def test_pinned_variants_that_the_device_lacks(t):
    """They are left out, with the reason; nothing else changes."""
    package = ROOT / "kernels/v2/com.microsoft.MatMulNBitsQkv"
    result = t.gpu("test", package, "--disable-feature", "subgroups", "--filter", "matrix_")
    skipped = [c for c in result["cases"] if c["result"] == "skipped"]
    assert result["failed"] == 0 and result["skipped"] == len(skipped) >= 8, result
    assert all("not on this device: matrix_" in c["reason"] and "needs the device feature" in c["reason"] for c in skipped), skipped
    text = t.run("test", package, "--backend", "webgpu", *t.adapter, "--disable-feature", "subgroups", "--filter", "matrix_").stdout
    assert f"{len(skipped)} skipped" in text.splitlines()[-1], text


def test_generated_cases(t):
    result = t.gpu("test", BNB4, "--seed", 11)
    assert result["failed"] == 0 and result["passed"] == 32, [c for c in result["cases"] if c["result"] == "failed"][:3]
    assert all(c["values"] == "scalar CPU" for c in result["cases"])


def test_verify_writes_evidence(t):
    t.gpu("verify", BNB4, "--filter", "rows_", "--out", t.folder / "evidence.json")
    evidence = json.loads((t.folder / "evidence.json").read_text())
    assert evidence["verdict"] == "good" and evidence["digestsCompared"] and evidence["driver"], evidence
    assert evidence["counts"]["crossChecked"] == evidence["counts"]["passed"] > 5
    assert all("error" in c and "crossError" in c for c in evidence["cases"] if c["result"] == "passed")


def test_run_agrees_with_the_cpu(t):
    result = t.gpu("run", BNB4, *INPUTS, *REQUEST, "--compare", "cpu")
    assert result["compare"]["yT"]["agrees"] and result["backend"] == "webgpu"


def test_bench_tells_gpu_time_and_wall_time_apart(t):
    result = t.gpu("bench", BNB4, "--case", SMALL, "--all-variants")
    assert result["ceilings"]["bytesPerSecond"] > 1e8 and result["ceilings"]["flopsPerSecond"] > 1e8, result["ceilings"]
    case = result["cases"][0]
    seconds = case["seconds"]
    assert 0 < seconds["wall"]["min"] <= seconds["wall"]["median"] and seconds["run"]["n"] > 0
    if seconds["device"]:  # a GPU without timestamps has none
        assert 0 < seconds["device"]["min"] <= seconds["wall"]["median"] * 1.5, seconds
    assert seconds["host"]["median"] <= seconds["wall"]["median"] and case["flops"] == 2 * 576 * 576
    assert {"gemv", "scalar"} <= {a["name"] for a in case["alternatives"]}, case["alternatives"]
    assert case["cold"]["compile"] > 0 and result["cold"]["open"] > 0


def test_explain_prepares_the_call(t):
    story = t.gpu("explain", BNB4, *TENSORS, *REQUEST)
    assert story["gpu"]["runs"] and story["cpu"]["runs"], (story["gpu"], story["cpu"])
    verdicts = {v["variant"]: v["verdict"] for v in story["variants"]}
    assert verdicts["gemv"] == "chosen" and verdicts["scalar"] == "eligible" and verdicts["tiled"] == "rejected"
    lines = story["passes"][0]["wgsl"]
    assert any(line["from"] == "matmul-bnb4-gemv.wgsl.jinja:13" for line in lines)


def tuned_file(t, tunables):
    """A tuning file for this adapter, made from what verify says about it."""
    evidence = t.gpu("verify", BNB4, "--filter", "k_one")
    entry = {key: evidence[key] for key in ("op", "package", "adapter", "driver")}
    path = t.folder / "tuned.json"
    path.write_text(json.dumps({"version": 1, "entries": [{**entry, "tunables": tunables, "gain": 1.5, "cases": []}]}))
    return path


def test_tuned_tunables_are_picked_up(t):
    path = tuned_file(t, {"WORKGROUP_SIZE": 32})
    call = ["explain", BNB4, *TENSORS, *REQUEST, "--tuning", path]
    assert t.gpu(*call)["tunables"]["WORKGROUP_SIZE"] == {"value": 32, "from": "tuning file"}
    assert t.gpu(*call, "--no-tuning")["tunables"]["WORKGROUP_SIZE"] == {"value": 64, "from": "manifest"}
    assert t.gpu(*call, "--tunable", "WORKGROUP_SIZE=128")["tunables"]["WORKGROUP_SIZE"] == {"value": 128, "from": "--tunable"}
    said = t.run("run", BNB4, *INPUTS, *REQUEST, "--tuning", path, "--compare", "cpu", "--backend", "webgpu", *t.adapter).stderr
    assert 'tuned: {"WORKGROUP_SIZE":32}' in said, said


def test_tuning_that_does_not_fit_is_left_out(t):
    path = tuned_file(t, {"WORKGROUP_SIZE": 1 << 20})
    t.gpu("run", BNB4, *INPUTS, *REQUEST, "--tuning", path, "--compare", "cpu")


def test_tune_checks_what_it_finds(t):
    path = t.folder / "found.json"
    result = t.gpu("tune", BNB4, "--case", SMALL, "--seconds", 15, "--tuning", path)
    assert result["measured"] > 3 and result["unchanged"] > 0 and result["wrong"] == 0, result
    if result["entry"]:
        entry = json.loads(path.read_text())["entries"][0]
        assert entry == result["entry"] or entry["tunables"] == result["entry"]["tunables"]
        assert entry["tunables"] and entry["cases"][0]["name"] == SMALL
    t.gpu("run", BNB4, *INPUTS, *REQUEST, "--tuning", path, "--compare", "cpu")


def test_tune_tries_defaults_of_zero(t):
    """0 lets the shape decide; other values are tried, and what is stored has an effect."""
    result = t.gpu("tune", ROOT / "kernels/v2/com.microsoft.MatMulBnb4", "--case", SMALL, "--seconds", 30, "--tuning", t.folder / "v2.json")
    assert result["measured"] > 3 and result["wrong"] == 0 and not result["notReached"], result
    manifest = json.loads((ROOT / "kernels/v2/com.microsoft.MatMulBnb4/build/webgpu/manifest.json").read_text())
    idle = {n for n in manifest["tunables"] if n.startswith(("MATRIX_", "SGMAT_", "TILED_", "TILE_"))}  # of other variants than a row's
    assert not result["entry"] or not idle & set(result["entry"]["tunables"]), result["entry"]


def test_tune_stores_no_idle_tunables(t):
    """Each stored tunable changes a plan of the case. A bench case with one row has no use for most of them."""
    package, path = ROOT / "kernels/v2/com.microsoft.MatMulNBitsQkv", t.folder / "v2.json"
    entry = t.gpu("tune", package, "--case", SMALL, "--seconds", 20, "--tuning", path)["entry"]
    if not entry:
        print("NOT CHECKED: nothing better was found on this device")
        return
    case = next(c for c in json.loads((package / "build/webgpu/bench.json").read_text())["cases"] if c["name"] == SMALL)
    ports = json.loads((package / "build/webgpu/manifest.json").read_text())["inputs"]
    call = [w for k, v in case["inputs"].items() for w in ("--tensor", f"{ports[k]['onnx']}={v['dtype']}{json.dumps(v['shape'])}".replace(" ", ""))]
    call += [w for k, v in case["attrs"].items() for w in ("--attr", f"{k}={v}")]

    def passes(tunables):
        given = [w for k, v in tunables.items() for w in ("--tunable", f"{k}={json.dumps(v)}")]
        return t.gpu("explain", package, *call, *given, "--no-tuning")["passes"]

    whole = passes(entry["tunables"])
    for name in entry["tunables"]:
        assert passes({k: v for k, v in entry["tunables"].items() if k != name}) != whole, name


def test_tune_keeps_the_time(t):
    """What was not reached is said, and nothing tried is no success."""
    package = ROOT / "kernels/v2/com.microsoft.MatMulNBitsMlp"
    start = time.monotonic()
    result = subprocess.run(t.command("tune", package, "--seconds", 1, "--tuning", t.folder / "v2.json", "--json", "--backend", "webgpu", *t.adapter),
                            env=t.env, cwd=t.folder, capture_output=True, text=True, timeout=500)
    took, said = time.monotonic() - start, json.loads(result.stdout)
    assert said["cases"] + len(said["notReached"]) == 18 and said["outOfTime"], said
    assert result.returncode == (1 if said["measured"] == 0 else 0), result
    # One shader that is being compiled is waited for, and a busy machine takes several times the 6 s of an idle one; all cases
    # take minutes.
    assert took < 40, took


def kill_somewhere(t, words, longest):
    process = subprocess.Popen(t.command(*words), env=t.env, cwd=t.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(random.uniform(0.1, longest))
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_tune_killed_anywhere_leaves_a_usable_file(t):
    random.seed(5)
    path = tuned_file(t, {"WORKGROUP_SIZE": 32})
    for _ in range(6):
        kill_somewhere(t, ["tune", BNB4, "--case", SMALL, "--seconds", 8, "--tuning", path, "--backend", "webgpu", *t.adapter], 12)
        entries = json.loads(path.read_text())["entries"]
        assert len(entries) == 1 and entries[0]["tunables"], entries
        t.gpu("run", BNB4, *INPUTS, *REQUEST, "--tuning", path, "--compare", "cpu")


def test_run_killed_anywhere_leaves_a_usable_pipeline_cache(t):
    random.seed(6)
    cache = t.folder / "pipelines"
    call = ["run", BNB4, *INPUTS, *REQUEST, "--compare", "cpu", "--cache", cache]
    for _ in range(6):
        kill_somewhere(t, [*call, "--backend", "webgpu", *t.adapter], 1.5)
        t.gpu(*call)
    assert any(cache.iterdir()), "nothing was kept"


def test_damaged_tuning_file(t):
    path = t.folder / "damaged.json"
    path.write_text('{"version": 1, "entries": [')
    call = ["run", BNB4, *INPUTS, *REQUEST, "--backend", "webgpu", *t.adapter]
    assert "damaged.json:1:" in t.run(*call, "--tuning", path, code=1).stderr
    default = t.folder / "cache/nibble/tuning.json"
    default.parent.mkdir(parents=True, exist_ok=True)
    default.write_text("[]")
    assert "is not used" in t.run(*call).stderr


def main():
    nibble = str(pathlib.Path(sys.argv[1]).resolve())
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
    wanted = sys.argv[2:] or list(tests)
    failed = 0
    for name in wanted:
        with tempfile.TemporaryDirectory() as folder:
            try:
                tests[name](Tool(nibble, folder))
                print(f"passed {name}", flush=True)
            except Exception:
                failed += 1
                traceback.print_exc(file=sys.stdout)
                print(f"FAILED {name}", flush=True)
    print(f"{len(wanted) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
