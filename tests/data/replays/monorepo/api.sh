# Job: api
# Person: --workflow monorepo.yml --job changed --matrix package=api
# Python: 3.12

#: Run actions/checkout@v4
#: Run actions/setup-python@v5
#: Run python -m pip install -e ../core -e .
cd packages/api
python -m pip install -e ../core -e .
#: Run make test
cd packages/api
make test
