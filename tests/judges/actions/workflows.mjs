// Reads workflow (or action) files as GitHub's language service does. In: a JSON list of {kind, text}; out: a list of {errors, tree}.
import { readFileSync } from "node:fs";
import { register } from "node:module";

// The packages import their schemas as JSON in a way that node no longer takes; this makes modules of them.
const json = `import { readFile } from "node:fs/promises";
export async function load(url, context, next) {
  if (!url.endsWith(".json")) return next(url, context);
  return { format: "module", shortCircuit: true, source: "export default " + await readFile(new URL(url), "utf8") };
}`;
register(`data:text/javascript,${encodeURIComponent(json)}`);
const { convertWorkflowTemplate, isMapping, isSequence, NoOperationTraceWriter, parseWorkflow } = await import("@actions/workflow-parser");
const { parseAction } = await import("@actions/workflow-parser/actions/action-parser");
const { convertActionTemplate } = await import("@actions/workflow-parser/actions/action-template");

function plain(token) {
  if (token === undefined) return null;
  if (isMapping(token)) {
    const read = {};
    for (const { key, value } of token) read[key.toString()] = plain(value);
    return read;
  }
  if (isSequence(token)) return Array.from({ length: token.count }, (_, i) => plain(token.get(i)));
  return token.isExpression ? { expression: token.expression ?? token.toString() } : token.value ?? null;
}

async function judged({ kind, text }) {
  const read = kind === "action" ? parseAction : parseWorkflow;
  const { context, value } = read({ name: `${kind}.yml`, content: text }, new NoOperationTraceWriter());
  if (value !== undefined) {
    if (kind === "action") convertActionTemplate(context, value);
    else await convertWorkflowTemplate(context, value);
  }
  const errors = context.errors.getErrors().map((error) => ({ message: error.message, line: error.range?.start?.line ?? null }));
  return { errors, tree: errors.length === 0 ? plain(value) : null };
}

const answers = [];
for (const question of JSON.parse(readFileSync(0, "utf8"))) answers.push(await judged(question));
process.stdout.write(JSON.stringify(answers));
