# Job: unit (3.13, 2)
# Person: --workflow composite.yml --job unit --matrix python-version=3.13 --matrix group=2
# Python: 3.13

#: Run actions/checkout@v4
#: Prepare
export EXTRAS=test
flag=-e
python -m pip install $flag ".${EXTRAS:+[$EXTRAS]}"
#: Unit tests, part 2 of 2
export PREPARED=yes
python -m pytest tests/group_2
