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
