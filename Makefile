SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo screenshots bench test test-ci test-all coverage mutations chaos fuzz check format docs lock clean

BIN := .venv/bin
# Without bytecode each process compiles our modules again; the tests start thousands.
unexport PYTHONDONTWRITEBYTECODE

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: .venv/.ready ## create .venv with the locked dependencies, and install missing system programs

.venv/.ready: requirements-dev.lock pyproject.toml deploy/setup.sh
	@deploy/setup.sh

.venv/.ready-for-tests: .venv/.ready
	@deploy/setup.sh tests

demo: setup ## heal a sample repository on this machine, without an account or a key (ONCE=1: exit afterwards; BUG=hard needs a model)
	@$(BIN)/python -m deploy.demo $(if $(ONCE),--once) $(if $(BUG),--bug $(BUG)) $(DEMO_ARGS)

screenshots: .venv/.ready-for-tests ## make the pictures in docs/images from real attempts in a real browser
	@$(BIN)/python -m deploy.screenshots

bench: .venv/.ready-for-tests ## measure Selfheal's speed and memory on this machine (FIGURES="webhooks fix": only these; BENCH_ARGS=--json)
	@$(BIN)/python -m tests.bench $(FIGURES) $(BENCH_ARGS)

# More pytest workers than cores, as tests also wait; long tests start many processes of their own. A module's tests run in one
# worker, so their shared fixtures start once.
CORES := $$(getconf _NPROCESSORS_ONLN)
TOGETHER := --dist loadscope --no-loadscope-reorder
QUICK_WORKERS := -n $$(($(CORES) + 2)) $(TOGETHER)
WORKERS := -n $$(($(CORES) + 1)) $(TOGETHER)

test: .venv/.ready-for-tests ## run the quick tests (ROOM=agent/guard: those of one room)
	@$(BIN)/python -m pytest --tier quick $(if $(ROOM),$(ROOM:%=tests/%),$(QUICK_WORKERS)) $(PYTEST_ARGS)

test-ci: .venv/.ready-for-tests ## run the quick tests and the long tests that tests/tiers.py names
	@$(BIN)/python -m pytest --tier ci $(WORKERS) --durations=40 $(PYTEST_ARGS)

test-all: .venv/.ready-for-tests ## run all tests
	@$(BIN)/python -m pytest --tier all $(WORKERS) $(PYTEST_ARGS)

coverage: .venv/.ready-for-tests ## show the lines that the quick tests cover, except in other processes (ROOM=agent/guard: one room)
	@$(BIN)/python -m pytest --tier quick $(if $(ROOM),$(ROOM:%=tests/%) --cov=$(ROOM),$(WORKERS) --cov=app --cov=agent --cov=sandbox --cov=webhooks) --cov-report=term:skip-covered $(PYTEST_ARGS)

mutations: .venv/.ready-for-tests ## count the seeded bugs that the tests find (MUTATIONS_ARGS="--tier all")
	@$(BIN)/python -m tests.mutations $(MUTATIONS_ARGS)

chaos: .venv/.ready-for-tests ## kill, freeze, fill and flood the service (SCENARIOS="kill-* storm": only these; all take a quarter of an hour)
	@$(BIN)/python -m tests.chaos.run $(SCENARIOS) $(CHAOS_ARGS)

fuzz: .venv/.ready-for-tests ## try hostile input for half an hour (FUZZ_ARGS="--minutes 5 --only logs,diffs": shorter, and only these)
	@$(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

check: setup ## check formatting, lint, types and import layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup ## format the code and apply lint fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: setup ## regenerate the table of settings in docs/configuration.md
	@$(BIN)/python -m deploy.document

lock: setup ## update the lock files (with hashes, for all platforms)
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --custom-compile-command "make lock" pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --custom-compile-command "make lock" pyproject.toml --group dev -o requirements-dev.lock
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --custom-compile-command "make lock" --group build -o requirements-build.lock

clean: ## remove .venv, .selfheal and caches
	@rm -rf .venv .selfheal .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
