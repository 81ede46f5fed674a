"""Prices in pence."""


def total(prices, discount=0):
    """What is to be paid; a discount in percent, rounded in the shop's favour."""
    return sum(prices) * (100 - discount) // 100
