# Two commands are enough: `make demo` and `make test`. Each makes the virtual environment it
# needs, once; the second time it only looks whether pyproject.toml has changed.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
export PYTHONUNBUFFERED = 1
# The tests start hundreds of Pythons: each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test long fast unit loop storms twins fuzz lowest cluster soak packages check hooks changelog dist publish bench compare docs dashboards clean
.DEFAULT_GOAL := help

help:
	@echo "make demo     see it work: four processes and one limit, kept in three ways"
	@echo "make test     run all tests; PROCESSES=6 at a time"
	@echo "make long     what make test runs a sample of: larger clusters, soak, ends of the demo, a slow handler"
	@echo "make fast     unit and simulation tests: no Java, no Redis, under 45 s on two cores"
	@echo "make unit     the unit tests on each interpreter found, or on one: PYTHON=python3.12"
	@echo "make loop     all tests again and again, in a clone: N=20, BUSY=1 keeps every core busy"
	@echo "make storms   simulated clusters, seed after seed, on from where it was: MINUTES=10"
	@echo "make twins    the script in Redis and its twin in Python, random histories, on from where it was: MINUTES=10"
	@echo "make fuzz     each target of tests/fuzz in turn, for inputs on which it fails: MINUTES=10"
	@echo "make lowest   the tests with the lowest versions that pyproject.toml allows (Python 3.11)"
	@echo "make cluster  Spark's sinks on a standalone cluster, through kills, stops and fail-overs"
	@echo "make soak     everything together, end to end, through all kinds of failures; MINUTES=10"
	@echo "make check    formatter, linter, spelling, language, strict types, import contracts"
	@echo "make hooks    what pre-commit runs before each commit, on all files"
	@echo "make changelog  show what the next release adds to CHANGELOG.md"
	@echo "make dist     build the wheel and the source archive, check both, install one and run the demo"
	@echo "make publish  the same, then upload; refuses until all of docs/releasing.md is done"
	@echo "make packages install what the tests need from Debian or Ubuntu: Redis, Java, Prometheus"
	@echo "make bench    print every figure the documents mention"
	@echo "make compare  benchmarks of two commits, in turns: BASE=commit WHAT=throughput,sharing ROUNDS=10"
	@echo "make docs     build the documentation into docs/_build"
	@echo "make dashboards  generate Grafana's dashboards and Prometheus' rules from grafana/*.py"
	@echo "make install  only make the virtual environment ($(VENV))"
	@echo "make clean    remove what the commands above have made"
	@echo "CONTRIBUTING.md says more, also how to run one test and how to see a failure again"

install: $(VENV)/.installed

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# --group needs a newer pip than some Pythons bring along.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "installing all there is into $(VENV), once; Spark is large ..."
	@$(PIP) install 'pip>=25.1'
	@$(PIP) install --editable '.[cli,redis,embedded,metrics,spark]' --group check --group test --group connect --group examples --group bench --group docs --group dashboards
	@touch $@ $(VENV)/.demo

# For a first look, without Spark and the tools for tests.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@echo "installing into $(VENV), once ..."
	@$(PIP) install --editable '.[cli,redis,embedded,metrics]'
	@touch $@

demo: $(VENV)/.demo
	@$(BIN)/dispatcher demo --report demo.html

# Spark is a program for the Java machine, and brings none along. One that is there, of a version
# that Spark can use, is preferred to the one from PyPI.
.PHONY: java
java:
	@if $(if $(JAVA_HOME),"$(JAVA_HOME)/bin/java",java) -version 2>&1 | grep -Eq 'version "(1[7-9]|[2-9][0-9])'; \
	then rm -rf $(VENV)/java; else $(MAKE) --silent --no-print-directory $(VENV)/java; fi

$(VENV)/java: $(VENV)/.installed
	@echo "no Java 17 or newer runs here, by the PATH or JAVA_HOME: installing one into $(VENV), once ..."
	@$(PIP) install --group java
	@$(BIN)/python -c 'from tests.servers.pypi_java import write; write()'
	@touch $@

# Spark starts in half the time where its classes come from an archive; where none can be made, it
# starts as well.
$(VENV)/spark.jsa: $(VENV)/.installed | java
	@echo "writing the classes of Spark to an archive, once ..."
	@$(BIN)/python -m tests.servers.java >$@.log 2>&1 || echo "no archive: see $@.log"

# Most tests of processes and servers wait: six at a time keep two cores busy.
PROCESSES ?= 6
test: java install $(VENV)/spark.jsa
	@$(BIN)/python -m pytest --numprocesses $(PROCESSES) -m 'not long'

long: java install $(VENV)/spark.jsa
	@$(BIN)/python -m pytest --numprocesses $(PROCESSES) --hypothesis-profile many -m 'long or hypothesis'

fast: install
	@$(BIN)/python -m pytest --numprocesses auto --hypothesis-profile fast -m 'not thorough and not long' \
	    tests/unit tests/simulation

# Without PYTHON=... on the command line: on all that are found.
unit:
	@python3 -m tests.interpreters $(if $(filter command environment,$(origin PYTHON)),'$(PYTHON)')

N ?= 20
loop: java install $(VENV)/spark.jsa
	@$(BIN)/python -m tests.loop --runs '$(N)' $(if $(BUSY),--busy) -- --numprocesses $(PROCESSES) -m 'not long'

storms: install
	@$(BIN)/python -m tests.simulation --minutes '$(MINUTES)'

twins: install
	@$(BIN)/python -m tests.twins --minutes '$(MINUTES)'

# There is no such fuzzer for every system, and no test needs it.
$(VENV)/.fuzz: $(VENV)/.installed
	@$(PIP) install --group fuzz
	@touch $@

fuzz: $(VENV)/.fuzz
	@$(BIN)/python -m tests.fuzz --minutes '$(MINUTES)'

$(VENV)-lowest/.installed: pyproject.toml tests/lowest.py
	@test -x $(VENV)-lowest/bin/python || $(PYTHON) -m venv $(VENV)-lowest
	@echo "installing into $(VENV)-lowest, once ..."
	@$(VENV)-lowest/bin/python -m pip --disable-pip-version-check --quiet install 'pip>=25.1'
	@$(VENV)-lowest/bin/python tests/lowest.py > $(VENV)-lowest/constraints.txt
	@$(VENV)-lowest/bin/python -m pip --disable-pip-version-check --quiet install \
	    --constraint $(VENV)-lowest/constraints.txt \
	    --editable '.[cli,redis,embedded,metrics,spark]' --group test --group dashboards
	@touch $@

.PHONY: java-of-lowest
java-of-lowest: java $(VENV)-lowest/.installed
	@test ! -d $(VENV)/java || ln -sfn "$(abspath $(VENV))/java" $(VENV)-lowest/java

# Spark 3.5 itself uses what Python has deprecated.
lowest: java-of-lowest
	@$(VENV)-lowest/bin/python -m pytest --numprocesses $(PROCESSES) \
	    -m 'not spark4' tests/unit tests/integration
	@$(VENV)-lowest/bin/python -m pytest --numprocesses 2 \
	    -W ignore::DeprecationWarning -m 'not spark4' tests/spark

# With the newest Spark and with the oldest that pyproject.toml allows.
cluster: java-of-lowest install
	@$(BIN)/python -m tests.cluster
	@$(VENV)-lowest/bin/python -W ignore::DeprecationWarning -m tests.cluster

MINUTES ?= 10
soak: java install
	@$(BIN)/python -m tests.soak --minutes '$(MINUTES)'

check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIN)/python -m tests.language
	$(BIN)/mypy
	$(BIN)/lint-imports

hooks: install
	@$(BIN)/pre-commit run --all-files

# VERSION=... only names the draft; docs/releasing.md says how a release is made.
VERSION ?= next
changelog: install
	@$(BIN)/towncrier build --draft --version $(VERSION)

# Debian's and Ubuntu's; python3 and make are already there, or this would not run.
packages:
	@.ci/packages

$(VENV)-release/.installed: pyproject.toml
	@test -x $(VENV)-release/bin/python || $(PYTHON) -m venv $(VENV)-release
	@$(VENV)-release/bin/python -m pip --disable-pip-version-check --quiet install 'pip>=25.1'
	@$(VENV)-release/bin/python -m pip --disable-pip-version-check --quiet install --group release
	@touch $@

# The wheel is built from the source archive, so that the archive is known to be complete.
dist: $(VENV)-release/.installed
	@rm -rf dist
	@$(VENV)-release/bin/python -m build --outdir dist . >$(VENV)-release/build.log 2>&1 || \
	    { cat $(VENV)-release/build.log; exit 1; }
	@$(VENV)-release/bin/twine check --strict dist/*
	@$(VENV)-release/bin/python -m tests.release dist

publish: dist
	@$(VENV)-release/bin/python -m tests.release --ready
	@$(VENV)-release/bin/twine upload dist/*

# One of them needs a newer Python than the oldest that we support.
$(VENV)-rivals/.installed: pyproject.toml
	@test -x $(VENV)-rivals/bin/python || \
	    "$$(python3 -c 'from tests.interpreters import newest; print(newest())')" -m venv $(VENV)-rivals
	@echo "installing into $(VENV)-rivals, once ..."
	@$(VENV)-rivals/bin/python -m pip --disable-pip-version-check --quiet install 'pip>=25.1'
	@$(VENV)-rivals/bin/python -m pip --disable-pip-version-check --quiet install --group rivals
	@touch $@

bench: java install $(VENV)-rivals/.installed
	@$(BIN)/python -m benchmarks

WHAT   ?= throughput,sharing
ROUNDS ?= 10
compare: install
	@test -n "$(BASE)" || { echo "Name the other commit: make compare BASE=main"; exit 1; }
	@$(BIN)/python -m benchmarks.compare --what '$(WHAT)' --rounds '$(ROUNDS)' '$(BASE)'

docs: install
	@$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "open docs/_build/html/index.html"

dashboards: install
	@$(BIN)/python -m grafana

clean:
	rm -rf $(VENV) $(VENV)-* .fuzz .loop dist docs/_build demo.html soak.html .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
