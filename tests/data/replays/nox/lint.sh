# Job: lint
# Person: --workflow nox.yml --job lint
# Python: 3.11
# Tools: pipx
export FORCE_COLOR=1

#: Run actions/checkout@v4
#: Run actions/setup-python@v5
#: Run `nox -s lint`
pipx run nox --error-on-missing-interpreters -s lint
