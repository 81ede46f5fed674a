// The reporter of mocha: in the process of the tests, unless they run in parallel. What people read is the spec reporter's.
"use strict";

const path = require("path");
const { createRequire } = require("module");
const { Telling } = require("./node_telling.cjs");

const { Spec } = createRequire(path.resolve(process.argv[1]))("mocha").reporters;

module.exports = class Reporter extends Spec {
  constructor(runner, options) {
    super(runner, options);
    const telling = new Telling("mocha");
    const id = (test) => telling.id(fileOf(test), titles(test));
    runner.on("test", (test) => telling.start(id(test)));
    runner.on("pass", (test) => telling.verdict(id(test), "passed", test.duration));
    runner.on("pending", (test) => telling.verdict(id(test), "skipped", 0));
    runner.on("fail", (test, error) => telling.verdict(id(test), test.type === "hook" ? "error" : "failed", test.duration, error));
    runner.on("end", () => telling.end());
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
