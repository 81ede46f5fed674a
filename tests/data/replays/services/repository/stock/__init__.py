"""A stock in PostgreSQL, with a cache in Redis."""

import os
from urllib.parse import urlsplit

import pg8000.dbapi
import redis


def connect():
    url = urlsplit(os.environ["DATABASE_URL"])
    return pg8000.dbapi.connect(
        user=url.username, password=url.password, host=url.hostname, port=url.port, database=url.path.lstrip("/")
    )


def cache():
    return redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)


class Stock:
    def __init__(self, connection, cached):
        self.connection, self.cached = connection, cached

    def put(self, name, count):
        cursor = self.connection.cursor()
        cursor.execute("INSERT INTO stock (name, count) VALUES (%s, %s)", (name, count))
        self.connection.commit()

    def count(self, name):
        known = self.cached.get(name)
        if known is not None:
            return int(known)
        cursor = self.connection.cursor()
        cursor.execute("SELECT sum(count) FROM stock WHERE name = %s", (name,))
        found = int(cursor.fetchone()[0] or 0)
        self.cached.set(name, found)
        return found
