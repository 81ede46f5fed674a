"""Finds the distribution that provides a module, also if their names differ. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# Well-known modules; for installed distributions, their metadata is used.
_FAMOUS = {
    "yaml": "PyYAML", "PIL": "Pillow", "cv2": "opencv-python", "sklearn": "scikit-learn", "skimage": "scikit-image",
    "dateutil": "python-dateutil", "bs4": "beautifulsoup4", "attr": "attrs", "dotenv": "python-dotenv", "git": "GitPython",
    "jwt": "PyJWT", "OpenSSL": "pyOpenSSL", "Crypto": "pycryptodome", "serial": "pyserial", "usb": "pyusb", "zmq": "pyzmq",
    "magic": "python-magic", "docx": "python-docx", "pptx": "python-pptx", "fitz": "PyMuPDF", "MySQLdb": "mysqlclient",
    "psycopg2": "psycopg2-binary", "ldap": "python-ldap", "nacl": "PyNaCl", "slugify": "python-slugify",
    "multipart": "python-multipart", "jose": "python-jose", "telegram": "python-telegram-bot", "github": "PyGithub",
    "gitlab": "python-gitlab", "pkg_resources": "setuptools", "google.protobuf": "protobuf",
    "google.cloud.storage": "google-cloud-storage", "googleapiclient": "google-api-python-client", "ruamel": "ruamel.yaml",
    "mpl_toolkits": "matplotlib", "pylab": "matplotlib", "win32api": "pywin32", "wx": "wxPython", "gi": "PyGObject",
    "Xlib": "python-xlib", "dns": "dnspython", "socks": "PySocks", "enchant": "pyenchant", "Levenshtein": "python-Levenshtein",
    "faiss": "faiss-cpu", "rest_framework": "djangorestframework", "corsheaders": "django-cors-headers",
    "environ": "django-environ", "websocket": "websocket-client", "pynvml": "nvidia-ml-py",
}  # fmt: skip
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


def normalised(name: str) -> str:
    """The name in the form in which package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distribution_of(module: str, installed: Mapping[str, Sequence[str]]) -> str:
    """The name to write into a manifest. `installed` maps top-level modules to their distributions."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if (known := _FAMOUS.get(".".join(parts[:length]))) is not None:
            return known
    found = installed.get(parts[0], ())
    return found[0] if len(found) == 1 else parts[0].replace("_", "-")


def modules_of(distribution: str) -> tuple[str, ...]:
    """The top-level modules of a distribution that is not installed, in lower case: well-known ones, and that of its name."""
    name = normalised(distribution)
    known = [module.partition(".")[0].lower() for module, provides in _FAMOUS.items() if normalised(provides) == name]
    return tuple(dict.fromkeys((*known, name.replace("-", "_"))))


def named(requirement: str) -> str:
    """The normalised name at the start of a requirement line; "" if there is none."""
    found = _REQUIREMENT.match(requirement)
    return normalised(found[1]) if found else ""
