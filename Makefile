# Each target sets up what it needs in .venv; Python 3.11 or newer and a package registry suffice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The embedded model for the demo; DEMO_MODEL=smollm2 is a small download.
DEMO_MODEL ?=
# test-all runs the tests with these versions too, if they are installed.
OTHER_PYTHONS ?= 3.12 3.13 3.14

install = apt-get install --yes --quiet=2 $(1) >/dev/null 2>&1
debian = { [ "$$(id -u)" = 0 ] && { $(install) || { apt-get update --quiet=2 && $(install); }; } >/dev/null 2>&1; } \
	|| echo "$(1) is not installed: the tests that run it are skipped"

.PHONY: demo test test-all test-only check model parts docs bench clean

demo: $(VENV)/.runtime
	@$(BIN)/python -m samples.tour --yes $(DEMO_MODEL)

test: check model parts
	@$(BIN)/python -m pytest --numprocesses auto --dist worksteal -m "not slow" --cov \
		--cov-report=term:skip-covered --cov-fail-under=97

# All tests, also the slow ones and those with Ray and Spark; the property tests again with other random seeds;
# the tests with other Pythons.
test-all: check model parts $(VENV)/.engines
	@command -v java >/dev/null || $(call debian,default-jre-headless)
	@$(BIN)/python -m pytest --numprocesses auto --dist worksteal
	@for seed in 1 2 3; do \
		$(BIN)/python -m pytest --numprocesses auto --dist worksteal --quiet -m hypothesis --hypothesis-seed=$$seed \
			|| exit 1; \
	done
	@for version in $(OTHER_PYTHONS); do \
		if python$$version --version >/dev/null 2>&1; then \
			echo "With Python $$version:"; \
			$(MAKE) --no-print-directory VENV=.venv-$$version PYTHON=python$$version test-only || exit 1; \
		else \
			echo "Python $$version is not installed: the tests are not run with it"; \
		fi; \
	done

test-only: $(VENV)/.dev
	@$(BIN)/python -m pytest --numprocesses auto --dist worksteal --quiet -m "not slow"

check: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/pyright --pythonpath $(BIN)/python

model: $(VENV)/.dev
	@$(BIN)/python -m aiservices.models.local pull smollm2

# Programs that some tests run for real; those tests are skipped where they cannot be installed.
parts:
	@command -v redis-server >/dev/null || $(call debian,redis-server)
	@command -v chromium >/dev/null || $(call debian,chromium)

docs: $(VENV)/.dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

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

# Ray and Spark, which are large.
$(VENV)/.engines: $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[ray,spark]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-* dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
