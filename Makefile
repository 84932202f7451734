# `make up` starts Cascade here; `make test` runs lint, types and all tests. Both install what they need into .venv.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: up serve test lint types pytest format screenshots clean

up: $(INSTALLED)
	@$(BIN)/cascade up

serve: $(INSTALLED)
	@$(BIN)/cascade serve

test: lint types pytest

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

# Last, so that its summary closes the output.
pytest: $(INSTALLED)
	$(BIN)/pytest -n 2

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

screenshots: $(INSTALLED)
	$(BIN)/pytest tests/tui/test_scenes.py -q --update-screenshots

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Cascade needs Python 3.11 or later, but $(PYTHON) is " + sys.version.split()[0] + "; set PYTHON.") if sys.version_info < (3, 11) else None'
	@echo "Installing Cascade into $(VENV) (once) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
