//! Layers near the input learn slower: η_l = η · d^(L − l) for layers l = 1 … L in the order they were built.
//!
//! For networks that start from weights learned elsewhere, whose first layers are good already.

use std::collections::HashMap;

use crate::nn::store::Parameter;

/// Factors of the learning rate by parameter.
///
/// # Examples
/// ```
/// use candle_core::{DType, Device};
/// use earthmover_ssl::nn::{Classifier, Mlp};
/// use earthmover_ssl::nn::optim::LayerDecay;
/// let model = Mlp::new(4, &[8], 2, 0, DType::F32, &Device::Cpu)?;
/// let decay = LayerDecay::new(0.5, model.parameters());
/// let factor = |name: &str| {
///     let found = model.parameters().iter().find(|p| p.name == name);
///     found.map(|p| decay.factor(p))
/// };
/// assert_eq!(factor("head.weight"), Some(1.0));
/// assert_eq!(factor("hidden1.weight"), Some(0.5));
/// # Ok::<(), earthmover_ssl::nn::NnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LayerDecay {
    factors: HashMap<String, f64>,
}

fn layer(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(layer, _)| layer)
}

impl LayerDecay {
    /// Factors for a network whose layers each learn `decay` times as fast as the next.
    #[must_use]
    pub fn new(decay: f64, parameters: &[Parameter]) -> Self {
        let mut order: Vec<(usize, &str)> = Vec::new();
        for p in parameters {
            match order.iter_mut().find(|(_, l)| *l == layer(&p.name)) {
                Some((first, _)) => *first = p.made.min(*first),
                None => order.push((p.made, layer(&p.name))),
            }
        }
        order.sort_unstable();
        let last = order.len().saturating_sub(1);
        let factors = order
            .iter()
            .enumerate()
            .map(|(l, (_, name))| ((*name).to_owned(), decay.powf((last - l) as f64)));
        Self {
            factors: factors.collect(),
        }
    }

    /// The factor of a parameter; 1 for one that is not of the network.
    #[must_use]
    pub fn factor(&self, parameter: &Parameter) -> f64 {
        let found = self.factors.get(layer(&parameter.name));
        found.copied().unwrap_or(1.0)
    }
}
