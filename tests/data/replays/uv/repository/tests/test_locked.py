from importlib.metadata import version


def test_the_lock_file_decides():
    # pyproject.toml alone would bring a newer one.
    assert version("wcwidth") == "0.2.12"
