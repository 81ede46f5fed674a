// The reporter of jest: sits in the process that hands the files to its workers, or runs them itself where they are few.
"use strict";

const { Telling } = require("./node_telling.cjs");
const VERDICTS = { passed: "passed", failed: "failed", pending: "skipped", skipped: "skipped", todo: "skipped", disabled: "skipped" };

module.exports = class Reporter {
  constructor() {
    this.telling = new Telling("jest");
  }

  onTestCaseStart(test, { ancestorTitles, title }) {
    this.telling.start(this.telling.id(test.path, [...ancestorTitles, title]));
  }

  onTestResult(test, result) {
    for (const one of result.testResults) {
      const id = this.telling.id(test.path, [...one.ancestorTitles, one.title]);
      this.telling.verdict(id, VERDICTS[one.status] || "error", one.duration, error(one.failureDetails, one.failureMessages));
    }
    if (result.testExecError || (result.failureMessage && !result.testResults.length)) {
      this.telling.verdict(this.telling.id(test.path, []), "error", 0, error([result.testExecError], [result.failureMessage]));
    }
  }

  onRunComplete() {
    this.telling.end();
  }

  getLastError() {}
};

/** jest carries errors as text, with what was compared in it. */
function error(details, messages) {
  const text = String((messages || [])[0] || "").replace(/\u001b\[[0-9;]*m/g, "");
  const known = (details || [])[0];
  const name = known && known.name ? known.name : (/^(\w*Error)\b/.exec(text) || ["", "Error"])[1];
  return { name, message: text.split(/\n\s+at /)[0], stack: text };
}
