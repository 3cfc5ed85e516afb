# Both commands set themselves up: they need Python 3.10 or later and make, and create .venv here.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE =
# Nothing is compiled at installation; what is imported is, once, and kept.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

.PHONY: test attack quickstart docs format clean

quickstart: .venv/.core   ## solve a Sudoku live, train two methods for a minute each, write quickstart/report.html
	@$(BIN)/tokenloom quickstart

test: .venv/.dev          ## lint, types and every test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q --numprocesses 2 --dist loadfile

attack: .venv/.dev        ## damaged files, random commands and calls, killed runs (five minutes)
	$(BIN)/python -m tests.attack --out build/attack.json

docs: .venv/.dev          ## build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: .venv/.dev        ## apply the formatter and the safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:                    ## remove the environment and the caches
	rm -rf .venv site .pytest_cache .mypy_cache .ruff_cache

.venv/bin/pip:
	@echo "Setting up .venv (one to two minutes, once)"
	$(PYTHON) -m venv .venv

.venv/.core: pyproject.toml constraints.txt | .venv/bin/pip
	$(INSTALL) --editable ".[quickstart]"
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/pip
	$(INSTALL) --editable ".[dev]"
	$(INSTALL) --no-deps lm_eval sacrebleu portalocker tabulate lxml # what the tests need of the extra harness
	@touch $@
