"""What it costs to send a parcel, and when it arrives."""

from .invoice import Invoice, Line
from .rates import price
from .schedule import arrival
from .weights import billable_weight, parse_weight

__all__ = ["Invoice", "Line", "arrival", "billable_weight", "parse_weight", "price"]
