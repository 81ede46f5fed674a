"""Recognizes command lines that set up a machine: system packages, downloads, daemons.

They are not run: the sandbox has no network, and its system packages are fixed.
"""

from __future__ import annotations

from collections.abc import Sequence

_SYSTEM = (
    "sudo", "apt", "apt-get", "aptitude", "dpkg", "add-apt-repository", "yum", "dnf", "microdnf", "apk", "pacman", "zypper",
    "brew", "port", "choco", "winget", "snap", "systemctl", "service", "update-alternatives", "locale-gen", "ldconfig",
    "sysctl", "modprobe", "usermod", "chsh",
)  # fmt: skip
_FETCHES = (
    "curl", "wget", "aria2c", "gh", "aws", "az", "gcloud", "gsutil", "kubectl", "helm", "rsync", "scp", "ssh", "docker",
    "docker-compose", "podman",
)  # fmt: skip
_GIT = ("clone", "fetch", "pull", "push", "submodule", "lfs", "remote", "ls-remote")
_BROWSERS = ("playwright", "puppeteer", "cypress")


def provisions(words: Sequence[str]) -> bool:
    """Whether one simple command only sets up the machine."""
    if not words:
        return False
    name, rest = words[0].rpartition("/")[2], [word for word in words[1:] if not word.startswith("-")]
    if name == "sudo" and len(rest) > 1 and rest[0] in ("python", "python3", "pytest", "make", "tox", "bash", "sh"):
        return False
    if name in _SYSTEM or name in _FETCHES:
        return True
    if name == "git":
        return rest[:1] != [] and rest[0] in _GIT
    if name.startswith("python") and list(words[1:2]) == ["-m"]:
        name, rest = words[2] if len(words) > 2 else "", [word for word in words[3:] if not word.startswith("-")]
    return name in _BROWSERS and rest[:1] in (["install"], ["install-deps"])
