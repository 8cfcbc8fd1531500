//! Two-dimensional convolution (as networks call the correlation), square stride, zero padding:
//!
//! ```text
//! Y[n, o, i, j]  = Σ_{c,kh,kw} W[o, c, kh, kw] · X[n, c, s·i + kh − pad, s·j + kw − pad]
//! dX = the correlation of dY with W transposed and turned by 180°
//! dW[o, c, kh, kw] = Σ_{n,i,j} dY[n, o, i, j] · X[n, c, s·i + kh − pad, s·j + kw − pad]
//! ```
//!
//! On the CPU all three are register-tiled products over padded copies of one image at a time
//! ([`planes`](super::planes), [`tile`](super::tile)), parallel over images; the weight gradient is
//! summed within chunks of images that depend on the shapes only, and the chunks in order, so that
//! results are bit for bit the same for any number of threads. Elsewhere the forward pass is
//! candle's own and the backward pass is written in tensor operations
//! ([`conv2d_by_tensor_ops`]); on the CPU that version is the oracle of the fast one.

use candle_core::{
    CpuStorage, CustomOp2, DType, Layout, Result, Shape as Dims, Storage, Tensor, bail,
};
use rayon::prelude::*;

use super::attach::attach;
use super::planes::{Backward, Forward, Shape};
use super::tile::{Height, Packed, Tiles};

/// Stride and zero padding of a convolution, the same for rows and columns.
///
/// # Examples
/// ```
/// use earthmover_candle::ops::Conv2dParams;
/// let same = Conv2dParams::new().padding(1); // keeps the size of an image under a 3 × 3 kernel
/// assert_eq!((same.stride, same.padding), (1, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dParams {
    /// Step between output pixels (default 1).
    pub stride: usize,
    /// Zeros put around the image (default 0).
    pub padding: usize,
}

impl Default for Conv2dParams {
    fn default() -> Self {
        Self::new()
    }
}

impl Conv2dParams {
    /// Stride 1, no padding.
    #[must_use]
    pub fn new() -> Self {
        Self {
            stride: 1,
            padding: 0,
        }
    }
    /// Sets the stride.
    #[must_use]
    pub fn stride(mut self, stride: usize) -> Self {
        self.stride = stride;
        self
    }
    /// Sets the zero padding.
    #[must_use]
    pub fn padding(mut self, padding: usize) -> Self {
        self.padding = padding;
        self
    }

    fn shape(self, x: &[usize], w: &[usize]) -> Result<Shape> {
        let (&[batch, inputs, height, width], &[outputs, channels, kh, kw]) = (x, w) else {
            bail!(
                "conv2d takes an image batch [N, C, H, W] and a kernel [O, C, KH, KW], got {x:?} and {w:?}"
            )
        };
        let Self { stride, padding } = self;
        if channels != inputs {
            bail!("conv2d: the image has {inputs} channels, the kernel {channels}")
        }
        if stride == 0 || kh == 0 || kw == 0 || height == 0 || width == 0 {
            bail!(
                "conv2d: stride {stride}, kernel {kh}×{kw} and image {height}×{width} must not be zero"
            )
        }
        let padded = (height + 2 * padding, width + 2 * padding);
        if padded.0 < kh || padded.1 < kw {
            bail!(
                "conv2d: a kernel of {kh}×{kw} does not fit an image of {}×{} (padding included)",
                padded.0,
                padded.1
            )
        }
        let out = ((padded.0 - kh) / stride + 1, (padded.1 - kw) / stride + 1);
        let largest = inputs.max(outputs) * (padded.0 + kh) * (padded.1 + kw);
        if largest > u32::MAX as usize / 4 {
            bail!("conv2d: {largest} elements per image are more than this kernel can address")
        }
        Ok(Shape {
            batch,
            inputs,
            outputs,
            image: (height, width),
            kernel: (kh, kw),
            out,
            stride,
            padding,
        })
    }
}

/// Convolution of `x` \[N, C, H, W\] with the kernel `w` \[O, C, KH, KW\], by the fastest way the
/// device has. Differentiable in both arguments.
///
/// # Errors
/// If the shapes do not fit one another, or the device fails.
///
/// # Examples
/// ```
/// use candle_core::{Device, Tensor};
/// use earthmover_candle::ops::{Conv2dParams, conv2d};
/// let x = Tensor::ones((1, 1, 3, 3), candle_core::DType::F32, &Device::Cpu)?;
/// let w = Tensor::ones((1, 1, 2, 2), candle_core::DType::F32, &Device::Cpu)?;
/// let y = conv2d(&x, &w, Conv2dParams::new())?;
/// assert_eq!(y.flatten_all()?.to_vec1::<f32>()?, [4.0, 4.0, 4.0, 4.0]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn conv2d(x: &Tensor, w: &Tensor, params: Conv2dParams) -> Result<Tensor> {
    let fast = x.device().is_cpu() && matches!(x.dtype(), DType::F32 | DType::F64);
    if !fast {
        return conv2d_by_tensor_ops(x, w, params);
    }
    if x.dtype() != w.dtype() {
        bail!(
            "conv2d: the image is {:?}, the kernel {:?}",
            x.dtype(),
            w.dtype()
        )
    }
    let shape = params.shape(x.dims(), w.dims())?;
    x.contiguous()?.apply_op2(&w.contiguous()?, Tiled { shape })
}

/// The same convolution from candle's forward pass and a backward pass in tensor operations: what
/// runs on CUDA and Metal.
///
/// # Errors
/// If the shapes do not fit one another, or the device fails.
pub fn conv2d_by_tensor_ops(x: &Tensor, w: &Tensor, params: Conv2dParams) -> Result<Tensor> {
    let shape = params.shape(x.dims(), w.dims())?;
    let (x, w) = (x.contiguous()?, w.contiguous()?);
    let y = x
        .detach()
        .conv2d(&w.detach(), params.padding, params.stride, 1, 1)?;
    let backward = move |[x, w, _]: [&Tensor; 3], grad: &Tensor| {
        let grad = grad.contiguous()?;
        let dx = match x.track_op() {
            true => Some(input_gradient(&shape, w, &grad)?),
            false => None,
        };
        let dw = match w.track_op() {
            true => Some(weight_gradient(&shape, x, &grad)?),
            false => None,
        };
        Ok((dx, dw, None))
    };
    attach("conv2d", y, [&x, &w, &w], backward)
}

fn input_gradient(shape: &Shape, w: &Tensor, grad: &Tensor) -> Result<Tensor> {
    let w = w.detach();
    let turned = |dim: usize| -> Result<Tensor> {
        let size = w.dim(dim)? as u32;
        Tensor::from_iter((0..size).rev(), w.device())
    };
    let kernel = w
        .index_select(&turned(2)?, 2)?
        .index_select(&turned(3)?, 3)?
        .transpose(0, 1)?
        .contiguous()?;
    let s = shape.stride;
    let (n, o) = (shape.batch, shape.outputs);
    let (h, wd) = shape.out;
    let spread = if s == 1 {
        grad.clone()
    } else {
        grad.reshape((n, o, h, 1, wd, 1))?
            .pad_with_zeros(3, 0, s - 1)?
            .pad_with_zeros(5, 0, s - 1)?
            .reshape((n, o, h * s, wd * s))?
    };
    // Row u of the padded image meets rows u − kh of the spread gradient: frame it so that a plain
    // correlation with the turned kernel yields exactly the rows pad .. pad + H.
    let framed = frame(&spread, 2, shape.kernel.0, shape.padding, shape.image.0)?;
    let framed = frame(&framed, 3, shape.kernel.1, shape.padding, shape.image.1)?;
    framed.contiguous()?.conv2d(&kernel, 0, 1, 1, 1)
}

/// `size + kernel − 1` rows of `t` along `dim`, the first of them number `padding − (kernel − 1)`;
/// rows that do not exist are zero.
fn frame(t: &Tensor, dim: usize, kernel: usize, padding: usize, size: usize) -> Result<Tensor> {
    let wanted = size + kernel - 1;
    let lead = (kernel - 1).saturating_sub(padding);
    let skip = padding.saturating_sub(kernel - 1);
    let have = t
        .dim(dim)?
        .saturating_sub(skip)
        .min(wanted - lead.min(wanted));
    t.narrow(dim, skip, have)?
        .pad_with_zeros(dim, lead, wanted - lead - have)
}

fn weight_gradient(shape: &Shape, x: &Tensor, grad: &Tensor) -> Result<Tensor> {
    let Shape {
        batch,
        inputs,
        outputs,
        stride: s,
        padding,
        ..
    } = *shape;
    let (h, wd) = shape.out;
    let pixels = batch * h * wd;
    let grad = grad
        .transpose(0, 1)?
        .contiguous()?
        .reshape((outputs, pixels))?;
    // Padded to whole strides, so that a tap is a narrow of [N, C, rows, s, columns, s].
    let fit = |dim: usize, t: &Tensor, kernel: usize, out: usize| -> Result<Tensor> {
        let wanted = (out + kernel.div_ceil(s)) * s;
        let have = t.dim(dim)? + padding;
        let t = t.pad_with_zeros(dim, padding, wanted.saturating_sub(have))?;
        t.narrow(dim, 0, wanted)
    };
    let padded = fit(2, &x.detach(), shape.kernel.0, h)?;
    let padded = fit(3, &padded, shape.kernel.1, wd)?.contiguous()?;
    let (rows, cols) = (padded.dim(2)? / s, padded.dim(3)? / s);
    let split = padded.reshape((batch, inputs, rows, s, cols, s))?;
    let mut taps = Vec::with_capacity(shape.kernel.0 * shape.kernel.1);
    for kh in 0..shape.kernel.0 {
        for kw in 0..shape.kernel.1 {
            let tap = split
                .narrow(3, kh % s, 1)?
                .narrow(5, kw % s, 1)?
                .narrow(2, kh / s, h)?
                .narrow(4, kw / s, wd)?
                .transpose(0, 1)?
                .contiguous()?
                .reshape((inputs, pixels))?;
            taps.push(grad.matmul(&tap.t()?)?);
        }
    }
    Tensor::stack(&taps, 2)?.reshape((outputs, inputs, shape.kernel.0, shape.kernel.1))
}

/// The CPU operation.
struct Tiled {
    shape: Shape,
}

impl CustomOp2 for Tiled {
    fn name(&self) -> &'static str {
        "conv2d"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Dims)> {
        let Shape {
            batch,
            outputs,
            out,
            ..
        } = self.shape;
        let storage = match s1 {
            CpuStorage::F32(_) => self.forward::<f32>(s1, l1, s2, l2)?,
            _ => self.forward::<f64>(s1, l1, s2, l2)?,
        };
        Ok((storage, Dims::from((batch, outputs, out.0, out.1))))
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let grad = grad.contiguous()?;
        match x.dtype() {
            DType::F32 => self.backward::<f32>(x, w, &grad),
            _ => self.backward::<f64>(x, w, &grad),
        }
    }
}

/// The contiguous elements that a layout selects.
pub(super) fn elements<'a, T: Tiles>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [T]> {
    match layout.contiguous_offsets() {
        Some((from, to)) => Ok(&T::cpu_storage_as_slice(storage)?[from..to]),
        None => bail!("the fast path takes contiguous tensors only"),
    }
}

/// Runs `f` on the elements of contiguous CPU tensors.
pub(super) fn with_elements<T: Tiles, R, const N: usize>(
    tensors: [&Tensor; N],
    f: impl FnOnce([&[T]; N]) -> R,
) -> Result<R> {
    let guards = tensors.map(|t| t.storage_and_layout());
    let mut slices: [&[T]; N] = [&[]; N];
    for (slot, (storage, layout)) in slices.iter_mut().zip(&guards) {
        *slot = match &**storage {
            Storage::Cpu(s) => elements::<T>(s, layout)?,
            _ => bail!("the fast path runs on the CPU only"),
        };
    }
    Ok(f(slices))
}

/// Images per partial weight gradient. Sixteen partial sums keep as many threads busy; more would
/// cost memory (one copy of the kernel each) for nothing on most machines.
fn chunk(batch: usize) -> usize {
    batch.div_ceil(16).max(1)
}

impl Tiled {
    fn forward<T: Tiles>(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<CpuStorage> {
        let (x, w) = (elements::<T>(s1, l1)?, elements::<T>(s2, l2)?);
        let shape = &self.shape;
        let (taps, pixels) = (shape.taps(), shape.out_pixels());
        let planes = Forward::new(*shape);
        let height = Height::fitting(shape.outputs);
        let kernel = Packed::new(height, shape.outputs, taps, |o, k| w[o * taps + k]);
        let mut y = vec![T::zero(); shape.batch * shape.outputs * pixels];
        if !y.is_empty() && taps > 0 {
            y.par_chunks_exact_mut(shape.outputs * pixels)
                .zip(x.par_chunks_exact(shape.inputs * shape.in_pixels()))
                .for_each_init(
                    || vec![T::zero(); planes.len::<T>()],
                    |scratch, (y, x)| {
                        planes.fill(x, scratch);
                        T::correlate(&kernel, scratch, &planes.offsets, planes.grid(), y);
                    },
                );
        }
        Ok(T::to_cpu_storage_owned(y))
    }

    fn backward<T: Tiles>(
        &self,
        x: &Tensor,
        w: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (want_x, want_w) = (x.track_op(), w.track_op());
        let (dx, dw) = with_elements([x, w, grad], |[x, w, grad]| {
            self.gradients::<T>(x, w, grad, want_x, want_w)
        })?;
        let dx = match want_x {
            true => Some(Tensor::from_vec(dx, x.shape(), x.device())?),
            false => None,
        };
        let dw = match want_w {
            true => Some(Tensor::from_vec(dw, w.shape(), w.device())?),
            false => None,
        };
        Ok((dx, dw))
    }

    fn gradients<T: Tiles>(
        &self,
        x: &[T],
        w: &[T],
        grad: &[T],
        want_x: bool,
        want_w: bool,
    ) -> (Vec<T>, Vec<T>) {
        let shape = &self.shape;
        let image = shape.inputs * shape.in_pixels();
        let response = shape.outputs * shape.out_pixels();
        let mut dx = vec![T::zero(); if want_x { x.len() } else { 0 }];
        let mut dw = vec![T::zero(); if want_w { w.len() } else { 0 }];
        if image == 0 || response == 0 || shape.batch == 0 {
            return (dx, dw);
        }
        let input = InputGradient::new(shape, w);
        let weight = WeightGradient::new::<T>(shape);
        let chunk = chunk(shape.batch);
        if want_x {
            dx.par_chunks_exact_mut(image)
                .zip(grad.par_chunks_exact(response))
                .for_each_init(
                    || input.scratch(),
                    |scratch, (dx, grad)| input.image(grad, scratch, dx),
                );
        }
        if want_w {
            let partial: Vec<Vec<T>> = x
                .par_chunks(chunk * image)
                .zip(grad.par_chunks(chunk * response))
                .map_init(
                    || weight.scratch(),
                    |scratch, (x, grad)| {
                        let mut sum = vec![T::zero(); weight.len()];
                        for (x, grad) in x.chunks_exact(image).zip(grad.chunks_exact(response)) {
                            weight.image(x, grad, scratch, &mut sum);
                        }
                        sum
                    },
                )
                .collect();
            weight.finish(partial, &mut dw);
        }
        (dx, dw)
    }
}

/// Everything about the input gradient that does not depend on the image.
struct InputGradient<T> {
    shape: Shape,
    planes: Backward,
    kernels: Vec<Packed<T>>,
}

impl<T: Tiles> InputGradient<T> {
    fn new(shape: &Shape, w: &[T]) -> Self {
        let planes = Backward::new(*shape);
        let (kh, kw) = shape.kernel;
        let s = shape.stride;
        let kernels = planes
            .phases
            .iter()
            .map(|phase| {
                let taps = phase.taps.0 * phase.taps.1;
                let height = Height::fitting(shape.inputs);
                Packed::new(height, shape.inputs, phase.offsets.len(), |c, k| {
                    let (o, t, v) = (k / taps, k % taps / phase.taps.1, k % phase.taps.1);
                    let row = (o * shape.inputs + c) * kh + phase.a + s * t;
                    w[row * kw + phase.b + s * v]
                })
            })
            .collect();
        Self {
            shape: *shape,
            planes,
            kernels,
        }
    }

    /// Padded planes, and one dense phase of the gradient where they must be interleaved.
    fn scratch(&self) -> (Vec<T>, Vec<T>) {
        let phase = match self.shape.stride {
            1 => 0,
            _ => self.shape.inputs * self.shape.in_pixels(),
        };
        (
            vec![T::zero(); self.planes.len::<T>()],
            vec![T::zero(); phase],
        )
    }

    fn image(&self, grad: &[T], (planes, dense): &mut (Vec<T>, Vec<T>), dx: &mut [T]) {
        self.planes.fill(grad, planes);
        let (height, width) = self.shape.image;
        let s = self.shape.stride;
        for (phase, kernel) in self.planes.phases.iter().zip(&self.kernels) {
            if s == 1 {
                T::correlate(kernel, planes, &phase.offsets, phase.grid, dx);
                continue;
            }
            let pixels = phase.grid.len();
            if pixels == 0 || phase.offsets.is_empty() {
                continue; // no tap reaches these pixels: dx stays zero there
            }
            let dense = &mut dense[..self.shape.inputs * pixels];
            T::correlate(kernel, planes, &phase.offsets, phase.grid, dense);
            for (c, dense) in dense.chunks_exact(pixels).enumerate() {
                for (i, row) in dense.chunks_exact(phase.grid.cols).enumerate() {
                    let line = (c * height + phase.start.0 + s * i) * width + phase.start.1;
                    for (slot, &g) in dx[line..].iter_mut().step_by(s).zip(row) {
                        *slot = g;
                    }
                }
            }
        }
    }
}

/// Everything about the weight gradient that does not depend on the image.
struct WeightGradient {
    shape: Shape,
    planes: Forward,
    plane_len: usize,
    strip: usize,
    width: usize,
}

impl WeightGradient {
    fn new<T: Tiles>(shape: &Shape) -> Self {
        let planes = Forward::new(*shape);
        Self {
            shape: *shape,
            plane_len: planes.len::<T>(),
            planes,
            strip: T::STRIP,
            width: shape.outputs.next_multiple_of(T::STRIP),
        }
    }

    fn len(&self) -> usize {
        self.width * self.shape.taps()
    }

    /// Padded planes, and the transposed output gradient. Columns beyond the last output channel
    /// are zero here and stay so.
    fn scratch<T: Tiles>(&self) -> (Vec<T>, Vec<T>) {
        (
            vec![T::zero(); self.plane_len],
            vec![T::zero(); self.width * self.shape.out_pixels()],
        )
    }

    fn image<T: Tiles>(
        &self,
        x: &[T],
        grad: &[T],
        (planes, turned): &mut (Vec<T>, Vec<T>),
        sum: &mut [T],
    ) {
        self.planes.fill(x, planes);
        let pixels = self.shape.out_pixels();
        for (o, row) in grad.chunks_exact(pixels).enumerate() {
            let start = o / self.strip * self.strip * pixels + o % self.strip;
            for (slot, &g) in turned[start..].iter_mut().step_by(self.strip).zip(row) {
                *slot = g;
            }
        }
        let grid = self.planes.grid();
        T::outer(turned, self.width, planes, &self.planes.offsets, grid, sum);
    }

    /// Adds the partial sums in order and turns \[taps, outputs\] into \[outputs, taps\].
    fn finish<T: Tiles>(&self, mut partial: Vec<Vec<T>>, dw: &mut [T]) {
        let rest = partial.split_off(1.min(partial.len()));
        let Some(mut sum) = partial.pop() else { return };
        let block = 4096;
        sum.par_chunks_mut(block).enumerate().for_each(|(i, sum)| {
            for part in &rest {
                for (slot, &g) in sum.iter_mut().zip(&part[i * block..]) {
                    *slot += g;
                }
            }
        });
        let taps = self.shape.taps();
        for (o, dw) in dw.chunks_exact_mut(taps).enumerate() {
            for (slot, &g) in dw.iter_mut().zip(sum[o..].iter().step_by(self.width)) {
                *slot = g;
            }
        }
    }
}
