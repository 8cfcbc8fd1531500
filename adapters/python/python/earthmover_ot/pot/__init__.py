"""POT's functions on this library's solvers.

>>> import earthmover_ot.pot
>>> earthmover_ot.pot.patch()
>>> import ot
>>> ot.emd([0.5, 0.5], [0.25, 0.75], [[0.0, 1.0], [1.0, 0.0]]).tolist()
[[0.25, 0.25], [0.0, 0.5]]
>>> earthmover_ot.pot.calls()["ot.emd"]
Calls(ours=1, theirs=0)
>>> earthmover_ot.pot.unpatch()

`python -m earthmover_ot.pot script.py …` and `python -m earthmover_ot.pot -m pytest …` run a program so and say in the end which calls went
where.

What is replaced are the functions in which POT does its work, with the same arguments and the same answers: `emd`, `solve`, domain
adaptation, Gromov–Wasserstein and all else that is built on them follow. A call that this library has no answer to (another
back-end than NumPy, a limit of a few iterations, masses that do not add up …) is left to POT's own code. `calls` counts both.
"""

from ._patch import Calls, calls, is_patched, patch, report, unpatch

__all__ = ["Calls", "calls", "is_patched", "patch", "report", "unpatch"]
