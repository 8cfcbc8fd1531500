//! Settings as people say them.

use std::fmt::Write;

use super::chart::escape;
use super::series::Series;
use crate::augment::{ImagePolicy, Policy};
use crate::data::Shape;
use crate::trainer::Recorded;

/// The table at the end of a page.
pub(super) fn section(s: &mut String, series: &[Series<'_>]) {
    s.push_str("<h2>Settings</h2><div class=\"wide\"><table><tr><th>setting</th>");
    for one in series {
        let _ = write!(s, "<th>{}</th>", escape(&one.name));
    }
    s.push_str("</tr>");
    let columns: Vec<Vec<(&str, String)>> = series
        .iter()
        .filter_map(|one| Some(rows(one.runs.first()?, one)))
        .collect();
    let Some(first) = columns.first() else {
        s.push_str("</table></div>");
        return;
    };
    for (at, (name, _)) in first.iter().enumerate() {
        // Settings that none of the runs has say nothing.
        if columns.iter().all(|c| c[at].1.is_empty()) {
            continue;
        }
        let _ = write!(s, "<tr><td>{}</td>", escape(name));
        for column in &columns {
            let text = match column[at].1.as_str() {
                "" => "–",
                text => text,
            };
            let _ = write!(s, "<td>{}</td>", escape(text));
        }
        s.push_str("</tr>");
    }
    s.push_str("</table></div>");
}

/// The same names for every run, in the same order; no text for what does not apply.
fn rows(run: &Recorded, series: &Series<'_>) -> Vec<(&'static str, String)> {
    let s = &run.settings;
    let list = |values: Vec<String>| values.join(", ");
    let seeds = list(
        series
            .runs
            .iter()
            .map(|r| r.settings.seed.to_string())
            .collect(),
    );
    let splits = list(
        series
            .runs
            .iter()
            .map(|r| r.settings.split.seed.to_string())
            .collect(),
    );
    let card = run.data.as_ref();
    let labels = match (&s.labeled, card) {
        (Some(given), _) => format!("{} listed examples", given.len()),
        (None, Some(card)) => {
            let counted: usize = card.labeled.iter().sum();
            format!("{counted}, {}", s.split.mode)
        }
        (None, None) => format!("{}, {}", s.split.labels, s.split.mode),
    };
    let views = card.map(|c| &c.views).or(s.augment.as_ref());
    vec![
        ("data set", s.dataset.to_string()),
        (
            "examples",
            card.map_or(String::new(), |c| {
                format!(
                    "{} unlabeled, {} test, {} of {}",
                    c.unlabeled,
                    c.test,
                    c.shape,
                    size(c.shape)
                )
            }),
        ),
        ("labels", labels),
        (
            "held out for validation",
            card.filter(|c| c.validation > 0)
                .map_or(String::new(), |c| c.validation.to_string()),
        ),
        (
            "long tail (labeled, unlabeled)",
            s.long_tail
                .map_or(String::new(), |t| format!("{}, {}", t.labeled, t.unlabeled)),
        ),
        ("seeds of the splits", splits),
        ("seeds of the runs", seeds),
        ("method", s.method.title()),
        ("network", s.model.to_string()),
        (
            "starts from",
            s.init
                .as_ref()
                .map_or(String::new(), |p| p.display().to_string()),
        ),
        ("steps", s.steps.to_string()),
        (
            "batch",
            format!("{} labeled + {} unlabeled", s.batch, s.batch * s.ratio),
        ),
        (
            "in pieces",
            if s.accumulate > 1 {
                s.accumulate.to_string()
            } else {
                String::new()
            },
        ),
        ("weight of the unlabeled loss", s.lambda.to_string()),
        (
            "optimiser",
            match s.optimiser {
                crate::trainer::OptimiserKind::Sgd => {
                    format!("SGD, Nesterov momentum {}", s.momentum)
                }
                crate::trainer::OptimiserKind::Adamw => "AdamW".to_owned(),
            },
        ),
        (
            "learning rate",
            format!(
                "{}, {:?}{}",
                s.learning_rate,
                s.rate,
                if s.warm_up > 0 {
                    format!(", rising over {} steps", s.warm_up)
                } else {
                    String::new()
                }
            )
            .to_lowercase(),
        ),
        (
            "layer-wise decay",
            if s.layer_decay < 1.0 {
                s.layer_decay.to_string()
            } else {
                String::new()
            },
        ),
        ("weight decay", s.weight_decay.to_string()),
        (
            "gradient norm at most",
            s.clip.map_or(String::new(), |c| c.to_string()),
        ),
        ("decay of the average", s.ema.to_string()),
        ("passes", format!("{:?}", s.forward).to_lowercase()),
        ("weak views", views.map_or(String::new(), weak)),
        ("strong views", views.map_or(String::new(), strong)),
        ("device", s.device.clone()),
    ]
}

fn size(shape: Shape) -> &'static str {
    match shape {
        Shape::Image { channels: 1, .. } => "grey pixels",
        Shape::Image { .. } => "pixels",
        Shape::Table { .. } => "a table",
    }
}

fn weak(policy: &Policy) -> String {
    match policy {
        Policy::Image(ImagePolicy { weak, .. }) => format!(
            "crops moved by up to {} pixels, flipped with probability {}",
            weak.padding, weak.flip
        ),
        Policy::Tabular(t) => format!("noise {}, dropout {}", t.weak.noise, t.weak.dropout),
    }
}

fn strong(policy: &Policy) -> String {
    match policy {
        Policy::Image(p) => {
            let r = &p.rand_augment;
            format!(
                "weak, then {} of {} operations, each with probability {} and level {} to {}, then a hole of {} pixels",
                r.draws,
                r.operations.len(),
                r.probability,
                r.lowest,
                r.highest,
                p.cutout.size
            )
        }
        Policy::Tabular(t) => format!("noise {}, dropout {}", t.strong.noise, t.strong.dropout),
    }
}
