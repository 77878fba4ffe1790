# Two commands for people: `make demo` and `make test`. Both make .venv on first use and install again only when
# pyproject.toml or constraints.txt changed.

VENV := .venv
BIN := $(VENV)/bin
TEST_EXTRAS := demo,dev,langchain
# What to test, and anything else for pytest: make unit TESTS=tests/core PYTEST_ARGS=-x
TESTS ?= tests
PYTEST_ARGS ?=
# MODELS=1 also runs the tests that need gemma-270m (assemble it first: .venv/bin/demur models fetch gemma-270m).
MODELS ?=
MARKER_ARGS := $(if $(MODELS),,-m "not models")
# Passed on to the demo: make demo ARGS="--large qwen-1.5b"
ARGS ?=

# Two pytest workers, one thread each: more threads than cores make numeric code slower, not faster.
TEST_ENV := HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo install test lint types imports unit format clean

help:  ## What can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/.installed-demo  ## Run the demo (no key needed; the first run downloads a small model)
	$(BIN)/demur demo $(ARGS)

install: $(VENV)/.installed-test  ## Make .venv with everything that developing and testing need

# One after another even under -j, so that the last line printed is pytest's summary.
test: $(VENV)/.installed-test  ## Lint, types, import order, tests
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory imports
	@$(MAKE) --no-print-directory unit

lint: $(VENV)/.installed-test  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-test  ## pyright
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

imports: $(VENV)/.installed-test  ## The order of the rooms
	$(BIN)/lint-imports --no-logo

unit: $(VENV)/.installed-test  ## The tests alone
	$(TEST_ENV) $(BIN)/python -m pytest $(TESTS) -n 2 --dist loadfile --durations=15 $(MARKER_ARGS) $(PYTEST_ARGS)

format: $(VENV)/.installed-test  ## Mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove .venv, build output and caches
	rm -rf $(VENV) build dist demur.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@for python in $(PYTHON) python3.11 python3; do \
	  if "$$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "making $(VENV) with $$python"; exec "$$python" -m venv $(VENV); \
	  fi; \
	done; \
	echo "error: no Python 3.11 or newer with venv was found (tried: $(PYTHON) python3.11 python3)." >&2; \
	echo "Install one (Debian: python3-venv), or name one: make PYTHON=/path/to/python3.11 ..." >&2; \
	exit 1

$(VENV)/.installed-demo: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[demo]'
	@touch $@

# The tests' extras contain the demo's.
$(VENV)/.installed-test: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[$(TEST_EXTRAS)]'
	@touch $(VENV)/.installed-demo $@
