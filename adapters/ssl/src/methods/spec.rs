//! Methods as settings: what a run's file stores and a command line names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{
    Aligned, FixMatch, FlexMatch, FreeMatch, Method, PseudoLabel, Sla, SoftMatch, Supervised,
};
use crate::Error;
use crate::allocation::{Bounds, LabelAllocator, Schedule, share};

/// A method by name, with nothing set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodName {
    /// Labeled examples only.
    Supervised,
    /// Hard labels for everything.
    PseudoLabel,
    /// Confidence thresholding.
    Fixmatch,
    /// The same after distribution alignment.
    FixmatchDa,
    /// Curriculum thresholds.
    Flexmatch,
    /// Self-adaptive thresholds.
    Freematch,
    /// Gaussian weights.
    Softmatch,
    /// Sinkhorn label allocation.
    Sla,
}

impl MethodName {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Supervised,
        Self::PseudoLabel,
        Self::Fixmatch,
        Self::FixmatchDa,
        Self::Flexmatch,
        Self::Freematch,
        Self::Softmatch,
        Self::Sla,
    ];

    /// The name in settings and on command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Supervised => "supervised",
            Self::PseudoLabel => "pseudo-label",
            Self::Fixmatch => "fixmatch",
            Self::FixmatchDa => "fixmatch-da",
            Self::Flexmatch => "flexmatch",
            Self::Freematch => "freematch",
            Self::Softmatch => "softmatch",
            Self::Sla => "sla",
        }
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for MethodName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = text.to_lowercase().replace('_', "-");
        let found = Self::ALL.into_iter().find(|m| m.name() == wanted);
        found.ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("unknown method `{text}`: choose one of {known}")
        })
    }
}

/// Where the upper bounds on the classes' shares come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundsSpec {
    /// b = 1: any class may take everything.
    None,
    /// The labeled examples' class shares.
    Empirical,
    /// Upper ends of Wilson score intervals of the labeled examples' class shares.
    Wilson {
        /// Two-sided confidence level; 0.8 in the paper.
        confidence: f64,
    },
    /// These shares.
    Given(Vec<f64>),
}

impl BoundsSpec {
    fn bounds(&self, counts: &[usize]) -> Result<Bounds, Error> {
        match self {
            Self::None => Ok(Bounds::none(counts.len())),
            Self::Empirical => Bounds::empirical(counts),
            Self::Wilson { confidence } => Bounds::wilson(counts, *confidence),
            Self::Given(upper) => Bounds::given(upper),
        }
    }
}

impl FromStr for BoundsSpec {
    type Err = String;

    /// `none`, `empirical`, `wilson`, `wilson:0.8`, or shares `0.2,0.5,0.3`.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |s: &str| {
            s.trim().parse::<f64>().map_err(|_| {
                format!("unknown bounds `{text}`: none, empirical, wilson:0.8 or shares 0.2,0.8")
            })
        };
        match text.split_once(':').unwrap_or((text, "")) {
            ("none", "") => Ok(Self::None),
            ("empirical", "") => Ok(Self::Empirical),
            ("wilson", "") => Ok(Self::Wilson { confidence: 0.8 }),
            ("wilson", level) => Ok(Self::Wilson {
                confidence: number(level)?,
            }),
            _ => Ok(Self::Given(
                text.split(',').map(number).collect::<Result<_, _>>()?,
            )),
        }
    }
}

/// Settings of [`Sla`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlaSettings {
    /// Inverse regularisation γ.
    pub gamma: f64,
    /// Error of the column sums over ‖c‖₁ at which a solve stops.
    pub tolerance: f64,
    /// How ρ grows.
    pub schedule: Schedule,
    /// Upper bounds on the classes' shares.
    pub bounds: BoundsSpec,
}

impl Default for SlaSettings {
    /// The paper's.
    fn default() -> Self {
        Self {
            gamma: 100.0,
            tolerance: 0.01,
            schedule: Schedule::linear(),
            bounds: BoundsSpec::Empirical,
        }
    }
}

/// A method and its settings.
///
/// # Examples
/// ```
/// use earthmover_ssl::methods::{MethodName, MethodSpec};
/// let spec = MethodSpec::of(MethodName::Sla);
/// let method = spec.build(100, &[2, 2, 2])?; // 100 unlabeled examples, two labels for each of 3 classes
/// assert!(method.uses_unlabeled());
/// # Ok::<(), earthmover_ssl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum MethodSpec {
    /// [`Supervised`].
    Supervised,
    /// [`PseudoLabel`].
    PseudoLabel {
        /// Share of training over which the weight grows.
        ramp: f64,
    },
    /// [`FixMatch`].
    Fixmatch {
        /// τ.
        threshold: f64,
    },
    /// [`Aligned`].
    FixmatchDa {
        /// τ.
        threshold: f64,
    },
    /// [`FlexMatch`].
    Flexmatch {
        /// τ.
        threshold: f64,
    },
    /// [`FreeMatch`].
    Freematch {
        /// Momentum of the averages.
        momentum: f64,
        /// Weight of the fairness term.
        #[serde(default, skip_serializing_if = "is_zero")]
        fairness: f64,
    },
    /// [`SoftMatch`].
    Softmatch {
        /// Momentum of the averages.
        momentum: f64,
    },
    /// [`Sla`].
    Sla(SlaSettings),
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// A schedule as written: `linear`, `constant:1`, `truncated:0.8`, `cosine:0:1`.
fn schedule(text: &str) -> Result<Schedule, String> {
    let mut parts = text.split(':');
    let kind = parts.next().unwrap_or_default();
    let wrong =
        || format!("unknown schedule `{text}`: linear, constant:1, truncated:0.8 or cosine:0:1");
    let numbers: Vec<f64> = parts
        .map(|p| p.parse().map_err(|_| wrong()))
        .collect::<Result<_, _>>()?;
    match (kind, numbers.as_slice()) {
        ("linear", []) => Ok(Schedule::linear()),
        ("constant", [rho]) => Schedule::constant(*rho).map_err(|e| e.to_string()),
        ("truncated", [cap]) => Schedule::truncated(*cap).map_err(|e| e.to_string()),
        ("cosine", [from, to]) => Schedule::cosine(*from, *to).map_err(|e| e.to_string()),
        _ => Err(wrong()),
    }
}

impl FromStr for MethodSpec {
    type Err = String;

    /// A name and what differs from its published settings: `sla gamma=10 bounds=none`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let mut spec = Self::of(words.next().unwrap_or_default().parse()?);
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| {
                format!("`{word}` in method `{text}` is not of the form key=value")
            })?;
            spec.set(key, value)?;
        }
        Ok(spec)
    }
}

impl MethodSpec {
    /// Changes one setting: `gamma`, `tolerance`, `schedule`, `bounds` of SLA, `threshold` of the methods
    /// that have a fixed one, `ramp` of pseudo-labelling, `momentum` of the moving averages,
    /// `fairness` of FreeMatch.
    ///
    /// # Errors
    /// A sentence, where the method has no such setting or the value cannot be read.
    ///
    /// # Examples
    /// ```
    /// use earthmover_ssl::methods::MethodSpec;
    /// let mut sla: MethodSpec = "sla gamma=10".parse()?;
    /// sla.set("bounds", "wilson:0.8")?;
    /// assert_eq!(sla.title(), "SLA (Wilson 80%, γ = 10)");
    /// assert!("fixmatch gamma=10".parse::<MethodSpec>().is_err());
    /// # Ok::<(), String>(())
    /// ```
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let name = self.name();
        let number = || {
            let parsed = value.parse::<f64>();
            parsed.map_err(|_| format!("{key} of {name} must be a number, not `{value}`"))
        };
        match (self, key) {
            (Self::Sla(s), "gamma") => s.gamma = number()?,
            (Self::Sla(s), "tolerance") => s.tolerance = number()?,
            (Self::Sla(s), "schedule") => s.schedule = schedule(value)?,
            (Self::Sla(s), "bounds") => s.bounds = value.parse()?,
            (
                Self::Fixmatch { threshold }
                | Self::FixmatchDa { threshold }
                | Self::Flexmatch { threshold },
                "threshold",
            ) => *threshold = number()?,
            (Self::PseudoLabel { ramp }, "ramp") => *ramp = number()?,
            (Self::Freematch { momentum, .. } | Self::Softmatch { momentum }, "momentum") => {
                *momentum = number()?;
            }
            (Self::Freematch { fairness, .. }, "fairness") => *fairness = number()?,
            _ => return Err(format!("{name} has no setting `{key}`")),
        }
        Ok(())
    }

    /// A method with its published settings.
    #[must_use]
    pub fn of(name: MethodName) -> Self {
        let (threshold, momentum) = (0.95, 0.999);
        match name {
            MethodName::Supervised => Self::Supervised,
            MethodName::PseudoLabel => Self::PseudoLabel { ramp: 0.4 },
            MethodName::Fixmatch => Self::Fixmatch { threshold },
            MethodName::FixmatchDa => Self::FixmatchDa { threshold },
            MethodName::Flexmatch => Self::Flexmatch { threshold },
            MethodName::Freematch => Self::Freematch {
                momentum,
                fairness: 0.0,
            },
            MethodName::Softmatch => Self::Softmatch { momentum },
            MethodName::Sla => Self::Sla(SlaSettings::default()),
        }
    }

    /// Which method it is.
    #[must_use]
    pub fn name(&self) -> MethodName {
        match self {
            Self::Supervised => MethodName::Supervised,
            Self::PseudoLabel { .. } => MethodName::PseudoLabel,
            Self::Fixmatch { .. } => MethodName::Fixmatch,
            Self::FixmatchDa { .. } => MethodName::FixmatchDa,
            Self::Flexmatch { .. } => MethodName::Flexmatch,
            Self::Freematch { .. } => MethodName::Freematch,
            Self::Softmatch { .. } => MethodName::Softmatch,
            Self::Sla(_) => MethodName::Sla,
        }
    }

    /// The name people read in tables; what differs from the published settings in brackets.
    #[must_use]
    pub fn title(&self) -> String {
        let threshold = |name: &str, tau: f64| match tau {
            0.95 => name.to_owned(),
            tau => format!("{name} (τ = {tau})"),
        };
        match self {
            Self::Supervised => "supervised only".to_owned(),
            Self::PseudoLabel { .. } => "pseudo-label".to_owned(),
            Self::Fixmatch { threshold: t } => threshold("FixMatch", *t),
            Self::FixmatchDa { threshold: t } => threshold("FixMatch + DA", *t),
            Self::Flexmatch { threshold: t } => threshold("FlexMatch", *t),
            Self::Freematch { fairness: 0.0, .. } => "FreeMatch".to_owned(),
            Self::Freematch { fairness, .. } => format!("FreeMatch (fairness {fairness})"),
            Self::Softmatch { .. } => "SoftMatch".to_owned(),
            Self::Sla(s) => {
                let mut notes = Vec::new();
                match &s.bounds {
                    BoundsSpec::Empirical => {}
                    BoundsSpec::None => notes.push("no bounds".to_owned()),
                    BoundsSpec::Wilson { confidence } => {
                        notes.push(format!("Wilson {:.0}%", 100.0 * confidence));
                    }
                    BoundsSpec::Given(_) => notes.push("given bounds".to_owned()),
                }
                if s.gamma != 100.0 {
                    notes.push(format!("γ = {}", s.gamma));
                }
                if s.schedule != Schedule::linear() {
                    // Constant 1 and truncation are told apart by their two ends.
                    let (from, to) = (s.schedule.at_progress(0.0), s.schedule.at_progress(1.0));
                    notes.push(format!("ρ from {from} to {to}"));
                }
                match notes.is_empty() {
                    true => "SLA".to_owned(),
                    false => format!("SLA ({})", notes.join(", ")),
                }
            }
        }
    }

    /// Makes the method for `examples` unlabeled examples, given how many labeled ones each class has.
    ///
    /// # Errors
    /// Where a setting is out of its range.
    pub fn build(&self, examples: usize, counts: &[usize]) -> Result<Box<dyn Method>, Error> {
        let k = counts.len();
        Ok(match self {
            Self::Supervised => Box::new(Supervised),
            Self::PseudoLabel { ramp } => Box::new(PseudoLabel::new(share("ramp", *ramp)?)),
            Self::Fixmatch { threshold } => {
                Box::new(FixMatch::new(share("threshold", *threshold)?))
            }
            Self::FixmatchDa { threshold } => {
                Box::new(Aligned::new(share("threshold", *threshold)?, counts)?)
            }
            Self::Flexmatch { threshold } => {
                Box::new(FlexMatch::new(share("threshold", *threshold)?, examples, k))
            }
            Self::Freematch { momentum, fairness } => {
                let momentum = share("method momentum", *momentum)?;
                Box::new(FreeMatch::new(momentum, k).fairness(share("fairness", *fairness)?))
            }
            Self::Softmatch { momentum } => {
                Box::new(SoftMatch::new(share("method momentum", *momentum)?, k))
            }
            Self::Sla(s) => {
                let allocator = LabelAllocator::options(examples, k)
                    .bounds(s.bounds.bounds(counts)?)
                    .gamma(s.gamma)
                    .tolerance(s.tolerance)
                    .build()?;
                Box::new(Sla::new(allocator, s.schedule.clone()))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_settings_survive_a_round_trip() {
        for name in MethodName::ALL {
            assert_eq!(name.name().parse(), Ok(name));
            let spec = MethodSpec::of(name);
            assert_eq!(spec.name(), name);
            let text = serde_json::to_string(&spec).unwrap_or_default();
            assert_eq!(serde_json::from_str::<MethodSpec>(&text).ok(), Some(spec));
        }
        assert!(
            "mixmatch"
                .parse::<MethodName>()
                .is_err_and(|e| e.contains("fixmatch"))
        );
    }

    #[test]
    fn bounds_are_read_as_written() {
        assert_eq!("wilson".parse(), Ok(BoundsSpec::Wilson { confidence: 0.8 }));
        assert_eq!("0.25,0.75".parse(), Ok(BoundsSpec::Given(vec![0.25, 0.75])));
        assert!("willson".parse::<BoundsSpec>().is_err());
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let spec = MethodSpec::Fixmatch { threshold: 1.5 };
        assert!(matches!(spec.build(4, &[1, 1]), Err(Error::Option { .. })));
        let spec = MethodSpec::Sla(SlaSettings {
            gamma: -1.0,
            ..SlaSettings::default()
        });
        assert!(spec.build(4, &[1, 1]).is_err());
    }
}
