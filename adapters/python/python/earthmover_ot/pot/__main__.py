"""python -m earthmover_ot.pot script.py … | -m module …: runs a program with POT's calls answered by this library."""

import atexit
import os
import runpy
import sys

from . import calls, patch, report


def _say():
    path = os.environ.get("EARTHMOVER_POT_CALLS")
    if path:
        import json

        with open(path, "w") as file:
            json.dump({name: list(both) for name, both in calls().items()}, file, indent=1)
    else:
        print(report(), file=sys.stderr)


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return
    patch()
    atexit.register(_say)
    if sys.argv[1] == "-m":
        if len(sys.argv) < 3:
            sys.exit("-m needs the name of a module")
        sys.argv = sys.argv[2:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = sys.argv[1:]
        sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
