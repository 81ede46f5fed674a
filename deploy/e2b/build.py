"""`python -m deploy.e2b.build`: builds the E2B template, with the key and the template name from the settings.

It contains what `sandbox.remote.server` needs: the Python at `INTERPRETER` with the worker's versions of the package clients,
bubblewrap and its filter; and what repositories need: Node with npm, several Pythons, build tools, the servers that jobs use
(PostgreSQL, Redis, MariaDB) and Debian's compilers. It does not contain the sandbox's code: each worker uploads its own.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from importlib.metadata import version
from pathlib import PurePosixPath

from e2b.template.main import TemplateBuilder
from e2b_code_interpreter import AsyncTemplate

from app.assembly import check_e2b_addresses
from app.settings import ENV_FILE, SettingsError, load
from sandbox.e2b import public_template
from sandbox.remote.wire import INTERPRETER

BASE = "22-bookworm"  # tag of the Node image; Debian's own Node is too old for most repositories
SYSTEM = (
    *("bubblewrap", "libseccomp2", "util-linux", "git", "build-essential", "pkg-config", "ca-certificates"),
    *("python3", "python3-venv", "python3-dev", "postgresql-common"),
)
SERVERS = ("postgresql", "redis-server", "mariadb-server-core", "mariadb-client-core")
COMPILERS = ("cargo", "rustc", "golang-go", "default-jdk-headless", "maven")
PYTHONS = ("3.9", "3.10", "3.12", "3.13")  # in addition to Debian's own
NEEDED = ("bwrap", "unshare", "setpriv", "node", "npm", "redis-server", "mariadb-install-db", "cargo", "go", "javac", "mvn")
# Each job starts its own empty server, so no unit is started and no cluster is created.
_NO_UNITS = (
    "mkdir -p /etc/systemd/system && cd /etc/systemd/system && ln -sf /dev/null postgresql.service && "
    "ln -sf /dev/null redis-server.service"
)
_NO_CLUSTER = "sed -i 's/^#\\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf"
_COMPLETE = "ls /usr/lib/postgresql/*/bin/initdb && for one in {}; do command -v $one || exit 1; done"
HOME = PurePosixPath(INTERPRETER).parents[1]


def recipe() -> TemplateBuilder:
    """The template's steps."""
    python = " ".join(PYTHONS)
    wanted = " ".join(f"{name}=={version(name)}" for name in public_template.SERVING)
    return (
        AsyncTemplate()
        .from_node_image(BASE)
        .set_user("root")
        .apt_install(list(SYSTEM), no_install_recommends=True)
        .run_cmd(f"{_NO_UNITS} && {_NO_CLUSTER}")
        .apt_install([*SERVERS, *COMPILERS], no_install_recommends=True)
        .run_cmd(f"python3 -m venv {HOME} && {INTERPRETER} -m pip install --no-cache-dir {wanted}")
        # Readable for everyone, and on the PATH as `python3.X`.
        .run_cmd(f"UV_PYTHON_INSTALL_DIR=/opt/pythons UV_PYTHON_BIN_DIR=/usr/local/bin {HOME}/bin/uv python install {python}")
        .run_cmd(f"{INTERPRETER} -c 'import pyseccomp' && {_COMPLETE.format(' '.join(NEEDED))}")
    )


async def build(cpus: int, memory: int) -> str:
    """Build the template; returns its id. Errors from the SDK are not caught."""
    settings = load(env_file=ENV_FILE)
    check_e2b_addresses()
    if settings.e2b_api_key is None:
        raise SettingsError("set SELFHEAL_E2B_API_KEY to a key from E2B's dashboard")
    built = await AsyncTemplate.build(
        recipe(),
        settings.e2b_template,
        cpu_count=cpus,
        memory_mb=memory,
        on_build_logs=lambda entry: print(entry),
        api_key=settings.e2b_api_key.get_secret_value(),
    )
    return built.template_id


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.e2b.build", description="Build the E2B template.")
    parser.add_argument("--cpus", type=int, default=2, help="CPUs of one machine (default: 2)")
    parser.add_argument("--memory", type=int, default=4096, help="memory of one machine, in MiB (default: 4096)")
    wanted = parser.parse_args()
    try:
        print(asyncio.run(build(wanted.cpus, wanted.memory)))
    except SettingsError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
