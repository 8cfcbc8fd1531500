//! Initial values.
//!
//! Every tensor is drawn from its own stream, keyed by the seed and its name: adding a layer to a
//! network does not move the initial weights of the others.

use crate::fingerprint::Fingerprint;
use crate::rng::Rng;

/// How a tensor starts out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// All the same.
    Constant(f64),
    /// Independent normal numbers around zero.
    Normal {
        /// Standard deviation.
        std: f64,
    },
}

impl Init {
    /// For a convolution \[O, C, KH, KW\]: normal, σ = √(2 / (KH·KW·O)).
    ///
    /// # Examples
    /// ```
    /// use earthmover_ssl::nn::Init;
    /// assert_eq!(Init::convolution(&[8, 3, 2, 2]), Init::Normal { std: 0.25 });
    /// ```
    #[must_use]
    pub fn convolution(shape: &[usize; 4]) -> Self {
        let fan = shape[0] * shape[2] * shape[3];
        Self::Normal {
            std: (2.0 / fan.max(1) as f64).sqrt(),
        }
    }

    /// For a linear map: Xavier normal, σ = √(2 / (inputs + outputs)).
    ///
    /// # Examples
    /// ```
    /// use earthmover_ssl::nn::Init;
    /// assert_eq!(Init::linear(6, 2), Init::Normal { std: 0.5 });
    /// ```
    #[must_use]
    pub fn linear(inputs: usize, outputs: usize) -> Self {
        Self::Normal {
            std: (2.0 / (inputs + outputs).max(1) as f64).sqrt(),
        }
    }

    pub(super) fn draw(self, seed: u64, name: &str, count: usize) -> Vec<f64> {
        match self {
            Self::Constant(value) => vec![value; count],
            Self::Normal { std } => {
                let mut stream = stream(seed, name);
                (0..count).map(|_| std * stream.normal()).collect()
            }
        }
    }
}

/// The stream of a name: FNV-1a of its bytes, the same on every machine.
fn stream(seed: u64, name: &str) -> Rng {
    Rng::new(seed).fork(Fingerprint::of(name.as_bytes()).value())
}
