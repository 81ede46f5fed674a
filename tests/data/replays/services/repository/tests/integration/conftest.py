import pytest

from stock import Stock, cache, connect


@pytest.fixture
def stock():
    connection, cached = connect(), cache()
    cached.flushdb()
    cursor = connection.cursor()
    cursor.execute("DROP TABLE IF EXISTS stock")
    cursor.execute("CREATE TABLE stock (name text NOT NULL, count integer NOT NULL)")
    connection.commit()
    yield Stock(connection, cached)
    connection.close()
    cached.close()
