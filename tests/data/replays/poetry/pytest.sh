# Job: pytest (py3.11)
# Person: --workflow poetry.yml --job pytest --matrix python=3.11
# Python: 3.11
# Tools: pipx
export POETRY_VERSION=1.8.3 POETRY_VIRTUALENVS_IN_PROJECT=true PATH="$HOME/.local/bin:$PATH"

#: Check out the code
#: Set up Python
#: Get full Python version
echo "version=$(python -c 'import sys; print("-".join(map(str, sys.version_info)))')"
#: Install poetry
pipx install "poetry==${POETRY_VERSION}"
# For a machine whose index knows no more than what pip asks of it (see the recorder).
pipx inject -q poetry "poetry-plugin-pypi-mirror<0.5"
#: Set up cache
#: Ensure cache is healthy (skipped)
#: Check lock file
poetry check --lock
#: Install dependencies
poetry install --no-interaction --with test
#: Run pytest
poetry run python -m pytest -p no:sugar -q tests/
