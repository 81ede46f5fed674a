"""Prepares a machine of E2B's public template, until the account has a template of its own.

The public template lacks what the server needs. It is installed when the machine starts, before repository code is there, with
access to Debian's and the package index's hosts only.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import PurePosixPath

from sandbox.base import SandboxLost, SandboxUnavailable
from sandbox.e2b.machine import E2BMachine, E2BNetworkGate
from sandbox.install.package_index import IndexAccess
from sandbox.remote import wire

TEMPLATE = "code-interpreter-v1"  # that of the vendor's SDK
SERVING = ("pip", "uv", "pyseccomp", "packaging")  # packages of the server's Python
LACKING = (
    "E2B's public template is used: without Go, Rust and servers for jobs, which a template of your own has "
    "(`python -m deploy.e2b.build`)"
)
SECONDS = 240.0
# The hosts of Debian's packages, as the template's own configuration names them.
_SOURCES = "grep -rhoE 'https?://[^/ ]+' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null || true"
_HOST = re.compile(r"(https?)://([a-z0-9.-]+)(?::(\d{1,5}))?")
_SCRIPT = """
exec 2>&1
set -e
python=$(command -v python3.13 || command -v python3.12 || command -v python3.11 || command -v python3)
"$python" -c 'import sys; sys.exit("Python 3.11 or newer is missing" if sys.version_info < (3, 11) else 0)'
lacks=
command -v bwrap >/dev/null || lacks="$lacks bubblewrap"
command -v unshare >/dev/null || lacks="$lacks util-linux"
command -v git >/dev/null || lacks="$lacks git"
/sbin/ldconfig -p | grep -q 'libseccomp[.]so[.]2' || lacks="$lacks libseccomp2"
if [ -n "$lacks" ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update && apt-get -qq install -y --no-install-recommends $lacks || { echo "cannot install$lacks"; exit 1; }
fi
"$python" -m venv "$1"
shift
"$0" -I -m pip install --quiet --no-cache-dir "$@"
"$0" -c 'import pyseccomp'
echo ready
"""


async def prepare(machine: E2BMachine, index: IndexAccess, environment: Mapping[str, str]) -> None:
    """Install what the server needs; the network is closed afterwards. Raises `SandboxUnavailable`, `SandboxLost`.

    `environment` names the package index for pip.
    """
    home = str(PurePosixPath(wire.INTERPRETER).parents[1])
    wanted = [f"{name}=={version(name)}" for name in SERVING]
    given = [f"{name}={value}" for name, value in environment.items()]
    command = shlex.join(["env", *given, "/bin/sh", "-c", _SCRIPT, wire.INTERPRETER, home, *wanted])
    said = ""
    try:
        sources = _HOST.findall(await machine.run(f"/bin/sh -c {shlex.quote(_SOURCES)}", SECONDS))
        debian = {f"{host}:{port or (443 if kind == 'https' else 80)}" for kind, host, port in sources}
        async with E2BNetworkGate(machine, index.hosts | debian).opened():
            said = (await machine.run(command, SECONDS)).strip()
    except SandboxLost:  # also if the server's Python, which checks that the network is closed, could not be installed
        if not said or said.endswith("ready"):
            raise
    if not said.endswith("ready"):
        last = said.splitlines()[-1][:300] if said else "it did not answer"
        raise SandboxUnavailable(
            f"E2B's public template {TEMPLATE!r} could not be prepared ({last}); "
            "build your own with: python -m deploy.e2b.build"
        )
