"""Reads INI files (setup.cfg, tox.ini) of a repository."""

from __future__ import annotations

import configparser
import re

_LONG_BLANK = re.compile(r"[^\S\n]{200}")


def read_ini(text: str, *, strict: bool = False) -> configparser.RawConfigParser:
    """`strict` rejects repeated sections and options.

    Raises `configparser.Error`, also for a long run of blanks: the time of the standard library's parser is quadratic in it.
    """
    if run := _LONG_BLANK.search(text):
        line = text.count("\n", 0, run.start()) + 1
        raise configparser.Error(f"line {line} has 200 blanks in a row")
    parser = configparser.RawConfigParser(strict=strict)
    parser.read_string(text)
    return parser


def read_valid_ini(text: str) -> configparser.RawConfigParser:
    """The parsed INI file; an empty one if it is not valid."""
    try:
        return read_ini(text)
    except configparser.Error:
        return configparser.RawConfigParser()
