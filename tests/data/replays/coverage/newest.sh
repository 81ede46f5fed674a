# Job: Tests & coverage on 3.13
# Person: --workflow coverage.yml --job tests --matrix python-version=3.13
# Python: 3.13
export PYTEST_ADDOPTS=--color=yes COLUMNS=120

#: Run actions/checkout@v4
#: Run actions/setup-python@v5
#: Run python -Im pip install -e . pytest coverage[toml]
python -Im pip install -e . pytest coverage[toml]
#: Run tests under coverage
export COVERAGE_FILE=.coverage.3.13
python -Im coverage run --parallel-mode -m pytest
#: Upload coverage data
#: Report to the coverage service
