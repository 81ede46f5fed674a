"""What the steps before a check change that decides its result: tests, settings, programs on the PATH, some variables.

Steps run changed code unobserved. Comparing the files before and after shows what they did, each as `KIND WHAT`, with a digest
if the content matters. That alone proves nothing, because steps create and install things. So the gate compares what they did
with a change to what they did without it.
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping

FILES = 100000  # most files of one tree
REPORTED = 2000  # changes reported one by one; the rest is reported as one digest
LARGEST = 1 << 26  # most bytes read from a file
_IGNORED = (".git", ".hg", ".svn")
# Installed packages have many files: compared only if they existed before, by the times that only the system can set.
_INSTALLED = ("node_modules", ".venv", "venv", ".tox", ".nox", "site-packages")
_CACHE = "__pycache__"
# Files in the home folder that programs read when they start.
_HOME = (
    ".npmrc", ".yarnrc*", ".cargo/config*", ".config/go/env", ".m2/settings*.xml", ".mavenrc", ".gradle/gradle.properties",
    ".gradle/init*", ".profile", ".bash*", ".pydistutils.cfg", ".config/pip/*", ".config/uv/*",
    ".local/lib/python*/site-packages/*.pth", ".local/lib/python*/site-packages/*customize.py",
)  # fmt: skip
# Variables that make programs run other code or other tests, or run them differently, before they read the repository.
_CONTROLLING = re.compile(
    r"(?i)(BASH_|LD_|DYLD_|PYTHON|PYTEST|COVERAGE_|COV_|NODE_|NPM_|YARN_|JEST_|VITEST|MOCHA_|TS_NODE|BABEL_|RUST|CARGO"
    r"|NEXTEST|GO[A-Z]|CGO_|JAVA_|JDK_|_JAVA|MAVEN_|MVN_|GRADLE_|MAKE|GNUMAKE|MFLAGS|GIT_|PERL5|RUBY|TOX_?|NOX_?|UV_|PIP_|POETRY_|RUFF_|MYPY"
    r"|FLAKE8|PYLINT|HYPOTHESIS|XDG_|GCONV|GLIBC_|SELFHEAL_"
    r"|(ENV|SHELLOPTS|BASHOPTS|PS4|IFS|CDPATH|GLOBIGNORE|HOME|PATH|SHELL|TMPDIR|CI|CLASSPATH|TZ|LANG|LC_ALL)$)"
)


class DecisiveFiles:
    """The state before the steps. `globs` name the decisive files, `path` the folders in which programs are found."""

    def __init__(self, root: str, home: str, path: list[str], globs: Iterable[str]) -> None:
        self.root, self.home, self.path = root, home, path
        self.decides = _any(globs)
        self.files, self.caches, self.states = self._files()
        self.programs = self._programs(path)

    def changes(self, variables: Mapping[str, str], added_path: list[str], check: str) -> list[str]:
        """What the steps changed, sorted. `variables` and `added_path` are what they set; `check` is the check's script.

        Deletes compiled Python that the steps wrote, as it would run instead of its source.
        """
        now, caches, _ = self._files()
        found: set[str] = set()
        for path, state in caches.items():
            if self.caches.get(path) != state:
                try:
                    os.unlink(path)
                except OSError:
                    found.add("made " + self._short(path))
        for name, digest in now.items():
            if name not in self.files:
                if not digest.startswith("installed"):
                    found.add("made %s (%s)" % (name, digest))
            elif self.files[name] != digest:
                found.add("changed %s (%s)" % (name, digest if not digest.startswith("installed") else self._digest(name)))
        found.update("removed " + name for name in self.files if name not in now)
        programs = self._programs(added_path + self.path)
        for name, state in programs.items():
            if name not in self.programs:
                found.add("placed " + self._short(name))
            elif self.programs[name] != state:
                found.add("changed %s (%s)" % (self._short(name), self._digest(name)))
        found.update("removed " + self._short(name) for name in self.programs if name not in programs)
        found.update("led to " + self._short(folder) for folder in added_path)
        found.update(self._variable(name, value, check) for name, value in variables.items())
        changes = sorted(found)
        rest = changes[REPORTED:]
        if rest:
            changes[REPORTED:] = ["and %d more (%s)" % (len(rest), _hashed("\n".join(rest).encode("utf-8", "replace")))]
        return changes

    def is_made_by_steps(self, path: str) -> bool:
        """Whether the steps created or changed this file of the repository."""
        return bool(path) and self.states.get(path) != _state(os.path.join(self.root, path))

    def _variable(self, name: str, value: str, check: str) -> str:
        """The change for one variable. Its value counts only if it can become code or a command: a version or date can vary."""
        if _CONTROLLING.match(name) or re.search(r"(?<!\w)%s(?!\w)" % re.escape(name), check):
            return "exported %s (%s)" % (name, _hashed(self._same(value.encode("utf-8", "replace"))))
        return "exported " + name

    def _files(self) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        """Decisive files → their digests; compiled Python → its state; all other files → their states."""
        found: dict[str, str] = {}
        caches: dict[str, str] = {}
        states: dict[str, str] = {}
        left = FILES
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if name not in _IGNORED)
            inside = os.path.relpath(folder, self.root).replace(os.sep, "/")
            parts = inside.split("/")
            is_installed = any(part in _INSTALLED for part in parts)
            linked = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in sorted(names) + linked:
                path = os.path.join(folder, name)
                short = name if inside == "." else inside + "/" + name
                if _CACHE in (parts[-1], name) or name.endswith((".pyc", ".pyo")):
                    caches[path] = _state(path)
                    continue
                if len(states) < FILES:
                    states[short] = _state(path)
                if is_installed:
                    left -= 1
                    if left > 0:
                        found[short] = "installed " + states.get(short, "")
                elif self.decides(short):
                    found[short] = self._digest(short)
        found.update(("~/" + name, self._digest("~/" + name)) for name in _under(self.home))
        return found, caches, states

    def _programs(self, path: Iterable[str]) -> dict[str, str]:
        """Programs that could be replaced: those in writable folders."""
        found = {}
        for folder in path:
            whole = os.path.join(self.root, folder)
            if not os.access(whole, os.W_OK):
                continue
            try:
                names = sorted(os.listdir(whole))
            except OSError:
                continue
            for name in names:
                file = os.path.join(whole, name)
                if os.path.isfile(file) and os.access(file, os.X_OK):
                    found[file] = _state(os.path.realpath(file))
        return found

    def _digest(self, name: str) -> str:
        """The digest of a file's content and of its link target."""
        path = os.path.join(self.home, name[2:]) if name.startswith("~/") else os.path.join(self.root, name)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                content = file.read(LARGEST) if plain else b"no plain file"
        except OSError as error:
            content = b"unread %d" % (error.errno or 0)
        link = os.readlink(path) if os.path.islink(path) else ""
        return _hashed(self._same(os.fsencode(link) + b"\0" + content))

    def _same(self, content: bytes) -> bytes:
        """The content with the workspace's path replaced, so that it is the same in any workspace."""
        return content.replace(os.fsencode(self.root), b".")

    def _short(self, path: str) -> str:
        return os.path.relpath(path, self.root) if path.startswith(self.root + os.sep) else path


def _any(globs: Iterable[str]) -> Callable[[str], object]:
    """Returns a function that tests whether a path, or its end from any folder on, matches a glob. Case is ignored."""
    whole = "|".join(fnmatch.translate(each.lower()) for pattern in globs for each in (pattern, "*/" + pattern))
    matcher = re.compile(whole or r"(?!)")
    return lambda path: matcher.match(path.lower())


def _under(home: str) -> Iterator[str]:
    for pattern in _HOME:
        for path in sorted(glob.glob(os.path.join(glob.escape(home), pattern))):
            if os.path.isfile(path):
                yield os.path.relpath(path, home).replace(os.sep, "/")


def _state(path: str) -> str:
    try:
        about = os.lstat(path)
    except OSError:
        return ""
    return "%d %d %d %d" % (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


def _hashed(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
