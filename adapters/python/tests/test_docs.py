"""Every example in a docstring is run; every public name has one line at least."""

import doctest
import inspect

import pytest

import earthmover_ot as em


def documented():
    yield "module", em.__doc__
    for name in em.__all__:
        if name in ("torch", "pot", "__version__"):
            continue
        thing = getattr(em, name)
        yield name, thing.__doc__
        if inspect.isclass(thing) and thing.__module__.startswith("earthmover_ot") and not issubclass(thing, Exception):
            for part, value in vars(thing).items():
                if not part.startswith("_"):
                    yield f"{name}.{part}", value.__doc__


@pytest.mark.parametrize("name, text", list(documented()))
def test_examples(name, text):
    assert text, f"{name} says nothing"
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    found = doctest.DocTestRunner(verbose=False).run(test)
    assert found.failed == 0


@pytest.mark.parametrize("name", [n for n in em.__all__ if inspect.isbuiltin(vars(em).get(n))])
def test_functions_show_formula_example_and_signature(name):
    function = getattr(em, name)
    lines = function.__doc__.split("\n")
    assert any(line.startswith("    ") for line in lines) and any(line.startswith(">>>") for line in lines)
    assert inspect.signature(function).parameters


def stubbed(path):
    import ast

    return [node for node in ast.parse(path.read_text()).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


def arguments(node):
    return [a.arg for a in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]


@pytest.mark.parametrize("part", [None, "pot", "torch"])
def test_everything_is_typed(part):
    import ast
    import pathlib

    if part is not None:
        pytest.importorskip({"pot": "ot"}.get(part, part))
    module = em if part is None else getattr(em, part)
    nodes = stubbed(pathlib.Path(module.__file__).with_suffix(".pyi"))
    names = {node.name for node in nodes}
    for name in module.__all__:
        if name not in ("torch", "pot", "__version__"):
            assert name in names, f"{name} has no stub"
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            kinds = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
            ours = [n for n, p in inspect.signature(getattr(module, node.name)).parameters.items() if p.kind not in kinds]
            assert ours == arguments(node), node.name
        elif not issubclass(getattr(module, node.name), (Exception, tuple)):
            told = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            there = {name for name in vars(getattr(module, node.name)) if not name.startswith("_")}
            assert there <= told, f"{node.name}: {there - told}"
