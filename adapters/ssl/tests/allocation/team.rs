//! An allocator whose examples lie with many: the same bits, the same saved bytes, resumed by any number.

use std::sync::Arc;

use earthmover::team::{Shard, Team};
use earthmover_ssl::allocation::{Bounds, CostStorage, LabelAllocator};
use earthmover_testkit::{Rng, crew};

const N: usize = 30_011;
const K: usize = 10;
const STEPS: u64 = 10;

/// A step's batch: examples, and what the model says of them.
fn batch(step: u64) -> (Vec<usize>, Vec<f32>) {
    let mut rng = Rng(step);
    let mut seen = std::collections::HashSet::new();
    let drawn: Vec<usize> = (0..400)
        .map(|_| rng.below(N))
        .filter(|i| seen.insert(*i))
        .collect();
    let log_p = drawn
        .iter()
        .flat_map(|_| rng.surprisals(K))
        .map(|c| -c as f32);
    (drawn.clone(), log_p.collect())
}

/// One step of a member that brings its share of the batch; all there is to see of it.
fn step(allocator: &mut LabelAllocator, at: u64, rank: usize, size: usize) -> Vec<u64> {
    let (indices, log_p) = batch(at);
    let (from, to) = (
        rank * indices.len() / size,
        (rank + 1) * indices.len() / size,
    );
    allocator
        .observe(&indices[from..to], &log_p[from * K..to * K])
        .unwrap();
    let report = allocator.allocate(0.5 + 0.04 * at as f64).unwrap();
    let mut seen = vec![report.iterations as u64, report.error.to_bits()];
    seen.extend(
        report
            .mass
            .iter()
            .chain(&allocator.scaling())
            .map(|x| x.to_bits()),
    );
    seen
}

fn begin(team: Option<Arc<dyn Team>>, curriculum: bool) -> LabelAllocator {
    let mut options = LabelAllocator::options(N, K)
        .bounds(Bounds::given(&[0.12; K]).unwrap())
        .storage(CostStorage::Half)
        .tolerance(1e-3);
    if curriculum {
        let held = team
            .as_ref()
            .map_or(0..N, |team| Shard::new(Arc::clone(team), N, K).rows());
        options = options.row_bounds(held.map(|i| if i % 3 == 0 { 0.7 } else { 1.0 }).collect());
    }
    match team {
        None => options.build().unwrap(),
        Some(team) => options.team(team).build().unwrap(),
    }
}

#[test]
fn a_team_allocates_saves_and_resumes_as_one_machine_does() {
    for curriculum in [false, true] {
        let mut alone = begin(None, curriculum);
        let mut saved = Vec::new();
        let mut wanted = Vec::new();
        for at in 0..STEPS {
            if at == STEPS / 2 {
                alone.save(&mut saved).unwrap();
            }
            wanted.push(step(&mut alone, at, 0, 1));
        }
        let labels = alone.hard_labels();
        for (first, second) in [(2, 4), (4, 1), (3, 2)] {
            let files = crew(first, |team| {
                let (rank, size) = (team.rank(), team.size());
                let mut allocator = begin(Some(team), curriculum);
                for at in 0..STEPS / 2 {
                    assert_eq!(
                        step(&mut allocator, at, rank, size),
                        wanted[at as usize],
                        "{first} members"
                    );
                }
                let mut bytes = Vec::new();
                allocator.save(&mut bytes).unwrap();
                bytes
            });
            assert!(files.iter().all(|bytes| *bytes == saved));
            let found = crew(second, |team| {
                let (rank, size) = (team.rank(), team.size());
                let mut allocator = LabelAllocator::load_over(saved.as_slice(), team).unwrap();
                for at in STEPS / 2..STEPS {
                    assert_eq!(
                        step(&mut allocator, at, rank, size),
                        wanted[at as usize],
                        "{second} members"
                    );
                }
                allocator.hard_labels()
            });
            assert_eq!(found.concat(), labels);
        }
    }
}

#[test]
fn a_member_s_bad_prediction_is_everybody_s_error_and_changes_nothing() {
    let told = crew(3, |team| {
        let rank = team.rank();
        let mut allocator = begin(Some(team), false);
        let log_p = if rank == 1 {
            [f32::NAN; K]
        } else {
            [-(K as f32).ln(); K]
        };
        let refused = allocator.observe(&[rank], &log_p).is_err();
        let twice = allocator.observe(&[7], &[-(K as f32).ln(); K]).is_err();
        (refused, twice, allocator.allocate(0.9).unwrap().mass)
    });
    assert!(told.iter().all(|t| t.0 && t.1 && t.2 == told[0].2));
}
