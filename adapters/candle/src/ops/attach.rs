//! A tensor computed one way, differentiated another.
//!
//! Candle differentiates an operation by the operation itself; to give y = f(x, w) a backward pass
//! of our own on a device for which we have no kernel, y is computed outside the graph and attached
//! to its arguments by an operation whose forward pass only hands y over.

use std::sync::{Mutex, PoisonError};

use candle_core::backend::BackendStorage;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp3, Layout, MetalStorage, Result, Shape, Storage, Tensor, bail,
};

/// Gradients for up to three arguments; `None` where none is wanted.
pub(crate) type Gradients3 = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

/// `value` as a function of three tensors, whose gradients `backward` makes of them and of that of the value.
/// A function of two repeats one and has no gradient for the repetition.
pub(crate) fn attach<F>(
    name: &'static str,
    value: Tensor,
    [a, b, c]: [&Tensor; 3],
    backward: F,
) -> Result<Tensor>
where
    F: Fn([&Tensor; 3], &Tensor) -> Result<Gradients3> + Send + Sync + 'static,
{
    let value = Mutex::new(Some(value.contiguous()?));
    let attached = Attached {
        name,
        value,
        backward,
    };
    a.apply_op3(b, c, attached)
}

struct Attached<F> {
    name: &'static str,
    // Taken by the forward pass, so that the value is not kept alive twice.
    value: Mutex<Option<Tensor>>,
    backward: F,
}

impl<F> Attached<F> {
    fn hand_over<S: BackendStorage>(&self, here: fn(&Storage) -> Option<&S>) -> Result<(S, Shape)> {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(value) = value.take() else {
            bail!("{}: the value was already handed over", self.name)
        };
        let (storage, layout) = value.storage_and_layout();
        match here(&storage) {
            Some(s) => Ok((s.try_clone(layout)?, layout.shape().clone())),
            None => bail!(
                "{}: value and arguments are on different devices",
                self.name
            ),
        }
    }
}

impl<F> CustomOp3 for Attached<F>
where
    F: Fn([&Tensor; 3], &Tensor) -> Result<Gradients3>,
{
    fn name(&self) -> &'static str {
        self.name
    }
    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.hand_over(|s| match s {
            Storage::Cpu(s) => Some(s),
            _ => None,
        })
    }
    fn cuda_fwd(
        &self,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.hand_over(|s| match s {
            Storage::Cuda(s) => Some(s),
            _ => None,
        })
    }
    fn metal_fwd(
        &self,
        _: &MetalStorage,
        _: &Layout,
        _: &MetalStorage,
        _: &Layout,
        _: &MetalStorage,
        _: &Layout,
    ) -> Result<(MetalStorage, Shape)> {
        self.hand_over(|s| match s {
            Storage::Metal(s) => Some(s),
            _ => None,
        })
    }
    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        c: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<Gradients3> {
        (self.backward)([a, b, c], grad)
    }
}
