import pytest


def pytest_addoption(parser):
    parser.addoption("--runslow", action="store_true")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--runslow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs --runslow"))


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes its time")
