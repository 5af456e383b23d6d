# Everything starts here. `make run` needs Python only; `make test` brings the rest.
SHELL := /bin/bash
PYTHON ?= $(shell tools/find_python)
VENV := .venv
BIN := $(VENV)/bin
RUN_DIR ?= .run
PORT ?= 9092
BROKERS ?= 3

.PHONY: help setup compile run test test-all lint types codegen bench bench-spark sim docs clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "hightide needs Python 3.11 or newer, and there is no '$(PYTHON)' on this machine."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "hightide needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; exit 1; }
	@echo "==> making a virtual environment in $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing: on Debian, 'apt-get install python3-venv' brings it."; exit 1; }

$(VENV)/.run-ready: pyproject.toml | $(BIN)/python
	@echo "==> installing hightide with its default dependencies"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[compile]' || { echo "pip could not install hightide's dependencies: is a package index reachable?"; exit 1; }
	@touch $@

$(VENV)/.dev-ready: pyproject.toml | $(BIN)/python
	@echo "==> installing hightide with everything for development"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' || { echo "pip could not install the development dependencies: is a package index reachable?"; exit 1; }
	@touch $@ $(VENV)/.run-ready

setup: $(VENV)/.dev-ready ## a virtual environment with everything for development
	@bash tools/setup_machine $(PYTHON)
	@$(BIN)/python -m tools.compile_hot_path

compile: $(VENV)/.run-ready ## the hot path as C, where a C compiler is: small requests take a third less time
	@$(BIN)/python -m tools.compile_hot_path

run: $(VENV)/.run-ready ## start $(BROKERS) brokers from 127.0.0.1:$(PORT) on, data in $(RUN_DIR)
	@$(BIN)/python -m tools.compile_hot_path || echo "==> going on with what is interpreted"
	@$(BIN)/hightide up --dir $(RUN_DIR) --port $(PORT) --brokers $(BROKERS)

test: setup lint types ## everything that proves a change, in minutes
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not long"
	@echo "==> the unit and property tests once more, interpreted"
	@HIGHTIDE_INTERPRETED=1 $(BIN)/python -m pytest -n 2 -q tests/unit tests/properties

test-all: setup lint types ## the long campaigns too
	@$(BIN)/python -m pytest -n 2 --dist loadgroup --timeout 3600

lint: $(VENV)/.dev-ready ## ruff, and the layers
	@echo "==> ruff and import-linter"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache | tail -n 6

types: $(VENV)/.dev-ready ## mypy --strict
	@echo "==> mypy --strict"
	@$(BIN)/mypy

codegen: $(VENV)/.dev-ready ## write the generated messages, tables and error codes again
	@$(BIN)/python -m codegen

bench: setup ## measure one broker, then hightide beside Apache Kafka: about an hour (run it beside nothing else)
	@$(BIN)/python -m bench

bench-spark: $(VENV)/.dev-ready ## measure our Spark source and sink beside the stock connector (beside nothing else)
	@$(BIN)/python -m bench.spark

sim: $(VENV)/.dev-ready ## the crash and power-loss campaigns on the simulated disk
	@$(BIN)/python -m pytest -n 2 tests/storage tests/simulation

docs: $(VENV)/.dev-ready ## write the generated pages of docs/ again
	@$(BIN)/python -m tools.documentation

clean: ## remove everything that was made here
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache .bench dist build
	@find . -name '*.so' -not -path './.venv/*' -delete
