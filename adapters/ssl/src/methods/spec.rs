//! Methods as settings: what a run's file stores and a command line names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{
    AdaMatch, Aligned, FixMatch, FlexMatch, FreeMatch, Method, PseudoLabel, Sla, SoftMatch,
    Supervised, Uda,
};
use crate::Error;
use crate::allocation::{AllocationSolver, Bounds, LabelAllocator, Schedule, share};

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
    /// Sharpened predictions.
    Uda,
    /// Alignment and a relative threshold.
    Adamatch,
    /// Sinkhorn label allocation.
    Sla,
}

impl MethodName {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Supervised,
        Self::PseudoLabel,
        Self::Fixmatch,
        Self::FixmatchDa,
        Self::Flexmatch,
        Self::Freematch,
        Self::Softmatch,
        Self::Uda,
        Self::Adamatch,
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
            Self::Uda => "uda",
            Self::Adamatch => "adamatch",
            Self::Sla => "sla",
        }
    }

    /// What can be set of it; see [`MethodSpec::set`].
    ///
    /// # Examples
    /// ```
    /// use earthmover_ssl::methods::MethodName;
    /// assert_eq!(MethodName::Fixmatch.settings(), ["threshold"]);
    /// ```
    #[must_use]
    pub fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Supervised => &[],
            Self::PseudoLabel => &["ramp"],
            Self::Fixmatch | Self::FixmatchDa | Self::Flexmatch => &["threshold"],
            Self::Freematch => &["momentum", "fairness"],
            Self::Softmatch => &["momentum"],
            Self::Uda => &["threshold", "temperature"],
            Self::Adamatch => &["threshold", "momentum"],
            Self::Sla => &["gamma", "tolerance", "schedule", "bounds", "solver"],
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
    /// The class shares of the unlabeled examples themselves, where all of their labels are known: an experiment with a prior
    /// that is right.
    Known,
    /// These shares.
    Given(Vec<f64>),
}

impl BoundsSpec {
    /// The bounds, given labeled examples per class and, where it is known, unlabeled ones.
    ///
    /// # Errors
    /// Where there is nothing to estimate shares from, or a share is out of range.
    pub fn bounds(&self, counts: &[usize], population: Option<&[usize]>) -> Result<Bounds, Error> {
        match self {
            Self::Known => Bounds::empirical(population.ok_or(Error::NoCounts)?),
            Self::None => Ok(Bounds::none(counts.len())),
            Self::Empirical => Bounds::empirical(counts),
            Self::Wilson { confidence } => Bounds::wilson(counts, *confidence),
            Self::Given(upper) => Bounds::given(upper),
        }
    }
}

impl FromStr for BoundsSpec {
    type Err = String;

    /// `none`, `empirical`, `wilson`, `wilson:0.8`, `known`, or shares `0.2,0.5,0.3`.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |s: &str| {
            s.trim().parse::<f64>().map_err(|_| {
                format!(
                    "unknown bounds `{text}`: none, empirical, wilson:0.8, known or shares 0.2,0.8"
                )
            })
        };
        match text.split_once(':').unwrap_or((text, "")) {
            ("none", "") => Ok(Self::None),
            ("empirical", "") => Ok(Self::Empirical),
            ("known", "") => Ok(Self::Known),
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
    /// What solves the allocation.
    #[serde(default, skip_serializing_if = "AllocationSolver::is_newton")]
    pub solver: AllocationSolver,
}

impl Default for SlaSettings {
    /// The paper's.
    fn default() -> Self {
        Self {
            gamma: 100.0,
            tolerance: 0.01,
            schedule: Schedule::linear(),
            bounds: BoundsSpec::Empirical,
            solver: AllocationSolver::Newton,
        }
    }
}

impl SlaSettings {
    /// What differs from the paper's.
    fn notes(&self, note: &mut dyn FnMut(String, bool)) {
        let usual = Self::default();
        let bounds = match &self.bounds {
            BoundsSpec::Empirical => "empirical".to_owned(),
            BoundsSpec::None => "no bounds".to_owned(),
            BoundsSpec::Known => "known shares".to_owned(),
            BoundsSpec::Wilson { confidence } => {
                // Percent, with as many digits as were given.
                let percent = format!("{:.6}", 100.0 * confidence);
                format!(
                    "Wilson {}%",
                    percent.trim_end_matches('0').trim_end_matches('.')
                )
            }
            BoundsSpec::Given(upper) => {
                let shares: Vec<String> = upper.iter().map(f64::to_string).collect();
                format!("bounds {}", shares.join(" "))
            }
        };
        note(bounds, self.bounds != usual.bounds);
        note(format!("γ = {}", self.gamma), self.gamma != usual.gamma);
        note(
            format!("tolerance {}", self.tolerance),
            self.tolerance != usual.tolerance,
        );
        note(
            format!("ρ {}", self.schedule),
            self.schedule != usual.schedule,
        );
        note("Sinkhorn".to_owned(), self.solver != usual.solver);
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
    /// [`Uda`].
    Uda {
        /// τ.
        threshold: f64,
        /// T.
        temperature: f64,
    },
    /// [`AdaMatch`].
    Adamatch {
        /// τ, relative to the labeled confidence.
        threshold: f64,
        /// Momentum of the averages.
        momentum: f64,
    },
    /// [`Sla`].
    Sla(SlaSettings),
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// A schedule as written: `linear`, `constant:1`, `truncated:0.8`, `cosine:0:1`, or `piecewise:0:1:0.5:1:1:0.85`, knots of a fraction of
/// training and a share each: here everything for the first half, then ever more abstention.
fn schedule(text: &str) -> Result<Schedule, String> {
    let mut parts = text.split(':');
    let kind = parts.next().unwrap_or_default();
    let wrong = || {
        format!(
            "unknown schedule `{text}`: linear, constant:1, truncated:0.8, cosine:0:1 or piecewise:0:1:0.5:1:1:0.85 (knots of progress and share)"
        )
    };
    let numbers: Vec<f64> = parts
        .map(|p| p.parse().map_err(|_| wrong()))
        .collect::<Result<_, _>>()?;
    match (kind, numbers.as_slice()) {
        ("linear", []) => Ok(Schedule::linear()),
        ("constant", [rho]) => Schedule::constant(*rho).map_err(|e| e.to_string()),
        ("truncated", [cap]) => Schedule::truncated(*cap).map_err(|e| e.to_string()),
        ("cosine", [from, to]) => Schedule::cosine(*from, *to).map_err(|e| e.to_string()),
        ("piecewise", knots) if !knots.is_empty() && knots.len().is_multiple_of(2) => {
            let knots = knots.chunks_exact(2).map(|k| (k[0], k[1])).collect();
            Schedule::piecewise(knots).map_err(|e| e.to_string())
        }
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
    /// Changes one setting: `gamma`, `tolerance`, `schedule`, `bounds`, `solver` of SLA, `threshold` of the methods
    /// that have one, `temperature` of UDA, `ramp` of pseudo-labelling, `momentum` of the moving averages,
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
            (Self::Sla(s), "solver") => s.solver = value.parse()?,
            (
                Self::Fixmatch { threshold }
                | Self::FixmatchDa { threshold }
                | Self::Flexmatch { threshold }
                | Self::Uda { threshold, .. }
                | Self::Adamatch { threshold, .. },
                "threshold",
            ) => *threshold = number()?,
            (Self::Uda { temperature, .. }, "temperature") => *temperature = number()?,
            (Self::Adamatch { momentum, .. }, "momentum") => *momentum = number()?,
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
            MethodName::Uda => Self::Uda {
                threshold: 0.8,
                temperature: 0.4,
            },
            MethodName::Adamatch => Self::Adamatch {
                threshold: 0.9,
                momentum,
            },
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
            Self::Uda { .. } => MethodName::Uda,
            Self::Adamatch { .. } => MethodName::Adamatch,
            Self::Sla(_) => MethodName::Sla,
        }
    }

    /// The name people read in tables; all that differs from the published settings in brackets, so that two different
    /// methods have two names.
    #[must_use]
    pub fn title(&self) -> String {
        let usual = Self::of(self.name());
        let mut notes = Vec::new();
        let mut note = |text: String, differs: bool| {
            if differs {
                notes.push(text);
            }
        };
        let name = match (self, &usual) {
            (Self::Supervised, _) => "supervised only",
            (Self::PseudoLabel { ramp }, Self::PseudoLabel { ramp: r }) => {
                note(format!("ramp {ramp}"), ramp != r);
                "pseudo-label"
            }
            (Self::Fixmatch { threshold: t }, Self::Fixmatch { threshold: u }) => {
                note(format!("τ = {t}"), t != u);
                "FixMatch"
            }
            (Self::FixmatchDa { threshold: t }, Self::FixmatchDa { threshold: u }) => {
                note(format!("τ = {t}"), t != u);
                "FixMatch + DA"
            }
            (Self::Flexmatch { threshold: t }, Self::Flexmatch { threshold: u }) => {
                note(format!("τ = {t}"), t != u);
                "FlexMatch"
            }
            (
                Self::Freematch { momentum, fairness },
                Self::Freematch {
                    momentum: m,
                    fairness: f,
                },
            ) => {
                note(format!("momentum {momentum}"), momentum != m);
                note(format!("fairness {fairness}"), fairness != f);
                "FreeMatch"
            }
            (Self::Softmatch { momentum }, Self::Softmatch { momentum: m }) => {
                note(format!("momentum {momentum}"), momentum != m);
                "SoftMatch"
            }
            (
                Self::Uda {
                    threshold,
                    temperature,
                },
                Self::Uda {
                    threshold: u,
                    temperature: t,
                },
            ) => {
                note(format!("τ = {threshold}"), threshold != u);
                note(format!("T = {temperature}"), temperature != t);
                "UDA"
            }
            (
                Self::Adamatch {
                    threshold,
                    momentum,
                },
                Self::Adamatch {
                    threshold: u,
                    momentum: m,
                },
            ) => {
                note(format!("τ = {threshold}"), threshold != u);
                note(format!("momentum {momentum}"), momentum != m);
                "AdaMatch"
            }
            (Self::Sla(s), _) => {
                s.notes(&mut note);
                "SLA"
            }
            _ => self.name().name(),
        };
        match notes.is_empty() {
            true => name.to_owned(),
            false => format!("{name} ({})", notes.join(", ")),
        }
    }

    /// Makes the method for `examples` unlabeled examples, given how many labeled ones each class has.
    ///
    /// # Errors
    /// Where a setting is out of its range.
    pub fn build(&self, examples: usize, counts: &[usize]) -> Result<Box<dyn Method>, Error> {
        self.build_knowing(examples, counts, None)
    }

    /// [`MethodSpec::build`] where it is known how many unlabeled examples each class has; only [`BoundsSpec::Known`] looks at it.
    ///
    /// # Errors
    /// As [`MethodSpec::build`].
    pub fn build_knowing(
        &self,
        examples: usize,
        counts: &[usize],
        population: Option<&[usize]>,
    ) -> Result<Box<dyn Method>, Error> {
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
            Self::Uda {
                threshold,
                temperature,
            } => {
                if !(temperature.is_finite() && *temperature > 0.0) {
                    return Err(Error::Option {
                        name: "temperature",
                        value: *temperature,
                        expected: "a positive number",
                    });
                }
                Box::new(Uda::new(share("threshold", *threshold)?, *temperature))
            }
            Self::Adamatch {
                threshold,
                momentum,
            } => Box::new(AdaMatch::new(
                share("threshold", *threshold)?,
                share("method momentum", *momentum)?,
                k,
            )),
            Self::Sla(s) => {
                let allocator = LabelAllocator::options(examples, k)
                    .bounds(s.bounds.bounds(counts, population)?)
                    .gamma(s.gamma)
                    .tolerance(s.tolerance)
                    .solver(s.solver)
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
    fn different_methods_have_different_titles() {
        let texts = [
            "sla",
            "sla tolerance=0.9",
            "sla tolerance=0.001",
            "sla bounds=none",
            "sla bounds=wilson:0.8",
            "sla bounds=wilson:0.804",
            "sla bounds=0.2,0.8",
            "sla bounds=0.8,0.2",
            "sla schedule=truncated:0.8",
            "sla schedule=cosine:0:0.8",
            "sla schedule=constant:1",
            "sla schedule=piecewise:0:1:0.5:1:1:0.85",
            "sla schedule=piecewise:0:1:1:0.85",
            "sla solver=sinkhorn",
            "sla bounds=known",
            "pseudo-label",
            "pseudo-label ramp=0.1",
            "freematch momentum=0.9",
            "softmatch momentum=0.9",
            "softmatch",
            "uda",
            "uda temperature=1",
            "adamatch",
            "adamatch threshold=0.5",
            "fixmatch threshold=0.5",
        ];
        let titles: std::collections::HashSet<String> = texts
            .iter()
            .filter_map(|t| t.parse::<MethodSpec>().ok())
            .map(|m| m.title())
            .collect();
        assert_eq!(titles.len(), texts.len(), "{titles:?}");
    }

    #[test]
    fn every_setting_that_is_named_can_be_set() {
        for name in MethodName::ALL {
            for key in name.settings() {
                let value = match *key {
                    "schedule" => "linear",
                    "bounds" => "none",
                    "solver" => "sinkhorn",
                    _ => "0.5",
                };
                assert_eq!(MethodSpec::of(name).set(key, value), Ok(()), "{name} {key}");
            }
            assert!(MethodSpec::of(name).set("nothing", "1").is_err());
        }
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
