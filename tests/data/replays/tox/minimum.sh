# Job: Minimum Versions
# Person: --workflow tox.yml --job tests --matrix name="Minimum Versions"
# Python: 3.11

#: Run actions/checkout@v4
#: Run actions/setup-python@v5
#: Run pip install tox
pip install tox
#: Run tox run -e py-min
tox run -e py-min
