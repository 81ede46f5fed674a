"""Small programs put first on the PATH of a command, so that everything it calls stays observed.

A Python started through them finds the guest even if the command replaces PYTHONPATH or isolates Python, `-m unittest` runs our
own runner, and project managers (`uv run pytest`) and `pip install` use the prepared environment instead of making one. Node
preloads our hook (the `node_*` files), which is written to disk because Node cannot read a zipapp.
"""

from __future__ import annotations

import os
import pkgutil
import shlex
import stat
import sys

from .. import NAME

_PYTHON = """#!/bin/sh
case ":$PYTHONPATH:" in *:{guest}:*) ;; *) PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{guest}; export PYTHONPATH ;; esac
{pip}if [ -n "$SELFHEAL_GUEST" ]; then
    count=$# previous= own=yes
    while [ "$count" -gt 0 ]; do
        argument=$1; shift
        case "$previous:$argument" in
            -m:unittest | -[!-]*m:unittest) argument={unittest} PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{modules} ;;
        esac
        case "$own:$argument" in yes:-I*) argument={isolated}${{argument#-I}} PYTHONPATH={guest} ;; esac
        case "$own:$argument" in
            yes:-W | yes:-X) own=value ;;
            value:* | yes:-W* | yes:-X*) own=yes ;;
            yes:-c | yes:- | yes:-m* | yes:-[!-]*m | yes:[!-]*) own= ;;
        esac
        set -- "$@" "$argument"; previous=$argument; count=$((count - 1))
    done
fi
exec {program} "$@"
"""

# A module of its own file: `coverage run -m` reads none from a zipapp.
_UNITTEST = "selfheal_unittest"
_UNITTEST_SOURCE = f"import sys\nfrom {NAME}.observe.unittest_run import run\nsys.exit(run())\n"

# Packages are installed already, and there is no network. pip can still list them.
_PIP = """own=yes pip=
for argument in "$@"; do
    case "$own:$argument" in
        yes:-mpip | yes:-[!-]*mpip | module:pip) own= pip=asked ;;
        yes:-m | yes:-[!-]*m) own=module ;;
        yes:-W | yes:-X) own=value ;;
        yes:-c | yes:- | yes:[!-]* | module:*) own= ;;
        value:*) own=yes ;;
        :[!-]*) [ "$pip" != asked ] || pip=$argument ;;
    esac
done
case "$pip" in
    install | download | uninstall | cache | config | sync)
        echo "selfheal: the packages are already installed" >&2; exit 0 ;;
    ?*) {program} -I -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('pip') is None)" || exit 0 ;;
esac
"""

# `pip` runs the pip module of the Python on the command's PATH.
_PIP_PROGRAM = """#!/bin/sh
exec {python} -m pip "$@"
"""

# An isolated Python (`python -Im pytest`) would not find the guest: use the options that -I implies, but without -E.
_ISOLATED = "-sP" if sys.version_info >= (3, 11) else "-s"

# `uv run --group dev pytest -q` → `pytest -q`; everything else that a manager does (sync, lock, install) is already done.
_MANAGER = """#!/bin/sh
while [ $# -gt 0 ] && [ "$1" != run ]; do shift; done
[ $# -gt 0 ] || exit 0
shift
while [ $# -gt 0 ]; do
    case "$1" in
        --) shift; break ;;
        -p|--python|--group|--extra|--with|--with-editable|--with-requirements|--package) shift 2 ;;
        --project|--directory|--env-file|--only-group|--no-group|-C|-P) shift 2 ;;
        -m|--module) set -- python "$@"; break ;;
        -*) shift ;;
        *) break ;;
    esac
done
[ $# -gt 0 ] || exit 0
case "$1" in *.py) set -- python "$@" ;; esac
exec "$@"
"""

# Options that make other runners report every test by its name.
_VERBOSE = {
    "cargo": """#!/bin/sh
PATH=${{PATH#{shims}:}}; export PATH
version=
case "$1" in +*) version=$1; shift ;; esac
case "$1" in test|t) shift; set -- test --no-fail-fast "$@" ;; esac
exec cargo $version "$@"
""",
    "go": """#!/bin/sh
PATH=${{PATH#{shims}:}}; export PATH
case "$1" in test) shift; set -- test -json "$@" ;; esac
exec go "$@"
""",
}

_MANAGERS = ("uv", "poetry", "pdm", "pipenv", "rye", "hatch")
_PROGRAMS = ("pytest", "py.test", "coverage")
NODE_VARIABLE = "NODE_OPTIONS"
_NODE_FILES = ("node_hook.cjs", "node_sender.cjs", "node_test.mjs", "node_vitest.mjs", "node_jest.cjs", "node_mocha.cjs")


def install(folder: str, guest: str) -> str:
    """Write the shims below `folder`; returns their folder, which must precede the interpreter's own on the PATH."""
    own = os.path.dirname(sys.executable)
    shims = os.path.join(folder, "bin")
    modules = os.path.join(folder, "modules")
    os.mkdir(shims)
    os.mkdir(modules)
    with open(os.path.join(modules, f"{_UNITTEST}.py"), "w", encoding="utf-8") as file:
        file.write(_UNITTEST_SOURCE)
    names = {"python": sys.executable, "python3": sys.executable, "python%d.%d" % sys.version_info[:2]: sys.executable}
    for name in _PROGRAMS:
        program = os.path.join(own, name)
        if os.path.exists(program):
            names[name] = program
    for name, program in names.items():
        program = shlex.quote(program)
        pip = "" if name in _PROGRAMS else _PIP.format(program=program)
        text = _PYTHON.format(
            guest=shlex.quote(guest), program=program, isolated=_ISOLATED, pip=pip,
            unittest=_UNITTEST, modules=shlex.quote(modules),
        )  # fmt: skip
        _write(os.path.join(shims, name), text)
    for name in ("pip", "pip3", "pip%d.%d" % sys.version_info[:2]):
        _write(os.path.join(shims, name), _PIP_PROGRAM.format(python=shlex.quote(os.path.join(shims, "python"))))
    for name in _MANAGERS:
        _write(os.path.join(shims, name), _MANAGER)
    return shims


def install_verbose(shims: str, reader: str) -> None:
    """Make the runner whose output `reader` reads report every test, if the command calls it by name."""
    name = {"rust": "cargo", "go": "go"}.get(reader)
    if name:
        _write(os.path.join(shims, name), _VERBOSE[name].format(shims=shims))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, stat.S_IRWXU)


def install_node_hook(folder: str, others: str | None) -> str:
    """Write the files below `folder`; returns a value for NODE_VARIABLE that preloads them, then its former value `others`."""
    there = os.path.join(folder, "node")
    os.mkdir(there)
    for name in _NODE_FILES:
        with open(os.path.join(there, name), "wb") as file:
            file.write(pkgutil.get_data(NAME, name) or b"")
    # Ours comes first, as others can load code of the repository.
    return " ".join(filter(None, ["--require=" + os.path.join(there, _NODE_FILES[0]), others]))
