//! A multilayer perceptron for tables and embeddings: linear maps with leaky rectifiers between.

use candle_core::{DType, Device, Result, Tensor};

use super::{Classifier, Mode};
use crate::nn::error::NnError;
use crate::nn::init::Init;
use crate::nn::layers::{Linear, leaky_relu};
use crate::nn::store::Store;

/// A multilayer perceptron.
///
/// # Examples
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use earthmover_ssl::nn::{Classifier, Mlp, Mode};
/// let model = Mlp::new(64, &[128, 128], 10, 0, DType::F32, &Device::Cpu)?;
/// let x = Tensor::zeros((2, 1, 8, 8), DType::F32, &Device::Cpu)?; // flattened on the way in
/// assert_eq!(model.forward(&x, Mode::Evaluate)?.dims(), [2, 10]);
/// # Ok::<(), earthmover_ssl::nn::NnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mlp {
    store: Store,
    hidden: Vec<Linear>,
    head: Linear,
    classes: usize,
}

impl Mlp {
    /// One hidden layer per entry of `widths`; none makes it logistic regression.
    ///
    /// # Errors
    /// If a number is zero or the device fails.
    pub fn new(
        inputs: usize,
        widths: &[usize],
        classes: usize,
        seed: u64,
        dtype: DType,
        device: &Device,
    ) -> std::result::Result<Self, NnError> {
        let sizes = widths.iter().map(|&w| ("a width", w));
        for (what, value) in sizes.chain([
            ("the number of inputs", inputs),
            ("the number of classes", classes),
        ]) {
            if value == 0 {
                return Err(NnError::Architecture {
                    network: "perceptron",
                    what,
                    value,
                    rule: "at least 1",
                });
            }
        }
        let mut store = Store::new(seed, dtype, device);
        let mut hidden = Vec::with_capacity(widths.len());
        let mut from = inputs;
        for (i, &to) in widths.iter().enumerate() {
            // A rectifier halves the second moment, hence 2 / inputs.
            let init = Init::Normal {
                std: (2.0 / from as f64).sqrt(),
            };
            let name = format!("hidden{}", i + 1);
            hidden.push(Linear::new(&mut store, &name, from, to, init)?);
            from = to;
        }
        let head = Linear::new(
            &mut store,
            "head",
            from,
            classes,
            Init::linear(from, classes),
        )?;
        Ok(Self {
            store,
            hidden,
            head,
            classes,
        })
    }
}

impl Classifier for Mlp {
    fn forward(&self, x: &Tensor, _: Mode) -> Result<Tensor> {
        let mut x = x.flatten_from(1)?;
        for layer in &self.hidden {
            x = leaky_relu(&layer.forward(&x)?, 0.1)?;
        }
        self.head.forward(&x)
    }

    fn store(&self) -> &Store {
        &self.store
    }

    fn classes(&self) -> usize {
        self.classes
    }
}
