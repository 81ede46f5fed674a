"""What steps before a check do to what decides about it: tests, settings, programs on the PATH, variables that start code.

Steps run code of the change, and nobody watches them. So two looks, before them and after, tell what they did, each as
`KIND WHAT`, with a digest where what it holds matters. It says nothing of guilt: steps make and install things, and the
gate holds what they did with a change against what they did without it. Knows files and names, not what a step is for.
"""

import fnmatch
import glob
import hashlib
import os
import re
import stat

FILES = 100000  # looked at in one tree
SAID = 2000  # told one by one; the rest by one digest
LARGEST = 1 << 26  # bytes of a file that are read
_UNSEEN = (".git", ".hg", ".svn")
# What others wrote, and much of it: known by the times that only the system sets, and only where it was there before.
_THEIRS = ("node_modules", ".venv", "venv", ".tox", ".nox", "site-packages")
_CACHE = "__pycache__"
# In the home folder: what programs read there before they do anything.
_HOME = (
    ".npmrc", ".yarnrc*", ".cargo/config*", ".config/go/env", ".m2/settings*.xml", ".mavenrc", ".gradle/gradle.properties",
    ".gradle/init*", ".profile", ".bash*", ".pydistutils.cfg", ".config/pip/*", ".config/uv/*",
    ".local/lib/python*/site-packages/*.pth", ".local/lib/python*/site-packages/*customize.py",
)  # fmt: skip
# Variables that have programs run other code, run other tests or run them otherwise, before they ask the repository.
_STEERING = re.compile(
    r"(?i)(BASH_|LD_|DYLD_|PYTHON|PYTEST|COVERAGE_|COV_|NODE_|NPM_|YARN_|JEST_|VITEST|MOCHA_|TS_NODE|BABEL_|RUST|CARGO"
    r"|NEXTEST|GO[A-Z]|CGO_|JAVA_|JDK_|_JAVA|MAVEN_|MVN_|GRADLE_|MAKE|GNUMAKE|MFLAGS|GIT_|PERL5|RUBY|TOX_?|NOX_?|UV_|PIP_|POETRY_|RUFF_|MYPY"
    r"|FLAKE8|PYLINT|HYPOTHESIS|XDG_|GCONV|GLIBC_|SELFHEAL_"
    r"|(ENV|SHELLOPTS|BASHOPTS|PS4|IFS|CDPATH|GLOBIGNORE|HOME|PATH|SHELL|TMPDIR|CI|CLASSPATH|TZ|LANG|LC_ALL)$)"
)


class Before(object):
    """The look before the steps. `globs` name the files that decide; `path` the folders where programs are found."""

    def __init__(self, root, home, path, globs):
        self.root, self.home, self.path = root, home, path
        self.decides = _any(globs)
        self.files, self.caches, self.states = self._files()
        self.programs = self._programs(path)

    def after(self, variables, led, check):
        """What is otherwise now: a sorted list. `variables` and `led` (folders of the PATH) are what the steps left, `check` is
        the text of what decides. What the steps left of compiled Python is removed: it would be run in the place of its source.
        """
        now, caches, _ = self._files()
        said = set()
        for path, state in caches.items():
            if self.caches.get(path) != state:
                try:
                    os.unlink(path)
                except OSError:
                    said.add("made " + self._short(path))
        for name, digest in now.items():
            if name not in self.files:
                if not digest.startswith("theirs"):
                    said.add("made %s (%s)" % (name, digest))
            elif self.files[name] != digest:
                said.add("changed %s (%s)" % (name, digest if not digest.startswith("theirs") else self._digest(name)))
        said.update("removed " + name for name in self.files if name not in now)
        programs = self._programs(led + self.path)
        for name, state in programs.items():
            if name not in self.programs:
                said.add("placed " + self._short(name))
            elif self.programs[name] != state:
                said.add("changed %s (%s)" % (self._short(name), self._digest(name)))
        said.update("removed " + self._short(name) for name in self.programs if name not in programs)
        said.update("led to " + self._short(folder) for folder in led)
        said.update(self._variable(name, value, check) for name, value in variables.items())
        told = sorted(said)
        rest = told[SAID:]
        if rest:
            told[SAID:] = ["and %d more (%s)" % (len(rest), _hashed("\n".join(rest).encode("utf-8", "replace")))]
        return told

    def is_of_the_steps(self, path):
        """Whether they made or changed this file of the repository."""
        return bool(path) and self.states.get(path) != _state(os.path.join(self.root, path))

    def _variable(self, name, value, check):
        """An ordinary value (a version, a date) may be another one each time; not where it becomes code or a command."""
        if _STEERING.match(name) or re.search(r"(?<!\w)%s(?!\w)" % re.escape(name), check):
            return "exported %s (%s)" % (name, _hashed(self._same(value.encode("utf-8", "replace"))))
        return "exported " + name

    def _files(self):
        """Names that decide → what they hold; compiled Python → its state; all other files → their states."""
        found, caches, states = {}, {}, {}
        left = FILES
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if name not in _UNSEEN)
            inside = os.path.relpath(folder, self.root).replace(os.sep, "/")
            parts = inside.split("/")
            theirs = any(part in _THEIRS for part in parts)
            linked = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in sorted(names) + linked:
                path = os.path.join(folder, name)
                short = name if inside == "." else inside + "/" + name
                if _CACHE in (parts[-1], name) or name.endswith((".pyc", ".pyo")):
                    caches[path] = _state(path)
                    continue
                if len(states) < FILES:
                    states[short] = _state(path)
                if theirs:
                    left -= 1
                    if left > 0:
                        found[short] = "theirs " + states.get(short, "")
                elif self.decides(short):
                    found[short] = self._digest(short)
        found.update(("~/" + name, self._digest("~/" + name)) for name in _under(self.home))
        return found, caches, states

    def _programs(self, path):
        """Programs where they may be exchanged: in folders that can be written to."""
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

    def _digest(self, name):
        """Of a file's content, and of where a link leads."""
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

    def _same(self, content):
        """As it would be in another workspace."""
        return content.replace(os.fsencode(self.root), b".")

    def _short(self, path):
        return os.path.relpath(path, self.root) if path.startswith(self.root + os.sep) else path


def _any(globs):
    """Whether a path matches one, as a whole, from some folder on, or by its name; case does not matter."""
    whole = "|".join(fnmatch.translate(each.lower()) for pattern in globs for each in (pattern, "*/" + pattern))
    matcher = re.compile(whole or r"(?!)")
    return lambda path: matcher.match(path.lower())


def _under(home):
    for pattern in _HOME:
        for path in sorted(glob.glob(os.path.join(glob.escape(home), pattern))):
            if os.path.isfile(path):
                yield os.path.relpath(path, home).replace(os.sep, "/")


def _state(path):
    try:
        told = os.lstat(path)
    except OSError:
        return ""
    return "%d %d %d %d" % (told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns)


def _hashed(content):
    return hashlib.sha256(content).hexdigest()[:16]
