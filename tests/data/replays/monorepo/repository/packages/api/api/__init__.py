"""The shop over HTTP, without the HTTP."""

import os

from core import total


def post(order):
    if os.environ.get("API_MODE") != "test":
        raise RuntimeError("there is no such shop")
    return {"total": total(order["prices"], order.get("discount"))}
