"""How repositories of other languages than Python are tested, told by their files and their commands."""

import json

import pytest

from agent.ci.project import ecosystems
from agent.ci.project.commands import read_command
from agent.ci.project.install_commands import installs
from agent.contract.verdicts import Reader
from sandbox.base import Packages


def package(test: str | None = None, **tables: object) -> str:
    return json.dumps({"name": "p", **({"scripts": {"test": test}} if test is not None else {}), **tables})


@pytest.mark.parametrize(
    ("texts", "paths", "command", "reader", "node"),
    [
        ({"package.json": package("vitest run", devDependencies={"vitest": "2"})}, [], "npm test", "javascript", (".",)),
        ({"package.json": package("node --test")}, [], "npm test", "javascript", ()),
        ({"package.json": package("tsx --test src/*.ts")}, [], "npm test", "javascript", ()),
        ({"package.json": package("ava", devDependencies={"ava": "6"})}, [], "npm test", "exit", (".",)),
        ({"package.json": package(devDependencies={"jest": "29"})}, [], "npx jest", "javascript", (".",)),
        ({"package.json": package("echo no test specified")}, ["a.test.js"], "node --test", "javascript", ()),
        ({"web/package.json": package("mocha", devDependencies={"mocha": "11"})}, [], "npm test", "javascript", ("web",)),
        ({"go.mod": "module a"}, ["a_test.go"], "go test ./...", "go", ()),
        ({"Cargo.toml": "[package]"}, [], "cargo test", "rust", ()),
        ({"pom.xml": "<project/>"}, ["mvnw"], "./mvnw -B -o test", "java", ()),
        ({"build.gradle": ""}, [], "gradle --offline test", "exit", ()),
    ],
)  # fmt: skip
def test_a_repository_is_tested_as_its_own_files_say(
    texts: dict[str, str], paths: list[str], command: str, reader: Reader, node: tuple[str, ...]
) -> None:
    found = ecosystems.detect([*texts, *paths], texts)
    assert found is not None
    assert (found.check.command, found.check.reader, found.packages) == (command, reader, Packages(node=node))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"scripts": []}', '{"scripts": {"test": 3}}', '{"scripts": {}}'])
def test_a_manifest_that_says_nothing_is_no_way_to_test(text: str) -> None:
    assert ecosystems.detect(["package.json"], {"package.json": text}) is None


@pytest.mark.parametrize(
    ("text", "reader"),
    [
        ("npm ci\nnpm test", "javascript"), ("npm t -- --reporter=dot", "javascript"), ("npm run unit", "javascript"),
        ("npm run lint", "exit"), ("npx vitest run", "javascript"), ("npx eslint .", "exit"), ("yarn unit", "javascript"),
        ("pnpm exec jest", "javascript"), ("node --test", "javascript"), ("node test.js", "exit"),
        ("./node_modules/.bin/mocha -r ts-node/register", "javascript"), ("CI=1 npx jest --ci", "javascript"),
        ("go test -race ./...", "go"), ("go vet ./...", "exit"), ("cargo test --all-features", "rust"),
        ("cargo +stable test", "rust"), ("cargo build", "exit"), ("mvn -B verify", "java"), ("./gradlew test", "exit"),
    ],
)  # fmt: skip
def test_a_command_is_read_by_the_runner_that_it_leads_to(text: str, reader: Reader) -> None:
    manifest = json.dumps({"scripts": {"test": "vitest run", "unit": "jest", "lint": "eslint ."}})
    assert read_command(text, lambda path: manifest).reader == reader


@pytest.mark.parametrize("text", ["npm ci", "npm install", "yarn install --frozen-lockfile", "yarn", "pnpm install"])
def test_what_a_manager_installs_is_left_to_the_install_step(text: str) -> None:
    assert installs(text.split()) == Packages(node=(".",))


def test_a_single_package_that_a_step_adds_is_no_install_of_the_project() -> None:
    assert installs(["npm", "install", "left-pad"]) is None
