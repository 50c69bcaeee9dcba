# Everything runs from .venv, which the first target to need it builds. Start with: make demo
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src -name '*.c' -o -name '*.h' 2>/dev/null) $(wildcard CMakeLists.txt)

.DEFAULT_GOAL := help
.PHONY: help setup demo test check results clean

help:
	@echo "make demo    train a network on digits and show what it costs"
	@echo "make test    run every test"
	@echo "make check   lint and type-check"
	@echo "make results write RESULTS.md and the page from results/"
	@echo "make setup   build .venv (the others do it by themselves)"

# Editable, so that Python edits need no reinstall; a changed C source or pyproject.toml does.
$(VENV)/installed: pyproject.toml constraints.txt $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

setup: $(VENV)/installed

demo: setup
	$(BIN)/hadamrnn demo

test: setup
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

results: setup
	$(BIN)/hadamrnn report --results results --out .

clean:
	rm -rf $(VENV) build dist demo .mypy_cache .pytest_cache .ruff_cache .hypothesis
