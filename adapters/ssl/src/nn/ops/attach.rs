//! A tensor computed one way, differentiated another.
//!
//! Candle differentiates an operation by the operation itself; to give y = f(x, w) a backward pass
//! of our own on a device for which we have no kernel, y is computed outside the graph and attached
//! to its arguments by an operation whose forward pass only hands y over.

use std::sync::{Mutex, PoisonError};

use candle_core::backend::BackendStorage;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp2, CustomOp3, Layout, MetalStorage, Result, Shape, Storage,
    Tensor, bail,
};

/// Gradients for up to three arguments; `None` where none is wanted.
pub(super) type Gradients3 = (Option<Tensor>, Option<Tensor>, Option<Tensor>);

pub(super) struct Attached<F> {
    name: &'static str,
    // Taken by the forward pass, so that the value is not kept alive twice.
    value: Mutex<Option<Tensor>>,
    backward: F,
}

impl<F> Attached<F> {
    pub(super) fn new(name: &'static str, value: Tensor, backward: F) -> Self {
        Self {
            name,
            value: Mutex::new(Some(value)),
            backward,
        }
    }

    fn take(&self) -> Result<Tensor> {
        let taken = self
            .value
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match taken {
            Some(value) => value.contiguous(),
            None => bail!("{}: the value was already handed over", self.name),
        }
    }

    fn cpu(&self) -> Result<(CpuStorage, Shape)> {
        let value = self.take()?;
        let (storage, layout) = value.storage_and_layout();
        match &*storage {
            Storage::Cpu(s) => Ok((s.try_clone(layout)?, layout.shape().clone())),
            _ => bail!(
                "{}: value and arguments are on different devices",
                self.name
            ),
        }
    }

    fn cuda(&self) -> Result<(CudaStorage, Shape)> {
        let value = self.take()?;
        let (storage, layout) = value.storage_and_layout();
        match &*storage {
            Storage::Cuda(s) => Ok((s.try_clone(layout)?, layout.shape().clone())),
            _ => bail!(
                "{}: value and arguments are on different devices",
                self.name
            ),
        }
    }

    fn metal(&self) -> Result<(MetalStorage, Shape)> {
        let value = self.take()?;
        let (storage, layout) = value.storage_and_layout();
        match &*storage {
            Storage::Metal(s) => Ok((s.try_clone(layout)?, layout.shape().clone())),
            _ => bail!(
                "{}: value and arguments are on different devices",
                self.name
            ),
        }
    }
}

impl<F> CustomOp2 for Attached<F>
where
    F: Fn([&Tensor; 2], &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)>,
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
    ) -> Result<(CpuStorage, Shape)> {
        self.cpu()
    }
    fn cuda_fwd(
        &self,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.cuda()
    }
    fn metal_fwd(
        &self,
        _: &MetalStorage,
        _: &Layout,
        _: &MetalStorage,
        _: &Layout,
    ) -> Result<(MetalStorage, Shape)> {
        self.metal()
    }
    fn bwd(
        &self,
        arg1: &Tensor,
        arg2: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        (self.backward)([arg1, arg2], grad)
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
        self.cpu()
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
        self.cuda()
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
        self.metal()
    }
    fn bwd(
        &self,
        arg1: &Tensor,
        arg2: &Tensor,
        arg3: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<Gradients3> {
        (self.backward)([arg1, arg2, arg3], grad)
    }
}
