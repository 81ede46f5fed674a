# Job: core
# Person: --workflow monorepo.yml --job core
# Python: 3.12

#: Run actions/checkout@v4
#: Run actions/setup-python@v5
#: Run python -m pip install -e .
cd packages/core
python -m pip install -e .
#: Tests of the core
cd packages/core
python -m pytest
#: Tests of the command line
cd packages/cli
python -m unittest discover -s tests_cli
