//! Runs of equal settings but for their seeds, and curves over them.

use super::chart::Curve;
use super::table::mean_and_deviation;
use crate::trainer::{Evaluation, Recorded, Settings, StepRecord};

/// Steps averaged into one point of a curve, so that a page stays small.
const POINTS: usize = 240;

/// Runs that differ in their seeds only.
pub(super) struct Series<'a> {
    pub(super) name: String,
    /// The same colour on every chart of the page.
    pub(super) colour: usize,
    pub(super) runs: Vec<&'a Recorded>,
}

/// Settings with the seeds taken out.
pub(super) fn seedless(settings: &Settings) -> Settings {
    let mut s = settings.clone();
    s.seed = 0;
    s.split.seed = 0;
    s
}

/// Groups in order of first appearance. A name that two groups share gets what tells them apart.
pub(super) fn group(runs: &[Recorded]) -> Vec<Series<'_>> {
    let mut groups: Vec<(Settings, Series<'_>)> = Vec::new();
    for run in runs {
        let key = seedless(&run.settings);
        let colour = groups.len();
        match groups
            .iter_mut()
            .find(|(k, _)| k.difference(&key).is_none())
        {
            Some((_, series)) => series.runs.push(run),
            None => groups.push((
                key,
                Series {
                    name: run.settings.method.title(),
                    colour,
                    runs: vec![run],
                },
            )),
        }
    }
    let varied = |get: &dyn Fn(&Settings) -> String| {
        let mut values: Vec<String> = groups.iter().map(|(k, _)| get(k)).collect();
        values.sort();
        values.dedup();
        values.len() > 1
    };
    let facets: [&dyn Fn(&Settings) -> String; 5] = [
        &|s| s.dataset.to_string(),
        &|s| format!("{} labels", s.split.labels),
        &|s| s.split.mode.to_string(),
        &|s| s.model.to_string(),
        &|s| format!("{} steps", s.steps),
    ];
    let told: Vec<_> = facets.into_iter().filter(|f| varied(*f)).collect();
    for (key, series) in &mut groups {
        for facet in &told {
            series.name.push_str(", ");
            series.name.push_str(&facet(key));
        }
    }
    // Any other setting in which two of a name differ.
    for i in 1..groups.len() {
        for j in 0..i {
            if groups[i].1.name != groups[j].1.name {
                continue;
            }
            if let Some((field, _, mine)) = groups[j].0.difference(&groups[i].0) {
                let told = format!(", {} {mine}", field.replace('_', " "));
                groups[i].1.name.push_str(&told);
            }
        }
    }
    groups.into_iter().map(|(_, series)| series).collect()
}

/// Share of the allocated mass on the true classes; nobody knows it where nothing was allocated.
pub(super) fn label_accuracy(r: &StepRecord) -> f64 {
    match r.allocated > 0.0 {
        true => r.label_accuracy,
        false => f64::NAN,
    }
}

/// A quantity of the steps, averaged over stretches that depend on where a run is to end, not on how far it has got: those of an
/// unfinished run lie where those of its fellows do.
fn stretches(
    steps: &[StepRecord],
    end: u64,
    value: &impl Fn(&StepRecord) -> f64,
) -> Vec<(f64, f64)> {
    let size = (end as usize).div_ceil(POINTS).max(1);
    let mean = |part: &[StepRecord]| {
        // The accuracy of labels is not known where no true class is.
        let known: Vec<f64> = part.iter().map(value).filter(|v| !v.is_nan()).collect();
        let middle = part[part.len() / 2].step as f64;
        match known.len() {
            0 => (middle, f64::NAN),
            n => (middle, known.iter().sum::<f64>() / n as f64),
        }
    };
    steps.chunks(size).map(mean).collect()
}

impl Series<'_> {
    /// Names of the classes, where the runs say.
    pub(super) fn class_names(&self) -> &[String] {
        let card = self.runs.iter().find_map(|r| r.data.as_ref());
        card.map_or(&[], |c| &c.classes)
    }

    /// A quantity of the steps, averaged over stretches of steps and over the runs.
    pub(super) fn steps(&self, value: impl Fn(&StepRecord) -> f64) -> Curve {
        let stretch = |run: &Recorded| stretches(&run.steps, run.settings.steps, &value);
        self.over_runs(stretch)
    }

    /// A quantity of the evaluations, averaged over the runs.
    pub(super) fn evaluations(&self, value: impl Fn(&Evaluation) -> f64) -> Curve {
        self.over_runs(|run| {
            let points = run.evaluations.iter();
            points.map(|e| (e.step as f64, value(e))).collect()
        })
    }

    /// Test error against the allocated share at the same time.
    pub(super) fn error_by_share(&self) -> Curve {
        let allocated = self.steps(|s| s.allocated).points;
        let error = self.evaluations(|e| 100.0 * e.error()).points;
        let share_at = |step: f64| {
            let after = allocated.partition_point(|p| p.0 < step);
            let index = after.min(allocated.len().saturating_sub(1));
            allocated.get(index).map(|p| p.1)
        };
        Curve {
            name: self.name.clone(),
            colour: Some(self.colour),
            points: error
                .iter()
                .filter_map(|&(step, e)| Some((share_at(step)?, e)))
                .collect(),
            ..Curve::default()
        }
    }

    fn over_runs(&self, points: impl Fn(&Recorded) -> Vec<(f64, f64)>) -> Curve {
        let all: Vec<Vec<(f64, f64)>> = self.runs.iter().map(|r| points(r)).collect();
        let longest = all.iter().max_by_key(|p| p.len());
        let mut curve = Curve {
            name: self.name.clone(),
            colour: Some(self.colour),
            ..Curve::default()
        };
        for (index, &(x, _)) in longest.into_iter().flatten().enumerate() {
            // Interrupted runs take part as far as they go.
            let values = all.iter().filter_map(|p| p.get(index)).map(|p| p.1);
            let known: Vec<f64> = values.filter(|v| !v.is_nan()).collect();
            let (mean, deviation) = match known.is_empty() {
                true => (f64::NAN, 0.0),
                false => mean_and_deviation(&known),
            };
            curve.points.push((x, mean));
            if all.len() > 1 && !known.is_empty() {
                curve.band.push((x, mean - deviation, mean + deviation));
            }
        }
        curve
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_run_is_averaged_over_the_steps_of_its_fellows() {
        let record = |step: u64| StepRecord {
            step,
            rate: 0.0,
            labeled_loss: step as f64,
            unlabeled_loss: 0.0,
            allocated: 0.0,
            label_accuracy: 0.0,
            iterations: 0,
            allocation_seconds: 0.0,
            seconds: 0.0,
        };
        let all: Vec<StepRecord> = (0..3000).map(record).collect();
        let whole = stretches(&all, 3000, &|r| r.labeled_loss);
        let part = stretches(&all[..1300], 3000, &|r| r.labeled_loss);
        assert_eq!(part, whole[..100]);
    }
}
