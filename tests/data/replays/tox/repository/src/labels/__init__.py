"""Labels of shelves."""

import os

import attrs


def shelf():
    """The class of a shelf, whose label may not be empty where labels are strict."""
    strict = os.environ.get("LABELS_STRICT") == "1"
    label = attrs.field(validator=attrs.validators.min_len(1)) if strict else attrs.field()
    return attrs.make_class("Shelf", {"label": label})


def upper(label: str) -> str:
    return label.upper()
