"""Signals, threads, and calls by the thousand."""

import gc
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import earthmover_ot as em

# A shell hands its background jobs an ignored SIGINT, which a child would inherit: the handler is set by hand.
HARD = """
    import signal, numpy as np, earthmover_ot as em
    signal.signal(signal.SIGINT, signal.default_int_handler)
    g = np.random.default_rng(0)
    cost = g.random((6000, 6000))
    print("ready", flush=True)
    try:
        em.solve(cost, {options})
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        raise SystemExit(3)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("options", ["", "eps=1e-5, tol=1e-14"])
def test_ctrl_c_stops_a_long_solve(options):
    program = textwrap.dedent(HARD.format(options=options))
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=120)
        assert out == "interrupted\n" and child.returncode == 3
    finally:
        child.kill()
        child.wait()


def test_two_solves_at_once_and_the_lock_is_free(rng):
    cost = rng.random((700, 700))
    alone = em.solve(cost, eps=0.01).value
    values, ticks = [], []
    threads = [threading.Thread(target=lambda: values.append(em.solve(cost, eps=0.01).value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        ticks.append(1)  # this thread goes on meanwhile
        time.sleep(0.001)
    assert values == [alone] * 4 and ticks


def test_a_hundred_thousand_calls_leak_nothing():
    cost, a = np.random.default_rng(1).random((5, 5)), np.full(5, 0.2)

    def run(calls):
        for _ in range(calls):
            s = em.solve(cost, a, a)
            s.value, s.plan, s.f
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    run(10_000)
    before = run(10_000)
    assert run(80_000) - before < 2048  # kilobytes


PEAK = """
    import resource, numpy as np, earthmover_ot as em
    cost = np.{order}(np.random.default_rng(0).random((2000, 2000), dtype=np.{dtype}))
    em.solve(cost[:50, :50].copy(), eps={eps})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    em.solve(cost, eps={eps}, tol=1e-4).value
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / cost.nbytes)
"""


@pytest.mark.parametrize("order", ["ascontiguousarray", "asfortranarray"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("eps, tables", [(None, 0.0), (0.05, 1.0)])
def test_peak_memory(order, dtype, eps, tables):
    """No copy for an exact solve; one table, the kernel's, for an entropic one."""
    program = textwrap.dedent(PEAK.format(order=order, dtype=dtype, eps=eps))
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert float(said) < tables + 0.4


def test_errors_leak_nothing():
    cost = np.full((300, 300), np.nan)

    def run(calls):
        for _ in range(calls):
            with pytest.raises(em.CostError):
                em.solve(cost)
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = run(200)
    assert run(1000) - before < 4096 and sys.getrefcount(cost) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_the_same_bits_for_any_number_of_threads():
    program = "import numpy as np, earthmover_ot as em; g = np.random.default_rng(3); print(em.solve(g.random((300, 200)), eps=0.02).value.hex())"
    said = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "RAYON_NUM_THREADS": n}, capture_output=True, text=True, check=True
        ).stdout
        for n in "124"
    }
    assert len(said) == 1
