// SPDX-License-Identifier: Apache-2.0
// The reference implementation, seen as the two things nibble does: render a template, evaluate an expression.
import { Environment, Interpreter, Template } from "@huggingface/jinja";

// What a set view is to the reference; the C side has the same names.
export function hostNames() {
  return {
    dev: { features: { has: (x) => x === "x", size: 1, keys: () => ({}), values: () => ({}), entries: () => ({}) } },
    f: () => undefined,
  };
}

function bind(environment, scope) {
  const constants = { true: true, false: false, none: null, True: true, False: false, None: null };
  for (const [name, value] of Object.entries({ ...constants, ...scope })) environment.set(name, value);
}

export function render(text, scope) {
  return new Template(text).render({ ...scope });
}

// Numbers and strings as JSON.stringify prints them, ", " and ": " between members, null for what JSON cannot say.
function jsonText(value) {
  switch (value.type) {
    case "UndefinedValue":
    case "NullValue":
    case "FunctionValue":
      return "null";
    case "ArrayValue":
    case "TupleValue":
      return `[${value.value.map(jsonText).join(", ")}]`;
    case "ObjectValue":
      return `{${[...value.value].map(([k, v]) => `${JSON.stringify(k)}: ${jsonText(v)}`).join(", ")}}`;
    default:
      return JSON.stringify(value.value) ?? "undefined"; // a string indexed out of range
  }
}

// An expression is the first node of "{{ text }}".
export function evaluate(text, scope) {
  const environment = new Environment();
  bind(environment, scope);
  const program = new Template(`{{ ${text} }}`).parsed;
  const value = new Interpreter(environment).evaluate(program.body[0], environment);
  return value.type === "UndefinedValue" ? "undefined" : jsonText(value);
}

export function answer(kind, text, scope) {
  try {
    const all = { ...scope, ...hostNames() };
    // Half of a surrogate pair becomes U+FFFD, as in nibble.
    const result = kind === "template" ? render(text, all) : evaluate(text, all);
    return { ok: true, result: result.toWellFormed() };
  } catch (error) {
    return { ok: false, result: String(error.message).slice(0, 200).toWellFormed() };
  }
}
