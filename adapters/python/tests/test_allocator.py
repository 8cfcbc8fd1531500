"""Label allocation."""

import pickle

import numpy as np
import pytest

import earthmover_ot as em


@pytest.fixture
def log_p(rng):
    logits = 2.0 * rng.normal(size=(200, 5))
    return (logits - np.log(np.exp(logits).sum(1, keepdims=True))).astype(np.float32)


def test_a_loop(log_p):
    sla = em.LabelAllocator(200, 5, bounds=[0.2] * 5, tol=1e-4)
    for batch in np.arange(200).reshape(10, 20):
        sla.observe(batch, log_p[batch])
    report = sla.allocate(0.5)
    assert report["status"] == "converged" and report["error"] <= 1e-4
    assert report["mass"].shape == (5,) and np.all(report["mass"] <= 1.0 + 200 * 0.2 + 1e-2)
    q = sla.plan_rows(np.arange(200))
    np.testing.assert_allclose(q.sum(0), report["mass"], rtol=1e-3)
    np.testing.assert_allclose(sla.targets(log_p), q, atol=1e-5)
    assert set(sla.hard_labels()) <= {-1, 0, 1, 2, 3, 4} and -1 in sla.hard_labels()
    np.testing.assert_allclose(sla.costs, -log_p, rtol=1e-6)
    assert (sla.examples, sla.classes, sla.rho, sla.scaling.shape) == (200, 5, 0.5, (6,))


def test_saved_and_pickled_ones_go_on(log_p, tmp_path):
    sla = em.LabelAllocator(200, 5, bounds=em.LabelAllocator.wilson([4, 4, 4, 4, 4]))
    sla.observe(np.arange(200), log_p)
    sla.allocate(0.3)
    sla.save(tmp_path / "state")
    for other in (em.LabelAllocator.load(tmp_path / "state"), pickle.loads(pickle.dumps(sla))):
        assert np.array_equal(other.scaling, sla.scaling)
        assert other.allocate(0.6)["iterations"] > 0
    with pytest.raises(OSError):
        em.LabelAllocator.load(tmp_path / "nowhere")
    (tmp_path / "broken").write_bytes(b"EMLA nonsense")
    with pytest.raises(ValueError, match="saved state"):
        em.LabelAllocator.load(tmp_path / "broken")


def test_refusals(log_p):
    sla = em.LabelAllocator(200, 5)
    with pytest.raises(em.ShapeError, match="classes"):
        sla.observe([0], log_p[:1, :3])
    with pytest.raises(em.ShapeError, match="out of range"):
        sla.observe([200], log_p[:1])
    with pytest.raises(em.ShapeError, match="negative"):
        sla.observe([-1], log_p[:1])
    with pytest.raises(TypeError, match="integers"):
        sla.observe([0.5], log_p[:1])
    with pytest.raises(ValueError, match="logits in place of"):
        sla.targets(np.ones((2, 5), dtype=np.float32) * -3)
    with pytest.raises(em.OptionError, match="rho"):
        sla.allocate(1.5)
    with pytest.raises(em.OptionError, match="storage"):
        em.LabelAllocator(10, 2, storage="double")
    assert em.LabelAllocator.empirical([1, 3]).tolist() == [0.25, 0.75]
