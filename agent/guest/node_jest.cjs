// The reporter for jest: runs in the process that hands the files to its workers, or runs a few files itself.
"use strict";

const { ResultSender } = require("./node_sender.cjs");
const VERDICTS = { passed: "passed", failed: "failed", pending: "skipped", skipped: "skipped", todo: "skipped", disabled: "skipped" };

module.exports = class Reporter {
  constructor() {
    this.sender = new ResultSender("jest");
  }

  onTestCaseStart(test, { ancestorTitles, title }) {
    this.sender.start(this.sender.id(test.path, [...ancestorTitles, title]));
  }

  onTestResult(test, result) {
    for (const one of result.testResults) {
      const id = this.sender.id(test.path, [...one.ancestorTitles, one.title]);
      this.sender.verdict(id, VERDICTS[one.status] || "error", one.duration, error(one.failureDetails, one.failureMessages));
    }
    if (result.testExecError || (result.failureMessage && !result.testResults.length)) {
      this.sender.verdict(this.sender.id(test.path, []), "error", 0, error([result.testExecError], [result.failureMessage]));
    }
  }

  onRunComplete() {
    this.sender.end();
  }

  getLastError() {}
};

/** jest reports errors as text, which includes the compared values. */
function error(details, messages) {
  const text = String((messages || [])[0] || "").replace(/\u001b\[[0-9;]*m/g, "");
  const known = (details || [])[0];
  const name = known && known.name ? known.name : (/^(\w*Error)\b/.exec(text) || ["", "Error"])[1];
  return { name, message: text.split(/\n\s+at /)[0], stack: text };
}
