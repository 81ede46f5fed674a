// Hashes files with GitHub's own package. stdin: {workspace, patterns}; stdout: for each {value} or {error}.
import { readFileSync } from "node:fs";
import { hashFiles } from "@actions/glob";

const { workspace, patterns } = JSON.parse(readFileSync(0, "utf8"));
process.chdir(workspace);
// The package tells what it does as it goes.
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = () => true;
const results = [];
for (const each of patterns) {
  try {
    results.push({ value: await hashFiles(each.join("\n"), workspace, { followSymbolicLinks: false }) });
  } catch (error) {
    results.push({ error: String(error.message) });
  }
}
write(JSON.stringify(results));
