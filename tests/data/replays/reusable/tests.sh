# Job: Tests (3.12) / tests (3.12)
# Person: --workflow reusable.yml --job tests --matrix python-version=3.12
# Python: 3.12
export SLOW=true

#: Run actions/checkout@v4
#: Run actions/setup-python@v5
#: Run echo "python=$(python -V)" >> $GITHUB_OUTPUT
echo "python=$(python -V)"
#: Run python -m pip install -e .[dev]
python -m pip install -e .[dev]
#: Lint (skipped)
#: Tests
python -m pytest --runslow
