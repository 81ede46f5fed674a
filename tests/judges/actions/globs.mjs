// Hashes files with GitHub's own package, which says much more than asked. stdin: {workspace, patterns}; the last line of
// stdout: for each {value} or {error}.
import { readFileSync } from "node:fs";
import { hashFiles } from "@actions/glob";

const { workspace, patterns } = JSON.parse(readFileSync(0, "utf8"));
process.chdir(workspace);
const results = [];
for (const each of patterns) {
  try {
    results.push({ value: await hashFiles(each.join("\n"), workspace, { followSymbolicLinks: false }) });
  } catch (error) {
    results.push({ error: String(error.message) });
  }
}
process.stdout.write("\n" + JSON.stringify(results));
