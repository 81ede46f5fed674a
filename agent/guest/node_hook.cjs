// Preloaded into every Node process of a check (NODE_OPTIONS): finds the one that runs tests and has it tell what they do, over
// the supervisor's socket. A process that a test runner starts tells nothing but what was done to what tests decide with.
//
// Standard library only, old Nodes too (16 and later). Nothing in here keeps a secret from code in its own process.
"use strict";

const fs = require("fs");
const path = require("path");
const net = require("net");
const { isMainThread } = require("worker_threads");
const { randomBytes } = require("crypto");

const FOLDER = "SELFHEAL_GUEST";
const INSIDE = "SELFHEAL_INSIDE"; // set by the process that runs tests, for those that it starts
const OURS = path.join(__dirname, "node_test.mjs");
const WAIT = new Int32Array(new SharedArrayBuffer(4));
const { stringify } = JSON;
const { writeSync, readFileSync } = fs;
const RUNNERS = [
  ["vitest", /[\\/]vitest[\\/](?:vitest|dist[\\/]cli)\.m?js$/],
  ["jest", /[\\/]jest(?:-cli)?[\\/]bin[\\/]jest\.js$/],
  ["mocha", /[\\/]mocha[\\/](?:bin[\\/]_?mocha(?:\.c?js)?|lib[\\/]cli[\\/]cli\.js)$/],
];

/** The sending end: JSON lines, each with a key that the first one names. Every line is out before `send` returns. */
class Channel {
  #socket;
  #key = randomBytes(12).toString("hex");

  constructor(folder) {
    this.request = JSON.parse(readFileSync(path.join(folder, "request.json"), "utf8"));
    this.#socket = net.connect(path.join(folder, "channel"));
    this.#socket.on("error", () => {});
    this.#socket.unref();
  }

  send(kind, fields = {}) {
    const text = stringify({ ...fields, kind, key: this.#key });
    let line = Buffer.from(text.replace(/[\u007f-\uffff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0")) + "\n");
    while (line.length) {
      try {
        line = line.subarray(writeSync(this.#socket._handle.fd, line));
      } catch (error) {
        if (error.code !== "EAGAIN") return; // the supervisor is gone, and with it whoever would listen
        Atomics.wait(WAIT, 0, 0, 1);
      }
    }
  }
}

let channel = null;
module.exports = {
  /** The channel of the process that runs the tests; null in any other. Its reporter takes it once. */
  take() {
    const taken = channel;
    channel = null;
    return taken;
  },
};

const folder = process.env[FOLDER];
if (folder && process.env[INSIDE]) watch(folder);
else if (folder && isMainThread) begin(folder);

function begin(folder) {
  const runner = runnerOfThisProcess();
  if (runner === null) return;
  if (runner === "node:test" && !process.execArgv.some((one) => one === `--test-reporter=${OURS}`)) {
    startAgain();
    return;
  }
  channel = new Channel(folder);
  process.env[INSIDE] = "1";
  if (runner === "mocha") forget(channel.request); // its tests run in this very process
  if (runner === "vitest") addReporter(["--reporter", "--reporters"], ["--reporter=default"], path.join(__dirname, "node_vitest.mjs"));
  if (runner === "jest") addReporter(["--reporters"], ["--reporters=default"], path.join(__dirname, "node_jest.cjs"));
  if (runner === "mocha") addReporter([], [], path.join(__dirname, "node_mocha.cjs"));
}

function runnerOfThisProcess() {
  if (process.execArgv.includes("--test")) return "node:test";
  let script = process.argv[1] || "";
  try {
    script = fs.realpathSync(script);
  } catch {
    return null;
  }
  const found = RUNNERS.find(([, pattern]) => pattern.test(script));
  return found ? found[0] : null;
}

/** Reporters of `node --test` are read from its options before any code of ours runs: run it once more, with one more. */
function startAgain() {
  const told = process.execArgv;
  const count = (name) => told.filter((one) => one === name || one.startsWith(`${name}=`)).length;
  const [reporters, destinations] = [count("--test-reporter"), count("--test-reporter-destination")];
  const added = [];
  if (!reporters) added.push("--test-reporter=spec");
  if (!destinations && reporters < 2) added.push("--test-reporter-destination=stdout");
  added.push(`--test-reporter=${OURS}`, "--test-reporter-destination=/dev/null");
  const argv = [...told, ...added, ...process.argv.slice(1)];
  const ended = require("child_process").spawnSync(process.execPath, argv, { stdio: "inherit" });
  process.exit(ended.status === null ? 1 : ended.status);
}

/** As if the command named it: `named` are the options that name reporters, `usual` what holds where none is named. */
function addReporter(named, usual, reporter) {
  const argv = process.argv;
  const isNamed = argv.some((one) => named.some((option) => one === option || one.startsWith(`${option}=`)));
  const option = named.length ? named[named.length - 1] : "--reporter";
  const end = argv.indexOf("--");
  // Last, as an option that takes a list would swallow what follows it.
  argv.splice(end < 0 ? argv.length : end, 0, ...(isNamed ? [] : usual), `${named.length ? named[0] : option}=${reporter}`);
}

/** The environment that the command would have without us. */
function forget(request) {
  delete process.env[FOLDER];
  delete process.env[INSIDE];
  if (request.restore.NODE_OPTIONS === null) delete process.env.NODE_OPTIONS;
  else process.env.NODE_OPTIONS = request.restore.NODE_OPTIONS;
}

/** In a process or thread that runs tests: what they are decided with is to be at the end as it was before they came. */
function watch(folder) {
  const assert = require("assert");
  const sealed = { assert, "assert.strict": assert.strict, Object, Array, Number, JSON, Reflect, Promise, Error, process: { exit: 1, reallyExit: 1 } };
  for (const one of [Object, Array, String, Number, Function, Promise, Map, Set, RegExp, Error]) sealed[`${one.name}.prototype`] = one.prototype;
  const before = [];
  for (const [name, object] of Object.entries(sealed)) {
    for (const key of Reflect.ownKeys(object)) {
      const owner = name === "process" ? process : object;
      const found = Reflect.getOwnPropertyDescriptor(owner, key);
      if (found && typeof found.value === "function") before.push([`${name}.${String(key)}`, owner, key, found.value]);
    }
  }
  const { getOwnPropertyDescriptor } = Reflect;
  const open = () => new Channel(folder);
  let request = null;
  try {
    request = JSON.parse(readFileSync(path.join(folder, "request.json"), "utf8"));
  } catch {
    return;
  }
  if (isMainThread) forget(request);
  process.on("exit", () => {
    const changed = before.filter(([, owner, key, value]) => (getOwnPropertyDescriptor(owner, key) || {}).value !== value);
    if (!changed.length) return;
    const told = open();
    told.send("hello");
    for (const [name] of changed.slice(0, 50)) told.send("mark", { mark: `: replaced ${name}` });
  });
}
