#!/usr/bin/env bash
# Builds the adapter and runs its examples on 1, 2, 3 and 4 ranks: the same checksums as the plain solver's, the same complaint from all,
# an end within seconds where a rank is killed. MPI is installed where that can be done, or the step is skipped with a line that
# says so.
set -euo pipefail
cd "$(dirname "$0")"

skip() {
    echo "skipped: the MPI adapter ($1)"
    exit 0
}

if ! command -v mpirun >/dev/null || ! command -v mpicc >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        (apt-get update && apt-get install -y --no-install-recommends libopenmpi-dev openmpi-bin libclang-dev) >/dev/null 2>&1 || true
    fi
    command -v mpirun >/dev/null && command -v mpicc >/dev/null || skip "there is no mpirun or no mpicc"
fi

cargo fmt --check
cargo clippy --release --locked --all-targets -- -D warnings
cargo build --release --locked --examples
examples=${CARGO_TARGET_DIR:-target}/release/examples

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# More ranks than cores must do; two threads a rank, so that threads and ranks both vary.
ranks() {
    local n=$1
    shift
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 RAYON_NUM_THREADS=2 timeout 300 \
        mpirun --oversubscribe -n "$n" "$@"
}

# What must be the same whoever holds the rows.
answer() {
    sed -E 's/"(ranks|ms|ms_with_certificate|bytes_sent)":[^,]*,//g'
}

same() {
    local plain found
    plain=$(ranks 1 "$examples/sharded" "$@" --plain yes | answer)
    for n in 1 2 3 4; do
        found=$(ranks "$n" "$examples/sharded" "$@" | answer)
        if [ "$found" != "$plain" ]; then
            echo "$n ranks differ from the plain solver: $*"
            printf '%s\n%s\n' "$plain" "$found"
            exit 1
        fi
    done
    echo "same bits on 1, 2, 3, 4 ranks: $*"
}

same --rows 20011 --cols 7 --solver sinkhorn
same --rows 20011 --cols 7 --solver newton --masses uneven --scalar f32 --tolerance 1e-3
same --rows 50001 --cols 10 --epsilon 0.01 --slack 0.25
same --rows 70001 --cols 1
same --rows 30011 --cols 12 --forbid 0.2 --slack 0.1 --epsilon 0.02
same --rows 30 --cols 5
same --rows 2000 --cols 1100 --solver sinkhorn --epsilon 0.2
same --rows 6000 --cols 9 --solver exact

# Labels and plans are written by all ranks, whole or not at all.
for n in 1 4; do
    ranks "$n" "$examples/sharded" --rows 20011 --cols 7 --labels "$scratch/labels$n.npy" --plan "$scratch/plan$n.npy" >/dev/null
done
cmp "$scratch/labels1.npy" "$scratch/labels4.npy"
cmp "$scratch/plan1.npy" "$scratch/plan4.npy"
# A plan is a file of numbers like any other: as costs, mapped.
same --cost "$scratch/plan1.npy" --epsilon 0.001
same --cost "$scratch/plan1.npy" --epsilon 0.001 --scalar f32 --tolerance 1e-3

# Labels of made-up logits.
one=$(ranks 1 "$examples/allocate_sharded" --rows 200000 --cols 20 | answer)
for n in 2 4; do
    [ "$(ranks "$n" "$examples/allocate_sharded" --rows 200000 --cols 20 | answer)" = "$one" ]
done
echo "same bits on 1, 2, 4 ranks: allocation"

# What is wrong ends the job, and is said.
if ranks 2 "$examples/sharded" --cost "$scratch/missing.npy" >"$scratch/out" 2>&1; then
    echo "a missing file went unnoticed"
    exit 1
fi
grep -q "No such file" "$scratch/out"

# A rank that is killed in the middle of a solve takes the job with it, within seconds, and leaves no file.
for n in 2 4; do
    mkdir "$scratch/pids$n"
    ranks "$n" "$examples/sharded" --rows 400000 --cols 40 --solver sinkhorn --epsilon 0.0001 --tolerance 1e-14 \
        --max-iterations 100000000 --labels "$scratch/killed.npy" --pids "$scratch/pids$n" >/dev/null 2>&1 &
    job=$!
    until [ -s "$scratch/pids$n/$((n - 1))" ]; do sleep 0.1; done
    sleep 2
    kill -9 "$(cat "$scratch/pids$n/$((n - 1))")"
    start=$SECONDS
    if wait "$job"; then
        echo "a killed rank went unnoticed"
        exit 1
    fi
    [ $((SECONDS - start)) -le 15 ]
    [ ! -e "$scratch/killed.npy" ]
    echo "a killed rank of $n ends the job in $((SECONDS - start)) s"
done
