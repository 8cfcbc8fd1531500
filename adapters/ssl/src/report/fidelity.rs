//! The allocation beside the linear programme: gap and agreement against γ, and over training.

use std::fmt::Write;

use super::axis::Scale;
use super::chart::{Chart, Curve, escape};
use super::series::Series;
use crate::methods::{Fidelity, Source};
use crate::trainer::Recorded;

/// Moments of training that a chart over γ shows.
const MOMENTS: usize = 5;
/// Gaps below this are rounding; an axis of logarithms needs a floor.
const FLOOR: f64 = 1e-9;

fn gap(record: &Fidelity) -> Option<f64> {
    Some(record.gap().max(FLOOR))
}

fn agreement(record: &Fidelity) -> Option<f64> {
    record.agreement.map(|a| 100.0 * a)
}

/// Some of the steps at which there was a comparison, the last among them.
fn moments(run: &Recorded) -> Vec<u64> {
    let mut steps: Vec<u64> = run.fidelity.iter().map(|r| r.step).collect();
    steps.dedup();
    let n = steps.len();
    if n <= MOMENTS {
        return steps;
    }
    (1..=MOMENTS).map(|i| steps[i * n / MOMENTS - 1]).collect()
}

fn against_gamma(run: &Recorded, value: fn(&Fidelity) -> Option<f64>) -> Vec<Curve> {
    let curve = |step: u64| {
        let mine = run.fidelity.iter().filter(|r| r.step == step);
        let solved = mine.clone().filter(|r| r.source == Source::Solved);
        let mut points: Vec<(f64, f64)> =
            solved.filter_map(|r| Some((r.gamma, value(r)?))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let rho = mine.map(|r| r.rho).next().unwrap_or_default();
        Curve {
            name: format!("step {} (ρ = {rho:.2})", step + 1),
            points,
            ..Curve::default()
        }
    };
    moments(run).into_iter().map(curve).collect()
}

fn over_steps(run: &Recorded, value: fn(&Fidelity) -> Option<f64>) -> Vec<Curve> {
    let mut kinds: Vec<(Source, f64)> = Vec::new();
    for record in &run.fidelity {
        let kind = (record.source, record.gamma);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.sort_by(|a, b| {
        (a.0 == Source::Run)
            .cmp(&(b.0 == Source::Run))
            .then(a.1.total_cmp(&b.1))
    });
    let curve = |(source, gamma): (Source, f64)| Curve {
        name: match source {
            Source::Solved => format!("γ = {gamma}"),
            Source::Run => format!("as the run used it (γ = {gamma})"),
        },
        points: run
            .fidelity
            .iter()
            .filter(|r| r.source == source && r.gamma == gamma)
            .filter_map(|r| Some((r.step as f64 + 1.0, value(r)?)))
            .collect(),
        dashed: source == Source::Run,
        ..Curve::default()
    };
    kinds.into_iter().map(curve).collect()
}

/// The four charts of a run that has comparisons.
pub(super) fn charts(run: &Recorded) -> Vec<Chart> {
    const GAP: &str = "gap to the optimum, nats per example";
    const SAME: &str = "same label as the programme, %";
    const GAMMA: &str = "inverse regularisation γ";
    let chart = |title: &str, x, y, scales: (Scale, Scale), curves| Chart {
        title: title.to_owned(),
        x,
        y,
        curves,
        x_scale: scales.0,
        y_scale: scales.1,
        named_ends: false,
    };
    let (even, log) = (Scale::Linear, Scale::Logarithmic);
    vec![
        chart(
            "Gap against γ",
            GAMMA,
            GAP,
            (log, log),
            against_gamma(run, gap),
        ),
        chart(
            "Label agreement against γ",
            GAMMA,
            SAME,
            (log, even),
            against_gamma(run, agreement),
        ),
        chart(
            "Gap over training",
            "step",
            GAP,
            (even, log),
            over_steps(run, gap),
        ),
        chart(
            "Label agreement over training",
            "step",
            SAME,
            (even, even),
            over_steps(run, agreement),
        ),
    ]
}

/// The section of the page about a series, if its runs have comparisons.
pub(super) fn section(s: &mut String, series: &Series<'_>) {
    // Like β, a comparison belongs to one split: the first run that has any is shown.
    let Some(run) = series.runs.iter().find(|r| !r.fidelity.is_empty()) else {
        return;
    };
    let _ = write!(
        s,
        "<h2>Linear programme: {}, seed {}</h2><p class=\"note\">Every so often the exact linear programme was solved \
         on the costs, bounds and share of that moment. The gap is what the entropic plan, made feasible, costs above \
         the optimum; agreement is the share of the examples labeled by the programme that get the same class from the \
         plan; where the plan would rather abstain than give any one class, as it does at small γ, that is another answer.</p><div class=\"grid\">",
        escape(&series.name),
        run.settings.seed
    );
    for chart in charts(run) {
        s.push_str(&chart.svg());
    }
    s.push_str("</div>");
    table(s, run);
}

fn table(s: &mut String, run: &Recorded) {
    let Some(last) = run.fidelity.last() else {
        return;
    };
    let n = last.examples.max(1) as f64;
    let _ = write!(
        s,
        "<p class=\"note\">At step {}, ρ = {:.2}, {} examples; costs in nats per example. The exact solve took {:.0} ms.</p>\
         <div class=\"wide\"><table><tr><th>γ</th><th>optimum</th><th>plan as it is</th><th>made feasible</th><th>lower bound</th>\
         <th>gap</th><th>marginal error</th><th>agreement %</th></tr>",
        last.step + 1,
        last.rho,
        last.examples,
        1e3 * last.exact_seconds
    );
    for r in run.fidelity.iter().filter(|r| r.step == last.step) {
        let name = match r.source {
            Source::Run => format!("{} (as the run used it)", r.gamma),
            Source::Solved => r.gamma.to_string(),
        };
        let _ = write!(s, "<tr><td>{name}</td>");
        for value in [
            r.optimum / n,
            r.objective / n,
            r.upper / n,
            r.lower / n,
            r.gap(),
        ] {
            let _ = write!(s, "<td class=\"n\">{value:.6}</td>");
        }
        let same = r
            .agreement
            .map_or("–".to_owned(), |a| format!("{:.2}", 100.0 * a));
        let _ = write!(
            s,
            "<td class=\"n\">{:.1e}</td><td class=\"n\">{same}</td></tr>",
            r.violation
        );
    }
    s.push_str("</table></div>");
}
