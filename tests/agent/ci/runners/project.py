"""A repository's files as `read_project` gives them, without a sandbox."""

from __future__ import annotations

import configparser
import tomllib
from collections.abc import Mapping

from agent.ci.project.detection import Project


def project(files: Mapping[str, str]) -> Project:
    cfg, tox = configparser.ConfigParser(interpolation=None), configparser.ConfigParser(interpolation=None, strict=False)
    cfg.read_string(files.get("setup.cfg", ""))
    return Project(frozenset(files), tomllib.loads(files.get("pyproject.toml", "")), cfg, tox, files)
