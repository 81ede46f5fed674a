// Evaluates expressions with GitHub's own package. stdin: {contexts, expressions}; stdout: for each {value} or {error}.
import { readFileSync } from "node:fs";
import { data, Evaluator, Lexer, Parser } from "@actions/expressions";

const { contexts, expressions } = JSON.parse(readFileSync(0, "utf8"));
const scope = JSON.parse(JSON.stringify(contexts), data.reviver);
// The functions that the language leaves to whoever runs it, as of a step whose job went well so far.
const own = [["success", true], ["always", true], ["failure", false], ["cancelled", false]].map(([name, value]) => ({
  name, description: "", minArgs: 0, maxArgs: 0, call: () => new data.BooleanData(value),
}));
const functions = new Map(own.map((f) => [f.name, f]));

// Numbers go as their bits, so that nothing is lost on the way.
function plain(value) {
  switch (value.kind) {
    case data.Kind.Null: return null;
    case data.Kind.Number: {
      const bits = Buffer.alloc(8);
      bits.writeDoubleBE(value.value);
      return { number: Number.isNaN(value.value) ? "NaN" : bits.toString("hex") };
    }
    case data.Kind.Array: return value.values().map(plain);
    case data.Kind.Dictionary: return { object: value.pairs().map(({ key, value: member }) => [key, plain(member)]) };
    default: return value.value;
  }
}

function judged(text) {
  try {
    const tree = new Parser(new Lexer(text).lex().tokens, Object.keys(contexts), own).parse();
    return tree ? { value: plain(new Evaluator(tree, scope, functions).evaluate()) } : { error: "empty" };
  } catch (error) {
    return { error: String(error.message) };
  }
}

process.stdout.write(JSON.stringify(expressions.map(judged)));
