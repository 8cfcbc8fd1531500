"""Lines, slices and Gromov–Wasserstein, against POT, SciPy and known answers."""

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

import earthmover_ot as em

ot = pytest.importorskip("ot")


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
def test_the_line_is_pots(rng, p):
    x, y, a, b = rng.normal(size=40), rng.normal(size=31), rng.random(40), rng.random(31)
    theirs = ot.wasserstein_1d(x, y, a / a.sum(), b / b.sum(), p=p)
    assert em.wasserstein_1d(x, y, a, b, p) ** p == pytest.approx(theirs, rel=1e-9)
    t = em.transport_1d(x, y, a, b, p)
    assert t.cost == pytest.approx(theirs, rel=1e-9) and t.dual == pytest.approx(t.cost, rel=1e-9)
    np.testing.assert_allclose(t.plan.sum(1), a / a.sum(), atol=1e-12)
    np.testing.assert_array_equal(t.sparse.toarray(), t.plan)
    step = 1e-6
    for i in range(3):
        moved = x.copy()
        moved[i] += step
        slope = (em.transport_1d(moved, y, a, b, p).cost - t.cost) / step
        assert t.grad_x[i] == pytest.approx(slope, abs=1e-4)


def test_the_line_is_scipys(rng):
    x, y = rng.normal(size=500), rng.normal(size=400)
    assert em.wasserstein_1d(x, y) == pytest.approx(wasserstein_distance(x, y), rel=1e-12)
    with pytest.raises(em.OptionError):
        em.wasserstein_1d(x, y, p=0.5)
    with pytest.raises(em.CostError):
        em.wasserstein_1d([np.nan], y)


def test_slices(rng):
    x, y = rng.normal(size=(60, 4)), rng.normal(size=(50, 4)) + 1.0
    s = em.sliced(x, y, projections=300, seed=3, gradients=True)
    theirs = ot.sliced_wasserstein_distance(x, y, n_projections=3000, seed=1)
    assert s.value == pytest.approx(theirs, abs=6 * s.standard_error) and float(s) == s.value
    assert em.sliced(x, y, projections=300, seed=3).value == s.value and em.sliced(x, y).grad_x is None
    moved = x.copy()
    moved[2, 1] += 1e-6
    slope = (em.sliced(moved, y, projections=300, seed=3).cost - s.cost) / 1e-6
    assert s.grad_x.shape == x.shape and s.grad_x[2, 1] == pytest.approx(slope, abs=1e-5)
    most = em.max_sliced(x, y)
    assert most.value >= max(s.costs) ** 0.5 - 1e-9 and np.linalg.norm(most.direction) == pytest.approx(1.0)


def test_gromov_finds_what_was_turned_and_mixed(rng):
    x = rng.normal(size=(30, 3)) * [3.0, 2.0, 1.0]
    order = rng.permutation(30)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    c1, c2 = ot.dist(x, x), ot.dist(x[order] @ turn, x[order] @ turn)
    s = em.gromov(c1, c2, starts=4)
    assert s.converged and s.value < 1e-9 and s.certificate.lower <= s.value
    np.testing.assert_array_equal(order[s.argmax()], np.arange(30))
    np.testing.assert_allclose(s.plan.sum(0), 1 / 30, atol=1e-12)
    assert em.gromov_points(x, x[order] @ turn, starts=4).value < 1e-9


@pytest.mark.parametrize("loss", ["square", "kl"])
def test_gromov_is_no_worse_than_pots(rng, loss):
    c1, c2 = (ot.dist(z, z, "euclidean") for z in (rng.normal(size=(20, 2)), rng.normal(size=(24, 2))))
    p, q = np.full(20, 1 / 20), np.full(24, 1 / 24)
    theirs = ot.gromov.gromov_wasserstein2(c1, c2, p, q, loss + "_loss")
    assert em.gromov(c1, c2, loss=loss, starts=4).value <= theirs * 1.001 + 1e-9
    costs = rng.random((20, 24))
    theirs = ot.gromov.fused_gromov_wasserstein2(costs, c1, c2, p, q, alpha=0.3)
    assert em.gromov(c1, c2, fused=costs, alpha=0.3, starts=4).value <= theirs * 1.001 + 1e-9
    with pytest.raises(em.ShapeError, match="square"):
        em.gromov(c1[:, :3], c2)
    with pytest.raises(em.OptionError, match="loss is"):
        em.gromov(c1, c2, loss="cubic")


@pytest.mark.parametrize("eps", [None, 0.1])
def test_a_batch_is_its_problems(rng, eps):
    costs, a = rng.random((12, 9, 7)), rng.random((12, 9))
    a /= a.sum(1, keepdims=True)
    for given in (costs, list(costs), costs.astype(np.float32)):
        for s, cost, mass in zip(em.solve_batch(given, a, eps=eps), given, a):
            assert s.value == em.solve(cost, mass, eps=eps).value
    shared = em.solve_batch(costs, a[0], np.full(7, 1 / 7), eps=eps)
    assert [s.value for s in shared] == [em.solve(c, a[0], np.full(7, 1 / 7), eps=eps).value for c in costs]
    assert em.solve_batch([]) == [] and len(em.solve_batch([np.ones((2, 3)), np.ones((4, 4))])) == 2
    costs[3, 0, 0] = np.nan
    with pytest.raises(em.CostError, match="NaN"):
        em.solve_batch(costs)


def test_barycentres(rng):
    places = np.linspace(0.0, 1.0, 60)[:, None]
    cost = ot.dist(places, places)
    h = np.exp(-((places - [0.2, 0.5, 0.7]) ** 2) / 0.005).T + 1e-4
    h /= h.sum(1, keepdims=True)
    found = em.barycenter(h, cost, 0.005, tol=1e-9)
    theirs = ot.bregman.barycenter(h.T, cost, 0.005, method="sinkhorn_log", numItermax=20_000, stopThr=1e-9)
    assert found.converged and found.lower <= found.upper
    np.testing.assert_allclose(found.weights, theirs, atol=1e-5)
    grid = em.barycenter(h, em.Grid((60,)), 0.005, tol=1e-9)
    np.testing.assert_allclose(grid.weights, found.weights, atol=1e-6)
    with pytest.raises(em.ShapeError, match="weights"):
        em.barycenter(h, cost, 0.005, [1.0, 2.0])


def test_barycentres_of_clouds(rng):
    clouds = [rng.normal(size=(n, 2)) + shift for n, shift in ((30, 0.0), (20, 4.0), (25, [0.0, 4.0]))]
    found = em.barycenter_points(clouds, 15, [1.0, 2.0, 1.0], tol=1e-10, max_iter=200)
    assert found.points.shape == (15, 2) and found.masses.sum() == pytest.approx(1.0)
    each = [em.solve_points(found.points, cloud).value for cloud in clouds]
    assert found.value == pytest.approx(np.average(each, weights=[1, 2, 1]), rel=1e-6)
    theirs = ot.lp.free_support_barycenter(
        clouds, [ot.unif(len(c)) for c in clouds], found.points, weights=np.array([0.25, 0.5, 0.25]), stopThr=1e-12
    )
    np.testing.assert_allclose(found.points, theirs, atol=1e-4)  # nothing more to gain for them
    # The mean of everything does not depend on the plans.
    middle = np.average([c.mean(0) for c in clouds], axis=0, weights=[1, 2, 1])
    np.testing.assert_allclose(found.points.mean(0), middle, atol=1e-9)
    assert em.barycenter_points(clouds, 15, eps=0.1, max_iter=50).points.shape == (15, 2)
    weighted = em.barycenter_points(clouds, 3, masses=[np.ones(len(c)) for c in clouds], support_masses=[1, 2, 1])
    assert weighted.masses.tolist() == [0.25, 0.5, 0.25]
    with pytest.raises(em.ShapeError, match="coordinates"):
        em.barycenter_points([np.ones((3, 2)), np.ones((3, 3))])
    with pytest.raises(em.ShapeError, match="no clouds"):
        em.barycenter_points([])


@pytest.mark.parametrize("shape", [(1, 1), (30, 30), (20, 50), (50, 20)])
@pytest.mark.parametrize("maximise", [False, True])
def test_assignments_are_scipys(rng, shape, maximise):
    from scipy.optimize import linear_sum_assignment

    for cost in (rng.random(shape), rng.integers(0, 9, shape).astype(np.float32)):
        rows, cols = em.assignment(cost, maximise)
        assert len(rows) == min(shape) and len(set(cols.tolist())) == len(rows) and np.all(np.diff(rows) > 0)
        best = cost[linear_sum_assignment(cost, maximise)].sum()
        assert cost[rows, cols].sum() == pytest.approx(best, rel=1e-12)


def test_assignments_may_be_forbidden():
    cost = np.array([[1.0, np.inf], [0.0, np.inf]])
    with pytest.raises(em.InfeasibleError):
        em.assignment(cost)
    cost[0, 1] = 3.0
    assert em.assignment(cost)[1].tolist() == [1, 0]


def test_grids_are_their_matrix(rng):
    lines = np.linspace(0, 1, 5), np.linspace(0, 1, 4)
    places = np.stack(np.meshgrid(*lines, indexing="ij"), -1).reshape(-1, 2)
    a, b = rng.random(20), rng.random(20)
    a, b = a / a.sum(), b / b.sum()
    for eps in (None, 0.01):
        ours, matrix = (em.solve(cost, a, b, eps=eps, tol=1e-9) for cost in (em.Grid((5, 4)), ot.dist(places, places)))
        assert ours.shape == (20, 20) and ours.value == pytest.approx(matrix.value, rel=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("eps", [None, 0.05])
def test_pairs_are_their_matrix(rng, dtype, eps):
    import pickle

    import scipy.sparse

    cost = rng.random((30, 40)).astype(dtype)
    cost[rng.random((30, 40)) < 0.6] = np.inf
    cost[np.arange(30), np.arange(30)] = 0.0  # a stored zero is a pair
    allowed = np.isfinite(cost)
    rows, cols = np.nonzero(allowed)
    pairs = scipy.sparse.coo_array((cost[allowed], (rows, cols)), shape=cost.shape)
    tol = 1e-9 if dtype == np.float64 else 1e-5
    ours, matrix = em.solve_sparse(pairs, eps=eps, tol=tol), em.solve(cost, eps=eps, tol=tol)
    assert ours.converged and ours.value == pytest.approx(matrix.value, rel=1e-5)
    assert ours.sparse.nnz <= allowed.sum()
    np.testing.assert_allclose(ours.plan.sum(1), 1 / 30, atol=1e-5)
    np.testing.assert_allclose(ours.sparse.toarray(), ours.plan, rtol=1e-9, atol=1e-15)
    again = pickle.loads(pickle.dumps(ours))
    assert again.value == pytest.approx(ours.value, rel=1e-9)
    with pytest.raises(TypeError, match="scipy.sparse"):
        em.solve_sparse(cost)
    with pytest.raises(em.InfeasibleError):
        em.solve_sparse(scipy.sparse.csr_array(([1.0], ([0], [0])), shape=(2, 2)))
