SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo screenshots bench test test-ci test-all coverage mutations chaos check format docs lock clean

BIN := .venv/bin

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

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

# A worker for each core; a module's tests stay together, so that what they share is started once.
WORKERS := -n auto --dist loadscope --no-loadscope-reorder

test: .venv/.ready-for-tests ## the quick tests (ROOM=agent/guard: those of one room)
	@$(BIN)/python -m pytest --tier quick $(if $(ROOM),$(ROOM:%=tests/%),$(WORKERS)) $(PYTEST_ARGS)

test-ci: .venv/.ready-for-tests ## the quick tests and the part of the long ones that tests/tiers.py names
	@$(BIN)/python -m pytest --tier ci $(WORKERS) $(PYTEST_ARGS)

test-all: .venv/.ready-for-tests ## all tests
	@$(BIN)/python -m pytest --tier all $(WORKERS) $(PYTEST_ARGS)

coverage: .venv/.ready-for-tests ## which lines the quick tests reach, without what runs in other processes (ROOM=agent/guard: of one room)
	@$(BIN)/python -m pytest --tier quick $(if $(ROOM),$(ROOM:%=tests/%) --cov=$(ROOM),$(WORKERS) --cov=app --cov=agent --cov=sandbox --cov=webhooks) --cov-report=term:skip-covered $(PYTEST_ARGS)

mutations: .venv/.ready-for-tests ## how many seeded bugs the tests find (MUTATIONS_ARGS="--tier all")
	@$(BIN)/python -m tests.mutations $(MUTATIONS_ARGS)

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

docs: setup ## regenerate the table of settings in docs/configuration.md
	@$(BIN)/python -m deploy.document

lock: setup ## lock the dependencies anew (hashed, for all platforms)
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --custom-compile-command "make lock" pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --custom-compile-command "make lock" pyproject.toml --group dev -o requirements-dev.lock
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --custom-compile-command "make lock" --group build -o requirements-build.lock

clean: ## remove what was made here
	@rm -rf .venv .selfheal .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
