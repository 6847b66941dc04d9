#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page that nibble bench --html writes.

  run.py NIBBLE [FOLDER]      FOLDER: keep page and screenshots there

The page is well-formed, needs nothing from anywhere, and shows what the JSON says. Where Chromium is installed it is also laid out:
on a desktop, in the dark, on a phone 360 pixels wide, and printed. Ends with "N passed, N failed".
"""
import html.parser
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
VOID = {"meta", "br", "line", "rect", "circle", "polyline", "polygon"}


class Page(html.parser.HTMLParser):
    """Checks nesting; collects tags, attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, key, value) for key, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, key, value) for key, value in attrs]

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        self.words.append(data)


def make_page(nibble, folder):
    path = folder / "report.html"
    env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    result = subprocess.run([nibble, "bench", str(ROOT / "kernels/com.microsoft.MatMulNBitsMlp"), "--backend", "cpu", "--case", "smollm2",
                             "--json", "--html", str(path)], env=env, capture_output=True, text=True, timeout=250, check=True)
    return path, json.loads(result.stdout)


def test_well_formed_and_alone(path, result):
    page = Page(path.read_text())
    assert not page.open and page.tags.count("svg") == 2 and "script" not in page.tags
    text = path.read_text()
    assert not re.search(r"https?://|url\(|@import|<link|<img|<iframe", text), "the page asks for something"
    assert not [a for a in page.attributes if a[1].startswith("on") or a[1] in ("src", "href")], "handlers or links"


def test_shows_what_was_measured(path, result):
    words = " ".join(Page(path.read_text()).words)
    for case in result["cases"]:
        assert case["name"] in words and case["variant"] in words
        assert case["alternatives"] or case["seconds"]["device"]["median"] > 0.1, case["name"]
    for fact in (result["op"], result["device"], result["package"], result["nibble"], result["adapter"]):
        assert fact in words, fact
    names = {a["name"] for case in result["cases"] for a in case["alternatives"]}
    assert "scalar" in names and all(name in words for name in names)


def test_hostile_text_is_text(path, result, nibble=None):
    """A package can call a case anything."""
    folder = path.parent / "hostile"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "kernels/com.microsoft.MatMulBnb4", folder)
    bench = folder / "build/webgpu/bench.json"
    content = json.loads(bench.read_text())
    content["cases"] = [{**content["cases"][0], "name": "<script>alert(1)</script>&\"'"}]
    bench.write_text(json.dumps(content))
    out = path.parent / "hostile.html"
    subprocess.run([NIBBLE, "bench", str(folder), "--no-verify", "--backend", "cpu", "--quiet", "--html", str(out)], check=True,
                   capture_output=True, timeout=100)
    page = Page(out.read_text())
    assert "script" not in page.tags and any("<script>" in word for word in page.words)


def test_cases_without_a_role(path, result):
    """They are neither decode nor prefill."""
    folder = path.parent / "roles"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "kernels/com.microsoft.MatMulBnb4", folder)
    bench = folder / "build/webgpu/bench.json"
    content = json.loads(bench.read_text())
    case = {k: v for k, v in content["cases"][0].items() if k != "role"}
    content["cases"] = [{**case, "name": f"case {i}"} for i in range(12)]
    bench.write_text(json.dumps(content))
    out = path.parent / "roles.html"
    subprocess.run([NIBBLE, "bench", str(folder), "--no-verify", "--backend", "cpu", "--quiet", "--html", str(out)], check=True,
                   capture_output=True, timeout=100)
    page = Page(out.read_text())
    assert page.tags.count("polygon") == 24 and "circle" not in page.tags and "rect" not in page.tags
    assert "other" in page.words and "decode" not in page.words and "prefill" not in page.words


# ---- in a browser ----

def pixels(png):
    """(width, height, rows of RGB(A) bytes, bytes of a pixel) of an 8-bit PNG."""
    data, at, header, packed = png.read_bytes(), 8, None, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        header = struct.unpack(">IIBBBBB", body) if kind == b"IHDR" else header
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    width, height, depth, color = header[:4]
    step = {2: 3, 6: 4}[color]
    raw, rows, before = zlib.decompress(packed), [], bytearray(width * step)
    assert depth == 8
    for y in range(height):
        kind, line = raw[y * (width * step + 1)], bytearray(raw[y * (width * step + 1) + 1:(y + 1) * (width * step + 1)])
        for i in range(len(line)):
            left = line[i - step] if i >= step else 0
            up, corner = before[i], before[i - step] if i >= step else 0
            if kind == 1:
                line[i] = (line[i] + left) & 255
            elif kind == 2:
                line[i] = (line[i] + up) & 255
            elif kind == 3:
                line[i] = (line[i] + (left + up) // 2) & 255
            elif kind == 4:
                a, b, c = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
                line[i] = (line[i] + (left if a <= b and a <= c else up if b <= c else corner)) & 255
        rows.append(line)
        before = line
    return width, height, rows, step


def chromium(folder, *options):
    profile = tempfile.mkdtemp(dir=folder)
    subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                    f"--user-data-dir={profile}", "--hide-scrollbars", *options], check=True, capture_output=True, timeout=120)


def brightness(rows, step, x0, x1):
    values = [sum(row[x * step:x * step + 3]) / 3 for row in rows[::7] for x in range(x0, x1, 7)]
    return sum(values) / len(values)


def check_picture(png, dark):
    width, height, rows, step = pixels(png)
    corner = sum(rows[5][5 * step:5 * step + 3]) / 3
    assert (corner < 60) == dark and (corner > 200) == (not dark), f"the page's color is {corner}"
    colors = {bytes(row[x * step:x * step + 3]) for row in rows[::3] for x in range(0, width, 3)}
    assert len(colors) > 40, "next to nothing is drawn"


def test_light(path, result):
    out = path.parent / "light.png"
    chromium(path.parent, "--window-size=1200,1500", f"--screenshot={out}", path.as_uri())
    check_picture(out, dark=False)


def test_dark(path, result):
    out = path.parent / "dark.png"
    chromium(path.parent, "--blink-settings=preferredColorScheme=0", "--window-size=1200,1500", f"--screenshot={out}", path.as_uri())
    check_picture(out, dark=True)


def test_phone_does_not_scroll_sideways(path, result):
    """A browser window has a least width, so the phone is a frame."""
    outer = path.parent / "phone.html"
    outer.write_text(f"""<!DOCTYPE html><body style="margin:0"><iframe id=f src="{path.name}" style="border:0;width:360px;height:2400px"></iframe>
<p id=o></p><script>f.onload=()=>{{const d=f.contentDocument;o.textContent="too wide by "+
(d.documentElement.scrollWidth-d.documentElement.clientWidth)+", cells "+getComputedStyle(d.querySelector("td")).display}}</script>""")
    profile = tempfile.mkdtemp(dir=path.parent)
    dom = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                          "--allow-file-access-from-files", f"--user-data-dir={profile}", "--virtual-time-budget=5000", "--dump-dom",
                          outer.as_uri()], check=True, capture_output=True, text=True, timeout=120).stdout
    assert "too wide by 0, cells flex" in dom, dom[-300:]
    chromium(path.parent, "--window-size=500,2400", f"--screenshot={path.parent / 'phone.png'}", outer.as_uri())


def test_numbers_stay_on_one_line(path, result):
    """Of a page with the longest row numbers, and no label of the plot is cut off."""
    many = path.parent / "roles.html"
    outer = path.parent / "desktop.html"
    outer.write_text(f"""<!DOCTYPE html><body style="margin:0"><iframe id=f src="{many.name}" style="border:0;width:1100px;height:2400px"></iframe>
<p id=o></p><script>f.onload=()=>{{const d=f.contentDocument;let lines=0,cut=0;
for(const c of d.querySelectorAll("td:not(.t),td.n,.tile b")){{const r=d.createRange();r.selectNodeContents(c);
if(new Set([...r.getClientRects()].map(b=>Math.round(b.top/8))).size>1)lines++}}
for(const s of d.querySelectorAll("svg.wide")){{const e=s.getBoundingClientRect();for(const t of s.querySelectorAll("text")){{
const b=t.getBoundingClientRect();if(b.right>e.right||b.left<e.left)cut++}}}}
o.textContent="broken "+lines+", cut "+cut+", too wide by "+(d.documentElement.scrollWidth-d.documentElement.clientWidth)}}</script>""")
    profile = tempfile.mkdtemp(dir=path.parent)
    dom = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                          "--allow-file-access-from-files", f"--user-data-dir={profile}", "--virtual-time-budget=5000", "--dump-dom",
                          outer.as_uri()], check=True, capture_output=True, text=True, timeout=120).stdout
    assert "broken 0, cut 0, too wide by 0" in dom, dom[-300:]


def test_print(path, result):
    out = path.parent / "report.pdf"
    chromium(path.parent, f"--print-to-pdf={out}", "--no-pdf-header-footer", path.as_uri())
    pages = len(re.findall(rb"/Type\s*/Page\b(?!s)", out.read_bytes()))
    assert 1 <= pages <= 6, f"{pages} pages"


def main():
    global NIBBLE, BROWSER
    NIBBLE = str(pathlib.Path(sys.argv[1]).resolve())
    BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
    in_browser = [test_light, test_dark, test_phone_does_not_scroll_sideways, test_numbers_stay_on_one_line, test_print]
    tests = [test_well_formed_and_alone, test_shows_what_was_measured, test_hostile_text_is_text, test_cases_without_a_role,
             *(in_browser if BROWSER else [])]
    if not BROWSER:
        print(f"NOT RUN: {len(in_browser)} tests of the page in a browser (Debian: apt-get install chromium)")
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        page = make_page(NIBBLE, folder)
        for test in tests:
            try:
                test(*page)
            except Exception:
                failed += 1
                traceback.print_exc(file=sys.stdout)
                print(f"FAILED {test.__name__}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
