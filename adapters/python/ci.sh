#!/usr/bin/env bash
# Builds the wheel, installs it into an environment of its own and runs the tests there. What the machine lacks is installed,
# or the step is skipped with a line that says so.
set -euo pipefail
cd "$(dirname "$0")"

skip() {
    echo "skipped: the Python package ($1)"
    exit 0
}

python=${PYTHON:-python3}
command -v "$python" >/dev/null || skip "there is no $python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "$python is older than 3.9"

# Not --locked: a dependency that the library gained is added to the lock, and said so, not a reason to fail.
before=$(cksum Cargo.lock)
cargo fmt --check
cargo clippy --release --quiet -- -D warnings

venv=${EARTHMOVER_VENV:-target/venv}
# One that was made for a Python that is gone is made anew.
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$venv"
    if ! "$python" -m venv "$venv" 2>/dev/null; then
        rm -rf "$venv"
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            (apt-get update && apt-get install -y --no-install-recommends python3-venv) >/dev/null 2>&1 || true
        fi
        "$python" -m venv "$venv" || skip "there is no venv"
    fi
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'maturin>=1.7,<2' numpy scipy pandas pytest POT ||
    skip "pip cannot install what the tests need"
if [ -n "${EARTHMOVER_TORCH:-}" ]; then
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check torch ||
        echo "skipped: PyTorch cannot be installed, its tests are left out"
elif ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
    echo "skipped: the tests of earthmover_ot.torch (PyTorch is not installed; EARTHMOVER_TORCH=1 installs it)"
fi

wheels=target/wheels
rm -rf "$wheels"
"$venv/bin/python" -m maturin build --release --out "$wheels" --interpreter "$venv/bin/python"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheels"/*.whl
[ "$before" = "$(cksum Cargo.lock)" ] || echo "adapters/python/Cargo.lock was brought up to date: commit it"
"$venv/bin/python" -m pytest -q tests
