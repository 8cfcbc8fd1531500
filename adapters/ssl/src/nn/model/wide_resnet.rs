//! Wide residual networks of depth 6n + 4 and width k (Zagoruyko and Komodakis, 2016).
//!
//! ```text
//! 3×3 stem to 16 channels; three groups of n blocks of 16k, 32k, 64k channels, the second and third
//! opening with stride 2; batch norm, activation, mean over pixels, linear
//! block(x) = shortcut(x) + conv(φ(bn(conv(φ(bn(x))))))
//! ```
//!
//! φ is a leaky rectifier of slope 0.1. The shortcut is a 1×1 convolution where the width changes.
//! In the very first block it starts from φ(bn(x)) rather than from x.

use candle_core::{DType, Device, Result, Tensor};

use super::{Classifier, Mode};
use crate::nn::error::NnError;
use crate::nn::init::Init;
use crate::nn::layers::{BatchNorm, Conv2d, Linear, average_pool};
use crate::nn::ops::Activation;
use crate::nn::store::Store;

const ACTIVATION: Activation = Activation::LeakyRelu { slope: 0.1 };
const MOMENTUM: f64 = 0.001;

/// A wide residual network.
///
/// # Examples
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use earthmover_ssl::nn::{Classifier, Mode, WideResNet};
/// let model = WideResNet::new(10, 1, 3, 10, 0, DType::F32, &Device::Cpu)?;
/// let x = Tensor::zeros((2, 3, 8, 8), DType::F32, &Device::Cpu)?;
/// assert_eq!(model.forward(&x, Mode::Evaluate)?.dims(), [2, 10]);
/// # Ok::<(), earthmover_ssl::nn::NnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct WideResNet {
    store: Store,
    stem: Conv2d,
    blocks: Vec<Block>,
    norm: BatchNorm,
    head: Linear,
    classes: usize,
}

#[derive(Clone, Debug)]
struct Block {
    norms: [BatchNorm; 2],
    convs: [Conv2d; 2],
    shortcut: Option<Conv2d>,
    activates_first: bool,
}

impl WideResNet {
    /// A network of `depth` (6n + 4: 10, 16, 22, 28, …) and `width` (2 for CIFAR-10, 8 for CIFAR-100)
    /// for images of `channels`, with initial weights drawn from `seed`.
    ///
    /// # Errors
    /// If the depth is not of that form, another number is zero, or the device fails.
    pub fn new(
        depth: usize,
        width: usize,
        channels: usize,
        classes: usize,
        seed: u64,
        dtype: DType,
        device: &Device,
    ) -> std::result::Result<Self, NnError> {
        let network = "wide ResNet";
        if depth < 10 || depth % 6 != 4 {
            return Err(NnError::Architecture {
                network,
                what: "the depth",
                value: depth,
                rule: "6n + 4 with n ≥ 1",
            });
        }
        for (what, value) in [
            ("the width", width),
            ("the number of channels", channels),
            ("the number of classes", classes),
        ] {
            if value == 0 {
                return Err(NnError::Architecture {
                    network,
                    what,
                    value,
                    rule: "at least 1",
                });
            }
        }
        let mut store = Store::new(seed, dtype, device);
        let stem = Conv2d::new(&mut store, "stem", channels, 16, 3, 1)?;
        let mut blocks = Vec::new();
        let mut inputs = 16;
        for group in 0..3 {
            for index in 0..(depth - 4) / 6 {
                let outputs = (16 * width) << group;
                let stride = if group > 0 && index == 0 { 2 } else { 1 };
                let name = format!("group{}.block{}", group + 1, index + 1);
                blocks.push(Block::new(
                    &mut store,
                    &name,
                    inputs,
                    outputs,
                    stride,
                    group == 0 && index == 0,
                )?);
                inputs = outputs;
            }
        }
        let norm = BatchNorm::new(&mut store, "norm", inputs, MOMENTUM, ACTIVATION)?;
        let head = Linear::new(
            &mut store,
            "head",
            inputs,
            classes,
            Init::linear(inputs, classes),
        )?;
        Ok(Self {
            store,
            stem,
            blocks,
            norm,
            head,
            classes,
        })
    }
}

impl Block {
    fn new(
        store: &mut Store,
        name: &str,
        inputs: usize,
        outputs: usize,
        stride: usize,
        activates_first: bool,
    ) -> std::result::Result<Self, NnError> {
        let part = |p: &str| format!("{name}.{p}");
        let norm1 = BatchNorm::new(store, &part("norm1"), inputs, MOMENTUM, ACTIVATION)?;
        let conv1 = Conv2d::new(store, &part("conv1"), inputs, outputs, 3, stride)?;
        let norm2 = BatchNorm::new(store, &part("norm2"), outputs, MOMENTUM, ACTIVATION)?;
        let conv2 = Conv2d::new(store, &part("conv2"), outputs, outputs, 3, 1)?;
        let shortcut = if inputs == outputs && stride == 1 {
            None
        } else {
            let name = part("shortcut");
            Some(Conv2d::new(store, &name, inputs, outputs, 1, stride)?)
        };
        Ok(Self {
            norms: [norm1, norm2],
            convs: [conv1, conv2],
            shortcut,
            activates_first,
        })
    }

    fn forward(&self, x: &Tensor, mode: Mode) -> Result<Tensor> {
        let active = self.norms[0].forward(x, mode)?;
        let straight = if self.activates_first { &active } else { x };
        let straight = match &self.shortcut {
            Some(conv) => conv.forward(straight)?,
            None => straight.clone(),
        };
        let inner = self.convs[0].forward(&active)?;
        let inner = self.norms[1].forward(&inner, mode)?;
        straight + self.convs[1].forward(&inner)?
    }
}

impl Classifier for WideResNet {
    fn forward(&self, x: &Tensor, mode: Mode) -> Result<Tensor> {
        let mut x = self.stem.forward(x)?;
        for block in &self.blocks {
            x = block.forward(&x, mode)?;
        }
        let x = self.norm.forward(&x, mode)?;
        self.head.forward(&average_pool(&x)?)
    }

    fn store(&self) -> &Store {
        &self.store
    }

    fn classes(&self) -> usize {
        self.classes
    }
}
