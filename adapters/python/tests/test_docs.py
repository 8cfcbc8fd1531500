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


@pytest.mark.parametrize("name", ["solve", "solve_points"])
def test_functions_show_examples_and_signatures(name):
    function = getattr(em, name)
    assert ">>>" in function.__doc__ and "minimise" in function.__doc__
    assert "eps" in inspect.signature(function).parameters


def test_everything_is_typed():
    import ast
    import pathlib

    stub = pathlib.Path(em.__file__).with_name("__init__.pyi")
    tree = ast.parse(stub.read_text())
    names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    for name in em.__all__:
        if name not in ("torch", "pot", "__version__"):
            assert name in names, f"{name} has no stub"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            ours = inspect.signature(getattr(em, node.name)).parameters
            theirs = [a.arg for a in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
            assert list(ours) == theirs, node.name
