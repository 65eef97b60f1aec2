# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
# Tested versions for the Python at hand (constraints-3.11.txt, constraints-3.13.txt, or the nearest).
CONSTRAINTS := $(shell $(firstword $(wildcard $(BIN)/python) $(PYTHON)) tools/constraints.py)
# A Python 3.13 that runs (a pyenv shim on the path need not); `make test-fast-313 PYTHON313=...` names another.
PYTHON313 ?= $(firstword $(foreach python,python3.13 $(wildcard $(HOME)/.pyenv/versions/3.13.*/bin/python3.13),\
  $(shell $(python) -c 'print("$(python)")' 2>/dev/null)))
WORKERS ?= 2
# The suite and the benchmarks start the command hundreds of times: without bytecode each compiles 260 modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-fast test-fast-313 test-slow smoke check bench docs clean

demo: $(VENV)/.demo
	$(BIN)/gymlab train CartPole-v1:ppo --wait
	$(BIN)/gymlab runs show @last
	$(BIN)/gymlab export @last --html

# Neighbouring tests share what they set up, so each worker takes a stretch of them and the first to be done helps out.
test: $(VENV)/.dev check
	GYMLAB_CHECK_SKIPS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=15

# Pure and probe tests, in a minute: what to run while working.
test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m 'fast and not slow'

# The same on the newest supported Python, which has a newer JAX.
test-fast-313:
	@if [ -n "$(PYTHON313)" ]; then $(MAKE) test-fast PYTHON=$(PYTHON313) VENV=.venv-3.13; \
	else echo "test-fast-313: skipped, no Python 3.13 found (PYTHON313=... names one)"; fi

test-slow: $(VENV)/.slow
	$(BIN)/python -m pytest -m slow

smoke: $(VENV)/.dev
	$(BIN)/gymlab smoke

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check
	$(BIN)/python tools/house_report.py

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) .venv-3.13 .cache .pytest_cache .ruff_cache .mypy_cache

$(VENV)/.python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gymlab needs Python 3.11 or later, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.python pyproject.toml $(CONSTRAINTS)
	@echo "installing gymlab into $(VENV) (about half a minute) ..."
	$(PIP) install --progress-bar on -c $(CONSTRAINTS) -e '.[render,video]'
	@touch $@

$(VENV)/.dev: $(VENV)/.python pyproject.toml $(CONSTRAINTS)
	@echo "installing gymlab and what its tests need into $(VENV) ..."
	$(PIP) install --progress-bar on -c $(CONSTRAINTS) -e '.[dev]'
	@touch $@ $(VENV)/.demo

# Emulators that only the slow suite plays.
$(VENV)/.slow: $(VENV)/.dev
	$(PIP) install --progress-bar on -c $(CONSTRAINTS) -e '.[dev,vizdoom,retro]'
	@touch $@
