# Both commands set themselves up: they need Python 3.10 or later and make, and create .venv here.
PYTHON ?= python3
BIN := .venv/bin
export PYTHONDONTWRITEBYTECODE =
# Nothing is compiled at installation; what is imported is, once, and kept.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

SAMPLERS := $(patsubst %,tests/samplers/test_%.py,one_step one_step_lifted convergence correctors trajectories representations rules one_network ties truncation_on_representation)

.PHONY: test laws attack evidence quickstart docs wheel tagged format clean

quickstart: .venv/.core   ## solve a Sudoku live, train two methods for a minute each, write quickstart/report.html
	@$(BIN)/tokenloom quickstart

test: .venv/.dev          ## lint, types and every test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy & types=$$!; $(BIN)/pytest -q --numprocesses 2 --dist loadfile --no-loadscope-reorder; tests=$$?; wait $$types && exit $$tests

laws: .venv/.laws$(TORCH)  ## the laws and the start of the command line; TORCH=2.6.0 installs that version first, ROAD=compiled: tests/conftest.py
	$(BIN)/pytest -q $(if $(ROAD),--road $(ROAD) $(SAMPLERS)) tests/laws tests/processes tests/test_schedules.py tests/nn tests/oracles tests/cli/test_start.py

attack: .venv/.dev        ## damaged files and tokenizers, random commands, calls and requests, killed runs, odd terminals (six minutes)
	$(BIN)/python -m tests.attack --out build/attack.json

evidence: .venv/.dev      ## test the paper's claims again; STORIES is a folder of TinyStories, WORKERS=2 processes
	$(BIN)/tokenloom evidence --workers $(or $(WORKERS),2) $(if $(STORIES),--stories $(STORIES))

docs: .venv/.dev          ## build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

wheel: .venv/.release     ## build the source archive and the wheel into dist/, check them, and use the wheel as its users will
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/twine check --strict dist/*
	PYTHON=$(BIN)/python scripts/check_wheel.sh

tagged:                   ## whether TAG=v0.2.0 is the version of the package, before it is released
	@grep -qx '__version__ = "$(TAG:v%=%)"' src/tokenloom/__init__.py || { echo "the tag $(TAG) is not the version in src/tokenloom/__init__.py" >&2; exit 1; }

format: .venv/.dev        ## apply the formatter and the safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:                    ## remove the environment and the caches
	rm -rf .venv site dist .pytest_cache .mypy_cache .ruff_cache

.venv/bin/pip:
	@echo "Setting up .venv (one to two minutes, once)"
	$(PYTHON) -m venv .venv
	$(INSTALL) pip # the one that comes with Python may be old, and takes twice as long

.venv/.core: pyproject.toml constraints.txt | .venv/bin/pip
	$(INSTALL) --editable ".[quickstart]"
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/pip
	$(INSTALL) --editable ".[dev]"
	$(INSTALL) --no-deps lm_eval sacrebleu portalocker tabulate lxml "diffusers; python_version >= '3.11'" # all that tests need of the extras harness and diffusers
	@touch $@

.venv/.laws$(TORCH): pyproject.toml constraints.txt | .venv/bin/pip
	sed '$(if $(TORCH),s/^torch==.*/torch==$(TORCH)/)' constraints.txt > .venv/constraints.txt
	$(INSTALL:constraints.txt=.venv/constraints.txt) --editable ".[test]"
	@touch $@

.venv/.release: pyproject.toml constraints.txt | .venv/bin/pip
	$(INSTALL) --editable ".[release]"
	@touch $@
