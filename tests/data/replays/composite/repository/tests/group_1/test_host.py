from routes import host


def test_host():
    assert host("example") == "example"
