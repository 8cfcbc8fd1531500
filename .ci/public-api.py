"""Public items of a crate, one line each, from rustdoc's JSON: path, then the signature as the source has it."""

import json
import re
import sys
from functools import lru_cache

crate = json.load(open(sys.argv[1], encoding="utf-8"))
index = crate["index"]
lines = set()


@lru_cache(maxsize=None)
def source(path):
    try:
        return open(path, encoding="utf-8").read().split("\n")
    except OSError:
        return None


def text(item):
    """The source of an item up to its body, on one line; empty where there is none."""
    span = item.get("span")
    rows = source(span["filename"]) if span else None
    if rows is None:
        return ""
    (first, start), (last, end) = span["begin"], span["end"]
    # Columns count characters, from one.
    part = rows[first - 1 : last]
    part[-1] = part[-1][:end]
    part[0] = part[0][max(start - 1, 0) :]
    part = [re.sub(r"(^|\s)//.*", "", row) for row in part]
    part = re.sub(r"#\[[^\]]*\]", "", " ".join(part))
    return re.sub(r"\s+", " ", part).strip().removesuffix(",")


def header(item):
    """The signature: what stands before the body."""
    return re.split(r"\s*\{|;$", text(item))[0].strip()


def derived(item):
    return any("automatically_derived" in str(a) for a in item.get("attrs", []))


def public(item):
    return item is not None and item["visibility"] in ("public", "default")


def get(number):
    return index.get(str(number))


def walk(item, path, seen):
    kind, inner = next(iter(item["inner"].items()))
    if item["id"] in seen:
        return
    seen = seen | {item["id"]}
    if kind == "use":
        target = get(inner["id"])
        if target is None:
            lines.add(f"{path}::{inner['name']} = {inner['source']}")
        elif inner["is_glob"]:
            for number in next(iter(target["inner"].values())).get("items", []):
                child = get(number)
                if public(child):
                    walk(child, path, seen)
        else:
            walk({**target, "name": inner["name"]}, path, seen)
        return
    own = path if item["name"] is None else f"{path}::{item['name']}"
    hidden = any("non_exhaustive" in str(a) for a in item.get("attrs", []))
    mark = " #[non_exhaustive]" if hidden else ""
    if kind == "module":
        lines.add(f"{own}: mod")
        children = inner["items"]
    elif kind == "struct":
        lines.add(f"{own}: {re.split(r'[({]', header(item))[0].strip()}{mark}")
        fields = inner["kind"].get("plain", {}) if isinstance(inner["kind"], dict) else {}
        if isinstance(inner["kind"], dict) and "tuple" in inner["kind"]:
            lines.add(f"{own}: {len(inner['kind']['tuple'])} unnamed fields")
        children = fields.get("fields", []) + inner["impls"]
    elif kind == "enum":
        lines.add(f"{own}: {header(item)}{mark}")
        children = inner["variants"] + inner["impls"]
    elif kind == "variant":
        lines.add(f"{own}: {text(item)}{mark}")
        children = []
    elif kind == "trait":
        lines.add(f"{own}: {header(item)}")
        children = inner["items"]
    elif kind == "impl":
        trait = (inner["trait"] or {}).get("path")
        if inner["is_synthetic"] or inner["blanket_impl"] or trait == "StructuralPartialEq":
            return
        if trait is not None:
            words = f"derive {trait}" if derived(item) else header(item)
            lines.add(f"{path}: {words}")
            return
        children = inner["items"]
    elif kind == "struct_field":
        if item["visibility"] == "public":
            lines.add(f"{own}: {text(item)}")
        return
    else:
        words = text(item) if kind in ("constant", "assoc_const") else header(item)
        lines.add(f"{own}: {words}")
        return
    for number in children:
        child = get(number)
        if public(child):
            walk(child, own, seen)


root = get(crate["root"])
walk(root, "", frozenset())
for line in sorted(lines):
    print(line.removeprefix("::"))
