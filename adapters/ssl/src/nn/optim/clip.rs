//! Clipping of the gradient as a whole: g ← g · min(1, c / (‖g‖ + 10⁻⁶)).

use candle_core::DType;
use candle_core::backprop::GradStore;

use crate::nn::error::NnError;
use crate::nn::store::Parameter;

/// Scales the gradients of the parameters down to a joint Euclidean norm of at most `limit`; returns
/// the norm before.
///
/// # Errors
/// If the limit is not positive, or the device fails.
///
/// # Examples
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use earthmover_ssl::nn::{Classifier, Mlp, Mode};
/// use earthmover_ssl::nn::optim::clip_gradients;
/// let model = Mlp::new(2, &[], 2, 0, DType::F32, &Device::Cpu)?;
/// let x = Tensor::ones((1, 2), DType::F32, &Device::Cpu)?;
/// let mut gradients = model.forward(&x, Mode::Train)?.sum_all()?.backward()?;
/// let before = clip_gradients(model.parameters(), &mut gradients, 1.0)?; // six gradients of 1
/// assert!((before - 6f64.sqrt()).abs() < 1e-6);
/// let after = clip_gradients(model.parameters(), &mut gradients, 1.0)?;
/// assert!((after - 1.0).abs() < 1e-5);
/// # Ok::<(), earthmover_ssl::nn::NnError>(())
/// ```
pub fn clip_gradients(
    parameters: &[Parameter],
    gradients: &mut GradStore,
    limit: f64,
) -> Result<f64, NnError> {
    if limit.is_nan() || limit <= 0.0 {
        return Err(NnError::Setting {
            what: "the limit of the gradient's norm",
            value: limit,
            rule: "positive",
        });
    }
    let mut squares = 0.0;
    for p in parameters {
        if let Some(g) = gradients.get(p.var.as_tensor()) {
            // Each tensor's sum in its own type on the device, the total in f64.
            let sum = g.sqr()?.sum_all()?.to_dtype(DType::F64)?;
            squares += sum.to_scalar::<f64>()?;
        }
    }
    let norm = squares.sqrt();
    let factor = limit / (norm + 1e-6);
    if factor < 1.0 {
        for p in parameters {
            if let Some(g) = gradients.remove(p.var.as_tensor()) {
                gradients.insert(p.var.as_tensor(), (g * factor)?);
            }
        }
    }
    Ok(norm)
}
