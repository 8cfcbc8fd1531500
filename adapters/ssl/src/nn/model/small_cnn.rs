//! A plain convolutional network for small images: 3×3 convolutions, each with batch norm and a leaky
//! rectifier, stride 2 wherever the width changes; then the mean over pixels and a linear map.

use candle_core::{DType, Device, Result, Tensor};

use super::{Classifier, Mode};
use crate::nn::error::NnError;
use crate::nn::init::Init;
use crate::nn::layers::{BatchNorm, Conv2d, Linear, average_pool};
use crate::nn::ops::Activation;
use crate::nn::store::Store;

const ACTIVATION: Activation = Activation::LeakyRelu { slope: 0.1 };
// Short runs on small data: running statistics of the paper's momentum, 0.001, would not have
// arrived by the end of one.
const MOMENTUM: f64 = 0.05;

/// A small convolutional network.
///
/// # Examples
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use earthmover_ssl::nn::{Classifier, Mode, SmallCnn};
/// // Two layers for 8 × 8 grey images: 16 channels at 8 × 8, 32 at 4 × 4.
/// let model = SmallCnn::new(&[16, 32], 1, 10, 0, DType::F32, &Device::Cpu)?;
/// let x = Tensor::zeros((2, 1, 8, 8), DType::F32, &Device::Cpu)?;
/// assert_eq!(model.forward(&x, Mode::Evaluate)?.dims(), [2, 10]);
/// # Ok::<(), earthmover_ssl::nn::NnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SmallCnn {
    store: Store,
    layers: Vec<(Conv2d, BatchNorm)>,
    head: Linear,
    classes: usize,
}

impl SmallCnn {
    /// One convolution per entry of `widths`, for images of `channels` of any size.
    ///
    /// # Errors
    /// If there is no layer, a number is zero, or the device fails.
    pub fn new(
        widths: &[usize],
        channels: usize,
        classes: usize,
        seed: u64,
        dtype: DType,
        device: &Device,
    ) -> std::result::Result<Self, NnError> {
        let network = "small CNN";
        let rule = "at least 1";
        let sizes = widths.iter().map(|&w| ("a width", w));
        let sizes = sizes.chain([
            ("the number of layers", widths.len()),
            ("the number of channels", channels),
            ("the number of classes", classes),
        ]);
        for (what, value) in sizes {
            if value == 0 {
                return Err(NnError::Architecture {
                    network,
                    what,
                    value,
                    rule,
                });
            }
        }
        let mut store = Store::new(seed, dtype, device);
        let mut layers = Vec::with_capacity(widths.len());
        let mut inputs = channels;
        for (i, &outputs) in widths.iter().enumerate() {
            let stride = if i > 0 && outputs != inputs { 2 } else { 1 };
            let conv = Conv2d::new(
                &mut store,
                &format!("conv{}", i + 1),
                inputs,
                outputs,
                3,
                stride,
            )?;
            let name = format!("norm{}", i + 1);
            let norm = BatchNorm::new(&mut store, &name, outputs, MOMENTUM, ACTIVATION)?;
            layers.push((conv, norm));
            inputs = outputs;
        }
        let init = Init::linear(inputs, classes);
        let head = Linear::new(&mut store, "head", inputs, classes, init)?;
        Ok(Self {
            store,
            layers,
            head,
            classes,
        })
    }
}

impl Classifier for SmallCnn {
    fn forward(&self, x: &Tensor, mode: Mode) -> Result<Tensor> {
        let mut x = x.clone();
        for (conv, norm) in &self.layers {
            x = norm.forward(&conv.forward(&x)?, mode)?;
        }
        self.head.forward(&average_pool(&x)?)
    }

    fn store(&self) -> &Store {
        &self.store
    }

    fn classes(&self) -> usize {
        self.classes
    }
}
