// Preloaded into every Node process of a check (NODE_OPTIONS): finds the one that runs tests and has it tell what they do, over
// the supervisor's socket. A process that a test runner starts tells nothing but what was done to what tests decide with.
//
// Standard library only, old Nodes too (16 and later). Nothing in here keeps a secret from code in its own process.
"use strict";

const fs = require("fs");
const path = require("path");
const Module = require("module");
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
const STARTER = /[\\/]mocha[\\/]bin[\\/]mocha(?:\.c?js)?$/; // goes on by itself, or in a process of its own where Node has options
const STARTED = /[\\/]mocha[\\/]lib[\\/]cli[\\/]cli\.js$/;
// With one of these a runner runs no test, and so comes to no end of them.
const IDLE = /^(?:-h|--help|-v|-V|--version|--clearCache|--showConfig|--listTests|--list-(?:files|reporters|interfaces)|--init|init|list)$/;

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
let isAwaited = false; // the process that runs the tests may still become another one
module.exports = {
  /** The channel of the process that runs the tests; null in any other. Its reporter takes it once. */
  take() {
    if (isAwaited) greet("mocha");
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
  if (runner === "mocha" && STARTER.test(scriptOfThisProcess())) awaitMocha();
  else greet(runner);
  if (runner === "vitest") addReporter(["--reporter", "--reporters"], ["--reporter=default"], path.join(__dirname, "node_vitest.mjs"));
  if (runner === "jest") addReporter(["--reporters"], ["--reporters=default"], path.join(__dirname, "node_jest.cjs"));
  if (runner === "mocha") addReporter([], [], path.join(__dirname, "node_mocha.cjs"));
}

/** First of all that this process does: whoever speaks later, from here or from below, is not believed. */
function greet(runner) {
  isAwaited = false;
  const own = new Channel(folder);
  channel = own;
  process.env[INSIDE] = "1";
  if (runner === "mocha") forget(own.request); // its tests run in this very process
  own.send("hello", { runner, idle: process.argv.slice(2).some((one) => IDLE.test(one)) });
  process.on("exit", () => own.send("bye"));
}

/** Greet as soon as this process goes on with the tests itself; the process that it may start instead is a runner by its name. */
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
  if (argv.some((one) => one.endsWith(reporter))) return; // by the process that started this one
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

/** In a process or thread that runs tests: what they are decided with is to be, whenever it is looked at, as it was before. */
function watch(folder) {
  const assert = require("assert");
  const sealed = { assert, "assert.strict": assert.strict, Object, Array, Number, JSON, Reflect, Promise, Error, process: { exit: 1, reallyExit: 1 } };
  for (const one of [Object, Array, String, Number, Function, Promise, Map, Set, RegExp, Error]) sealed[`${one.name}.prototype`] = one.prototype;
  const before = [];
  const told = new Set();
  let channel = null;
  const tell = (name) => {
    if (told.has(name) || told.size >= 50) return;
    told.add(name);
    if (!channel) (channel = new Channel(folder)).send("hello");
    channel.send("mark", { mark: `: replaced ${name}` });
  };
  for (const [name, owner] of [["assert", assert], ["assert.strict", assert.strict]]) guardMembers(name, owner, tell);
  const leave = process.reallyExit;
  process.reallyExit = function (...told) {
    look();
    return leave.apply(process, told);
  };
  for (const [name, object] of Object.entries(sealed)) {
    for (const key of Reflect.ownKeys(object)) {
      const owner = name === "process" ? process : object;
      const found = Reflect.getOwnPropertyDescriptor(owner, key);
      const value = found && (found.get || found.value);
      if (typeof value === "function") before.push([`${name}.${String(key)}`, owner, key, value]);
    }
  }
  const { getOwnPropertyDescriptor } = Reflect;
  function look() {
    for (const [name, owner, key, value] of before) {
      const found = getOwnPropertyDescriptor(owner, key) || {};
      if ((found.get || found.value) !== value) tell(name);
    }
  }
  let request = null;
  try {
    request = JSON.parse(readFileSync(path.join(folder, "request.json"), "utf8"));
  } catch {
    return;
  }
  if (isMainThread) forget(request);
  process.on("exit", look);
  process.on("beforeExit", look);
  setImmediate(look).unref();
}

/** What is given to a member is told at once: it may be taken back before anybody looks. */
function guardMembers(name, owner, tell) {
  for (const key of Object.keys(owner)) {
    let { value, configurable } = Reflect.getOwnPropertyDescriptor(owner, key);
    if (typeof value !== "function" || !configurable) continue;
    const get = () => value;
    const set = (other) => {
      tell(`${name}.${key}`);
      value = other;
    };
    Object.defineProperty(owner, key, { get, set, configurable: true, enumerable: true });
  }
}
