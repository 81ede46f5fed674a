# Job: 3.12 on ubuntu-latest
# Person: --workflow matrix.yml --job tests --matrix os=ubuntu-latest --matrix python-version=3.12
# Python: 3.12
export FORCE_COLOR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

#: Run actions/checkout@v4
#: Set up Python 3.12
#: Install dependencies
python -m pip install --upgrade pip
python -m pip install -e .
python -m pip install pytest
#: Install the typed extra
python -m pip install typing-extensions
#: Run tests
export PYTHONWARNINGS=error
python -m pytest -v --durations=5
