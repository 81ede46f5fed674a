// Preloaded into every Node process of a check (NODE_OPTIONS): finds the one that runs tests and makes it report their results
// over the supervisor's socket. Processes that a test runner starts only report tampering with the tools of tests.
//
// Standard library only, Node 16 and later. Nothing here is hidden from code in the same process.
"use strict";

const fs = require("fs");
const path = require("path");
const Module = require("module");
const net = require("net");
const { isMainThread } = require("worker_threads");
const { randomBytes } = require("crypto");

const FOLDER = "SELFHEAL_GUEST";
const INSIDE = "SELFHEAL_INSIDE"; // set by the process that runs tests, for its children
const OURS = path.join(__dirname, "node_test.mjs");
const WAIT = new Int32Array(new SharedArrayBuffer(4));
const { stringify } = JSON;
const { writeSync, readFileSync } = fs;
const RUNNERS = [
  ["vitest", /[\\/]vitest[\\/](?:vitest|dist[\\/]cli)\.m?js$/],
  ["jest", /[\\/]jest(?:-cli)?[\\/]bin[\\/]jest\.js$/],
  ["mocha", /[\\/]mocha[\\/](?:bin[\\/]_?mocha(?:\.c?js)?|lib[\\/]cli[\\/]cli\.js)$/],
];
const STARTER = /[\\/]mocha[\\/]bin[\\/]mocha(?:\.c?js)?$/; // runs the tests itself, or in a new process if Node has options
const STARTED = /[\\/]mocha[\\/]lib[\\/]cli[\\/]cli\.js$/;
// With one of these options a runner runs no tests, so it reports no end.
const IDLE = /^(?:-h|--help|-v|-V|--version|--clearCache|--showConfig|--listTests|--list-(?:files|reporters|interfaces)|--init|init|list)$/;

/** The sending end: JSON lines, each with the key from the first one. Every line is written before `send` returns. */
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
        if (error.code !== "EAGAIN") return; // the supervisor is gone
        Atomics.wait(WAIT, 0, 0, 1);
      }
    }
  }
}

let channel = null;
let isAwaited = false; // another process can still become the one that runs the tests
module.exports = {
  /** The channel of the process that runs the tests; null in any other process. The reporter takes it once. */
  take() {
    if (isAwaited) greet("mocha");
    const taken = channel;
    channel = null;
    return taken;
  },
};

const folder = process.env[FOLDER];
if (folder && process.env[INSIDE]) detectTampering(folder);
else if (folder && isMainThread) begin(folder);

function begin(folder) {
  const runner = runnerOfThisProcess();
  if (runner === null) return;
  if (runner === "node:test" && !process.execArgv.some((one) => one === `--test-reporter=${OURS}`)) {
    startAgain();
    return;
  }
  if (runner === "mocha" && STARTER.test(scriptOfThisProcess())) awaitMocha();
  else greet(runner);
  if (runner === "vitest") addReporter(["--reporter", "--reporters"], ["--reporter=default"], path.join(__dirname, "node_vitest.mjs"));
  if (runner === "jest") addReporter(["--reporters"], ["--reporters=default"], path.join(__dirname, "node_jest.cjs"));
  if (runner === "mocha") addReporter([], [], path.join(__dirname, "node_mocha.cjs"));
}

/** Runs before anything else in this process: messages of a later session, from this process or a child, are not believed. */
function greet(runner) {
  isAwaited = false;
  const own = new Channel(folder);
  channel = own;
  process.env[INSIDE] = "1";
  if (runner === "mocha") forget(own.request); // its tests run in this process
  own.send("hello", { runner, idle: process.argv.slice(2).some((one) => IDLE.test(one)) });
  process.on("exit", () => own.send("bye"));
}

/** Greet when this process starts to run the tests itself. A process that it starts for them is recognised by its name. */
function awaitMocha() {
  const load = Module._extensions[".js"];
  isAwaited = true;
  Module._extensions[".js"] = function (module, file) {
    if (STARTED.test(file)) {
      Module._extensions[".js"] = load;
      if (isAwaited) greet("mocha");
    }
    return load.apply(this, arguments);
  };
}

function scriptOfThisProcess() {
  try {
    return fs.realpathSync(process.argv[1] || "");
  } catch {
    return "";
  }
}

function runnerOfThisProcess() {
  if (process.execArgv.includes("--test")) return "node:test";
  const script = scriptOfThisProcess();
  const found = RUNNERS.find(([, pattern]) => pattern.test(script));
  return found ? found[0] : null;
}

/** `node --test` reads its reporters from its options before our code runs, so run it again with one more reporter. */
function startAgain() {
  const options = process.execArgv;
  const count = (name) => options.filter((one) => one === name || one.startsWith(`${name}=`)).length;
  const [reporters, destinations] = [count("--test-reporter"), count("--test-reporter-destination")];
  const added = [];
  if (!reporters) added.push("--test-reporter=spec");
  if (!destinations && reporters < 2) added.push("--test-reporter-destination=stdout");
  added.push(`--test-reporter=${OURS}`, "--test-reporter-destination=stderr");
  const argv = [...options, ...added, ...process.argv.slice(1)];
  const ended = require("child_process").spawnSync(process.execPath, argv, { stdio: "inherit" });
  process.exit(ended.status === null ? 1 : ended.status);
}

/** Adds a reporter to the command's options: `named` are the options that name reporters, `usual` is the default. */
function addReporter(named, usual, reporter) {
  const argv = process.argv;
  if (argv.some((one) => one.endsWith(reporter))) return; // added by the process that started this one
  const isNamed = argv.some((one) => named.some((option) => one === option || one.startsWith(`${option}=`)));
  const option = named.length ? named[named.length - 1] : "--reporter";
  const end = argv.indexOf("--");
  // Last, because an option that takes a list would consume what follows it.
  argv.splice(end < 0 ? argv.length : end, 0, ...(isNamed ? [] : usual), `${named.length ? named[0] : option}=${reporter}`);
}

/** Restore the environment that the command would have without us. */
function forget(request) {
  delete process.env[FOLDER];
  delete process.env[INSIDE];
  if (request.restore.NODE_OPTIONS === null) delete process.env.NODE_OPTIONS;
  else process.env.NODE_OPTIONS = request.restore.NODE_OPTIONS;
}

/** In a process or thread that runs tests: reports when the tools of tests are replaced. */
function detectTampering(folder) {
  const assert = require("assert");
  const guarded = { assert, "assert.strict": assert.strict, Object, Array, Number, JSON, Reflect, Promise, Error, process: { exit: 1, reallyExit: 1 } };
  for (const one of [Object, Array, String, Number, Function, Promise, Map, Set, RegExp, Error]) guarded[`${one.name}.prototype`] = one.prototype;
  const before = [];
  const reported = new Set();
  let channel = null;
  const report = (name) => {
    if (reported.has(name) || reported.size >= 50) return;
    reported.add(name);
    if (!channel) (channel = new Channel(folder)).send("hello");
    channel.send("mark", { mark: `: replaced ${name}` });
  };
  for (const [name, owner] of [["assert", assert], ["assert.strict", assert.strict]]) guardMembers(name, owner, report);
  const leave = process.reallyExit;
  process.reallyExit = function (...args) {
    check();
    return leave.apply(process, args);
  };
  for (const [name, object] of Object.entries(guarded)) {
    for (const key of Reflect.ownKeys(object)) {
      const owner = name === "process" ? process : object;
      const found = Reflect.getOwnPropertyDescriptor(owner, key);
      const value = found && (found.get || found.value);
      if (typeof value === "function") before.push([`${name}.${String(key)}`, owner, key, value]);
    }
  }
  const { getOwnPropertyDescriptor } = Reflect;
  function check() {
    for (const [name, owner, key, value] of before) {
      const found = getOwnPropertyDescriptor(owner, key) || {};
      if ((found.get || found.value) !== value) report(name);
    }
  }
  let request = null;
  try {
    request = JSON.parse(readFileSync(path.join(folder, "request.json"), "utf8"));
  } catch {
    return;
  }
  if (isMainThread) forget(request);
  process.on("exit", check);
  process.on("beforeExit", check);
  setImmediate(check).unref();
}

/** Reports an assignment to a member at once, because it could be undone before the next check. */
function guardMembers(name, owner, report) {
  for (const key of Object.keys(owner)) {
    let { value, configurable } = Reflect.getOwnPropertyDescriptor(owner, key);
    if (typeof value !== "function" || !configurable) continue;
    const get = () => value;
    const set = (other) => {
      report(`${name}.${key}`);
      value = other;
    };
    Object.defineProperty(owner, key, { get, set, configurable: true, enumerable: true });
  }
}
