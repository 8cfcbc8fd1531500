//! The paper's figures on training dynamics: allocation, error, one against the other; β and allocation per class.

use super::axis::Scale;
use super::chart::{Chart, Curve};
use super::series::{Series, label_accuracy};
use crate::trainer::{ClassRecord, Judged, Recorded};

/// Allocated share, test error, one against the other; accuracy of the labels; the two losses.
pub(super) fn charts(series: &[Series<'_>]) -> Vec<Chart> {
    let unlabeled: Vec<&Series<'_>> = series
        .iter()
        .filter(|g| {
            let mut steps = g.runs.iter().flat_map(|r| &r.steps);
            steps.any(|step| step.allocated > 0.0)
        })
        .collect();
    let evaluations = || {
        series
            .iter()
            .flat_map(|g| &g.runs)
            .flat_map(|r| &r.evaluations)
    };
    let (error_title, error_axis) = match evaluations().any(|e| e.on == Judged::Validation) {
        true => ("Validation error", "validation error, %"),
        false => ("Test error", "test error, %"),
    };
    let chart = |title: &str, x, y, y_scale, curves: Vec<Curve>| Chart {
        title: title.to_owned(),
        x,
        y,
        curves,
        y_scale,
        ..Chart::default()
    };
    let mut charts = vec![
        chart(
            "Allocated share",
            "step",
            "unlabeled examples with a label",
            Scale::FromZero,
            unlabeled.iter().map(|g| g.steps(|r| r.allocated)).collect(),
        ),
        chart(
            error_title,
            "step",
            error_axis,
            Scale::FromZero,
            series
                .iter()
                .map(|g| g.evaluations(|e| 100.0 * e.error()))
                .collect(),
        ),
        chart(
            "Error against allocation",
            "unlabeled examples with a label",
            error_axis,
            Scale::FromZero,
            unlabeled.iter().map(|g| g.error_by_share()).collect(),
        ),
        chart(
            "Accuracy of the allocated labels",
            "step",
            "allocated mass on the true class",
            Scale::Linear,
            unlabeled.iter().map(|g| g.steps(label_accuracy)).collect(),
        ),
        chart(
            "Labeled loss",
            "step",
            "cross-entropy, nats",
            Scale::Logarithmic,
            series.iter().map(|g| g.steps(|r| r.labeled_loss)).collect(),
        ),
        chart(
            "Unlabeled loss",
            "step",
            "weighted cross-entropy, nats",
            Scale::Logarithmic,
            unlabeled
                .iter()
                .map(|g| g.steps(|r| r.unlabeled_loss))
                .collect(),
        ),
    ];
    // No test examples, no known classes, no unlabeled examples: no empty pictures.
    charts.retain(|c| {
        c.curves
            .iter()
            .any(|curve| curve.points.iter().any(|p| p.1.is_finite()))
    });
    charts
}

/// Classes whose curves are drawn: all of a few, else those whose β moves most.
fn chosen(records: &[ClassRecord], k: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..k).collect();
    if k > 12 {
        let reach = |j: usize| {
            // β where there is one, else the share.
            let value = |r: &ClassRecord| match &r.scaling {
                Some(beta) => beta.get(j).copied(),
                None => r.shares.get(j).copied(),
            };
            let values = records.iter().filter_map(value);
            values.map(f64::abs).fold(0.0, f64::max)
        };
        all.sort_by(|&a, &b| reach(b).total_cmp(&reach(a)));
        all.truncate(10);
        all.sort_unstable();
    }
    all
}

/// Means over stretches of `size` points.
fn smooth(points: Vec<(f64, f64)>, size: usize) -> Vec<(f64, f64)> {
    let mean = |part: &[(f64, f64)]| {
        let n = part.len() as f64;
        let sum = part.iter().fold((0.0, 0.0), |a, p| (a.0 + p.0, a.1 + p.1));
        (sum.0 / n, sum.1 / n)
    };
    points.chunks(size.max(1)).map(mean).collect()
}

/// What the classes of a run went through.
pub(super) struct Classes {
    /// β of the classes and of abstention where the method has them, then the allocation.
    pub(super) charts: Vec<Chart>,
    /// Classes drawn, and all.
    pub(super) shown: (usize, usize),
}

/// The classes of a run, if any was ever allocated to.
pub(super) fn classes(run: &Recorded, names: &[String]) -> Option<Classes> {
    let with_beta = run.classes.iter().any(|r| r.scaling.is_some());
    let k = run.classes.last()?.shares.len();
    let mut shares = run.classes.iter().flat_map(|r| &r.shares);
    if !shares.any(|x| *x > 0.0) {
        return None;
    }
    let name = |j: usize| {
        names
            .get(j)
            .cloned()
            .unwrap_or_else(|| format!("class {j}"))
    };
    let classes = chosen(&run.classes, k);
    let curves = |value: &dyn Fn(&ClassRecord, usize) -> Option<f64>| -> Vec<Curve> {
        classes
            .iter()
            .map(|&j| Curve {
                name: name(j),
                points: smooth(
                    run.classes
                        .iter()
                        .filter_map(|r| Some((r.step as f64, value(r, j)?)))
                        .collect(),
                    // Shares of all examples are exact; those of a batch are noise until averaged.
                    if with_beta {
                        1
                    } else {
                        run.classes.len().div_ceil(40)
                    },
                ),
                colour: Some(j),
                ..Curve::default()
            })
            .collect()
    };
    let chart = |title: &str, y, y_scale, curves: Vec<Curve>| Chart {
        title: title.to_owned(),
        x: "step",
        y,
        named_ends: curves.len() > 1,
        curves,
        y_scale,
        ..Chart::default()
    };
    let mut charts = Vec::new();
    if with_beta {
        charts.push(chart(
            "Dual variables of the classes",
            "β (mean over classes 0)",
            Scale::Signed,
            curves(&|r, j| r.scaling.as_ref()?.get(j).copied()),
        ));
        // Abstention lives on another scale than the classes: it gets a picture of its own.
        let abstain = Curve {
            name: "abstain".to_owned(),
            points: run
                .classes
                .iter()
                .filter_map(|r| Some((r.step as f64, *r.scaling.as_ref()?.last()?)))
                .collect(),
            dashed: true,
            ..Curve::default()
        };
        charts.push(chart(
            "Dual variable of abstention",
            "β of the slack column",
            Scale::Signed,
            vec![abstain],
        ));
    }
    charts.push(chart(
        "Allocation per class",
        "share of the unlabeled examples",
        Scale::FromZero,
        curves(&|r, j| r.shares.get(j).copied()),
    ));
    Some(Classes {
        charts,
        shown: (classes.len(), k),
    })
}
