"""With what functions are called: seen while tests run, and the same a little changed; inside the sandbox."""

import copy
import random
import sys
import time

from . import splice
from .shapes import shown

SEEN = 40  # calls of one function that are kept
COPYING = 0.4  # seconds that copying arguments may take altogether
VARARGS, VARKEYWORDS = 0x04, 0x08  # flags of code objects


class Call(object):
    """One call of a function: `args` as it was given them, copied. `passing`: a test that passes makes it."""

    def __init__(self, function, args, kwargs, passing, mild=False):
        self.function, self.args, self.kwargs, self.passing, self.mild = function, args, kwargs, passing, mild

    def copied(self):
        return copy.deepcopy((self.args, self.kwargs))


class Recorder(object):
    """Sees the calls of some functions, given as (path, name, first line); those that a call makes of itself do not count."""

    def __init__(self, root, places):
        self.root, self.places = root, {tuple(place): index for index, place in enumerate(places)}
        self.codes, self.calls, self.known = {}, [], set()
        self.counts, self.inside, self.copying = {}, {}, 0.0
        self.latest = []

    def _index(self, code):
        if code not in self.codes:
            place = (splice.inside(self.root, code.co_filename), code.co_name, code.co_firstlineno)
            self.codes[code] = self.places.get(place)
        return self.codes[code]

    def watch(self, test):
        """Run a test and note the calls; returns what it returns. Its calls count as a passing test's if that is True."""
        self.latest, self.inside, passed = [], {}, None
        sys.setprofile(self._profile)
        try:
            passed = test()
        finally:
            sys.setprofile(None)
            for call in self.latest:
                call.passing = passed is True
        return passed

    def _profile(self, frame, event, arg):
        if event not in ("call", "return"):
            return
        index = self._index(frame.f_code)
        if index is None:
            return
        depth = self.inside[index] = self.inside.get(index, 0) + (1 if event == "call" else -1)
        if event == "call" and depth == 1 and self.counts.get(index, 0) < SEEN and self.copying < COPYING:
            began = time.monotonic()
            try:
                self._keep(index, *_arguments(frame))
            except Exception:
                pass  # it cannot be copied, so it cannot be repeated
            self.copying += time.monotonic() - began

    def _keep(self, index, args, kwargs):
        args, kwargs = copy.deepcopy((args, kwargs))
        name = (index, shown([args, kwargs]))
        if name not in self.known:
            self.known.add(name)
            self.counts[index] = self.counts.get(index, 0) + 1
            self.calls.append(Call(index, args, kwargs, False))
            self.latest.append(self.calls[-1])


def _arguments(frame):
    code, values = frame.f_code, frame.f_locals
    names, count, keywords = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
    args = [values[name] for name in names[:count]]
    kwargs = {name: values[name] for name in names[count : count + keywords]}
    at = count + keywords
    if code.co_flags & VARARGS:
        args += values[names[at]]
        at += 1
    if code.co_flags & VARKEYWORDS:
        kwargs.update(values[names[at]])
    return tuple(args), kwargs


def mild(calls, count):
    """Up to `count` further calls near these, within the kinds of values that they show; the same calls give the same."""
    rng, made, known = random.Random(7), [], {shown([c.function, c.args, c.kwargs]) for c in calls}
    pools = {}
    for call in calls:
        for at, value in enumerate(call.args):
            _learn(pools, (call.function, at), value)
    for turn in range(count * 3 if calls else 0):
        if len(made) >= count:
            break
        call = calls[turn % len(calls)]
        places = [
            at for at, value in enumerate(call.args) if isinstance(value, (bool, int, float, str, list, tuple, dict, set))
        ]
        if not places:
            continue
        args, kwargs = call.copied()
        args, at = list(args), rng.choice(places)
        args[at] = _near(rng, pools, (call.function, at), args[at])
        name = shown([call.function, args, kwargs])
        if name not in known:
            known.add(name)
            made.append(Call(call.function, tuple(args), kwargs, call.passing, mild=True))
    return made


def _learn(pools, place, value):
    pools.setdefault((place, type(value)), []).append(value)
    if isinstance(value, (list, tuple, set)):
        for item in value:
            _learn(pools, (place, "item"), item)
    elif isinstance(value, dict):
        for item in value.values():
            _learn(pools, (place, "item"), item)


def _near(rng, pools, place, value):
    pool = pools.get((place, type(value)), [value])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        drawn = rng.choice((value + 1, value - 1, rng.choice(pool), rng.randint(min(pool), max(pool))))
        return max(drawn, 0) if min(pool) >= 0 else drawn
    if isinstance(value, float):
        return rng.choice((value + 1, value / 2, rng.choice(pool), -value if min(pool) < 0 else value))
    if isinstance(value, str):
        return "".join(_resized(rng, list(value), [char for text in pool for char in text]))
    if isinstance(value, (list, tuple)):
        items, inner = list(value), [v for (p, _), vs in pools.items() if p == (place, "item") for v in vs]
        if items and rng.random() < 0.5:
            at = rng.randrange(len(items))
            items[at] = _near(rng, pools, (place, "item"), items[at])
        else:
            items = _resized(rng, items, inner)
        return items if isinstance(value, list) else type(value)(items) if type(value) is tuple else value
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        if rng.random() < 0.4:
            return {k: v for k, v in value.items() if k != key}
        return {k: _near(rng, pools, (place, "item"), v) if k == key else v for k, v in value.items()}
    if isinstance(value, set) and value:
        return value - {sorted(value, key=repr)[0]}
    return value


def _resized(rng, items, pool):
    """An item less, more, changed or moved."""
    step = rng.choice(("less", "more", "other", "moved", "twice"))
    if step == "less" and items:
        del items[rng.randrange(len(items))]
    elif step == "twice" and items:
        at = rng.randrange(len(items))
        items.insert(at, items[at])
    elif step == "other" and items and pool:
        items[rng.randrange(len(items))] = rng.choice(pool)
    elif step == "moved" and len(items) > 1:
        one, other = rng.sample(range(len(items)), 2)
        items[one], items[other] = items[other], items[one]
    elif pool:
        items.insert(rng.randint(0, len(items)), rng.choice(pool))
    return items
