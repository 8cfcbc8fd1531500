//! What a reader should know about a run before believing its figures: settings that switch something off, classes that
//! nobody labeled, bounds that leave most examples out.

use super::settings::{OptimiserKind, Settings};
use crate::augment::Policy;
use crate::data::{Dataset, Shape, Split};
use crate::methods::{BoundsSpec, MethodSpec};

/// Bounds that leave out this much more than they must are worth a remark.
const LEFT_OUT: f64 = 0.1;

/// Sentences, none where all is as one would expect.
pub(crate) fn remarks(
    settings: &Settings,
    dataset: &Dataset,
    split: &Split,
    views: &Policy,
) -> Vec<String> {
    let mut said = dataset.notes.clone();
    classes(dataset, split, &mut said);
    method(&settings.method, &split.counts, &mut said);
    if settings.ema >= 1.0 {
        said.push(
            "the averaged weights, which are evaluated, never move: ema is 1 (0.999 is usual)"
                .to_owned(),
        );
    }
    if settings.learning_rate == 0.0 {
        said.push("the learning rate is 0: nothing is learned".to_owned());
    }
    if settings.lambda == 0.0 {
        said.push("lambda is 0: unlabeled examples have no say".to_owned());
    }
    if settings.warm_up >= settings.steps {
        said.push(format!(
            "the learning rate rises for {} steps, but there are only {}",
            settings.warm_up, settings.steps
        ));
    }
    if settings.optimiser == OptimiserKind::Adamw && settings.learning_rate > 0.01 {
        said.push(format!(
            "a learning rate of {} is large for AdamW (0.001 is usual)",
            settings.learning_rate
        ));
    }
    if let (Policy::Image(policy), Shape::Image { height, width, .. }) = (views, dataset.shape()) {
        let side = height.min(width);
        if policy.cutout.size >= 2 * side {
            said.push(format!(
                "the hole of {0} × {0} pixels in strong views covers the whole image of {height} × {width}",
                policy.cutout.size
            ));
        } else if policy.cutout.size >= side {
            said.push(format!(
                "the hole of {0} × {0} pixels in strong views is as large as the image of {height} × {width}",
                policy.cutout.size
            ));
        }
        if policy.weak.padding >= side {
            said.push(format!(
                "crops move images of {height} × {width} by up to {} pixels: out of sight",
                policy.weak.padding
            ));
        }
    }
    if dataset.test.is_empty() && split.validation.is_empty() {
        said.push(
            "there are no test examples and none held out: the error is not measured (hold labels out with --validation 0.2)".to_owned(),
        );
    }
    said
}

/// Classes without a label, or without an example at all.
fn classes(dataset: &Dataset, split: &Split, said: &mut Vec<String>) {
    let missing: Vec<&str> = split
        .counts
        .iter()
        .zip(&dataset.classes)
        .filter(|(count, _)| **count == 0)
        .map(|(_, name)| name.as_str())
        .collect();
    if missing.is_empty() {
        return;
    }
    const NAMED: usize = 10;
    let mut names = missing[..missing.len().min(NAMED)].join(", ");
    if missing.len() > NAMED {
        names.push_str(", …");
    }
    said.push(format!(
        "{} of {} classes have no labeled example and cannot be learned: {names}",
        missing.len(),
        split.counts.len(),
    ));
}

fn method(method: &MethodSpec, counts: &[usize], said: &mut Vec<String>) {
    let MethodSpec::Sla(sla) = method else {
        return;
    };
    if sla.tolerance >= 1.0 {
        said.push(format!(
            "a tolerance of {} is met by any allocation: the first labels stay (0.01 is usual)",
            sla.tolerance
        ));
    }
    let last = sla.schedule.at_progress(1.0);
    let upper = match &sla.bounds {
        BoundsSpec::Given(upper) => upper.clone(),
        bounds => match bounds.bounds(counts, None) {
            Ok(bounds) => bounds.upper().to_vec(),
            Err(_) => return,
        },
    };
    let sum: f64 = upper.iter().sum();
    if sum < last - LEFT_OUT {
        said.push(format!(
            "the class bounds sum to {sum:.3}: at most {:.0}% of the examples get a label, though {:.0}% are asked for",
            100.0 * sum,
            100.0 * last
        ));
    }
    if last == 0.0 {
        said.push("ρ ends at 0: no example ever gets a label".to_owned());
    }
}
