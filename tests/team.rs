//! A problem whose rows lie with many: the same bits as on one machine, whoever holds them; the same complaints, and nobody waits.
#![allow(missing_docs, clippy::unwrap_used)]

use core::fmt::Debug;
use core::ops::{ControlFlow, Range};
use core::time::Duration;
use std::sync::Arc;

use earthmover::cost::Sharded;
use earthmover::team::{Shard, Team};
use earthmover::{
    Cost, Dense, Entropic, Error, Exact, FromFn, Incremental, Kernel, Marginals, Newton, Problem,
    Real, Sinkhorn, Slack, Solution, Solver, Status, Table,
};
use earthmover_testkit::{Rng, crew};

const SIZES: [usize; 4] = [1, 2, 3, 4];

/// A question as every machine can make it up.
#[derive(Clone)]
struct Question<T> {
    costs: Vec<T>,
    rows: Vec<f64>,
    cols: Vec<f64>,
    slack: Slack,
}

fn question<T: Real>(n: usize, k: usize, forbidden: f64, slack: bool, seed: u64) -> Question<T> {
    let mut rng = Rng(seed);
    let mut costs: Vec<T> = (0..n)
        .flat_map(|_| rng.surprisals(k))
        .map(T::narrow)
        .collect();
    for (at, c) in costs.iter_mut().enumerate() {
        if at % k != at / k % k && rng.chance(forbidden) {
            *c = T::infinity();
        }
    }
    let (rows, cols) = (rng.masses(n, true), rng.masses(k, false));
    let slack = if slack {
        Slack::new(0.25, 0.25).col_cost(0.7)
    } else {
        Slack::NONE
    };
    Question {
        costs,
        rows,
        cols,
        slack,
    }
}

impl<T: Real> Question<T> {
    fn shape(&self) -> (usize, usize) {
        (self.rows.len(), self.cols.len())
    }

    fn alone(&self) -> Result<Problem<T, Dense<'_, T>>, Error> {
        let (n, k) = self.shape();
        let marginals = Marginals::with_slack(&self.rows, &self.cols, self.slack)?;
        Problem::new(Dense::new(&self.costs, n, k)?, marginals)
    }

    fn shared(&self, team: Arc<dyn Team>) -> Result<Problem<T, Sharded<Dense<'_, T>>>, Error> {
        let (n, k) = self.shape();
        let shard = Shard::new(team, n, k);
        let own = shard.rows();
        let costs = &self.costs[own.start * k..own.end * k];
        let (rows, cols) = (&self.rows[own], &self.cols);
        let marginals = Marginals::with_slack_over(&shard, rows, cols, self.slack)?;
        Problem::new(Sharded::rows_of(costs, shard)?, marginals)
    }
}

/// What everybody knows of an answer, to the last bit, and what is known of the rows.
fn words<T: Real, C: Cost<T>>(solution: &Solution<'_, T, C>) -> (String, Vec<u64>, Vec<u64>) {
    let (proof, potentials) = (solution.certificate(), solution.potentials());
    let numbers = [
        solution.violation(),
        proof.primal,
        proof.dual,
        proof.objective,
        proof.violation,
        proof.mass,
        potentials.slack_row,
        potentials.slack_col,
    ];
    let bits = |numbers: &[f64]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let end = format!("{:?} after {}", solution.status(), solution.iterations());
    let common = [bits(&numbers), bits(&potentials.cols)].concat();
    (end, common, bits(&potentials.rows))
}

fn same_bits<T: Real>(question: &Question<T>, solver: &(impl Solver<T> + Sync), what: &str) {
    let problem = question.alone().unwrap();
    let (end, common, rows) = words(&solver.solve(&problem).unwrap());
    for size in SIZES {
        let answers = crew(size, |team| {
            let problem = question.shared(team).unwrap();
            words(&solver.solve(&problem).unwrap())
        });
        for answer in &answers {
            assert_eq!(answer.0, end, "{what}, {size} members");
            assert_eq!(answer.1, common, "{what}, {size} members, {end}");
        }
        let theirs: Vec<u64> = answers.into_iter().flat_map(|a| a.2).collect();
        assert_eq!(theirs, rows, "{what}, {size} members");
    }
}

/// Rows not divisible, one column, more members than the rows are worth, columns beyond Newton's.
const SHAPES: [(usize, usize); 5] = [(20_011, 7), (70_001, 1), (6_007, 40), (50, 5), (300, 1_100)];

fn every_solver<T: Real>(tolerance: f64) {
    for (seed, (n, k)) in (1..).zip(SHAPES) {
        for (forbidden, slack) in [(0.0, false), (0.0, true), (0.2, true), (0.05, false)] {
            let question = question::<T>(n, k, forbidden, slack, seed);
            let what = format!("{n} × {k}, forbidden {forbidden}, slack {slack}");
            let limited = Sinkhorn::new(0.3).tolerance(tolerance).max_iterations(60);
            same_bits(&question, &limited, &format!("sinkhorn, {what}"));
            let streamed = limited.kernel(Kernel::Streamed);
            same_bits(&question, &streamed, &format!("streamed, {what}"));
            if k < 1_000 {
                let newton = Newton::new(0.05).tolerance(tolerance);
                same_bits(&question, &newton, &format!("newton, {what}"));
                let entropic = Entropic::new(0.02).tolerance(tolerance);
                same_bits(&question, &entropic, &format!("entropic, {what}"));
            }
        }
    }
}

#[test]
fn a_team_finds_what_one_machine_finds() {
    every_solver::<f64>(1e-8);
}

#[test]
fn in_single_precision_too() {
    every_solver::<f32>(1e-3);
}

#[test]
fn the_rows_of_these_shapes_are_shared() {
    let held = |(n, k), size| {
        let shards = Shard::split(n, k, size);
        shards.iter().filter(|s| !s.is_empty()).count()
    };
    assert_eq!(SHAPES.map(|shape| held(shape, 4)), [4, 4, 4, 1, 4]);
}

#[test]
fn wide_and_exact_questions_are_answered_by_everybody() {
    let wide = question::<f64>(300, 400, 0.0, false, 3);
    same_bits(&wide, &Entropic::new(0.05), "wide");
    same_bits(&wide, &Newton::new(0.1), "wide");
    for slack in [false, true] {
        let tall = question::<f64>(9_000, 6, 0.1, slack, 4);
        same_bits(&tall, &Exact::new(), "exact");
    }
    let whole = FromFn::new(40_000_000, 2, |i, j| (i % 2).abs_diff(j) as f64).unwrap();
    let told = crew(2, |team| {
        let shard = Shard::new(team, 40_000_000, 2);
        let masses = vec![1.0; shard.rows().len()];
        let marginals =
            Marginals::with_slack_over(&shard, &masses, &[2e7, 2e7], Slack::NONE).unwrap();
        let cost = Sharded::part_of(&whole, shard).unwrap();
        let problem = Problem::new(cost, marginals).unwrap();
        Exact::new().solve(&problem).map(|_| ()).unwrap_err()
    });
    assert!(told.iter().all(|e| matches!(
        e,
        Error::Apart {
            entries: 80_000_000,
            ..
        }
    )));
}

#[test]
fn costs_worked_out_on_the_fly_are_shared_as_well() {
    let (n, k) = (30_001, 12);
    let whole = FromFn::new(n, k, |i, j| ((i * 31 + j * 17) % 101) as f64 / 50.0).unwrap();
    let (rows, cols) = (vec![1.0; n], vec![n as f64 / k as f64; k]);
    let solver = Entropic::new(0.05).tolerance(1e-7);
    let problem = Problem::new(&whole, Marginals::balanced(&rows, &cols).unwrap()).unwrap();
    let plain = words(&solver.solve(&problem).unwrap());
    for size in SIZES {
        let answers = crew(size, |team| {
            let shard = Shard::new(team, n, k);
            let rows = &rows[shard.rows()];
            let marginals = Marginals::with_slack_over(&shard, rows, &cols, Slack::NONE).unwrap();
            let problem = Problem::new(Sharded::part_of(&whole, shard).unwrap(), marginals);
            words(&solver.solve(&problem.unwrap()).unwrap())
        });
        assert!(answers.iter().all(|a| (&a.0, &a.1) == (&plain.0, &plain.1)));
    }
}

/// The same complaint from everybody, and from one machine.
fn same_complaint<R: Debug>(
    question: &Question<f64>,
    ask: impl Fn(&dyn Fn(&Entropic) -> Result<(), Error>) -> Result<(), Error> + Sync,
    expected: impl Fn(&Error) -> R,
) {
    let alone = ask(&|solver| solver.solve(&question.alone()?).map(|_| ())).unwrap_err();
    for size in SIZES {
        let told = crew(size, |team| {
            let team = &team;
            ask(&|solver| {
                solver
                    .solve(&question.shared(Arc::clone(team))?)
                    .map(|_| ())
            })
            .unwrap_err()
        });
        let same = |e: &Error| format!("{e:?}") == format!("{alone:?}");
        assert!(told.iter().all(same), "{told:?} {alone:?}");
    }
    let _ = expected(&alone);
}

#[test]
fn one_member_s_trouble_is_everybody_s() {
    let sound = question::<f64>(20_011, 7, 0.0, false, 1);
    let ask = |solve: &dyn Fn(&Entropic) -> Result<(), Error>| solve(&Entropic::new(0.05));
    let last = 20_010;
    for poison in [f64::NAN, f64::NEG_INFINITY, 1e300] {
        let mut question = sound.clone();
        question.costs[last * 7 + 3] = poison;
        question.costs[12_000 * 7] = poison; // the first counts
        same_complaint(&question, ask, |e| match e {
            Error::Cost { row, .. } | Error::TooDear { row, .. } => assert_eq!(*row, 12_000),
            other => unreachable!("{other}"),
        });
    }
    let mut blocked = sound.clone();
    blocked.costs[last * 7..].fill(f64::INFINITY);
    blocked.rows[last] = 1e-3;
    blocked
        .cols
        .iter_mut()
        .for_each(|b| *b *= blocked.rows.iter().sum::<f64>());
    same_complaint(&blocked, ask, |e| {
        assert!(matches!(e, Error::Blocked { index, .. } if *index == last))
    });
    let mut blocked = sound.clone();
    (0..20_011).for_each(|i| blocked.costs[i * 7 + 2] = f64::INFINITY);
    same_complaint(&blocked, ask, |e| {
        assert!(matches!(e, Error::Blocked { index: 2, .. }))
    });
    // Every row and column has a way, but not all mass at once.
    let mut stranded = sound.clone();
    for (at, c) in stranded.costs.iter_mut().enumerate() {
        if at % 7 != 0 && at / 7 > 100 {
            *c = f64::INFINITY;
        }
    }
    same_complaint(&stranded, ask, |e| {
        assert!(matches!(e, Error::Infeasible { .. }))
    });
    let mut negative = sound.clone();
    negative.rows[15_000] = -1.0;
    same_complaint(&negative, ask, |e| {
        assert!(matches!(e, Error::Mass { index: 15_000, .. }))
    });
    let mut heavy = sound.clone();
    heavy.rows[15_000] += 1.0;
    same_complaint(&heavy, ask, |e| {
        assert!(matches!(e, Error::Unbalanced { .. }))
    });
}

#[test]
fn one_member_s_stop_is_everybody_s() {
    let question = question::<f64>(20_011, 7, 0.0, true, 5);
    for size in SIZES {
        let ends = crew(size, |team| {
            let rank = team.rank();
            let problem = question.shared(team).unwrap();
            let mut solver = Sinkhorn::new(1e-3).tolerance(1e-12);
            if rank + 1 == size {
                solver = solver.on_progress(|p| match p.iteration {
                    0..7 => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                });
            }
            let stopped = solver.solve(&problem).unwrap();
            let mut solver = Entropic::new(1e-3).tolerance(1e-12);
            if rank == 0 {
                solver = solver.time_limit(Duration::ZERO);
            }
            let late = solver.solve(&problem).unwrap();
            (stopped.status(), stopped.iterations(), late.status())
        });
        assert!(
            ends.iter()
                .all(|e| *e == (Status::Stopped, 7, Status::Stopped)),
            "{ends:?}"
        );
    }
}

#[test]
fn nobody_waits_for_a_member_that_is_gone() {
    let question = question::<f64>(20_011, 7, 0.0, false, 6);
    let ends = crew(3, |team| {
        let rank = team.rank();
        let problem = question.shared(team).unwrap();
        if rank == 1 {
            return None;
        }
        Some(Entropic::new(0.05).solve(&problem).map(|_| ()))
    });
    for end in ends.into_iter().flatten() {
        assert!(matches!(end, Err(Error::Backend { .. })), "{end:?}");
    }
}

/// What one machine does step by step, and what a team does, which goes on from a checkpoint with another number of members.
#[test]
fn rows_change_and_are_solved_again_by_a_team() {
    let (n, k, batch) = (30_011, 9, 300);
    let start = question::<f32>(n, k, 0.0, true, 7);
    let slack = Slack::new(n as f64 / 4.0, n as f64 / 4.0);
    let (rows, cols) = (vec![1.0; n], vec![n as f64 / k as f64; k]);
    let step = |at: u64| {
        let mut rng = Rng(1000 + at);
        let mut changed: Vec<usize> = (0..batch).map(|_| rng.below(n)).collect();
        let mut seen = std::collections::HashSet::new();
        changed.retain(|i| seen.insert(*i));
        let costs: Vec<f32> = changed
            .iter()
            .flat_map(|_| rng.surprisals(k))
            .map(|c| c as f32)
            .collect();
        (changed, costs)
    };
    let bits = |numbers: &[f64]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let (half, steps) = (6, 12);

    let marginals = Marginals::with_slack(&rows, &cols, slack).unwrap();
    let mut plain = Incremental::new(start.costs.clone(), marginals, 0.02).unwrap();
    let mut wanted = Vec::new();
    for at in 0..steps {
        let (changed, costs) = step(at);
        plain.replace_rows(&changed, &costs).unwrap();
        let end = plain.solve(1e-5).unwrap();
        wanted.push((end, bits(plain.potentials()), bits(plain.col_sums())));
    }
    assert!(
        wanted.iter().any(|w| w.0.iterations == 0) || wanted.iter().all(|w| w.0.iterations > 0)
    );

    for (first, second) in [(1, 2), (2, 4), (4, 1), (3, 2)] {
        let own = |own: Range<usize>, at: u64| {
            let (changed, costs) = step(at);
            let here = changed.iter().enumerate().filter(|(_, i)| own.contains(i));
            let here: Vec<(usize, usize)> = here.map(|(r, i)| (r, i - own.start)).collect();
            let costs: Vec<f32> = here
                .iter()
                .flat_map(|(r, _)| costs[r * k..][..k].to_vec())
                .collect();
            (here.iter().map(|h| h.1).collect::<Vec<_>>(), costs)
        };
        let begin = |team: Arc<dyn Team>, whole: &[f32]| {
            let shard = Shard::new(team, n, k);
            let here = shard.rows();
            let table = Table::new(whole[here.start * k..here.end * k].to_vec(), k).unwrap();
            let marginals =
                Marginals::with_slack_over(&shard, &rows[here.clone()], &cols, slack).unwrap();
            let cost = Sharded::own(table, shard).unwrap();
            (here, Incremental::over(cost, marginals, 0.02).unwrap())
        };
        let saved = crew(first, |team| {
            let (here, mut shared) = begin(team, &start.costs);
            for at in 0..half {
                let (changed, costs) = own(here.clone(), at);
                shared.replace_rows(&changed, &costs).unwrap();
                let end = shared.solve(1e-5).unwrap();
                let found = (end, bits(shared.potentials()), bits(shared.col_sums()));
                assert_eq!(found, wanted[at as usize], "step {at}, {first} members");
            }
            let mut costs = vec![0.0; here.len() * k];
            shared.cost().fill(0..here.len(), &mut costs);
            (costs, shared.checkpoint())
        });
        let costs: Vec<f32> = saved.iter().flat_map(|s| s.0.clone()).collect();
        assert!(saved.iter().all(|s| s.1 == saved[0].1));
        crew(second, |team| {
            let (here, mut shared) = begin(team, &costs);
            shared.resume(&saved[0].1).unwrap();
            for at in half..steps {
                let (changed, costs) = own(here.clone(), at);
                shared.replace_rows(&changed, &costs).unwrap();
                let end = shared.solve(1e-5).unwrap();
                let found = (end, bits(shared.potentials()), bits(shared.col_sums()));
                assert_eq!(found, wanted[at as usize], "step {at}, {second} members");
            }
        });
    }
    // A row that is no cost is refused by all, and changes nothing.
    let told = crew(2, |team| {
        let shard = Shard::new(team, n, k);
        let here = shard.rows();
        let table = Table::new(start.costs[here.start * k..here.end * k].to_vec(), k).unwrap();
        let marginals = Marginals::with_slack_over(&shard, &rows[here], &cols, slack).unwrap();
        let rank = shard.team().rank();
        let mut shared =
            Incremental::over(Sharded::own(table, shard).unwrap(), marginals, 0.02).unwrap();
        let costs = if rank == 1 { [f32::NAN; 9] } else { [1.0; 9] };
        format!("{:?}", shared.replace_rows(&[3], &costs).unwrap_err())
    });
    assert_eq!(told[0], told[1]);
}
