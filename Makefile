# What a person or a machine runs from a clone. Needed: Python 3.11 or later, make, git; the rest goes into .venv.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test check format venv bench-venv readers others test-others locks clean

help:
	@echo "make demo    serve a small sample web on this machine and crawl it"
	@echo "make test    run the tests"
	@echo "make check   ruff and mypy"
	@echo "make venv    only set up .venv with the locked dependencies and the command irlcrawl"
	@echo "make bench-venv: .venv with what the benchmarks compare with, too (databases, crawlers, matplotlib)"
	@echo "make readers fastwarc and cdxj-indexer in .venv-others, for tests of the suite that hold ours against them"
	@echo "make others  programs by others that read archives (pywb, py-wacz, ReplayWeb.page ...), in .venv-others"
	@echo "make test-others: the tests that need them, some of them Chromium, too"
	@echo "make format  let ruff lay out the code"
	@echo "make locks   resolve the dependencies anew (needs uv)"
	@echo "make clean   remove what the others made"

demo: venv
	$(BIN)/python -m tools.sampleweb demo
	@echo
	@echo "(the command irlcrawl is $(BIN)/irlcrawl; '. $(BIN)/activate' puts it on your path)"

# Bytecode is kept although the environment may say not to: hundreds of crawls are started here, each of which would
# compile the whole crawler, and every process of the tests all of their files.
test: venv
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy

format: venv
	$(BIN)/ruff check --fix --select I .
	$(BIN)/ruff format .

venv: .venv/.done

.venv/.done: requirements/dev.txt pyproject.toml tools/makevenv.py
	$(PYTHON) tools/makevenv.py .venv requirements/dev.txt
	touch $@

# A superset of the lock above, so tests run in it as well.
bench-venv:
	$(PYTHON) tools/makevenv.py .venv requirements/bench.txt
	touch .venv/.done

# What reads archives by others and is installed in seconds: tests of the suite use it where it is there.
readers:
	$(PYTHON) -m venv .venv-others
	.venv-others/bin/python -m pip install --quiet --require-hashes -r requirements/readers.txt

# pywb, py-wacz, cdxj-indexer and fastwarc, apart from ours: they need old versions of what we need, too. Some of them
# come as source. ReplayWeb.page is a package of files, of which nothing is run here.
REPLAYWEB := replaywebpage@2.4.6
others:
	$(PYTHON) -m venv .venv-others
	.venv-others/bin/python -m pip install --quiet --require-hashes -r requirements/others.txt
	mkdir -p .venv-others/replaywebpage
	cd .venv-others && npm pack --silent $(REPLAYWEB) && tar xzf replaywebpage-*.tgz -C replaywebpage --strip-components=1

test-others: venv
	$(BIN)/python -m pytest -n0 -rs -m "slow or not slow" tests/whole/test_replay.py \
		tests/whole/test_visited_again.py::test_every_visit_replays_in_pywb tests/export/test_wacz.py tests/export/test_cdxj.py

COMPILE := uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url

locks:
	$(COMPILE) --extra dev --output-file requirements/dev.txt
	$(COMPILE) --constraint requirements/dev.txt --output-file requirements/run.txt
	$(COMPILE) --extra dev --extra bench --constraint requirements/dev.txt --output-file requirements/bench.txt
	$(subst pyproject.toml,requirements/others.in,$(COMPILE)) --output-file requirements/others.txt
	$(subst pyproject.toml,requirements/readers.in,$(COMPILE)) --constraint requirements/others.txt \
		--output-file requirements/readers.txt

clean:
	rm -rf .venv .venv-others build dist demo *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
