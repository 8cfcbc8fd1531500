//! Transport within bounds, exactly.

use core::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use earthmover::bounded::{BoundedSolution, BoundedTransport};
use earthmover::flow::{Bounds, MinCostFlow};
use earthmover::{Dense, Error, FromFn, Status};
use earthmover_testkit::{Programme, Rng, Unsolved};
use proptest::prelude::*;

use crate::number;

#[test]
fn stopping_early_is_a_status_and_admits_what_is_missing() {
    let costs: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 11)).collect();
    let transport = BoundedTransport::new(Dense::new(&costs, 10, 10).unwrap()).every_row(1.0);
    let capped = MinCostFlow::new().max_iterations(3);
    let capped = transport.solve_with(&capped).unwrap();
    assert_eq!(capped.status(), Status::IterationLimit);
    assert_eq!(capped.iterations(), 3);
    assert!(capped.certificate().violation > 0.0);
    assert_eq!(capped.certificate().primal, f64::INFINITY);
    let exact = transport.solve().unwrap();
    assert!(capped.certificate().dual <= exact.objective());
    let enough = MinCostFlow::new().max_iterations(exact.iterations());
    let enough = transport.solve_with(&enough).unwrap();
    assert!(enough.status().is_converged());

    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let watched = MinCostFlow::new().on_progress(move |p| {
        assert!((0.0..=1.0).contains(&p.violation) && p.epsilon == 0.0);
        seen.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Break(())
    });
    let stopped = transport.solve_with(&watched).unwrap();
    assert_eq!(stopped.status(), Status::Stopped);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// A bounded transport as plain data.
#[derive(Debug, Clone)]
pub struct Case {
    pub cost: Vec<f64>,
    pub rows: Vec<Bounds>,
    pub cols: Vec<Bounds>,
    pub cap: f64,
    pub groups: Vec<(Vec<usize>, Bounds)>,
    pub total: Bounds,
}

impl Case {
    pub fn transport(&self) -> Result<BoundedTransport<f64, Dense<'_, f64>>, Error> {
        let cost = Dense::new(&self.cost, self.rows.len(), self.cols.len())?;
        let mut transport = BoundedTransport::new(cost)
            .row_bounds(self.rows.clone())
            .col_bounds(self.cols.clone())
            .entry_cap(self.cap)
            .total(self.total);
        for (columns, bounds) in &self.groups {
            transport = transport.group(columns.clone(), *bounds);
        }
        Ok(transport)
    }

    pub fn solve(&self) -> Result<BoundedSolution, Error> {
        self.transport()?.solve()
    }

    /// The cells of every sum with its bounds: rows, columns, groups, the total.
    pub fn sums(&self) -> Vec<(Vec<usize>, Bounds)> {
        let (n, k) = (self.rows.len(), self.cols.len());
        let mut sums = Vec::new();
        for i in 0..n {
            sums.push(((0..k).map(|j| i * k + j).collect(), self.rows[i]));
        }
        for j in 0..k {
            sums.push(((0..n).map(|i| i * k + j).collect(), self.cols[j]));
        }
        for (columns, bounds) in &self.groups {
            let cells = (0..n * k).filter(|e| columns.contains(&(e % k)));
            sums.push((cells.collect(), *bounds));
        }
        sums.push(((0..n * k).collect(), self.total));
        sums
    }

    /// The same linear programme, written out for an LP solver.
    fn oracle(&self) -> Result<f64, Unsolved> {
        let mut programme = Programme::new(&self.cost, self.cap);
        for (cells, bounds) in self.sums() {
            programme.sum(cells, bounds.lower, bounds.upper);
        }
        programme.optimum()
    }

    /// Feasible, proved, and complementary to its prices.
    fn assert_answer(&self, answer: &BoundedSolution) {
        assert_eq!(answer.status(), Status::Converged);
        let (plan, k) = (answer.to_dense(), self.cols.len());
        let used = self.cost.iter().zip(&plan).filter(|e| *e.1 > 0.0);
        let scale = used.map(|(c, p)| (c * p).abs()).sum::<f64>().max(1.0);
        let gap = answer.certificate().gap();
        assert!(gap.abs() <= 1e-12 * scale, "gap {gap:e}, scale {scale}");
        for (e, &p) in plan.iter().enumerate() {
            assert!((0.0..=self.cap).contains(&p));
            let (f, g) = (
                answer.row_potentials()[e / k],
                answer.col_potentials()[e % k],
            );
            let reduced = self.cost[e] - f - g;
            assert!(reduced <= 1e-9 || p <= 1e-11);
            assert!(reduced >= -1e-9 || p >= self.cap - 1e-11);
        }
        let mut prices = answer.row_prices().to_vec();
        prices.extend(answer.col_prices());
        prices.extend(answer.group_prices());
        prices.push(answer.total_price());
        for ((cells, bounds), price) in self.sums().into_iter().zip(prices) {
            let sum: f64 = cells.iter().map(|&e| plan[e]).sum();
            assert!(bounds.lower - 1e-10 <= sum && sum <= bounds.upper + 1e-10);
            assert!(price <= 1e-9 || sum <= bounds.lower + 1e-10);
            assert!(price >= -1e-9 || sum >= bounds.upper - 1e-10);
        }
    }
}

/// Bounds that allow `x`.
pub fn around(random: &mut Rng, x: f64) -> Bounds {
    let (below, above) = (number(random, 1.0).abs(), number(random, 1.0).abs());
    Bounds {
        lower: [0.0, x, (x - below).max(0.0)][random.below(3)],
        upper: [x, x + above, x + 1.0][random.below(3)],
    }
}

/// A case around a random plan, so that it has an answer.
pub fn feasible_case(random: &mut Rng, n: usize, k: usize) -> Case {
    let cap = [f64::INFINITY, 1.0][random.below(2)];
    let (mut cost, mut plan) = (Vec::new(), Vec::new());
    for _ in 0..n * k {
        let forbidden = random.below(12) == 0;
        let (c, p) = (number(random, 4.0), number(random, 1.0).abs());
        let carries = !forbidden && random.below(3) == 0;
        cost.push(if forbidden { f64::INFINITY } else { c });
        plan.push(if carries { p } else { 0.0 });
    }
    // Nested and disjoint groups, one of them empty when k is small.
    let mut groups: Vec<(Vec<usize>, Bounds)> = [0..k / 2, 0..k / 4, k / 2..k, 0..k]
        .into_iter()
        .map(|columns| (columns.collect(), Bounds::from(..)))
        .collect();
    groups.truncate(random.below(5));
    let mut case = Case {
        cost,
        rows: vec![Bounds::from(..); n],
        cols: vec![Bounds::from(..); k],
        cap,
        groups,
        total: Bounds::from(..),
    };
    let mut bounds = case.sums().into_iter().map(|(cells, _)| {
        let sum = cells.iter().map(|&e| plan[e]).sum();
        around(random, sum)
    });
    case.rows.fill_with(|| bounds.next().unwrap());
    case.cols.fill_with(|| bounds.next().unwrap());
    for group in &mut case.groups {
        group.1 = bounds.next().unwrap();
    }
    case.total = bounds.next().unwrap();
    case
}

#[test]
fn bounded_transport_matches_an_lp_solver() {
    let mut random = Rng(4);
    let mut compared = 0;
    for _ in 0..300 {
        let (n, k) = (1 + random.below(6), 1 + random.below(6));
        let case = feasible_case(&mut random, n, k);
        let answer = case.solve().unwrap_or_else(|e| panic!("{e}: {case:?}"));
        case.assert_answer(&answer);
        if let Ok(optimum) = case.oracle() {
            compared += 1;
            let cost = answer.objective();
            assert!(
                (cost - optimum).abs() <= 1e-7 * (1.0 + optimum.abs()),
                "{cost} but the LP says {optimum}: {case:?}"
            );
        }
    }
    assert!(compared > 200, "the LP solver answered only {compared}");
}

#[test]
fn multi_label_allocation_matches_an_lp_solver() {
    // At most 3 labels for each example, none twice; classes bounded from both sides.
    let (n, k) = (12, 6);
    let mut random = Rng(5);
    for _ in 0..20 {
        let case = Case {
            cost: (0..n * k).map(|_| -random.unit().ln()).collect(),
            rows: vec![Bounds::from(..=3.0); n],
            cols: vec![Bounds::from(2.0..=5.5); k],
            cap: 1.0,
            groups: vec![(vec![0, 1, 2], Bounds::from(..=14.0))],
            total: Bounds::from(25.0..),
        };
        let answer = case.solve().unwrap();
        case.assert_answer(&answer);
        assert!((answer.objective() - case.oracle().unwrap()).abs() <= 1e-8);
    }
}

#[test]
fn a_price_is_what_the_bound_is_worth() {
    let mut random = Rng(6);
    let (n, k) = (20, 4);
    let mut cols = vec![Bounds::from(..); k];
    (cols[0], cols[1]) = (Bounds::from(..=4.5), Bounds::from(6.3..));
    let case = Case {
        cost: (0..n * k).map(|_| random.unit()).collect(),
        rows: vec![Bounds::from(..=1.0); n],
        cols,
        cap: f64::INFINITY,
        groups: vec![(vec![2, 3], Bounds::from(..=5.2))],
        total: Bounds::from(14.7..),
    };
    let answer = case.solve().unwrap();
    case.assert_answer(&answer);
    let step = 1e-4;
    let slope = |change: &dyn Fn(&mut Case)| {
        let mut changed = case.clone();
        change(&mut changed);
        (changed.solve().unwrap().objective() - answer.objective()) / step
    };
    let total = slope(&|c| c.total.lower += step);
    assert!((total - answer.total_price()).abs() < 1e-8 && total > 0.0);
    let group = slope(&|c| c.groups[0].1.upper += step);
    assert!((group - answer.group_prices()[0]).abs() < 1e-8);
    let first = slope(&|c| c.cols[0].upper += step);
    assert!((first - answer.col_prices()[0]).abs() < 1e-8);
    let second = slope(&|c| c.cols[1].lower += step);
    assert!((second - answer.col_prices()[1]).abs() < 1e-8);
}

#[test]
fn bounded_transport_refuses_what_it_cannot_answer() {
    let costs = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let transport = || BoundedTransport::new(Dense::new(&costs, 2, 3).unwrap());
    let crossing = transport().group([0, 1], ..).group([1, 2], ..);
    let (first, second) = (0, 1);
    assert_eq!(
        crossing.solve().unwrap_err(),
        Error::Overlap { first, second }
    );
    let stray = transport().group([0, 3], ..).solve();
    assert!(matches!(stray, Err(Error::Index { index: 3, .. })));
    let short = transport().row_bounds([..=1.0]).solve();
    assert!(matches!(short, Err(Error::Length { found: 1, .. })));
    for upper in [f64::NAN, -1.0] {
        let bounds = Bounds { lower: 0.0, upper };
        for wrong in [
            transport().every_row(bounds),
            transport().every_col(bounds),
            transport().entry_cap(upper),
            transport().total(bounds),
            transport().group([1], bounds),
        ] {
            assert!(matches!(wrong.solve(), Err(Error::Bounds { .. })));
        }
    }
    // Column 0 alone must hold 3 but both rows together give 2.
    let contradiction = transport()
        .every_row(..=1.0)
        .col_bounds([3.0.., 0.0.., 0.0..]);
    let (stranded, total) = (1.0, 3.0);
    assert_eq!(
        contradiction.solve().unwrap_err(),
        Error::Infeasible { stranded, total }
    );
    let nan = BoundedTransport::new(FromFn::new(1, 2, |_, j| [0.0, f64::NAN][j]).unwrap());
    assert!(matches!(nan.solve(), Err(Error::Cost { col: 1, .. })));
    let paid = BoundedTransport::new(FromFn::new(1, 1, |_, _| -1.0f64).unwrap());
    assert!(matches!(paid.solve(), Err(Error::Unbounded { .. })));
    let blocked = BoundedTransport::new(FromFn::new(2, 1, |i, _| [1.0, f64::INFINITY][i]).unwrap());
    let blocked = blocked.every_row(1.0).solve();
    assert!(matches!(blocked, Err(Error::Infeasible { stranded, .. }) if stranded == 1.0));
}

proptest! {
    #[test]
    fn any_feasible_transport_is_proved_optimal(seed: u64, n in 1usize..25, k in 1usize..9) {
        let case = feasible_case(&mut Rng(seed), n, k);
        case.assert_answer(&case.solve().unwrap());
    }
}

/// Label allocation with bounds on classes, on a group of them and on the mass.
fn allocation(n: usize, k: usize, rho: f64) -> BoundedSolution {
    let mut random = Rng(7);
    let mut costs = Vec::with_capacity(n * k);
    for _ in 0..n {
        let logits: Vec<f64> = (0..k).map(|_| 6.0 * random.unit()).collect();
        let partition = logits.iter().map(|l| l.exp()).sum::<f64>().ln();
        costs.extend(logits.iter().map(|l| partition - l));
    }
    let share = n as f64 / k as f64;
    let start = std::time::Instant::now();
    let answer = BoundedTransport::new(Dense::new(&costs, n, k).unwrap())
        .every_row(..=1.0)
        .col_bounds((0..k).map(|j| 0.5 * share..=share * (0.7 + j as f64 / k as f64)))
        .group(0..k / 2, ..=0.45 * n as f64)
        .total(rho * n as f64..)
        .solve()
        .unwrap();
    println!(
        "{n} x {k}, rho {rho}: {:.1} ms, {} pivots, relative gap {:.1e}, violation {:.1e}",
        start.elapsed().as_secs_f64() * 1e3,
        answer.iterations(),
        answer.certificate().relative_gap(),
        answer.certificate().violation,
    );
    answer
}

#[test]
fn a_large_allocation_is_proved_optimal() {
    for rho in [0.6, 0.9] {
        let answer = allocation(1000, 10, rho);
        let proof = answer.certificate();
        assert!(answer.status().is_converged());
        assert!(proof.relative_gap().abs() <= 1e-12);
        assert!(proof.violation <= 1e-12);
        assert!((proof.mass - rho * 1000.0).abs() <= 1e-9);
    }
}

/// `cargo test --release -p earthmover --test flow timings -- --ignored --nocapture`
#[test]
#[ignore = "prints timings"]
fn timings() {
    for (n, k) in [(5_000, 10), (5_000, 100), (50_000, 10)] {
        for rho in [0.6, 0.9] {
            let answer = allocation(n, k, rho);
            assert!(answer.certificate().relative_gap().abs() <= 1e-12);
        }
    }
}
