// The reporter of `node --test`: sits in the process that starts one process a file.
import { createRequire } from "node:module";

const { Telling } = createRequire(import.meta.url)("./node_telling.cjs");

export default async function* report(events) {
  const telling = new Telling("node:test");
  // File → the names of what is being reported, and of what runs: in order is only the one, at once only the other.
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
    const whole = telling.id(isFile ? data.name : file, []);
    if (type === "test:dequeue") {
      // A test that never gives way keeps its process from telling that it began: its file is what runs then.
      const names = isFile ? [] : named(running, data, file);
      if (names.length) telling.over(telling.id(file, names.slice(0, -1)));
      telling.start(telling.id(isFile ? data.name : file, names));
    }
    if (isFile && type === "test:complete") telling.over(whole);
    if (type !== "test:start" && type !== "test:pass" && type !== "test:fail") continue;
    const names = isFile ? [] : named(reported, data, file);
    const id = isFile ? whole : telling.id(file, names);
    if (type === "test:start") continue;
    telling.over(id);
    if (!isFile) telling.start(whole);
    const { duration_ms: ms, error, type: kind } = data.details || {};
    const isBelow = error && error.failureType === "subtestsFailed"; // what failed is told by its own name
    if (data.skip !== undefined || data.todo !== undefined) telling.verdict(id, "skipped", ms);
    else if (type === "test:fail" && !(isBelow && kind === "suite")) {
      telling.verdict(id, isFile || kind === "suite" ? "error" : "failed", ms, (error && error.cause) || error);
    } else if (type === "test:pass" && kind !== "suite") telling.verdict(id, "passed", ms);
  }
  telling.end();
}
