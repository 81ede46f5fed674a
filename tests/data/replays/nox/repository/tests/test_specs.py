import pretend
import pytest

import specs


def test_newest():
    assert specs.newest(">=1,<3", ["1.0", "2.0", "3.0"]) == "2.0"


def test_newest_is_by_version_and_not_by_letters():
    assert specs.newest(">=1", ["9.0", "10.0"]) == "10.0"


@pytest.mark.parametrize("version", ["1.0", "2.0rc1"])
def test_a_release_is_none_that_comes_before_one(version):
    stub = pretend.stub(version=version)
    assert specs.is_release(stub.version) is (version == "1.0")


def test_slow():
    raise AssertionError("the session leaves this one out")
