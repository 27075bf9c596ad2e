# Everything a person or a build machine does with this checkout. `make help` lists the targets.
#
# Each target sets up what it needs in $(VENV) first; scripts/setup_env.py does it, and returns at once where
# nothing has changed.

PYTHON ?= python3
VENV ?= .venv
# Index to take PyTorch from when it is first installed. Empty: pip's own, whose Linux build carries CUDA (several GB).
TORCH_INDEX ?=
# Processes that run the tests.
WORKERS ?= 2
# More arguments for pytest, such as TESTS="tests/storage -x".
TESTS ?=

BIN := $(VENV)/bin
CHECKED := src tests benchmarks scripts examples

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick check format bench clean distclean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'
	@echo 'Variables: PYTHON=python3.12, TORCH_INDEX=URL (an index of CPU builds saves gigabytes), WORKERS=2, TESTS=...'

setup: ## make .venv and install into it (every other target does it)
	@$(PYTHON) scripts/setup_env.py --venv '$(VENV)' --torch-index '$(TORCH_INDEX)'

demo: setup ## run the main job on its tracks, decide, and say where report and dossier are
	@$(BIN)/python examples/pilot/prepare.py
	@$(BIN)/python examples/pilot/demo.py

test: check ## checks and all tests
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $(TESTS)

quick: setup ## tests that start no process and no browser
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m 'not slow' $(TESTS)

check: setup ## lint, format, types
	@$(BIN)/python -m ruff check $(CHECKED)
	@$(BIN)/python -m ruff format --check $(CHECKED)
	@$(BIN)/python -m mypy

format: setup ## rewrite the sources in our format
	@$(BIN)/python -m ruff check --fix $(CHECKED)
	@$(BIN)/python -m ruff format $(CHECKED)

bench: setup ## all benchmarks, one after the other
	@status=0; for file in benchmarks/[!_]*.py; do echo "== $$file"; $(BIN)/python "$$file" || status=1; done; exit $$status

clean: ## remove what tools left behind; runs and .venv stay
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find src tests benchmarks scripts examples -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## clean, and remove .venv
	@rm -rf '$(VENV)'
