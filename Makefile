# `make help` lists the targets. Needs Python 3.11 or later with venv, and nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
STAMP := .venv/.installed
# What it takes to run Minutehand, without what checks and tests it.
RUNS := .venv/.runs
# Images for containers often forbid bytecode; then each process that a test starts
# would compile everything again.
export PYTHONDONTWRITEBYTECODE =
# Two cores are common; more workers start more servers than they save time.
WORKERS ?= 2
ARGS ?=

PYTEST = $(BIN)/pytest -n $(WORKERS) --dist worksteal
MAIN_TESTS = --ignore tests/time

# The first interpreter of the PATH that is new enough; `make PYTHON=... test` for another.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then command -v "$$name"; break; fi; done)

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

define make_venv
	@test -n "$(PYTHON)" || { echo "Minutehand needs Python 3.11 or later, and none is on the PATH. Install it, or say where it is: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv .venv || { echo "$(PYTHON) cannot make a virtual environment (on Debian: apt-get install python3-venv)." >&2; exit 2; }
endef

PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check

INSTALL_THIS = $(PIP_INSTALL) --no-deps --no-build-isolation --editable .

$(STAMP): requirements-dev.lock pyproject.toml
	$(make_venv)
	$(PIP_INSTALL) --require-hashes -r requirements-dev.lock
	$(INSTALL_THIS)
	@touch $@

# If everything is installed, this is; if not, the rest is added later, by the rule above.
$(RUNS): requirements.lock pyproject.toml
	$(make_venv)
	@if test -e $(STAMP); then $(MAKE) --no-print-directory $(STAMP); else \
		echo "Installing into .venv what Minutehand needs to run (requirements.lock), once ..."; \
		$(PIP_INSTALL) --require-hashes -r requirements.lock && $(INSTALL_THIS); fi
	@touch $@

.PHONY: install
install: $(STAMP) ## Make .venv from the lock

.PHONY: demo
demo: $(RUNS) ## Show what Minutehand does, in a folder of its own (ARGS=...)
	@$(BIN)/minutehand demo $(ARGS)

.PHONY: up
up: $(RUNS) ## Run everything in one process on one SQLite file (ARGS=...)
	$(BIN)/minutehand up $(ARGS)

.PHONY: seeded
seeded: $(STAMP) ## Show the pages on a month of twenty invented small apps (ARGS="--days 3")
	$(BIN)/python -m tests.seeded $(ARGS)

.PHONY: screenshots
screenshots: $(STAMP) ## Take the pictures of the pages anew, for docs/images (ARGS="--only now")
	$(BIN)/python -m tests.browser.screenshots $(ARGS)

.PHONY: trace
trace: $(STAMP) ## Draw a trace that was really received anew, for docs/images
	$(BIN)/python -m tests.trace_picture

.PHONY: fast
fast: $(STAMP) ## Run the unit tests with few examples, in seconds (ARGS=...)
	$(PYTEST) tests/unit -m "not slow" --hypothesis-profile fast $(ARGS)

.PHONY: test
test: $(STAMP) ## Run the tests, each whose programs are here, but for test-time (ARGS=...)
	$(PYTEST) $(MAIN_TESTS) $(ARGS)

.PHONY: test-all
test-all: export MINUTEHAND_TEST_ALL = 1
test-all: $(STAMP) ## Run what `make test` runs, with more seeds and examples (ARGS=...)
	$(PYTEST) $(MAIN_TESTS) $(ARGS)

.PHONY: coverage
coverage: $(STAMP) ## Run what `make test` runs, and fail below the branch coverage gate (ARGS=...)
	$(PYTEST) $(MAIN_TESTS) --cov --cov-report term $(ARGS)

.PHONY: test-api
test-api: export MINUTEHAND_TEST_ALL = 1
test-api: $(STAMP) ## Send the HTTP API whatever its document allows, and more, for minutes (ARGS="--fuzz-seed 7")
	$(PYTEST) tests/integration/api/test_fuzzing.py --timeout 0 --fuzz-examples 300 $(ARGS)

.PHONY: test-time
test-time: $(STAMP) ## Compare every clock change of every zone with the oracles (minutes)
	$(PYTEST) tests/time tests/unit/actions/when/test_cron.py --hypothesis-profile long $(ARGS)

.PHONY: test-rabbit
test-rabbit: $(STAMP) ## Run the tests that need rabbitmq-server (Debian: apt-get install rabbitmq-server)
	$(PYTEST) tests/conformance tests/neighbours tests/rabbit -m rabbit $(ARGS)

# SQL, messages and our extras; what the tests alone need is that of the lock.
LOWEST := build/lowest
.PHONY: test-lowest
test-lowest: private PIP_INSTALL := $(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check
test-lowest: $(STAMP) ## Run tests with the least versions that pyproject.toml allows (ARGS=tests/unit)
	$(BIN)/python -m venv $(LOWEST)
	$(PIP_INSTALL) --require-hashes -r requirements-dev.lock
	$(PIP_INSTALL) uv
	$(LOWEST)/bin/uv pip compile --quiet --resolution lowest-direct --python-version 3.11 --no-header --no-annotate \
		--extra build --extra mcp --extra oidc --extra otel --output-file $(LOWEST)/requirements.txt pyproject.toml
	$(PIP_INSTALL) -r $(LOWEST)/requirements.txt
	$(INSTALL_THIS)
	$(LOWEST)/bin/pytest -n $(WORKERS) --dist worksteal $(or $(ARGS),tests/conformance tests/integration/celery_app tests/integration/dispatch \
		tests/integration/test_tracing.py tests/integration/web/sign_in tests/acceptance/test_mcp.py)

.PHONY: chaos
chaos: $(STAMP) ## Do each fault to a whole installation, and storms of all, ten minutes and more (ARGS="--faults disk")
	$(BIN)/python -m tests.chaos $(ARGS)

.PHONY: simulate
simulate: $(STAMP) ## Live through hours of faults in simulated time (SEEDS=, HOURS=, ARGS=)
	$(BIN)/python -m tests.simulation $(if $(SEEDS),--seeds $(SEEDS)) $(if $(HOURS),--hours $(HOURS)) $(ARGS)

.PHONY: record
record: $(STAMP) ## Run the tests that `make test` leaves out while their code is as recorded, and record it
	$(BIN)/python -m tests.recorded

.PHONY: bench
bench: $(STAMP) ## Measure, also against other schedulers (ARGS=...)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	$(BIN)/python -m benchmarks $(ARGS)

.PHONY: soak
soak: $(STAMP) ## Watch memory, connections, tables and lag for hours (HOURS=2 ARGS="--due 300")
	$(BIN)/python -m benchmarks.soak $(if $(HOURS),--hours $(HOURS)) $(ARGS)

.PHONY: docs
docs: $(STAMP) ## Build the documentation's site into build/site, strictly (DOCS_URL=https://docs.example.org/)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

.PHONY: dist
dist: $(STAMP) ## Build sdist and wheel of the last commit's date into dist/, each time the same bytes
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/hatchling build --directory dist

.PHONY: release-version
release-version: ## Say whether TAG (v0.1.0) is the version of pyproject.toml, and whether CHANGELOG.md has it
	@version=$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml); \
	test "$(TAG)" = "v$$version" || { echo "The tag is \"$(TAG)\", and pyproject.toml has version $$version." >&2; exit 2; }; \
	grep -q "^## $$version " CHANGELOG.md || { echo "CHANGELOG.md has no heading \"## $$version (date)\"." >&2; exit 2; }

# Needs a container engine. The base is asked for once, so that both platforms have the same.
.PHONY: image
image: ## Build and push the image for two platforms, with provenance (IMAGE=registry/name:tag)
	base=$$(sed -n 's/^ARG BASE=//p' Dockerfile); \
	digest=$$(docker buildx imagetools inspect "$$base" --format '{{.Manifest.Digest}}'); \
	docker buildx build --platform linux/amd64,linux/arm64 --build-arg "BASE=$$base@$$digest" \
		--provenance mode=max --sbom true --tag "$(IMAGE)" --push .

# What the lock installs, and nothing else: of this are the bill of materials and the licences.
RUNTIME := build/runtime
$(RUNTIME)/.installed: requirements-image.lock requirements-release.lock $(STAMP)
	$(BIN)/python -m venv --clear $(RUNTIME)
	$(RUNTIME)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-image.lock
	$(PIP_INSTALL) --require-hashes -r requirements-release.lock
	@touch $@

.PHONY: sbom
sbom: $(RUNTIME)/.installed ## Write the bill of materials of the run-time packages (CycloneDX) into dist/
	mkdir -p dist
	$(BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
		--mc-type application --output-format JSON --output-file dist/minutehand.cdx.json $(RUNTIME)/bin/python

.PHONY: licenses
licenses: $(RUNTIME)/.installed ## Write docs/licenses.md: the licence of each run-time package
	@{ printf '%s\n' "# Licences of the run-time packages" "" \
		"Minutehand itself is under the [MIT licence](../LICENSE). \`make licenses\` writes this page from what requirements-image.lock installs." ""; \
		$(BIN)/pip-licenses --python $(RUNTIME)/bin/python --from mixed --with-urls --with-system --format markdown \
			--ignore-packages pip setuptools; } > docs/licenses.md

.PHONY: check
check: $(STAMP) ## Lint, types, import directions, spelling, workflows: what CI checks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

.PHONY: format
format: $(STAMP) ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: migration
migration: $(STAMP) ## Write a migration from the tables of the code, and try it on both databases (m="...")
	@$(BIN)/python -m migrations.new_migration "$${m:-}"
	@$(BIN)/pytest --quiet tests/integration/migrations

.PHONY: openapi
openapi: $(STAMP) ## Write docs/openapi.json from the routes
	@$(BIN)/python -m api.openapi

# Extras stay: pip pins no "coverage[toml]" of another's needs to a "coverage" of the file.
.PHONY: lock
lock: $(STAMP) ## Resolve the newest allowed versions into the lock files
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	for lock in "dev --extra build --extra check --extra docs --extra mcp --extra oidc --extra otel --extra test" "bench --extra bench" "release --extra release" "image --extra build --extra mcp --extra oidc --extra otel" "runtime --extra build"; do \
		set -- $$lock; name=$$1; shift; \
		file=requirements-$$name.lock; constraint=(); \
		if [ $$name = runtime ]; then file=requirements.lock; fi; \
		if [ $$name != dev ]; then constraint=(--constraint requirements-dev.lock); fi; \
		$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
			--no-strip-extras --no-emit-index-url --no-header --no-annotate "$$@" "$${constraint[@]}" \
			--output-file $$file pyproject.toml; \
	done
	$(MAKE) --no-print-directory licenses

.PHONY: clean
clean: ## Remove what can be made again
	rm -rf .venv build *.egg-info dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
