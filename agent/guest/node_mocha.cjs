// The reporter for mocha: runs in the tests' process, unless they run in parallel. Prints what the spec reporter prints.
"use strict";

const path = require("path");
const { createRequire } = require("module");
const { ResultSender } = require("./node_sender.cjs");

const { Spec } = createRequire(path.resolve(process.argv[1]))("mocha").reporters;

module.exports = class Reporter extends Spec {
  constructor(runner, options) {
    super(runner, options);
    const sender = new ResultSender("mocha");
    const id = (test) => sender.id(fileOf(test), titles(test));
    runner.on("test", (test) => sender.start(id(test)));
    runner.on("pass", (test) => sender.verdict(id(test), "passed", test.duration));
    runner.on("pending", (test) => sender.verdict(id(test), "skipped", 0));
    runner.on("fail", (test, error) => sender.verdict(id(test), test.type === "hook" ? "error" : "failed", test.duration, error));
    runner.on("end", () => sender.end());
  }
};

function fileOf(test) {
  let one = test;
  while (one && !one.file) one = one.parent;
  return one ? one.file : "";
}

function titles(test) {
  const found = typeof test.titlePath === "function" ? test.titlePath() : [test.title];
  return found.filter(Boolean);
}
