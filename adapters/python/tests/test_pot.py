"""POT on this library: patched, counted, given back."""

import subprocess
import sys

import numpy as np
import pytest

ot = pytest.importorskip("ot")

import earthmover_ot.pot as pot  # noqa: E402


@pytest.fixture
def patched():
    pot.calls(clear=True)
    pot.patch()
    yield pot
    pot.unpatch()


def test_every_binding_is_replaced_and_given_back():
    emd, knopp, inner = ot.emd, ot.bregman.sinkhorn_knopp, ot.lp._network_simplex.emd_c
    pot.patch()
    pot.patch()
    try:
        assert pot.is_patched() and ot.emd is not emd and ot.lp.emd is ot.emd and ot.bregman.sinkhorn_knopp is not knopp
        assert ot.lp._network_simplex.emd_c is not inner and ot.bregman._sinkhorn.sinkhorn_knopp is ot.bregman.sinkhorn_knopp
    finally:
        pot.unpatch()
    assert not pot.is_patched() and ot.emd is emd and ot.bregman.sinkhorn_knopp is knopp
    assert ot.lp._network_simplex.emd_c is inner


def test_exact_calls_are_ours(square, patched):
    cost, a, b = square
    plan, log = ot.emd(a, b, cost, log=True)
    value = ot.emd2(a, b, cost)
    assert patched.calls()["ot.emd"] == (1, 0) and patched.calls()["ot.emd2"] == (1, 0)
    patched.unpatch()
    theirs, their_log = ot.emd(a, b, cost, log=True)
    assert value == pytest.approx(their_log["cost"], abs=1e-12)
    np.testing.assert_allclose(plan, theirs, atol=1e-12)
    assert log["u"] @ a + log["v"] @ b == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("method", ["sinkhorn", "sinkhorn_log", "greenkhorn", "sinkhorn_stabilized", "sinkhorn_epsilon_scaling"])
def test_entropic_calls_are_ours(square, patched, method):
    cost, a, b = square
    plan, log = ot.sinkhorn(a, b, cost, 0.1, method=method, log=True)
    assert patched.calls()["ot.sinkhorn"] == (1, 0)
    patched.unpatch()
    theirs, their_log = ot.sinkhorn(a, b, cost, 0.1, method=method, log=True, numItermax=10_000)
    np.testing.assert_allclose(plan, theirs, atol=1e-6)
    assert set(their_log) <= set(log)


@pytest.mark.parametrize("method", ["sinkhorn", "sinkhorn_stabilized", "sinkhorn_translation_invariant"])
@pytest.mark.parametrize("options", [dict(reg_type="kl"), dict(reg_type="entropy"), dict(c=True)])
def test_unbalanced_calls_are_ours(square, rng, patched, method, options):
    cost, a, b = square
    b, options = 1.5 * b, dict(options, c=rng.random(cost.shape) + 0.5) if "c" in options else options
    options = dict(options, method=method, log=True, stopThr=1e-12, numItermax=20_000)
    # POT's third method is not at the optimum where the two differ.
    prices = (1.0, 1.0) if "invariant" in method else (1.0, 2.0)
    plan, log = ot.unbalanced.sinkhorn_unbalanced(a, b, cost, 0.1, prices, **options)
    assert patched.calls()["ot.unbalanced.sinkhorn_unbalanced"] == (1, 0)
    patched.unpatch()
    theirs, their_log = ot.unbalanced.sinkhorn_unbalanced(a, b, cost, 0.1, prices, **options)
    np.testing.assert_allclose(plan, theirs, atol=1e-9)
    for name in their_log.keys() - {"err"}:
        np.testing.assert_allclose(log[name], their_log[name], atol=1e-6)


def test_barycentres_are_ours(rng, patched):
    places = np.linspace(0, 1, 40)[:, None]
    cost = ot.dist(places, places)
    h = np.exp(-((places - [0.3, 0.6]) ** 2) / 0.01) + 1e-4
    h /= h.sum(0)
    ours = [ot.bregman.barycenter(h, cost, 0.01, method=m, stopThr=1e-9) for m in ("sinkhorn", "sinkhorn_log")]
    images = rng.random((2, 12, 12))
    images /= images.sum((1, 2), keepdims=True)
    picture = ot.bregman.convolutional_barycenter2d(images, 0.02, stopThr=1e-9)
    assert patched.calls()["ot.bregman.barycenter"] == (2, 0)
    assert patched.calls()["ot.bregman.convolutional_barycenter2d"] == (1, 0)
    patched.unpatch()
    for found in ours:
        np.testing.assert_allclose(found, ot.bregman.barycenter(h, cost, 0.01, stopThr=1e-10, numItermax=10_000), atol=1e-6)
    np.testing.assert_allclose(picture, ot.bregman.convolutional_barycenter2d(images, 0.02, stopThr=1e-10), atol=1e-6)


def test_what_is_not_ours_is_theirs(square, patched):
    cost, a, b = square
    with pytest.warns(UserWarning, match="did not converge"):
        ot.sinkhorn(a, b, cost, 0.1, numItermax=1, stopThr=0)
    assert patched.calls()["ot.sinkhorn"] == (0, 1)
    ot.sinkhorn(2 * a, b, cost, 0.1)  # masses that do not add up
    assert patched.calls()["ot.sinkhorn"] == (0, 2)
    assert "ot.sinkhorn" in patched.report()


def test_a_script_and_a_module_run_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, ot\nprint(ot.emd2([.5, .5], [.5, .5], [[0., 1.], [1., 0.]]), sys.argv[1:])\n")
    command = [sys.executable, "-m", "earthmover_ot.pot"]
    ran = subprocess.run([*command, str(script), "one", "--two"], capture_output=True, text=True, check=True)
    assert ran.stdout.split(maxsplit=1)[1] == "['one', '--two']\n"
    assert "ot.emd2" in ran.stderr and "100.0%" in ran.stderr
    ran = subprocess.run([*command, "-m", "pytest", "--version"], capture_output=True, text=True, check=True)
    assert "pytest" in ran.stdout
