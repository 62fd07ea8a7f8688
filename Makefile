# Two commands are enough to start: `make demo` and `make test`. Each sets up what it needs in .venv.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP_INSTALL := $(BIN)/pip install --quiet -c constraints.txt
# Two workers of one thread each: torch's own threads would fight over the cores.
TEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: help demo test test-slow lint format install bench bench-quality docs codes-picture wheel fuzz robustness audit clean
.PHONY: table1 table2 counts gradients figures budgets priors features imputation long codec lossless attention

help:
	@echo "make demo       fit, encode, decode, evaluate and report on embedded data"
	@echo "make test       the tests (under five minutes)"
	@echo "make test-slow  the long tests: training on MNIST, the examples, a wheel in a clean environment"
	@echo "make lint       ruff and pyright"
	@echo "make format     apply ruff"
	@echo "make install    the development environment in .venv"
	@echo "make bench      speed and growth beside the peers, into docs/results (half an hour)"
	@echo "make bench-quality  quality of codes for time beside the peers, into docs/results (10 hours of one core)"
	@echo "make docs       the generated pages from docs/results, and a check of all links"
	@echo "make table1     Table I of the paper, into docs/results (12 hours of one core)"
	@echo "                likewise: table2, counts, gradients, figures, budgets, priors, features, long"
	@echo "make codes-picture  the picture of README.md (trains a model of MNIST)"
	@echo "make wheel      dist/*.whl"
	@echo "make fuzz       changed files for every reader, FUZZ_SECONDS=20 each"
	@echo "make robustness  kills, changed files, budgets and memory, into docs/results (20 minutes)"
	@echo "make audit      known vulnerabilities of the pinned dependencies"
	@echo "make clean      remove the environment and all build products"

.venv/bin/python:
	$(PYTHON) -m venv .venv

# The environment of a user, and of a developer.
.venv/.user: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP_INSTALL) -e '.[data,report,codec]'
	@touch $@

.venv/.developer: .venv/.user
	$(PIP_INSTALL) -e '.[data,report,codec,distributed,test,lint,build]'
	@touch $@

install: .venv/.developer

demo: .venv/.user
	$(BIN)/sdlgm demo --out demo

test: .venv/.developer
	$(TEST)

test-slow: .venv/.developer
	$(PIP_INSTALL) -e '.[ray]'
	$(TEST) -m slow

lint: .venv/.developer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: .venv/.developer
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.developer
	$(PIP_INSTALL) -e '.[ray]'
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.labels
	$(BIN)/python -m reproduction pages

# Can be interrupted and resumed. QUALITY_OPTIONS="--data digits --seconds 30" does a part; other rows are kept.
QUALITY_OPTIONS ?=
bench-quality: .venv/.developer
	OMP_NUM_THREADS=1 $(BIN)/python -m reproduction quality --out docs/results/quality.json $(QUALITY_OPTIONS)
	$(BIN)/python -m reproduction pages

# The results of the paper. Each target can be interrupted and resumed; `make docs` builds the pages afterwards.
table1 table2 counts gradients budgets priors features imputation long codec lossless attention: .venv/.developer
	$(BIN)/python -m reproduction $@ --out docs/results/$@.json

figures: .venv/.developer
	$(BIN)/python -m reproduction figures --out docs/results/figures

docs: .venv/.developer
	$(BIN)/python -m reproduction pages
	$(BIN)/python -m reproduction pages --check

# The picture of README.md: train a model of MNIST (minutes) and draw its codes.
mnist.sdlgm: | .venv/.developer
	$(BIN)/sdlgm fit mnist:train --out $@

codes-picture: .venv/.developer mnist.sdlgm
	$(BIN)/python -m reproduction pages --model mnist.sdlgm

wheel: .venv/.developer
	$(BIN)/python -m build --wheel --outdir dist

FUZZ_SECONDS ?= 20
FUZZ_TARGETS ?= $(shell $(BIN)/python -c "from robustness.targets import TARGETS; print(*TARGETS)")
fuzz: .venv/.developer
	$(PIP_INSTALL) -e '.[fuzz]'
	@mkdir -p findings
	@test -n "$(FUZZ_TARGETS)" || { echo "no targets: robustness/targets.py cannot be imported"; exit 1; }
	for target in $(FUZZ_TARGETS); do \
		echo "== $$target"; OMP_NUM_THREADS=1 $(BIN)/python -m robustness.fuzz $$target \
		-artifact_prefix=findings/ -max_total_time=$(FUZZ_SECONDS) || exit 1; done

# Can be interrupted and resumed; `make docs` builds the page afterwards.
robustness: .venv/.developer
	OMP_NUM_THREADS=1 $(BIN)/python -m robustness --out docs/results/robustness.json

audit: .venv/.developer
	$(PIP_INSTALL) -e '.[audit]'
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip

clean:
	rm -rf .venv dist build demo .pytest_cache .ruff_cache .hypothesis
