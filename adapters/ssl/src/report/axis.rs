//! Axes: ranges of data, round tick positions, numbers as people write them.
//!
//! Ticks are the multiples of a step inside [low, high]. The step depends on the span, and widening a range to
//! multiples of its step can make it one of a larger step: ranges are widened until they no longer do.

/// How values are spread along a side of a plot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// Evenly, with zero inside.
    FromZero,
    /// By their logarithm; values that have none are not shown.
    Logarithmic,
    /// By asinh: evenly around zero, by the logarithm of their size further out, either sign.
    Signed,
}

impl Scale {
    /// Whether a value has a place.
    pub(super) fn shows(self, value: f64) -> bool {
        value.is_finite() && (self != Self::Logarithmic || value > 0.0)
    }
}

/// A range of data shown along a side of a plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    spread: Spread,
}

/// What the scale came to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spread {
    /// Evenly, with so much from tick to tick.
    Even(f64),
    Decades,
    Signed,
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
            // A large number may have no neighbours half of one away.
            let margin = 0.5f64.max(1e-9 * high.abs());
            (low, high) = (low - margin, high + margin);
        }
        let (mut step, mut next) = (0.0, round_step(high - low));
        while next > step {
            step = next;
            (low, high) = (floor(low / step) * step, ceil(high / step) * step);
            next = round_step(high - low);
        }
        Self {
            low,
            high,
            spread: Spread::Even(step),
        }
    }

    /// Exactly this range.
    pub(super) fn between(low: f64, high: f64) -> Self {
        Self {
            low,
            high,
            spread: Spread::Even(round_step(high - low)),
        }
    }

    /// The range of some numbers at a scale.
    pub(super) fn scaled(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        match scale {
            Scale::Linear => Self::around(values),
            Scale::FromZero => Self::from_zero(values),
            Scale::Logarithmic => Self::decades(values),
            Scale::Signed => Self::signed(values),
        }
    }

    /// Zero and whole powers of ten of either sign around some numbers; evenly where none is beyond ten.
    fn signed(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (0.0f64, 0.0f64);
        for value in values.filter(|v| v.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low >= -10.0 && high <= 10.0 {
            return Self::around([low, high].into_iter());
        }
        let decade = |size: f64| match size {
            0.0 => 0.0,
            size => 10f64.powf((size.log10() - 1e-9).ceil().max(0.0)),
        };
        Self {
            low: -decade(-low),
            high: decade(high),
            spread: Spread::Signed,
        }
    }

    /// Whole powers of ten around the positive ones of some numbers.
    fn decades(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|v| Scale::Logarithmic.shows(*v)) {
            low = low.min(value.log10());
            high = high.max(value.log10());
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        // 1000 is a power of ten though its computed logarithm may be a hair off.
        let (low, mut high) = ((low + 1e-9).floor(), (high - 1e-9).ceil());
        if high <= low {
            high = low + 1.0;
        }
        Self {
            low: 10f64.powf(low),
            high: 10f64.powf(high),
            spread: Spread::Decades,
        }
    }

    /// The same, with zero inside.
    pub(super) fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        Self::around(values.chain([0.0]))
    }

    /// Where a value lies, 0 at the low and 1 at the high end.
    pub(super) fn place(self, value: f64) -> f64 {
        self.unclamped(value).clamp(0.0, 1.0)
    }

    fn unclamped(self, value: f64) -> f64 {
        match self.spread {
            Spread::Even(_) => (value - self.low) / (self.high - self.low),
            // A band may reach below zero, where there is no logarithm.
            Spread::Decades if value <= 0.0 => f64::NEG_INFINITY,
            Spread::Decades => (value / self.low).ln() / (self.high / self.low).ln(),
            Spread::Signed => {
                let low = self.low.asinh();
                (value.asinh() - low) / (self.high.asinh() - low)
            }
        }
    }

    /// Round positions inside, with their texts.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        let decades = |first: i32, last: i32| {
            let every = ((last - first) / 7 + 1) as usize;
            (first..=last).step_by(every)
        };
        let step = match self.spread {
            Spread::Even(step) => step,
            Spread::Decades => {
                let ends = (self.low.log10().round(), self.high.log10().round());
                return decades(ends.0 as i32, ends.1 as i32)
                    .map(|e| (10f64.powi(e), power(e)))
                    .collect();
            }
            Spread::Signed => {
                let mut ticks = vec![(0.0, "0".to_owned())];
                for (end, sign, prefix) in [(self.high, 1.0, ""), (-self.low, -1.0, "−")] {
                    if end >= 1.0 {
                        let powers = decades(0, end.log10().round() as i32);
                        ticks.extend(
                            powers.map(|e| (sign * 10f64.powi(e), format!("{prefix}{}", power(e)))),
                        );
                    }
                }
                ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
                return ticks;
            }
        };
        let first = ceil(self.low / step) as i64;
        let last = floor(self.high / step) as i64;
        (first..=last)
            .map(|i| (i as f64 * step, text(i as f64 * step, step)))
            .collect()
    }
}

/// Numbers of steps so near to a whole one are whole: far more than rounding, far less than a pixel.
const WHOLE: f64 = 1e-5;

fn floor(steps: f64) -> f64 {
    (steps + WHOLE).floor()
}

fn ceil(steps: f64) -> f64 {
    (steps - WHOLE).ceil()
}

/// 1, 2 or 5 times a power of ten: four to eight of them make up the span.
fn round_step(span: f64) -> f64 {
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

/// 0.01 to 10,000 as they are, others as powers of ten.
fn power(exponent: i32) -> String {
    match exponent {
        -2..=-1 => format!(
            "{:.*}",
            exponent.unsigned_abs() as usize,
            10f64.powi(exponent)
        ),
        0..=4 => format!("{}", 10f64.powi(exponent)),
        _ => {
            let digits = exponent.to_string();
            let raised = digits.chars().map(|c| match c {
                '-' => '⁻',
                '1' => '¹',
                '2' => '²',
                '3' => '³',
                c => char::from_u32(0x2070 + u32::from(c) - u32::from('0')).unwrap_or(c),
            });
            format!("10{}", raised.collect::<String>())
        }
    }
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
    fn logarithmic_axes_have_powers_of_ten() {
        let values = [1.0, 1000.0, 0.0, f64::NAN].into_iter();
        let axis = Axis::scaled(Scale::Logarithmic, values);
        assert!((axis.low - 1.0).abs() < 1e-9 && (axis.high - 1000.0).abs() < 1e-6);
        assert!((axis.place(10.0) - 1.0 / 3.0).abs() < 1e-9);
        let texts: Vec<String> = axis.ticks().into_iter().map(|(_, t)| t).collect();
        assert_eq!(texts, ["1", "10", "100", "1000"]);
        let small = Axis::scaled(Scale::Logarithmic, [2e-5, 0.03].into_iter());
        let texts: Vec<String> = small.ticks().into_iter().map(|(_, t)| t).collect();
        assert_eq!(texts, ["10⁻⁵", "10⁻⁴", "10⁻³", "0.01", "0.1"]);
        assert!(Axis::scaled(Scale::Logarithmic, [0.0].into_iter()).high > 1.0);
    }

    #[test]
    fn signed_axes_have_zero_and_powers_of_either_sign() {
        let axis = Axis::scaled(Scale::Signed, [-3000.0, 42.0].into_iter());
        let texts: Vec<String> = axis.ticks().into_iter().map(|(_, t)| t).collect();
        assert_eq!(
            texts,
            [
                "−10000", "−1000", "−100", "−10", "−1", "0", "1", "10", "100"
            ]
        );
        assert!(axis.place(-3000.0) < axis.place(0.0) && axis.place(0.0) < axis.place(42.0));
        let small = Axis::scaled(Scale::Signed, [-3.0, 4.0].into_iter());
        assert_eq!(small, Axis::around([-3.0, 4.0].into_iter()));
    }

    #[test]
    fn one_value_and_none_have_a_range() {
        let one = Axis::around([3.0].into_iter());
        assert!(one.low < 3.0 && one.high > 3.0);
        assert_eq!(Axis::around([f64::NAN].into_iter()).ticks().len(), 6);
    }

    /// Ranges of many spans and places.
    fn ranges() -> impl Iterator<Item = (f64, f64)> {
        let spans = (-40..=60).flat_map(|e| {
            let span = 10f64.powf(f64::from(e) / 10.0);
            [span, 0.9999 * span, 1.5 * span]
        });
        spans.flat_map(|span| {
            let places = [0.0, -1.0, -0.5, -0.013, 0.31, 7.77, -12.9, 1e3, -1e6];
            places.map(|place| (place * span, (place + 1.0) * span))
        })
    }

    /// The ticks of an axis: evenly spread, none outside.
    fn honest_ticks(axis: Axis) -> Vec<f64> {
        let ticks = axis.ticks();
        for (tick, _) in &ticks {
            let place = axis.unclamped(*tick);
            assert!((-1e-5..=1.0 + 1e-5).contains(&place), "{tick} on {axis:?}");
        }
        let ticks: Vec<f64> = ticks.into_iter().map(|t| t.0).collect();
        let gaps = |pair: &[f64]| axis.unclamped(pair[1]) - axis.unclamped(pair[0]);
        if let Some(first) = ticks.windows(2).map(gaps).next() {
            let even = |gap: f64| (gap - first).abs() < 1e-5;
            assert!(ticks.windows(2).map(gaps).all(even), "{ticks:?}");
        }
        ticks
    }

    #[test]
    fn ticks_of_widened_ranges_go_from_end_to_end() {
        for (low, high) in ranges() {
            let axis = Axis::around([low, high].into_iter());
            let hair = 1e-5 * (axis.high - axis.low);
            assert!(axis.low <= low + hair && axis.high >= high - hair);
            let ticks = honest_ticks(axis);
            let ends = (ticks.first().copied(), ticks.last().copied());
            assert_eq!(ends, (Some(axis.low), Some(axis.high)), "{low} to {high}");
            assert!((5..=9).contains(&ticks.len()), "{low} to {high}: {ticks:?}");
        }
    }

    #[test]
    fn ticks_of_given_ranges_are_inside() {
        for (low, high) in ranges() {
            let ticks = honest_ticks(Axis::between(low, high));
            assert!((3..=9).contains(&ticks.len()), "{low} to {high}: {ticks:?}");
        }
        assert_eq!(honest_ticks(Axis::between(0.0, 3.0)).len(), 7);
        assert_eq!(honest_ticks(Axis::between(-0.1, 1.1)).len(), 6);
    }

    #[test]
    fn ticks_of_decades_are_inside() {
        for (low, high) in (-12..=12).flat_map(|e| (1..=12).map(move |d| (e, e + d))) {
            let values = [2.0 * 10f64.powi(low), 0.5 * 10f64.powi(high)];
            let ticks = honest_ticks(Axis::scaled(Scale::Logarithmic, values.into_iter()));
            assert!((2..=8).contains(&ticks.len()), "{ticks:?}");
        }
    }

    #[test]
    fn a_range_that_outgrows_its_step_takes_the_next() {
        // 17.2 is a span of twos, the 18 it is widened to is one of fives.
        let axis = Axis::from_zero([17.2].into_iter());
        assert_eq!((axis.low, axis.high), (0.0, 20.0));
        assert_eq!(honest_ticks(axis), [0.0, 5.0, 10.0, 15.0, 20.0]);
    }

    #[test]
    fn huge_values_have_a_range() {
        let axis = Axis::around([1e300].into_iter());
        assert!(axis.low < 1e300 && axis.high > 1e300);
        assert!(honest_ticks(axis).len() > 2);
    }
}
