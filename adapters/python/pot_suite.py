#!/usr/bin/env python3
"""POT's own tests, on its own code and on earthmover's, side by side.

    python pot_suite.py PATH_TO_POT/test [--out table.md] [module …]

Runs the tests twice in processes of their own, with the NumPy back-end: as they are, and under `python -m earthmover_ot.pot`. Writes a
table of results by module and of calls by function, and fails where a test fails that does not fail without.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

MODULES = """test_ot.py test_bregman.py unbalanced test_partial.py test_solvers.py test_1d_solver.py sliced gromov test_gmm.py
test_da.py test_weak.py test_factored.py test_coot.py test_utils.py""".split()


def run(tests, modules, patched, folder):
    """Outcome of every test, seconds, and calls by function."""
    report, calls = folder / f"{patched}.xml", folder / f"{patched}.json"
    pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *(str(tests / m) for m in modules)]
    command = [sys.executable, *(["-m", "earthmover_ot.pot"] if patched else []), *pytest]
    environment = dict(os.environ, EARTHMOVER_POT_CALLS=str(calls), PYTHONDONTWRITEBYTECODE="1")
    for other in ("PYTORCH", "JAX", "TENSORFLOW", "CUPY"):
        environment[f"POT_BACKEND_DISABLE_{other}"] = "1"
    started = time.perf_counter()
    ran = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if not report.exists():
        sys.exit(f"pytest did not run:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    outcomes = {}
    for case in xml.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return outcomes, seconds, json.loads(calls.read_text()) if calls.exists() else {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", type=pathlib.Path, help="the folder `test` of POT's sources")
    parser.add_argument("modules", nargs="*", default=MODULES)
    parser.add_argument("--out", type=pathlib.Path, help="where to write the table; standard output by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, tests = pathlib.Path(name), options.tests.resolve()
        theirs, their_seconds, _ = run(tests, options.modules, False, folder)
        ours, our_seconds, calls = run(tests, options.modules, True, folder)
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
    lines += ["", f"Seconds: {their_seconds:.0f} as they are, {our_seconds:.0f} on earthmover.", ""]
    lines += ["| calls of | all | on earthmover | share |", "| --- | --- | --- | --- |"]
    for function, (mine, rest) in calls.items():
        lines.append(f"| `{function}` | {mine + rest} | {mine} | {100 * mine / (mine + rest):.1f}% |")
    lines += [""] + [f"fails on earthmover alone: {test}" for test in new] + [f"did not run: {test}" for test in lost]
    table = "\n".join(lines).rstrip() + "\n"
    if options.out:
        options.out.write_text(table)
    print(table)
    sys.exit(bool(new or lost))


if __name__ == "__main__":
    main()
