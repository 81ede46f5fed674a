# Job: docs
# Person: --workflow composite.yml --job docs
# Python: 3.12

#: Run actions/checkout@v4
#: Run ./.github/actions/prepare
export EXTRAS=docs
flag=
python -m pip install $flag ".${EXTRAS:+[$EXTRAS]}"
#: Doctests
python -m pytest --doctest-modules src
