# One command per intent. `make` lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODEL ?= 1.5b

.PHONY: help demo test lint typecheck format bench eval clean

help:  ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-10s %s\n", $$1, $$2}'

$(VENV)/bin/python:
	@if command -v uv >/dev/null 2>&1; then uv venv --quiet --seed --python 3.11 $(VENV); \
	else $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet --upgrade pip; fi

# Two stamps: what a user of the demo needs, and what the tests need besides.
$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo "Installing the package into $(VENV) ..."
	@if command -v uv >/dev/null 2>&1; then uv pip install --quiet --python $(BIN)/python -e '.[local]'; \
	else $(BIN)/python -m pip install --quiet -e '.[local]'; fi
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	@echo "Installing what the tests need ..."
	@if command -v uv >/dev/null 2>&1; then uv pip install --quiet --python $(BIN)/python -e '.[local,openai]' --group dev; \
	else $(BIN)/python -m pip install --quiet -e '.[local,openai]' --group dev; fi
	@touch $@

demo: $(VENV)/.installed  ## Answer a real question with the embedded model (fetches 1.1 GB once)
	@$(BIN)/orchestrator models pull $(MODEL)
	@$(BIN)/orchestrator invoke examples/insurance \
	  "Which documents are still missing for claim-857?" --model local:$(MODEL) --trace --state :memory:

test: $(VENV)/.installed-dev  ## Run all tests (those of the embedded model when one is in the cache)
	@$(BIN)/python -m pytest -n auto --dist loadfile

lint: $(VENV)/.installed-dev  ## Check style and the order of imports
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports

typecheck: $(VENV)/.installed-dev  ## Check types
	@$(BIN)/mypy

format: $(VENV)/.installed-dev  ## Format the code
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

bench: $(VENV)/.installed-dev  ## Measure the engine's own cost against a floor
	@$(BIN)/python -m bench

eval: $(VENV)/.installed-dev  ## Thirty questions to both embedded models
	@for model in 1.5b 0.5b; do \
	  $(BIN)/orchestrator models pull $$model && \
	  $(BIN)/python evals/run.py --model local:$$model --json evals/results-$$model.json || exit 1; done

clean:  ## Remove the environment and all caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
