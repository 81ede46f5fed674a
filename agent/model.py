"""Asking language models: the only room that imports LiteLLM."""

from __future__ import annotations


class Models: ...
