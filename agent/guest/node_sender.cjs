// Turns results and errors into messages of the channel; the same for every runner.
"use strict";

const path = require("path");
const hook = require("./node_hook.cjs");

const DETAILS = 6000;
const FRAMES = 40;
const LINE = /(?:\(|\bat (?:async )?|^)(?:file:\/\/)?((?!node:)[^():\n]+):(\d+)(?::\d+)?\)?$/;
const FUNCTION = /^\s*at (?:async )?(?:new )?([\w$.<>[\] ]+?) \(/;

/** Sends the results of one run; `channel` is null if nobody listens. */
class ResultSender {
  constructor(runner) {
    this.channel = hook.take();
    this.root = this.channel ? this.channel.request.root : process.cwd();
    if (!this.channel) return;
    this.channel.send("ready", { runner });
  }

  /** `tests/a.test.js::suite > name`; a whole file is named by its path alone. */
  id(file, names) {
    const inside = file ? relative(this.root, file) || path.basename(file) : "";
    return names.length ? `${inside}::${names.join(" > ")}` : inside;
  }

  start(id) {
    if (this.channel) this.channel.send("start", { id });
  }

  /** A group or file ended without a verdict of its own. */
  over(id) {
    if (this.channel) this.channel.send("over", { id });
  }

  /** `verdict` is passed, failed, error or skipped; `error` the cause of a failure; `ms` can be unknown. */
  verdict(id, verdict, ms, error) {
    if (!this.channel) return;
    const failure = verdict === "failed" || verdict === "error" ? describe(this.root, error) : null;
    this.channel.send("verdict", { id, verdict, seconds: Math.max(0, Number(ms) || 0) / 1000, failure });
  }

  end() {
    if (this.channel) this.channel.send("end", { marks: [] });
  }
}

function relative(root, file) {
  const plain = file.replace(/^file:\/\//, "").replace(/[?#].*$/, "");
  const found = path.relative(root, path.resolve(plain));
  return found.startsWith("..") || /(^|\/)node_modules\//.test(found) ? "" : found;
}

/** `error` is an error, a plain object that was an error in another process, text, or anything else that was thrown. */
function describe(root, error) {
  const isObject = error !== null && typeof error === "object";
  const stack = isObject ? String(error.stack || "") : String(error);
  const name = (isObject && (error.name || (error.constructor && error.constructor.name))) || "Error";
  let said = isObject ? String(error.message === undefined ? stack : error.message) : stack;
  if (said.startsWith(`${name}: `)) said = said.slice(name.length + 2);
  const message = isObject ? `${name}: ${said.trim().split("\n").slice(0, 6).join(" ")}` : said.trim().split("\n")[0];
  const compared = isObject && typeof error.diff === "string" ? `\n${error.diff}` : "";
  const text = stack.includes(said.slice(0, 200)) ? stack : `${name}: ${said}\n${stack}`;
  const lines = stack.split("\n");
  const frames = [];
  for (const line of lines) {
    const at = LINE.exec(line.trim());
    const file = at && relative(root, at[1]);
    if (file) frames.push([file, Number(at[2]), (FUNCTION.exec(line) || ["", ""])[1]]);
  }
  return { message: message.slice(0, 500), details: (text + compared).slice(0, DETAILS), frames: frames.slice(0, FRAMES).reverse() };
}

module.exports = { ResultSender };
