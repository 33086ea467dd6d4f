# Every target sets up what it needs: the first call on a fresh machine just works.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-flink compat lint format bench bench-flink flink java clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml $(wildcard examples/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Laxity needs Python 3.11 or newer. Name one with: make PYTHON=/path/to/python3"; exit 1; }
	@echo "Setting up $(VENV) (the first time takes a minute or two) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --group dev -e '.[spark,fleet,sim,server,top,bench]' -e examples/deadline-monotonic
	@touch $@

# Where Spark looks: in JAVA_HOME if it is set, on the PATH otherwise.
JAVA = $(if $(JAVA_HOME),$(wildcard $(JAVA_HOME)/bin/java),$(shell command -v java || true))

java:
	@[ -n "$(JAVA)" ] || { \
	  echo "Java is missing: Spark runs on Java 17 or newer."; \
	  echo "  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless"; \
	  echo "  Fedora, RHEL:    sudo dnf install java-17-openjdk-headless"; \
	  echo "  or set JAVA_HOME to an installed one."; exit 1; }
	@major=$$("$(JAVA)" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p'); \
	  [ "$${major:-0}" -ge 17 ] || { \
	  echo "Spark runs on Java 17 or newer; $(JAVA) is version $${major:-unknown}."; \
	  echo "Install a newer one, or set JAVA_HOME to it."; exit 1; }

demo: java $(STAMP)  ## See it work: the same tenants under stock scheduling and under deadlines
	@$(BIN)/laxity demo

test: java $(STAMP) lint  ## Lint, types and all tests (this is what CI runs)
	@$(BIN)/python -m pytest -m "not slow"

test-slow: java $(STAMP)  ## The tests that CI has no time for
	@$(BIN)/python -m pytest -m slow

.venv-flink:
	@$(PYTHON) -m venv $@
	@$@/bin/python -m pip install --quiet 'apache-flink>=2.0,<2.4' || { rm -rf $@; exit 1; }

flink: .venv-flink  ## Install Flink into an environment of its own, for comparisons

test-flink: java $(STAMP) .venv-flink  ## The tests against a real Flink
	@LAXITY_FLINK_HOME=$$(echo $(CURDIR)/.venv-flink/lib/python*/site-packages/pyflink) \
	  $(BIN)/python -m pytest -m flink

compat: $(STAMP) java  ## The Spark tests on every supported Spark version
	@$(BIN)/python tools/compat.py

lint: $(STAMP)  ## Lint and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(STAMP)  ## Format the code and apply safe fixes
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: java $(STAMP)  ## Measure: contests against stock Spark, and what Laxity costs (two to three hours)
	@$(BIN)/laxity bench core
	@for mix in standard overload bursts heavy; do $(BIN)/laxity bench $$mix || exit 1; done
	@$(BIN)/laxity bench batch
	@$(BIN)/laxity bench overhead
	@$(BIN)/laxity bench density
	@$(BIN)/laxity bench goals

bench-flink: java $(STAMP) .venv-flink  ## The same mixes on Flink beside Spark
	@for mix in standard overload heavy; do \
	  $(BIN)/laxity bench $$mix --modes fifo,laxity,flink --out out/bench-flink || exit 1; done

clean:  ## Remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
