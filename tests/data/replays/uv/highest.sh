# Job: test on Python 3.12 (highest)
# Person: --workflow uv.yml --job test --matrix python-version=3.12
# Python: 3.12
# Tools: uv
export UV_PYTHON=3.12 UV_RESOLUTION=highest UV_FROZEN=1

#: Run actions/checkout@v4
#: Run astral-sh/setup-uv@v6
#: Install
uv sync --group test --no-default-groups
#: Test
uv run --no-sync pytest -q --maxfail=20
#: Say which leg failed
echo "::error::tests failed for 3.12"
