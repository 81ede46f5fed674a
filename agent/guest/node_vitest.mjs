// The reporter for vitest, which runs tests in separate threads or processes. Old versions report everything at the end.
import { createRequire } from "node:module";

const { ResultSender } = createRequire(import.meta.url)("./node_sender.cjs");

export default class Reporter {
  constructor() {
    this.sender = new ResultSender("vitest");
    this.isOver = false;
  }

  onTestCaseReady(test) {
    if (test.task) this.sender.start(this.id(test.task));
  }

  onTestCaseResult(test) {
    if (test.task) this.send(test.task);
  }

  onTestRunEnd(modules) {
    this.finish(modules.map((one) => one.task).filter(Boolean));
  }

  onFinished(files) {
    this.finish(files || []);
  }

  finish(files) {
    if (this.isOver) return;
    this.isOver = true;
    for (const file of files) {
      for (const task of file.tasks || []) this.walk(task);
      this.sendGroup(file);
    }
    this.sender.end();
  }

  walk(task) {
    for (const one of task.tasks || []) this.walk(one);
    if (task.type === "suite") this.sendGroup(task);
    else this.send(task);
  }

  /** A file or suite has a verdict of its own only if it could not run. */
  sendGroup(group) {
    const { errors = [], duration } = group.result || {};
    if (errors.length) this.sender.verdict(this.id(group), "error", duration, errors[0]);
  }

  send(task) {
    const { state, errors = [], duration } = task.result || {};
    if (state === "fail") this.sender.verdict(this.id(task), "failed", duration, errors[0]);
    else if (state === "pass") this.sender.verdict(this.id(task), "passed", duration);
    else if (task.mode === "skip" || task.mode === "todo" || state === "skip") this.sender.verdict(this.id(task), "skipped", 0);
  }

  id(task) {
    const names = [];
    for (let one = task; one && one !== task.file && one.filepath === undefined; one = one.suite) if (one.name) names.unshift(one.name);
    const file = task.filepath || (task.file && task.file.filepath);
    return this.sender.id(file, names);
  }
}
