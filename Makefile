SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo screenshots bench test chaos check format docs lock clean

BIN := .venv/bin

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: .venv/.ready ## .venv with the locked dependencies, and the system programs that are missing

.venv/.ready: requirements-dev.lock pyproject.toml deploy/setup.sh
	@deploy/setup.sh

.venv/.ready-for-tests: .venv/.ready
	@deploy/setup.sh tests

demo: setup ## the main job on this machine, with no account and no key (ONCE=1 ends by itself, BUG=hard needs a model)
	@$(BIN)/python -m deploy.demo $(if $(ONCE),--once) $(if $(BUG),--bug $(BUG)) $(DEMO_ARGS)

screenshots: .venv/.ready-for-tests ## the pictures of docs/images, of real attempts in a real browser
	@$(BIN)/python -m deploy.screenshots

bench: .venv/.ready-for-tests ## what Selfheal costs on this machine (FIGURES="webhooks fix" chooses, BENCH_ARGS=--json)
	@$(BIN)/python -m tests.bench $(FIGURES) $(BENCH_ARGS)

test: .venv/.ready-for-tests ## all tests, a process for each core
	@$(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder $(PYTEST_ARGS); code=$$?; \
	if [ $$code = 1 ] && [ -n "$(AGAIN)" ]; then \
		echo "== What failed beside other tests is run once more, alone; only what fails again counts. Flaky tests are bugs: mend them. =="; \
		$(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(PYTEST_ARGS); \
	else exit $$code; fi

chaos: .venv/.ready-for-tests ## kill, freeze, fill and flood the service (SCENARIOS="kill-* storm" chooses; takes a quarter of an hour)
	@$(BIN)/python -m tests.chaos.run $(SCENARIOS) $(CHAOS_ARGS)

check: setup ## formatting, lint, types, arrows between the rooms
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup ## format and mend what lint can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: setup ## write the configuration table of the README anew
	@$(BIN)/python -m deploy.document

lock: setup ## lock the dependencies anew (hashed, for all platforms)
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --custom-compile-command "make lock" pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --custom-compile-command "make lock" pyproject.toml --group dev -o requirements-dev.lock
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --custom-compile-command "make lock" --group build -o requirements-build.lock

clean: ## remove what was made here
	@rm -rf .venv .selfheal .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
