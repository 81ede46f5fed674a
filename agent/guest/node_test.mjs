// The reporter for `node --test`: runs in the process that starts one process per file.
import { createRequire } from "node:module";

const { ResultSender } = createRequire(import.meta.url)("./node_sender.cjs");

export default async function* report(events) {
  const sender = new ResultSender("node:test");
  // File → names of the nested tests. `reported` tracks the reports, which come in order; `running` tracks the starts.
  const reported = new Map();
  const running = new Map();
  const named = (above, { name, nesting }, file) => {
    const names = (above.get(file) || []).slice(0, nesting).concat([name]);
    above.set(file, names);
    return names;
  };
  for await (const { type, data } of events) {
    const file = data.file || "";
    const isFile = data.nesting === 0 && (data.name === file || (!file && /\.[cm]?[jt]sx?$/.test(data.name)));
    const whole = sender.id(isFile ? data.name : file, []);
    if (type === "test:dequeue") {
      // A test that blocks its event loop keeps its process from reporting the start; its file then counts as running.
      const names = isFile ? [] : named(running, data, file);
      if (names.length) sender.over(sender.id(file, names.slice(0, -1)));
      sender.start(sender.id(isFile ? data.name : file, names));
    }
    if (isFile && type === "test:complete") sender.over(whole);
    if (type !== "test:start" && type !== "test:pass" && type !== "test:fail") continue;
    const names = isFile ? [] : named(reported, data, file);
    const id = isFile ? whole : sender.id(file, names);
    if (type === "test:start") continue;
    sender.over(id);
    if (!isFile) sender.start(whole);
    const { duration_ms: ms, error, type: kind } = data.details || {};
    const isBelow = error && error.failureType === "subtestsFailed"; // the failed test is reported under its own name
    if (data.skip !== undefined || data.todo !== undefined) sender.verdict(id, "skipped", ms);
    else if (type === "test:fail" && !(isBelow && kind === "suite")) {
      sender.verdict(id, isFile || kind === "suite" ? "error" : "failed", ms, (error && error.cause) || error);
    } else if (type === "test:pass" && kind !== "suite") sender.verdict(id, "passed", ms);
  }
  sender.end();
}
