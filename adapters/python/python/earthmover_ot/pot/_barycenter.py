"""Barycentres of histograms."""

import numpy as np

import earthmover_ot as em

from ._calls import Declined, floats, matrix, printing


def _found(histograms, cost, reg, weights, numItermax, stopThr, verbose, log, debiased):
    if numItermax < 100 or not stopThr > 0 or not reg > 0:
        raise Declined
    # Weights and masses of other totals mean something else to POT.
    if not np.allclose(histograms.reshape(len(histograms), -1).sum(1), 1.0, rtol=0.0, atol=1e-6):
        raise Declined
    if weights is not None and (len(weights) != len(histograms) or not np.isclose(np.sum(weights), 1.0)):
        raise Declined
    tol = float(np.clip(stopThr, 1e-12, 1e-6))
    try:
        found = em.barycenter(histograms, cost, float(reg), weights, tol=tol, debiased=debiased, progress=printing(verbose))
    except em.TransportError as error:
        raise Declined from error
    if not found.converged:
        raise Declined
    bar = found.weights.reshape(histograms.shape[1:]).astype(histograms.dtype, copy=False)
    return (bar, {"err": [found.violation], "niter": found.iterations}) if log else bar


def _columns(A, M, reg, weights, numItermax, stopThr, verbose, log, debiased):
    A, M = matrix(A), matrix(M)
    return _found(A.T, M, reg, weights, numItermax, stopThr, verbose, log, debiased)


def barycenter(original, A, M, reg, weights=None, numItermax=1000, stopThr=1e-4, verbose=False, log=False, warn=True):
    return _columns(A, M, reg, weights, numItermax, stopThr, verbose, log, False)


def barycenter_debiased(original, A, M, reg, weights=None, numItermax=1000, stopThr=1e-4, verbose=False, log=False, warn=True):
    return _columns(A, M, reg, weights, numItermax, stopThr, verbose, log, True)


def convolutional_log(
    original, A, reg, weights=None, numItermax=10000, stopThr=1e-4, stabThr=1e-30, verbose=False, log=False, warn=True
):
    """Pictures on the unit square."""
    A = floats(A)
    if A.ndim != 3:
        raise Declined
    return _found(A, em.Grid(A.shape[1:]), reg, weights, numItermax, stopThr, verbose, log, False)


def convolutional(original, A, reg, *args, **kwargs):
    if kwargs.get("log"):
        raise Declined  # it tells scalings, which are too large to be told
    return convolutional_log(original, A, reg, *args, **kwargs)
