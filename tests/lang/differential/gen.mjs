// SPDX-License-Identifier: Apache-2.0
// node gen.mjs SEED COUNT CASES_DIR > cases.jsonl
// Writes one JSON object per line: { kind, text, scope, ok, result }, where ok and result are the reference's answer.
// The hand-written case files of CASES_DIR are put to the reference as well.
import fs from "node:fs";
import path from "node:path";
import { answer } from "./oracle.mjs";

const [seedText = "1", countText = "4000", casesDir] = process.argv.slice(2);
let state = Number(seedText) >>> 0;

function random() {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = state;
  t = Math.imul(t ^ (t >>> 15), t | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const below = (n) => Math.floor(random() * n);
const chance = (p) => random() < p;
const pick = (list) => list[below(list.length)];
const many = (least, most, make) => Array.from({ length: least + below(most - least + 1) }, make);

const SCOPE = {
  n: 7, m: -3, h: 0.5, z: 0, big: 9007199254740993, eps: 9.999999974752427e-7, huge: 1e21, frac: 2.75,
  t: true, no: false, nul: null,
  s: "hello", e: "", u: "h\u00e9llo \u{1f600} w", p: "  a b\tc \n", num: "12", csv: "a,b,,c",
  l: [4, 5, 6], le: [], lm: [1, 2.5, "a", true, null], ls: ["b", "A", "c"], ll: [[1, 2], [3, 4]],
  o: { a: 1, b: [1, 2], c: { d: "x" } }, oe: {}, lo: [{ a: 2, k: "x" }, { a: 1, k: "y" }, { k: "z" }],
};
const NUMBERS = ["n", "m", "h", "z", "big", "eps", "huge", "frac"];

// ---- expressions, by the type they probably have ----

const makers = { number, string, bool, list, object };

function wrong(d) {
  return makers[pick(Object.keys(makers))](d);
}
// Mostly the type asked for, sometimes any.
function some(type, d) {
  return chance(0.06) ? wrong(d) : makers[type](d);
}
// With parentheses where needed: an index behind a filter is refused by nibble when it parses, by the reference when
// it runs.
function operand(type, d) {
  const text = some(type, d);
  return text.includes("|") ? `(${text})` : text;
}
function any(d) {
  return chance(0.08) ? pick(["none", "undef", "nul", "l[9]", "o.zz", "(1, 2)", "f()"]) : wrong(d);
}

function literal() {
  return pick([
    () => String(below(20)), () => String(below(5)), () => `${below(100)}.${below(100)}`, () => `${below(9)}.0`,
    () => pick(["0", "1", "2", "3", "4294967296", "65535", "0.1", "1.5", "100000000000000000000", "0.0000001", "2.50"]),
    () => `-${below(9)}`, () => `+${below(9)}.5`,
  ])();
}

function number(d) {
  if (d <= 0) return chance(0.5) ? literal() : pick(NUMBERS);
  return pick([
    () => literal(), () => pick(NUMBERS),
    () => `${some("number", d - 1)} ${pick(["+", "-", "*", "/", "//", "%"])} ${some("number", d - 1)}`,
    () => `${some("number", d - 1)}${pick(["+", "-", "*", "/", "//", "%"])}${some("number", d - 1)}`,
    () => `(${some("number", d - 1)})`, () => `${pick(["-", "- ", "+"])}${some("number", d - 1)}`,
    // Powers that are exact: for others pow() of the C library and of the reference differ in the last place.
    () => `${pick(["2", "3", "-2", "0", "1.5", "n", "(2)"])} ** ${pick(["2", "3", "0", "2.0", "10", "t"])}`,
    () => `${pick(["2", "-2", "0", "0.5", "4.0"])} ** ${pick(["-1", "-2", "-3.0"])}`,
    () => `${some("list", d - 1)}|length`, () => `${some("string", d - 1)}|length`,
    () => `(${some("number", d - 1)})|${pick(["abs", "int", "float"])}`,
    () => `${some("string", d - 1)}|${pick(["int", "float", "int(7)", "float(1)"])}`,
    () => `${some("bool", d - 1)}|${pick(["int", "float"])}`,
    () => `${operand("list", d - 1)}[${pick(["0", "1", "-1", "7", "n", "1.0"])}]`,
    // Of an empty list the reference makes an undefined value of its own that fails a little later.
    () => "l|first", () => "ls|reverse|first", () => "l|last", () => "(ls + l)|last",
    () => `${some("number", d - 1)} if ${some("bool", d - 1)} else ${some("number", d - 1)}`,
    () => `o.a`, () => `o["a"]`, () => `l.1`, () => `l.length`, () => `u.length`,
    () => `(${some("number", d - 1)})|${pick(["int(3)", "float()", "default(4)", "default(0, true)"])}`,
  ])();
}

function quoted() {
  const q = pick(["'", '"']);
  return q + pick(["a", "abc", "", "A b", "x,y", "\\n", "\\\\", "\u00e9", "\u{1f600}z", "}}", "{%", "1", " 2.5 ", "0x10"]) + q;
}

function string(d) {
  if (d <= 0) return chance(0.5) ? quoted() : pick(["s", "e", "u", "p", "num", "csv"]);
  return pick([
    () => quoted(), () => pick(["s", "e", "u", "p", "num", "csv"]), () => `${quoted()} ${quoted()}`,
    () => `${any(d - 1)} ~ ${any(d - 1)}`, () => `${some("string", d - 1)} + ${any(d - 1)}`,
    () => `${any(d - 1)} + ${some("string", d - 1)}`,
    () => `s|${pick(["upper", "lower", "title", "capitalize", "trim", "string", "safe", "join('-')", "indent"])}`,
    () => `${some("string", d - 1)}|${pick(["trim", "string", "indent(2)", "replace('a', 'xy')", "replace('', '-', 2)", "tojson"])}`,
    () => `p.${pick(["strip()", "lstrip()", "rstrip()", "title()"])}`,
    () => `s.${pick(["upper()", "lower()", "capitalize()", "replace('l', 'L')", "replace('l', 'L', 1)", "replace('', '.')"])}`,
    () => `${pick(["s", "u", "csv", "e"])}[${bound()}:${bound()}]`,
    () => `${pick(["s", "u", "csv", "e"])}[${bound()}:${bound()}:${step()}]`,
    () => `s[${pick(["0", "1", "-1", "-5", "4"])}]`,
    () => `${some("list", d - 1)}|join${pick(["", "(', ')", "('')", "(separator='/')"])}`,
    () => `${any(d - 1)}|tojson`, () => `${some("number", d - 1)}|string`, () => `${some("list", d - 1)}|string`,
    () => `${some("string", d - 1)} if ${some("bool", d - 1)} else ${some("string", d - 1)}`,
    () => `${any(d - 1)}|tojson(${pick(["indent=2", "sort_keys=true", "ensure_ascii=true", "separators=(',', ':')", "indent=1, separators=('; ', ' = ')", "2"])})`,
  ])();
}

function bool(d) {
  if (d <= 0) return pick(["true", "false", "t", "no", "True"]);
  return pick([
    () => pick(["true", "false", "t", "no"]),
    () => `${some("number", d - 1)} ${pick(["<", ">", "<=", ">=", "==", "!="])} ${some("number", d - 1)}`,
    () => `${any(d - 1)} ${pick(["==", "!="])} ${any(d - 1)}`,
    () => `not ${any(d - 1)}`,
    () => `${any(d - 1)} ${pick(["and", "or"])} ${any(d - 1)}`,
    () => `(${some("bool", d - 1)} ${pick(["and", "or"])} ${some("bool", d - 1)})`,
    () => `${any(d - 1)} ${pick(["in", "not in"])} ${some("list", d - 1)}`,
    () => `${some("string", d - 1)} ${pick(["in", "not in"])} ${pick(["s", "csv", "o", "oe", "ls", "undef"])}`,
    () => `(${any(d - 1)}) is ${pick(["", "not "])}${pick(["boolean", "callable", "true", "false", "none", "string", "number", "integer", "iterable", "mapping", "sequence", "lower", "upper", "defined", "undefined", "odd", "even"])}`,
    () => `${pick(["undef", "o.zz", "n", "o.a", "o.c.d"])} is ${pick(["", "not "])}${pick(["defined", "undefined"])}`,
    () => `s.startswith(${pick(["'h'", "'x'", "('x', 'he')", "['q']"])})`, () => `csv.endswith('c')`,
    () => `dev.features.has(${pick(['"x"', '"y"', "n"])})`,
  ])();
}

const bound = () => pick(["", "0", "1", "2", "-1", "-2", "-4", "9", "-9", "undef", "n", "z"]);
const step = () => pick(["", "1", "2", "-1", "-2", "0", "-9"]);

function list(d) {
  if (d <= 0) return pick(["l", "le", "lm", "ls", "ll", "[1, 2, 3]", "[]"]);
  return pick([
    () => `[${many(0, 3, () => any(d - 1)).join(pick([", ", ","]))}]`,
    () => pick(["l", "le", "lm", "ls", "ll", "lo"]),
    () => `${some("list", d - 1)} + ${some("list", d - 1)}`,
    () => `${operand("list", d - 1)}[${bound()}:${bound()}]`,
    () => `${operand("list", d - 1)}[${bound()}:${bound()}:${step()}]`,
    () => `${some("list", d - 1)}|${pick(["reverse", "list", "unique", "safe"])}`,
    () => `${pick(["l", "ls", "[3, 1.5, 2]", "['b', 'a']", "[t, 0, 2]"])}|sort${pick(["", "(reverse=true)", "(true)", "(case_sensitive=true)"])}`,
    () => `lo|sort(attribute='${pick(["k", "a"])}')`, () => `lo|map(attribute='${pick(["a", "k"])}'${pick(["", ", default=0"])})`,
    () => `lo|${pick(["selectattr", "rejectattr"])}(${pick(["'a'", "'a', 'odd'", "'k', 'eq', 'x'", "'a', 'defined'"])})`,
    () => `range(${pick(["3", "0", "1, 4", "5, 0, -2", "0, 1, 0.25", "n", "2, undef", "t"])})`,
    () => `csv.split(${pick(["','", "',', 1", "", "none", "'zz'"])})`, () => `p.split(${pick(["", "none, 1", "none, 0"])})`,
    () => `${operand("object", d - 1)}.${pick(["items", "keys", "values"])}()`, () => `o|items`,
    () => `o|dictsort`, () => `o.dictsort(reverse=true)`,
    () => `${some("list", d - 1)} if ${some("bool", d - 1)} else ${some("list", d - 1)}`,
    () => `ll[${pick(["0", "1", "-1"])}]`, () => `o.b`,
  ])();
}

function object(d) {
  if (d <= 0) return pick(["o", "oe", "o.c", "{}"]);
  return pick([
    () => `{${many(0, 3, () => `${pick(['"a"', '"b"', "'k'", "s"])}: ${any(d - 1)}`).join(", ")}}`,
    () => pick(["o", "oe", "o.c", "lo[0]"]), () => `o.get(${pick(["'c'", "'zz', o", "'a'", "1"])})`, () => `lo|first`,
  ])();
}

// Broken on purpose now and then: both sides must refuse, or agree.
function damage(text) {
  const points = Array.from(text);
  const at = below(points.length + 1);
  const head = points.slice(0, at).join("");
  return pick([
    () => head + points.slice(at + 1).join(""),
    () => head + pick(["(", ")", "[", "]", "{", "}", "|", ".", ",", ":", "=", "'", " is ", " not ", "-", "**", "~", "1", "a", " "]) + points.slice(at).join(""),
  ])();
}

// ---- templates ----

const dash = () => (chance(0.2) ? "-" : "");
const tag = (body) => `{%${dash()} ${body} ${dash()}%}`;
const print = (d) => `{{${dash()} ${any(d)} ${dash()}}}`;
const text = () => pick(["a", " ", "\n", "x\n", "  y\n", "\n\n", " b ", "let v = 1;\n", "\t", "{-", "f {\n  {-1}\n", "\r\n", "}", "// c\n", "\u00e9", "  "]);
const comment = () => `{#${dash()} c ${dash()}#}`;
const name = () => pick(["v", "w", "n", "x1", "l"]);

function block(d) {
  return many(0, 4, () => piece(d)).join("");
}

function piece(d) {
  if (d <= 0) return pick([text, text, () => print(1), comment])();
  return pick([
    text, text, text, () => print(2), () => print(1), comment,
    () => `${tag(`if ${any(2)}`)}${block(d - 1)}${chance(0.3) ? `${tag(`elif ${any(1)}`)}${block(d - 1)}` : ""}${chance(0.4) ? `${tag("else")}${block(d - 1)}` : ""}${tag("endif")}`,
    () => `${tag(`for ${pick(["i", "i", "i", "k, v"])} in ${pick(["l", "ls", "range(3)", "o", "lm", "le", "ll", "o.items()", "[1, 2, 3]", "(1, 2)", "s"])}${chance(0.25) ? pick([" if i", " if i != 5", " if i is defined", " if true"]) : ""}`)}${loopBody(d - 1)}${chance(0.25) ? `${tag("else")}${block(d - 1)}` : ""}${tag("endfor")}`,
    () => tag(`set ${name()} = ${any(2)}`), () => `${tag(`set ${name()}`)}${block(d - 1)}${tag("endset")}`,
    () => tag(`set ${pick(["v, w", "(v, w)"])} = ${pick(["1, 2", "(1, 2)", "[3, 4]", "ll[0]", "l"])}`),
    () => `${tag("set ns = namespace(a=1)")}${tag(`set ns.${pick(["a", "b"])} = ${any(1)}`)}{{ ns.a }}{{ ns.b }}`,
    () => `${tag(`macro mac(${pick(["", "a", "a, b=2", "a=1, b=a"])})`)}${pick(["{{ a }}", "{{ a }}-{{ b }}", "{{ varargs }}", "{{ kwargs }}", "{{ v }}", "{{ caller() }}", "{{ q }}"])}${block(d - 1)}${tag("endmacro")}{{ mac(${pick(["", "1", "1, 2", "b=3", "1, 2, 3", "1, c=4", "*l", "**o"])}) }}`,
    () => `${tag("macro wrap(x)")}[{{ caller(x) }}]${tag("endmacro")}${tag(`call${pick(["(y)", "", "(y, z=1)"])} wrap(${any(1)})`)}${block(d - 1)}{{ y }}${tag("endcall")}`,
    () => `${tag(`filter ${pick(["upper", "trim", "replace('a', 'b')", "indent(2)", "length", "tojson", "nope"])}`)}${pick(["abc", "a\nb", " x "])}${tag("endfilter")}`,
    () => tag(pick(["break", "generation", "endgeneration", "raw", "set v = ", "endif"])),
  ])();
}

function loopBody(d) {
  return many(1, 4, () => pick([
    () => piece(d), () => "{{ i }}", () => "{{ loop.index }}", () => "{{ k }}={{ v }};",
    () => `{{ loop.${pick(["index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem"])} }}`,
    () => `${tag(`if ${pick(["i == 5", "loop.first", "loop.last", "i"])}`)}${text()}${tag(pick(["break", "continue"]))}${tag("endif")}`,
    () => tag("set v = i"),
  ])()).join("");
}

// ---- output ----

const seen = new Set();
function put(kind, caseText, scope, scopeName) {
  const key = `${kind}\0${caseText}\0${scopeName}`;
  if (seen.has(key)) return false;
  seen.add(key);
  process.stdout.write(JSON.stringify({ kind, text: caseText, scope, ...answer(kind, caseText, scope) }) + "\n");
  return true;
}

function unescape(text) {
  return text.replace(/\\(n|r|t|\\|u[0-9a-f]{4})/g, (_, c) =>
    c[0] === "u" ? String.fromCharCode(parseInt(c.slice(1), 16)) : { n: "\n", r: "\r", t: "\t", "\\": "\\" }[c]);
}

// The results written in the case files must be the reference's too.
function putCaseFiles() {
  for (const file of fs.readdirSync(casesDir).filter((f) => f.endsWith(".txt")).sort()) {
    let kind = "template", scope = {};
    for (const line of fs.readFileSync(path.join(casesDir, file), "utf8").split("\n")) {
      if (line.startsWith("@kind ")) kind = line.slice(6).trim();
      else if (line.startsWith("@scope ")) scope = JSON.parse(line.slice(7));
      else if (line && !line.startsWith("#")) {
        const [source, result] = line.split(" ==> ");
        const { ok, result: actual } = answer(kind, unescape(source), scope);
        if (ok ? actual !== unescape(result) : result !== "!") {
          console.error(`${file}: the reference says ${JSON.stringify(actual)}: ${line}`);
          process.exitCode = 1;
        }
        put(kind, unescape(source), scope, file);
      }
    }
  }
}

if (casesDir) putCaseFiles();
// An expression that names something unknown is refused by nibble before it runs, so these use known names only, and
// are not damaged.
let left = Number(countText);
while (left > 0) {
  const roll = random();
  let kind = "template", caseText;
  if (roll < 0.3) {
    kind = "expression";
    caseText = any(1 + below(3));
    if (/\bundef\b|range|namespace/.test(caseText)) continue;
  } else if (roll < 0.65) {
    caseText = `{{ ${any(1 + below(3))} }}`;
    if (chance(0.08)) caseText = damage(caseText);
  } else {
    caseText = many(1, 5, () => piece(1 + below(3))).join("");
    if (chance(0.04)) caseText = damage(caseText);
  }
  if (put(kind, caseText, SCOPE, "generated")) left--;
}
