//! Longer plain steps over plateaus.
//!
//! Where two groups of rows and columns are joined by pairs of weight e^(−20) only, the mass that has to
//! cross between them hardly moves at first: every plain step is the same, and thousands are needed
//! before the bridge opens. An extrapolation learns nothing from steps that do not differ. But the semi-dual
//! D(g) is concave, so along a plain direction d its slope
//!
//! ```text
//! D'(λ) = ⟨b − colsum(g + λ d), d⟩
//! ```
//!
//! only falls: as long as it is still above zero, the crest lies ahead and the next step may be longer.
//! Whatever a plain step would put right at once, a longer one overshoots: after each comes a plain one.

/// Factor by which a step grows while the slope hardly falls.
const GROWTH: f64 = 4.0;

/// Longest step, in multiples of the plain one: no single coordinate moves by more than this many ε.
const LONGEST_STEP: f64 = 200.0;

/// Steps along plain directions, as long as the slope allows.
#[derive(Debug)]
pub(crate) struct LineSearch {
    /// Where the present step started, its direction, and the slope there.
    base: Vec<f64>,
    direction: Vec<f64>,
    slope: f64,
    length: f64,
    /// Whether the present step is the plain one after a long one.
    settling: bool,
    /// Sweeps so far.
    pub(crate) taken: usize,
}

/// What a measurement says of the step that led to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    Accepted,
    TooFar,
}

impl LineSearch {
    /// Starts at `g`, where the plain direction is `direction` (potentials, not logarithms) and the
    /// columns still want `missing`.
    pub(crate) fn new(g: &[f64], direction: Vec<f64>, missing: impl Iterator<Item = f64>) -> Self {
        let slope = dot(missing, &direction);
        Self {
            base: g.to_vec(),
            direction,
            slope,
            length: 1.0,
            settling: false,
            taken: 0,
        }
    }

    /// Judges the step to where the columns want `missing`, and sets the length of the next.
    pub(crate) fn judge(&mut self, missing: impl Iterator<Item = f64>) -> Judgement {
        self.taken += 1;
        if self.settling {
            self.settling = false;
            return Judgement::Accepted;
        }
        let slope = dot(missing, &self.direction);
        if slope < -0.5 * self.slope && self.length > 1.0 {
            self.length = (self.length / (GROWTH * GROWTH)).max(1.0);
            return Judgement::TooFar;
        }
        self.settling = self.length > 1.0;
        if slope > 0.5 * self.slope {
            self.length *= GROWTH;
        } else if slope < 0.25 * self.slope {
            self.length = (self.length / GROWTH).max(1.0);
        }
        Judgement::Accepted
    }

    /// Goes on from an accepted point.
    pub(crate) fn go_on(
        &mut self,
        g: &[f64],
        direction: Vec<f64>,
        missing: impl Iterator<Item = f64>,
    ) {
        self.base.copy_from_slice(g);
        self.slope = dot(missing, &direction);
        self.direction = direction;
    }

    /// Whether plain steps are as long as they should be.
    pub(crate) fn is_plain(&self) -> bool {
        self.length <= 1.0 && !self.settling
    }

    /// The next point to try.
    pub(crate) fn next(&self, epsilon: f64, g: &mut [f64]) {
        let largest = self.direction.iter().fold(0.0f64, |m, d| m.max(d.abs()));
        let length = if self.settling {
            1.0
        } else {
            self.length.min((LONGEST_STEP * epsilon / largest).max(1.0))
        };
        for ((g, &base), &d) in g.iter_mut().zip(&self.base).zip(&self.direction) {
            *g = base + length * d;
        }
    }
}

fn dot(missing: impl Iterator<Item = f64>, direction: &[f64]) -> f64 {
    missing.zip(direction).map(|(m, d)| m * d).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D(x) = −(e^x − 1000 x)/1000: flat slope one until x nears ln 1000.
    #[test]
    fn a_plateau_is_crossed_in_a_few_steps_and_its_end_is_not_missed() {
        let missing = |x: f64| 1.0 - x.exp() / 1000.0;
        let step = |x: f64| 0.01 * missing(x);
        let mut g = [0.0];
        let mut search = LineSearch::new(&g, vec![step(0.0)], [missing(0.0)].into_iter());
        let mut sweeps = 0;
        while missing(g[0]).abs() > 0.1 {
            search.next(0.01, &mut g);
            sweeps += 1;
            if search.judge([missing(g[0])].into_iter()) == Judgement::Accepted {
                search.go_on(&g, vec![step(g[0])], [missing(g[0])].into_iter());
            }
            assert!(sweeps < 30, "still at {}", g[0]);
        }
        assert!((g[0] - 1000f64.ln()).abs() < 0.2);
    }
}
