// The reporter of vitest, whose tests run in threads or processes of their own. Old versions tell of everything at the end.
import { createRequire } from "node:module";

const { Telling } = createRequire(import.meta.url)("./node_telling.cjs");

export default class Reporter {
  constructor() {
    this.telling = new Telling("vitest");
    this.isOver = false;
  }

  onTestCaseReady(test) {
    if (test.task) this.telling.start(this.id(test.task));
  }

  onTestCaseResult(test) {
    if (test.task) this.tell(test.task);
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
      this.tellGroup(file);
    }
    this.telling.end();
  }

  walk(task) {
    for (const one of task.tasks || []) this.walk(one);
    if (task.type === "suite") this.tellGroup(task);
    else this.tell(task);
  }

  /** A file or suite has a verdict of its own only where it could not be asked. */
  tellGroup(group) {
    const { errors = [], duration } = group.result || {};
    if (errors.length) this.telling.verdict(this.id(group), "error", duration, errors[0]);
  }

  tell(task) {
    const { state, errors = [], duration } = task.result || {};
    if (state === "fail") this.telling.verdict(this.id(task), "failed", duration, errors[0]);
    else if (state === "pass") this.telling.verdict(this.id(task), "passed", duration);
    else if (task.mode === "skip" || task.mode === "todo" || state === "skip") this.telling.verdict(this.id(task), "skipped", 0);
  }

  id(task) {
    const names = [];
    for (let one = task; one && one !== task.file && one.filepath === undefined; one = one.suite) if (one.name) names.unshift(one.name);
    const file = task.filepath || (task.file && task.file.filepath);
    return this.telling.id(file, names);
  }
}
