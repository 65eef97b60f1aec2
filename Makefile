# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
CONSTRAINTS := constraints.txt
WORKERS ?= 2
# The suite and the benchmarks start the command hundreds of times: without bytecode each compiles 260 modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-slow smoke check bench docs clean

demo: $(VENV)/.demo
	$(BIN)/gymlab train CartPole-v1:ppo
	$(BIN)/gymlab runs show @last
	$(BIN)/gymlab export @last --html

# Neighbouring tests share what they set up, so each worker takes a stretch of them and the first to be done helps out.
test: $(VENV)/.dev check
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

smoke: $(VENV)/.dev
	$(BIN)/gymlab smoke

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) .cache .pytest_cache .ruff_cache .mypy_cache

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
