"""Putting functions in place of others, wherever they are bound, and counting who answers."""

import functools
import importlib
import sys
import threading
from typing import NamedTuple

from ._calls import Declined
from ._replacements import KERNELS, PUBLIC


class Calls(NamedTuple):
    """How many calls of a function were answered by this library, and how many by POT's own code."""

    ours: int
    theirs: int


class _Count(threading.local):
    """Kernels that have run in this thread so far, on either side."""

    ours = 0
    theirs = 0


_seen = _Count()
_lock = threading.Lock()
_calls = {}
_originals = {}  # wrapper -> original


def _count(name, ours):
    with _lock:
        mine, theirs = _calls.get(name, (0, 0))
        _calls[name] = (mine + 1, theirs) if ours else (mine, theirs + 1)


def _kernel(name, original, ours):
    """Ours where it has an answer, POT's own where it declines."""

    @functools.wraps(original)
    def call(*args, **kwargs):
        try:
            answer = ours(original, *args, **kwargs)
        except Declined:
            _seen.theirs += 1
            _count(name, False)
            return original(*args, **kwargs)
        _seen.ours += 1
        _count(name, True)
        return answer

    return call


def _public(name, original):
    """POT's function itself, watched: its call is ours if all the kernels that it ran are."""

    @functools.wraps(original)
    def call(*args, **kwargs):
        ours, theirs = _seen.ours, _seen.theirs
        try:
            return original(*args, **kwargs)
        finally:
            _count(name, _seen.ours > ours and _seen.theirs == theirs)

    return call


def _rebind(old, new):
    """Puts `new` wherever a loaded module has `old`: POT imports its functions by name."""
    for module in list(sys.modules.values()):
        try:
            names = list(vars(module).items())
        except TypeError:
            continue
        if module.__name__.startswith(__package__):
            continue
        for name, value in names:
            if value is old:
                setattr(module, name, new)


def _resolve(path):
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:  # another version of POT
        return None


def patch():
    """Has POT's calls answered by this library from now on, where it can. Patching twice is patching once."""
    if _originals:
        return
    import ot

    for part in ("batch", "bregman", "da", "gromov", "lp", "partial", "sliced", "solvers", "unbalanced"):
        try:
            importlib.import_module("ot." + part)
        except ImportError:  # another version of POT, or one that lacks a library
            pass
    del ot
    wrappers = []
    for path, ours in KERNELS.items():
        original = _resolve(path)
        if original is not None:
            wrappers.append((original, _kernel(path, original, ours)))
    for path in PUBLIC:
        original = _resolve(path)
        if original is not None and path not in KERNELS:
            wrappers.append((original, _public(path, original)))
    for original, wrapper in wrappers:
        _originals[wrapper] = original
        _rebind(original, wrapper)


def unpatch():
    """Gives POT its own functions back."""
    for wrapper, original in _originals.items():
        _rebind(wrapper, original)
    _originals.clear()


def is_patched():
    """Whether POT's calls are answered by this library at the moment."""
    return bool(_originals)


def calls(clear=False):
    """Calls so far, by function; `clear` starts counting anew."""
    with _lock:
        found = {name: Calls(*both) for name, both in sorted(_calls.items())}
        if clear:
            _calls.clear()
    return found


def report():
    """The same as a table."""
    lines = [f"{'calls of':58s} {'all':>8s} {'ours':>8s}  share"]
    for name, (ours, theirs) in calls().items():
        share = 100 * ours / (ours + theirs)
        lines.append(f"{name:58s} {ours + theirs:8d} {ours:8d} {share:5.1f}%")
    return "\n".join(lines)
