"""What code of the repository does that Python tells of by itself: audit events, which nobody can take back.

Frames of its callers, all objects, the code of functions, native memory, files that hold tests: each is told as `PATH: WHAT`,
where PATH is the file of the repository that did it. Tests may do all that; what only they did is left out.
"""

import os
import re
import sys

from . import failures

EVENTS = frozenset(
    (
        "sys._getframe",
        "sys._getframemodulename",
        "sys._current_frames",
        "sys._current_exceptions",
        "sys.settrace",
        "sys.setprofile",
        "sys.addaudithook",
        "sys.monitoring.register_callback",
        "gc.get_objects",
        "gc.get_referrers",
        "gc.get_referents",
        "object.__getattr__",
        "object.__setattr__",
        "object.__delattr__",
        "code.__new__",
        "compile",
        "exec",
        "ctypes.dlopen",
        "ctypes.dlsym",
        "ctypes.cdata",
        "ctypes.addressof",
        "ctypes.string_at",
        "ctypes.wstring_at",
        "ctypes.PyObj_FromPtr",
        "os.kill",
        "os.killpg",
        "signal.pthread_kill",
        "open",
    )
)
_READ = ("tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_back", "f_locals", "f_globals")
_WRITTEN = ("__code__", "__defaults__", "__kwdefaults__")
_TEST = re.compile(r"(test_.*|.*_tests?|tests?|conftest)\.py")
_PRIVATE = re.compile(r"/proc/(self|thread-self|\d+)/(.*/)?(mem|fd|environ|maps|cmdline|status|stat)\b")
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__))
# They do for their caller what the caller could do itself.
_GO_BETWEENS = frozenset(os.path.join(_LIBRARY, name + ".py") for name in ("inspect", "traceback"))
# They look at tests' files for a report that somebody ordered, as pytest and an import do for themselves.
_REPORTERS = frozenset(
    os.path.join(_LIBRARY, name) for name in ("warnings.py", "traceback.py", os.path.join("logging", "__init__.py"))
)
_IMPORTERS = ("<frozen importlib", "<frozen zipimport", "<frozen runpy")
_DEPTH = 40  # frames looked at
LIMIT = 300  # marks told


class Watch(object):
    """Begins to watch as it is made; `tell(mark)` hears of each at once. `files` are the tests' own, once they are known."""

    def __init__(self, root, tell):
        self.files = set()
        self._seen = _watched(root, self.is_test, tell)

    def is_test(self, path):
        """Whether a file of the repository holds tests or what belongs to them."""
        return path in self.files or bool(_TEST.fullmatch(os.path.basename(path))) or "/tests/" in "/" + path

    def marks(self):
        return list(self._seen)


def _watched(root, is_test, tell):
    seen, busy, caller = set(), [], sys._getframe
    opened = {}

    def culprit(frame, passed):
        """The nearest file of the repository, when only what `passed(name)` lies between; "" where a test is nearer."""
        for _ in range(_DEPTH):
            if frame is None:
                break
            name = frame.f_code.co_filename
            path = opened.get(name)
            if path is None:
                path = opened[name] = failures.inside(name, root) or ""
            if path:
                return "" if is_test(path) else path
            if not passed(name):
                break
            frame = frame.f_back
        return ""

    def reads(name):
        return name not in _REPORTERS and not name.startswith(_IMPORTERS) and "_pytest" not in name and __package__ not in name

    def note(event, args):
        what, passed = event, _GO_BETWEENS.__contains__
        if event == "open":
            path = args[0]
            if not isinstance(path, (str, bytes)):
                return
            path = os.fsdecode(path)
            if _PRIVATE.match(path):
                what = "open " + path.rsplit("/", 1)[-1]
            else:
                base = os.path.basename(path)
                if not base.endswith(".py"):
                    return
                inside = failures.inside(os.path.abspath(path), root)
                if not inside or not is_test(inside):
                    return
                what, passed = "open " + inside, reads
        elif event.startswith("object."):
            wanted = _READ if event == "object.__getattr__" else _WRITTEN
            if args[1] not in wanted:
                return
            what, passed = "%s %s" % ("read" if wanted is _READ else "set", args[1]), frozenset().__contains__
        path = culprit(caller(2), passed)
        mark = "%s: %s" % (path, what)
        if path and mark not in seen and len(seen) < LIMIT:
            seen.add(mark)
            tell(mark)

    def hook(event, args):
        if event in EVENTS and not busy:
            busy.append(1)
            try:
                note(event, args)
            except Exception:
                pass
            finally:
                busy.clear()

    sys.addaudithook(hook)
    return seen
