//! Axes: ranges of data, round tick positions, numbers as people write them.

/// A range of data shown along a side of a plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Axis {
    /// The range of some numbers, widened to round ends; [0, 1] where there are none.
    pub(super) fn around(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|v| v.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if high - low < 1e-9 * (1.0 + high.abs()) {
            (low, high) = (low - 0.5, high + 0.5);
        }
        let step = step(high - low);
        Self {
            low: (low / step).floor() * step,
            high: (high / step).ceil() * step,
        }
    }

    /// The same, with zero inside.
    pub(super) fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        Self::around(values.chain([0.0]))
    }

    /// Where a value lies, 0 at the low and 1 at the high end.
    pub(super) fn place(self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Round positions inside, with their texts.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        let step = step(self.high - self.low);
        let first = (self.low / step).round() as i64;
        let last = (self.high / step).round() as i64;
        (first..=last)
            .map(|i| (i as f64 * step, text(i as f64 * step, step)))
            .collect()
    }
}

/// 1, 2 or 5 times a power of ten: four to eight of them make up the span.
fn step(span: f64) -> f64 {
    let raw = span / 5.0;
    let power = 10f64.powf(raw.log10().floor());
    let factor = match raw / power {
        f if f < 1.5 => 1.0,
        f if f < 3.5 => 2.0,
        f if f < 7.5 => 5.0,
        _ => 10.0,
    };
    factor * power
}

fn text(value: f64, step: f64) -> String {
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    // Not "-0".
    let value = if value == 0.0 { 0.0 } else { value };
    if value.abs() >= 10_000.0 && value % 1000.0 == 0.0 {
        return format!("{}k", value / 1000.0);
    }
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_ticks_are_round() {
        let axis = Axis::around([0.013, 0.87].into_iter());
        assert_eq!((axis.low, axis.high), (0.0, 1.0));
        let texts: Vec<String> = axis.ticks().into_iter().map(|(_, t)| t).collect();
        assert_eq!(texts, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    }

    #[test]
    fn one_value_and_none_have_a_range() {
        let one = Axis::around([3.0].into_iter());
        assert!(one.low < 3.0 && one.high > 3.0);
        assert_eq!(Axis::around([f64::NAN].into_iter()).ticks().len(), 6);
    }
}
