"""What all replacements share: how a call is left to POT, and how arguments are read as POT reads them."""

import numpy as np

import earthmover_ot as em


class Declined(Exception):
    """This call is for POT's own code."""


def solve(*args, **kwargs):
    """`em.solve`; what it refuses is for POT."""
    try:
        return em.solve(*args, **kwargs)
    except em.TransportError as error:
        raise Declined from error


def printing(verbose):
    """What `verbose` asks for: a line now and then, in POT's form."""
    if not verbose:
        return None
    print(f"{'It.':5s}|{'Err':12s}\n" + "-" * 19)
    return lambda told: print(f"{told['iteration']:5d}|{told['violation']:8e}|")


def floats(array):
    """A NumPy array of floats, or a list; other back-ends are POT's."""
    array = np.asarray(array) if isinstance(array, list) else array
    if not isinstance(array, np.ndarray) or array.dtype not in (np.float32, np.float64):
        raise Declined
    return array


def matrix(M):
    M = floats(M)
    if M.ndim != 2:
        raise Declined
    return M


def masses(given, count, like):
    """Masses as POT takes them: none at all are equal ones."""
    if not isinstance(given, (np.ndarray, list)):
        raise Declined
    given = np.asarray(given)
    if given.ndim == 1 and len(given) == 0:
        return np.full(count, 1.0 / count, dtype=like.dtype)
    return given


def is_several(b):
    """Whether columns of masses are given, one loss each."""
    return isinstance(b, np.ndarray) and b.ndim == 2


def side_by_side(logs):
    """The logs of several solves as one: arrays beside each other."""
    joint = {}
    for name, value in logs[0].items():
        if isinstance(value, np.ndarray):
            joint[name] = np.stack([one[name] for one in logs], axis=1)
    joint["err"] = [max(one["err"][-1] for one in logs)]
    return joint
