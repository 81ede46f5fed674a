// The packages import their schemas as JSON in a way that node no longer takes; this makes modules of them.
import { readFile } from "node:fs/promises";

export async function load(url, context, next) {
  if (!url.endsWith(".json")) return next(url, context);
  return { format: "module", shortCircuit: true, source: `export default ${await readFile(new URL(url), "utf8")};` };
}
