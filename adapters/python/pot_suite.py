#!/usr/bin/env python3
"""POT's own tests, on its own code and on earthmover's, side by side.

    python pot_suite.py PATH_TO_POT/test [--out table.md] [--launcher "nice -n 10"] [module …]

Runs each module twice in processes of their own, with the NumPy back-end: as it is, and under `python -m earthmover_ot.pot`. Writes a
table of results by module and of calls by function, and fails where a test fails that does not fail without.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

MODULES = """test_ot.py test_bregman.py unbalanced test_partial.py test_solvers.py test_1d_solver.py sliced gromov test_gmm.py
test_da.py test_weak.py test_factored.py test_coot.py test_utils.py""".split()


def run(tests, module, patched, launcher, folder):
    """Outcome of every test, seconds, and calls by function."""
    report, calls = folder / "report.xml", folder / "calls.json"
    for left in (report, calls):
        left.unlink(missing_ok=True)
    root = [f"--rootdir={tests}", f"--confcutdir={tests}", "--continue-on-collection-errors"]
    pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *root, f"--junitxml={report}", str(tests / module)]
    command = [*launcher, sys.executable, *(["-m", "earthmover_ot.pot"] if patched else []), *pytest]
    environment = dict(os.environ, EARTHMOVER_POT_CALLS=str(calls), PYTHONDONTWRITEBYTECODE="1")
    for other in ("PYTORCH", "JAX", "TENSORFLOW", "CUPY"):
        environment[f"POT_BACKEND_DISABLE_{other}"] = "1"
    ran = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    if not report.exists():
        sys.exit(f"pytest did not run:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    outcomes, seconds = {}, 0.0
    for case in xml.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = outcome
        seconds += float(case.get("time", 0.0))
    return outcomes, seconds, json.loads(calls.read_text()) if calls.exists() else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", type=pathlib.Path, help="the folder `test` of POT's sources")
    parser.add_argument("modules", nargs="*", default=MODULES)
    parser.add_argument("--out", type=pathlib.Path, help="where to write the table; standard output by default")
    parser.add_argument("--launcher", default="", help="a command that each run is started by")
    options = parser.parse_args()
    theirs, ours, seconds, calls = {}, {}, [0.0, 0.0], {}
    with tempfile.TemporaryDirectory() as name:
        folder, tests, launcher = pathlib.Path(name), options.tests.resolve(), shlex.split(options.launcher)
        for module in options.modules:
            for patched, side in enumerate((theirs, ours)):
                outcomes, took, seen = run(tests, module, bool(patched), launcher, folder)
                side.update(outcomes)
                seconds[patched] += took
                for function, (mine, rest) in seen.items():
                    before = calls.get(function, (0, 0))
                    calls[function] = (before[0] + mine, before[1] + rest)
                print(f"{module}: {'ours' if patched else 'POT'} {took:.0f} s", file=sys.stderr, flush=True)
    import ot

    lines = [f"POT {ot.__version__}'s own tests, NumPy back-end: as they are, and on earthmover.", ""]
    lines += ["| module | tests | POT passes | ours passes | failures of ours alone |", "| --- | --- | --- | --- | --- |"]
    new = sorted(test for test, outcome in ours.items() if outcome == "failed" and theirs.get(test) != "failed")
    lost = sorted(test for test in theirs if test not in ours)
    groups = {}
    for test in theirs:
        groups.setdefault(test.split("::")[0], []).append(test)
    for group, names in sorted(groups.items()):
        passed = [sum(side.get(test) == "passed" for test in names) for side in (theirs, ours)]
        alone = sum(test in new for test in names)
        lines.append(f"| {group.replace('.', '/')} | {len(names)} | {passed[0]} | {passed[1]} | {alone} |")
    passed = [sum(outcome == "passed" for outcome in side.values()) for side in (theirs, ours)]
    lines.append(f"| all | {len(theirs)} | {passed[0]} | {passed[1]} | {len(new)} |")
    lines += ["", f"Seconds in tests: {seconds[0]:.0f} as they are, {seconds[1]:.0f} on earthmover.", ""]
    lines += ["| calls of | all | on earthmover | share |", "| --- | --- | --- | --- |"]
    for function, (mine, rest) in sorted(calls.items()):
        lines.append(f"| `{function}` | {mine + rest} | {mine} | {100 * mine / (mine + rest):.1f}% |")
    lines += [""] + [f"fails on earthmover alone: {test}" for test in new] + [f"did not run: {test}" for test in lost]
    table = "\n".join(lines).rstrip() + "\n"
    if options.out:
        options.out.write_text(table)
    print(table)
    sys.exit(bool(new or lost))


if __name__ == "__main__":
    main()
