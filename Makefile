# Every target makes the virtual environment it needs, so any of them may be the first command.
# `make PYTHON=/path/to/python3 …` chooses another interpreter.
#
# The wheel of claude-agent-sdk brings Claude Code itself, 400 MB that no test needs; what is built
# from source drives the one that is installed, and in tests a scripted one.

ifndef PYTHON
PYTHON := $(shell for name in python3 python3.11 python3.12 python3.13 python3.14 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo "$$name" && break; done)
endif

VENV := .venv
BIN := $(VENV)/bin
USER_STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
BENCH_STAMP := $(VENV)/.installed-bench
MUTATION_STAMP := $(VENV)/.installed-mutation
PYTEST_ARGS ?=
# Half of what many tests do is to wait for other processes.
WORKERS ?= $(shell "$(PYTHON)" -c 'import os; print(-(-3 * (os.cpu_count() or 1) // 2))')
BENCH_ARGS ?=
# Of `make VERSIONS="3.13 pysqlite3" test-all`; empty is every Python installed, and pysqlite3.
VERSIONS ?=
# Of `make MODULE=reactive_sqlite.region SHARE=3 mutation`; empty is all, a share is in tenths.
MODULE ?=
SHARE ?= 10
EXTRAS ?= dev
FROM_SOURCE := --no-binary claude-agent-sdk

.PHONY: help demo test test-all mutation soak check lint types bench clean
.DELETE_ON_ERROR:

help:
	@echo 'make demo      three processes, one database, live (under a minute)'
	@echo 'make test      the tests, also those of the documents'
	@echo 'make test-all  the tests on every Python that is installed, and on pysqlite3'
	@echo 'make mutation  which changes to the heart of it the tests would notice (long)'
	@echo 'make check     format, lint, types and tests, as CI runs them'
	@echo 'make bench     what everything costs, beside others and beside work by hand'
	@echo 'make soak      the long runs'
	@echo 'make clean     remove the virtual environment and caches'

demo: $(USER_STAMP)
	$(BIN)/smithers demo

test: $(DEV_STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-all:
	"$(PYTHON)" -m tests.versions $(VERSIONS)

mutation: $(MUTATION_STAMP)
	nice -n 10 $(BIN)/python -m tests.mutants --share $(SHARE) $(MODULE)

soak: $(DEV_STAMP)
	$(BIN)/python -m pytest -m soak -rP $(PYTEST_ARGS)

check: lint types test

lint: $(DEV_STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(DEV_STAMP)
	$(BIN)/mypy
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python

bench: $(BENCH_STAMP)
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

clean:
	rm -rf $(VENV) .venv-* build/mutation .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/pyvenv.cfg:
	@test -n "$(PYTHON)" || { \
		echo 'No Python 3.11 or newer was found. Install one, or say where it is:' >&2; \
		echo '    make PYTHON=/path/to/python3.11 demo' >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo '$(PYTHON) cannot make virtual environments (no ensurepip).' >&2; \
		echo 'On Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

$(USER_STAMP): pyproject.toml | $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(DEV_STAMP): pyproject.toml | $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(FROM_SOURCE) --editable '.[$(EXTRAS)]'
	@touch $@ $(USER_STAMP)

$(MUTATION_STAMP): pyproject.toml | $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(FROM_SOURCE) \
		--editable '.[dev,mutation]'
	@touch $@ $(DEV_STAMP) $(USER_STAMP)

$(BENCH_STAMP): pyproject.toml | $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@ $(USER_STAMP)
