# The verbs of the house. `make` alone lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
# Tests start hundreds of processes; each would compile the whole house anew.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo test test-slow test-heavy laws check bars bench growth audit chaos fuzz peers docs clean
.PHONY: changelog pictures release wheel licences sbom vulnerabilities hashed hashes runtime

help:  ## list the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

# One environment from pinned constraints. Changing either file makes it anew.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Thebes needs Python 3.11 or newer; say which with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 2; }
	@echo "Setting up $(VENV) (once; some minutes) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)  ## the whole system on this machine, with made-up people
	@$(BIN)/thebes demo --exit

test: $(READY)  ## set up and pass the tests (about 5 minutes on two quiet cores)
	@$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder -m 'not heavy and not slow'

# Processes often wait for each other: two workers more than there are cores.
test-slow: $(READY)  ## the tests of many real processes, browsers, crashes and large samples
	@$(BIN)/pytest -n $$(( $$(getconf _NPROCESSORS_ONLN) + 2 )) --dist loadfile --no-loadscope-reorder -m 'slow and not heavy'

test-heavy: $(READY)  ## the tests of big optional parts, and those that take many minutes
	@$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder -m heavy -rs

laws: $(READY)  ## what must hold for every input, with ten times as many examples, never tried before
	@THEBES_EXPLORE=1 $(BIN)/pytest -n auto tests/laws

check: $(READY)  ## style, types, the arrows between the rooms, docstrings, fragments of the changelog
	@$(BIN)/ruff check src tests evidence papers tools
	@$(BIN)/ruff format --check src tests evidence papers tools
	@$(BIN)/mypy
	@$(BIN)/python tools/changelog.py check
	@$(BIN)/pytest tests/unit/test_arrows.py tests/unit/test_docstrings.py tests/unit/test_class_names.py tests/unit/test_imports.py tests/unit/test_file_length.py

bench: $(READY)  ## measure, as ratios within one run; fails where one is worse than in evidence/bench/results/kept/
	@$(BIN)/python -m evidence.bench

peers: $(READY)  ## beside other libraries, each in an environment of its own; keeps the figures that `make docs` shows
	@$(BIN)/python -m evidence.peers

growth: $(READY)  ## how cost grows with people, rows, sites, blocks and weights; keeps the figures that `make docs` shows
	@$(BIN)/python -m evidence.growth

bars: $(READY)  ## how often error bars hold and how wide they are; keeps the figures that `make docs` shows
	@$(BIN)/python -m evidence.bars

audit: $(READY)  ## what samples say about every claimed epsilon
	@$(BIN)/python -m evidence.audit

chaos: $(READY)  ## strike a small world for some minutes; its databases must tell of no broken promise
	@$(BIN)/python -m evidence.chaos --minutes 5 --sites 3 --also split

fuzz: $(READY)  ## a minute of strange input for everything that reads what strangers send
	@$(BIN)/python -m evidence.fuzz --minutes 1

pictures: $(READY)  ## the pictures of the documentation anew, by a browser that goes through the demo
	@$(BIN)/python -m tools.screenshots
	@$(BIN)/python -m tools.diagrams

docs: $(READY)  ## build the documentation strictly into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

changelog: $(READY)  ## a section for VERSION out of changelog.d, which is emptied
	@$(BIN)/python tools/changelog.py gather "$(VERSION)"

wheel: $(READY)  ## the package, the same bytes from the same files, into dist/
	@$(BIN)/python -m hatchling build -t wheel -d dist

# Says how to tag; TAG=yes does it, where everything is committed.
release: $(READY)  ## wheel, sources, bill of materials and notes of the last commit, into dist/
	@$(BIN)/python -m tools.release $(if $(TAG),--tag)

licences: $(READY)  ## what everything that Thebes needs is licensed under
	@$(BIN)/python tools/supply.py licences --extra all --extra postgres --extra torch

sbom: $(READY)  ## the bill of materials (CycloneDX), into dist/
	@mkdir -p dist
	@$(BIN)/python tools/supply.py sbom --extra all --extra postgres --extra torch > dist/sbom.json
	@echo dist/sbom.json

# Sends names and versions of everything pinned to the advisory databases that pip-audit asks.
vulnerabilities:  ## what is known against the pinned versions (asks outside)
	@$(PYTHON) -m venv $(VENV)-outside
	@$(VENV)-outside/bin/pip install --quiet --disable-pip-version-check 'pip-audit==2.10.1'
	@$(VENV)-outside/bin/pip-audit --strict --no-deps --disable-pip -r constraints.txt

# What is not in the file does not get in; torch alone has no hash, because each kind of machine has its own build.
hashed:  ## set up .venv from pinned hashes instead
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r constraints.hashed.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt torch
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

hashes:  ## the file of hashes anew, after a pin changed (asks outside)
	@$(PYTHON) -m venv $(VENV)-outside
	@$(VENV)-outside/bin/pip install --quiet --disable-pip-version-check 'uv>=0.9'
	@grep -v '^torch==' constraints.txt | $(VENV)-outside/bin/uv pip compile --quiet --no-deps --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links --python-version 3.11.7 - -o constraints.hashed.txt

runtime: $(READY)  ## what each container installs anew, after a pin or a requirement changed; writes deploy/compose
	@$(BIN)/python tools/supply.py runtime

clean:  ## remove what the other verbs made
	@rm -rf $(VENV) $(VENV)-outside .venv-peers .venv-generator .venv-s3 site build dist .hypothesis .mypy_cache .ruff_cache evidence/bench/results evidence/fuzz/found
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
