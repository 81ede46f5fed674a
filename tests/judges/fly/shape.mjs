// What TypeScript says of a fly.toml: its problems, as texts, given the file as JSON on standard input.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(`${process.cwd()}/`);
const typescript = require("typescript");
const config = readFileSync(0, "utf8");
const written = `import type { FlyIoConfigSchemaFlyToml } from "@schemastore/fly";\nexport const config: FlyIoConfigSchemaFlyToml = ${config};\n`;
const name = `${process.cwd()}/fly.ts`;
const options = { strict: true, noEmit: true, moduleResolution: typescript.ModuleResolutionKind.Bundler, module: typescript.ModuleKind.ESNext };
const host = typescript.createCompilerHost(options);
const { getSourceFile, fileExists, readFile } = host;
host.fileExists = (file) => file === name || fileExists(file);
host.readFile = (file) => (file === name ? written : readFile(file));
host.getSourceFile = (file, ...rest) => (file === name ? typescript.createSourceFile(file, written, ...rest) : getSourceFile(file, ...rest));
const found = typescript.getPreEmitDiagnostics(typescript.createProgram([name], options, host));
process.stdout.write(JSON.stringify(found.map((one) => typescript.flattenDiagnosticMessageText(one.messageText, "\n"))));
