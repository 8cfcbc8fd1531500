//! Networks by name: `mlp-128-128`, `cnn-16-32`, `wrn-28-2`.

use std::fmt;
use std::str::FromStr;

use candle_core::{DType, Device};
use serde::{Deserialize, Serialize};

use crate::data::Shape;
use crate::nn::{Classifier, Mlp, NnError, SmallCnn, WideResNet};

/// A network and its sizes.
///
/// # Examples
/// ```
/// use earthmover_ssl::trainer::ModelSpec;
/// assert_eq!("wrn-28-2".parse(), Ok(ModelSpec::WideResNet { depth: 28, width: 2 }));
/// assert_eq!(ModelSpec::Cnn(vec![16, 32]).to_string(), "cnn-16-32");
/// assert!("vgg".parse::<ModelSpec>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ModelSpec {
    /// A perceptron with these hidden widths.
    Mlp(Vec<usize>),
    /// A plain convolutional network with these widths.
    Cnn(Vec<usize>),
    /// A wide residual network.
    WideResNet {
        /// 6n + 4.
        depth: usize,
        /// Widening factor.
        width: usize,
    },
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, widths: &[usize]| {
            widths.iter().try_for_each(|w| write!(f, "-{w}"))
        };
        match self {
            Self::Mlp(widths) => f.write_str("mlp").and_then(|()| list(f, widths)),
            Self::Cnn(widths) => f.write_str("cnn").and_then(|()| list(f, widths)),
            Self::WideResNet { depth, width } => write!(f, "wrn-{depth}-{width}"),
        }
    }
}

impl From<ModelSpec> for String {
    fn from(spec: ModelSpec) -> Self {
        spec.to_string()
    }
}

impl TryFrom<String> for ModelSpec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for ModelSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown =
            || format!("unknown model `{text}`: choose e.g. mlp-128-128, cnn-16-32 or wrn-28-2");
        let mut parts = text.split('-');
        let kind = parts.next().unwrap_or_default();
        let sizes: Vec<usize> = parts
            .map(|p| p.parse().map_err(|_| unknown()))
            .collect::<Result<_, _>>()?;
        match (kind, sizes.as_slice()) {
            ("mlp", _) => Ok(Self::Mlp(sizes)),
            ("cnn", [_, ..]) => Ok(Self::Cnn(sizes)),
            ("wrn", &[depth, width]) => Ok(Self::WideResNet { depth, width }),
            _ => Err(unknown()),
        }
    }
}

impl ModelSpec {
    /// Numbers that the network learns, counted before it is built: one that no machine could hold is to be refused, not tried.
    pub(crate) fn parameters(&self, shape: Shape, classes: usize) -> u64 {
        let product = |sides: &[usize]| {
            let sides = sides.iter().map(|&s| s as u64);
            sides.fold(1, u64::saturating_mul)
        };
        let linear = |from, to| product(&[from, to]).saturating_add(to as u64);
        let convolution = |from, to| product(&[9, from, to]);
        let mut from = shape.channels();
        let mut count = 0u64;
        let mut add = |more: u64| count = count.saturating_add(more);
        match self {
            Self::Mlp(widths) => {
                from = shape.size();
                for &to in widths {
                    add(linear(from, to));
                    from = to;
                }
            }
            Self::Cnn(widths) => {
                for &to in widths {
                    add(convolution(from, to));
                    add(product(&[2, to]));
                    from = to;
                }
            }
            Self::WideResNet { depth, width } => {
                add(convolution(from, 16));
                from = 16;
                for group in [16, 32, 64] {
                    let to = width.saturating_mul(group);
                    for _ in 0..depth.saturating_sub(4) / 6 {
                        add(product(&[2, from]));
                        add(convolution(from, to));
                        add(product(&[2, to]));
                        add(convolution(to, to));
                        if from != to {
                            add(product(&[from, to]));
                        }
                        from = to;
                    }
                }
                add(product(&[2, from]));
            }
        }
        add(linear(from, classes));
        count
    }

    /// Builds the network for examples of a shape, its weights drawn from `seed`.
    ///
    /// # Errors
    /// If a size is impossible, a network for images is asked for rows of features, or the device fails.
    pub fn build(
        &self,
        shape: Shape,
        classes: usize,
        seed: u64,
        device: &Device,
    ) -> Result<Box<dyn Classifier>, NnError> {
        let channels = match (self, shape) {
            (Self::Mlp(_), _) => 0,
            (_, Shape::Image { channels, .. }) => channels,
            (_, Shape::Table { features }) => {
                return Err(NnError::Architecture {
                    network: "convolutional network",
                    what: "the input, a row of features,",
                    value: features,
                    rule: "an image (use mlp-… for rows)",
                });
            }
        };
        let dtype = DType::F32;
        Ok(match self {
            Self::Mlp(widths) => {
                let inputs = shape.size();
                Box::new(Mlp::new(inputs, widths, classes, seed, dtype, device)?)
            }
            Self::Cnn(widths) => Box::new(SmallCnn::new(
                widths, channels, classes, seed, dtype, device,
            )?),
            Self::WideResNet { depth, width } => Box::new(WideResNet::new(
                *depth, *width, channels, classes, seed, dtype, device,
            )?),
        })
    }
}
