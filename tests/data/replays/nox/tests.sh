# Job: Ubuntu / 3.11
# Person: --workflow nox.yml --job test --matrix os=Ubuntu --matrix python_version=3.11
# Python: 3.11
export FORCE_COLOR=1

#: Run actions/checkout@v4
#: Install Python 3.11
#: Install nox
python -m pip install nox
#: Show versions
python --version
python -m nox --version
#: Run nox
export TMPDIR=$RUNNER_TEMP
python -m nox --error-on-missing-interpreters -s tests-3.11
