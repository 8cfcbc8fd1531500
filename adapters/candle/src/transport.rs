//! Transport as a loss on tensors, with a backward pass.
//!
//! ```text
//! F(a, b, C) = min_P ⟨C, P⟩ + ε KL(P | a ⊗ b) + D(P1 | a) + D(Pᵀ1 | b)
//!
//! ∂F/∂C = P        ∂F/∂x_i = 2 Σ_j P_ij (x_i − y_j)        ∂F/∂a_i = D*(φ_i) − ε (r_i/a_i − Σ b)
//! S(α, β) = F(α, β) − ½ F(α, α) − ½ F(β, β) + ½ ε (Σa − Σb)²
//! ```
//!
//! with D*(φ) = φ where masses are kept, r = P1, and the constant that balanced masses leave free chosen so that both sides' gradients have
//! the same mean. By the envelope theorem no step of the solver is differentiated.
//!
//! On a CPU the core solves and differentiates: clouds without a table of pairs. Elsewhere costs and plan are tensors on the device, the
//! sweeps are [`TensorBackend`]'s, and what goes to and fro is vectors of n and m numbers.

use candle_core::{D, DType, Device, Error, Result, Tensor, WithDType, bail};
use earthmover::loss::Divergence;
use earthmover::{
    Dense, Entropic, Marginals, Penalty, PointCloud, Problem, Real, Reference, Sinkhorn,
    SquaredEuclidean, Status,
};

use crate::TensorBackend;
use crate::ops::attach::{Gradients3, attach};
use crate::tensor_backend::{host, narrow};

/// Entropic transport and the Sinkhorn divergence as differentiable operations.
///
/// # Examples
/// ```
/// use candle_core::{Device, Tensor, Var};
/// use earthmover_candle::Transport;
/// let x = Var::from_tensor(&Tensor::new(&[[0f64], [1.0]], &Device::Cpu)?)?;
/// let y = Tensor::new(&[[3f64], [4.0]], &Device::Cpu)?;
/// let half = Tensor::new(&[0.5f64, 0.5], &Device::Cpu)?;
/// let loss = Transport::new(0.1).divergence(&x, &y, &half, &half)?;
/// assert!(loss.status.is_converged() && (loss.value.to_scalar::<f64>()? - 9.0).abs() < 0.01);
/// let gradients = loss.value.backward()?;
/// let x = gradients.get(&x).unwrap().flatten_all()?.to_vec1::<f64>()?;
/// assert!(x.iter().all(|g| (g + 3.0).abs() < 0.01)); // half of 2 (x − y) each: three to the right
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Transport {
    epsilon: f64,
    tolerance: f64,
    max_iterations: usize,
    row_penalty: Penalty,
    col_penalty: Penalty,
}

/// A value to go backward from, and how it was come by.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Loss {
    /// A scalar in the type and on the device of the points or costs.
    pub value: Tensor,
    /// How the solve ended; of a divergence, the worst of its three.
    pub status: Status,
    /// Sweeps.
    pub iterations: usize,
}

impl Transport {
    /// At this regularisation, in the units of the cost.
    pub fn new(epsilon: f64) -> Self {
        Self {
            epsilon,
            tolerance: 1e-6,
            max_iterations: 10_000,
            row_penalty: Penalty::Exact,
            col_penalty: Penalty::Exact,
        }
    }

    /// Violation at which a solve stops. Default `1e-6`.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Most sweeps of a solve. Default 10,000.
    pub fn max_iterations(mut self, sweeps: usize) -> Self {
        self.max_iterations = sweeps;
        self
    }

    /// What both sides pay for other masses than their own. Default [`Penalty::Exact`].
    pub fn penalty(self, penalty: Penalty) -> Self {
        self.penalties(penalty, penalty)
    }

    /// What rows and columns pay. A divergence has one penalty for both, that of the rows.
    pub fn penalties(mut self, rows: Penalty, cols: Penalty) -> Self {
        (self.row_penalty, self.col_penalty) = (rows, cols);
        self
    }

    /// The regularised value of costs \[n, m\] between masses \[n\] and \[m\], differentiable in all three.
    ///
    /// # Errors
    /// Where shapes or types do not fit, and as [`Entropic::solve`].
    ///
    /// # Examples
    /// ```
    /// use candle_core::{Device, Tensor, Var};
    /// use earthmover_candle::Transport;
    /// let cost = Var::from_tensor(&Tensor::new(&[[0f64, 1.0], [1.0, 0.0]], &Device::Cpu)?)?;
    /// let half = Tensor::new(&[0.5f64, 0.5], &Device::Cpu)?;
    /// let loss = Transport::new(0.05).of_costs(&cost, &half, &half)?;
    /// let plan = loss.value.backward()?.get(&cost).unwrap().to_vec2::<f64>()?;
    /// assert!((plan[0][0] - 0.5).abs() < 1e-6 && plan[0][1] < 1e-6);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    pub fn of_costs(&self, cost: &Tensor, a: &Tensor, b: &Tensor) -> Result<Loss> {
        match (cost.device(), cost.dtype()) {
            (Device::Cpu, DType::F32) => self.costs_on_cpu::<f32>(cost, a, b),
            (Device::Cpu, DType::F64) => self.costs_on_cpu::<f64>(cost, a, b),
            _ => self.of_costs_by_tensor_ops(cost, a, b),
        }
    }

    /// The regularised value of the squared distances between points \[n, d\] and \[m, d\] of masses \[n\] and \[m\],
    /// differentiable in all four.
    ///
    /// # Errors
    /// As [`of_costs`](Self::of_costs).
    pub fn between(&self, x: &Tensor, y: &Tensor, a: &Tensor, b: &Tensor) -> Result<Loss> {
        match (x.device(), x.dtype()) {
            (Device::Cpu, DType::F32) => self.clouds_on_cpu::<f32>(x, y, a, b),
            (Device::Cpu, DType::F64) => self.clouds_on_cpu::<f64>(x, y, a, b),
            _ => self.between_by_tensor_ops(x, y, a, b),
        }
    }

    /// The Sinkhorn divergence of clouds, differentiable in points and masses: zero where they are the same, without the bias of the
    /// entropy elsewhere.
    ///
    /// # Errors
    /// As [`of_costs`](Self::of_costs).
    pub fn divergence(&self, x: &Tensor, y: &Tensor, a: &Tensor, b: &Tensor) -> Result<Loss> {
        match (x.device(), x.dtype()) {
            (Device::Cpu, DType::F32) => self.divergence_on_cpu::<f32>(x, y, a, b),
            (Device::Cpu, DType::F64) => self.divergence_on_cpu::<f64>(x, y, a, b),
            _ => self.divergence_by_tensor_ops(x, y, a, b),
        }
    }

    /// The twin of [`of_costs`](Self::of_costs) for devices: costs and plan stay where they are.
    ///
    /// # Errors
    /// As [`of_costs`](Self::of_costs), and where the device fails.
    pub fn of_costs_by_tensor_ops(&self, cost: &Tensor, a: &Tensor, b: &Tensor) -> Result<Loss> {
        let marginals = self.marginals(&masses(a)?, &masses(b)?, cost.dtype())?;
        let mut backend =
            TensorBackend::new(cost.detach(), marginals.rows()).map_err(Error::wrap)?;
        let solver = Sinkhorn::new(self.epsilon)
            .tolerance(self.tolerance)
            .max_iterations(self.max_iterations);
        let swept = solver
            .potentials_on(&marginals, &mut backend)
            .map_err(Error::wrap)?;
        drop(backend);
        let (n, m) = cost.dims2()?;
        let f = narrow(&swept.potentials.rows, (n, 1), cost).map_err(Error::wrap)?;
        let g = narrow(&swept.potentials.cols, (1, m), cost).map_err(Error::wrap)?;
        let logits = g
            .broadcast_sub(&cost.detach())?
            .broadcast_add(&f)?
            .affine(1.0 / self.epsilon, 0.0)?;
        let plan = logits.exp()?;
        let sums = |over: D| host(&plan.sum(over)?).map_err(Error::wrap);
        let lines = Lines {
            marginals: &marginals,
            epsilon: self.epsilon,
            rows: (&swept.potentials.rows, sums(D::Minus1)?),
            cols: (&swept.potentials.cols, sums(D::Minus2)?),
        };
        let value = scalar(lines.value(), cost)?;
        let (rows, cols) = lines.gradients();
        let (rows, cols) = (vector(&rows, a)?, vector(&cols, b)?);
        let value = attach("transport", value, [cost, a, b], move |_, grad| {
            let by = |tensor: &Tensor| -> Result<Option<Tensor>> {
                let grad = grad.to_device(tensor.device())?;
                Ok(Some(tensor.broadcast_mul(&grad.to_dtype(tensor.dtype())?)?))
            };
            Ok((by(&plan)?, by(&rows)?, by(&cols)?))
        })?;
        Ok(Loss {
            value,
            status: swept.status,
            iterations: swept.iterations,
        })
    }

    /// The twin of [`between`](Self::between) for devices: squared distances as a tensor there.
    ///
    /// # Errors
    /// As [`of_costs_by_tensor_ops`](Self::of_costs_by_tensor_ops).
    pub fn between_by_tensor_ops(
        &self,
        x: &Tensor,
        y: &Tensor,
        a: &Tensor,
        b: &Tensor,
    ) -> Result<Loss> {
        self.of_costs_by_tensor_ops(&squared_distances(x, y)?, a, b)
    }

    /// The twin of [`divergence`](Self::divergence) for devices.
    ///
    /// # Errors
    /// As [`of_costs_by_tensor_ops`](Self::of_costs_by_tensor_ops).
    pub fn divergence_by_tensor_ops(
        &self,
        x: &Tensor,
        y: &Tensor,
        a: &Tensor,
        b: &Tensor,
    ) -> Result<Loss> {
        let both = self.clone().penalty(self.row_penalty);
        let cross = both.between_by_tensor_ops(x, y, a, b)?;
        let first = both.between_by_tensor_ops(x, x, a, a)?;
        let second = both.between_by_tensor_ops(y, y, b, b)?;
        let within = (first.value + second.value)?.affine(0.5, 0.0)?;
        let apart = (a.sum_all()? - b.sum_all()?)?;
        let apart = apart.sqr()?.affine(0.5 * self.epsilon, 0.0)?;
        let apart = apart.to_dtype(x.dtype())?.to_device(x.device())?;
        let ends = [cross.status, first.status, second.status];
        let worst = ends.into_iter().find(|s| !s.is_converged());
        Ok(Loss {
            value: ((cross.value - within)? + apart)?,
            status: worst.unwrap_or(Status::Converged),
            iterations: cross.iterations + first.iterations + second.iterations,
        })
    }

    /// Masses of both sides. Exact ones of `f32` agree as far as that has digits.
    fn marginals(&self, a: &[f64], b: &[f64], dtype: DType) -> Result<Marginals> {
        let (rows, cols) = (self.row_penalty, self.col_penalty);
        let made = if rows.is_exact() && cols.is_exact() {
            let slip = if dtype == DType::F64 { 1e-9 } else { 1e-5 };
            Marginals::balanced_within(a, b, slip)
        } else {
            Marginals::relaxed(a, b, rows, cols)
        };
        made.map_err(Error::wrap)
    }

    fn solver(&self) -> Entropic {
        Entropic::new(self.epsilon)
            .tolerance(self.tolerance)
            .max_iterations(self.max_iterations)
    }

    fn costs_on_cpu<T: Real + WithDType>(
        &self,
        cost: &Tensor,
        a: &Tensor,
        b: &Tensor,
    ) -> Result<Loss> {
        let (n, m) = cost.dims2()?;
        let marginals = self.marginals(&masses(a)?, &masses(b)?, cost.dtype())?;
        let table = cost.flatten_all()?.to_vec1::<T>()?;
        let dense = Dense::new(&table, n, m).map_err(Error::wrap)?;
        let problem = Problem::new(dense, marginals).map_err(Error::wrap)?;
        let solution = self.solver().solve(&problem).map_err(Error::wrap)?;
        let value = scalar(solution.regularised(Reference::Product), cost)?;
        let tracked = [cost, a, b].iter().any(|t| t.track_op());
        let gradients = if tracked {
            let (rows, cols) = solution.gradient_masses();
            let plan = solution.plan().to_dense();
            let plan = narrow(&plan, (n, m), cost).map_err(Error::wrap)?;
            Some([plan, vector(&rows, a)?, vector(&cols, b)?])
        } else {
            None
        };
        Ok(Loss {
            value: differentiable(value, [cost, a, b], gradients)?,
            status: solution.status(),
            iterations: solution.iterations(),
        })
    }

    fn clouds_on_cpu<T: Real + WithDType>(
        &self,
        x: &Tensor,
        y: &Tensor,
        a: &Tensor,
        b: &Tensor,
    ) -> Result<Loss> {
        let (points, d) = joined(x, y)?;
        let (here, there) = (numbers::<T>(x)?, numbers::<T>(y)?);
        let marginals = self.marginals(&masses(a)?, &masses(b)?, x.dtype())?;
        let cloud = PointCloud::new(&here, &there, d, SquaredEuclidean).map_err(Error::wrap)?;
        let problem = Problem::new(cloud, marginals).map_err(Error::wrap)?;
        let solution = self.solver().solve(&problem).map_err(Error::wrap)?;
        let value = scalar(solution.regularised(Reference::Product), x)?;
        let tracked = [&points, a, b].iter().any(|t| t.track_op());
        let gradients = if tracked {
            let (mut both, more) = solution.gradient_points().map_err(Error::wrap)?;
            both.extend(more);
            let both = narrow(&both, (points.dims()[0], d), x).map_err(Error::wrap)?;
            let (rows, cols) = solution.gradient_masses();
            Some([both, vector(&rows, a)?, vector(&cols, b)?])
        } else {
            None
        };
        Ok(Loss {
            value: differentiable(value, [&points, a, b], gradients)?,
            status: solution.status(),
            iterations: solution.iterations(),
        })
    }

    fn divergence_on_cpu<T: Real + WithDType>(
        &self,
        x: &Tensor,
        y: &Tensor,
        a: &Tensor,
        b: &Tensor,
    ) -> Result<Loss> {
        let (points, d) = joined(x, y)?;
        let (here, there) = (numbers::<T>(x)?, numbers::<T>(y)?);
        let both = self.clone().penalty(self.row_penalty);
        let marginals = both.marginals(&masses(a)?, &masses(b)?, x.dtype())?;
        let solver = Divergence::new(self.epsilon)
            .tolerance(self.tolerance)
            .max_iterations(self.max_iterations)
            .penalty(self.row_penalty);
        let (rows, cols) = (marginals.rows(), marginals.cols());
        let mut found = solver
            .between(&here, &there, d, SquaredEuclidean, rows, cols)
            .map_err(Error::wrap)?;
        found.row_points.append(&mut found.col_points);
        let moved = narrow(&found.row_points, (points.dims()[0], d), x).map_err(Error::wrap)?;
        let gradients = [
            moved,
            vector(&found.row_masses, a)?,
            vector(&found.col_masses, b)?,
        ];
        let value = scalar(found.value, x)?;
        Ok(Loss {
            value: differentiable(value, [&points, a, b], Some(gradients))?,
            status: found.status,
            iterations: found.iterations,
        })
    }
}

/// A scalar with gradients that are known already.
fn differentiable(
    value: Tensor,
    arguments: [&Tensor; 3],
    gradients: Option<[Tensor; 3]>,
) -> Result<Tensor> {
    let Some(gradients) = gradients else {
        return Ok(value);
    };
    attach("transport", value, arguments, move |_, grad| {
        let by = |tensor: &Tensor| -> Result<Option<Tensor>> {
            Ok(Some(tensor.broadcast_mul(&grad.to_dtype(tensor.dtype())?)?))
        };
        let [first, a, b] = &gradients;
        let all: Gradients3 = (by(first)?, by(a)?, by(b)?);
        Ok(all)
    })
}

/// |x_i − y_j|² of points \[n, d\] and \[m, d\], what they have in common taken off first.
fn squared_distances(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    joined(x, y)?;
    let centre = x.detach().mean_keepdim(0)?;
    let (x, y) = (x.broadcast_sub(&centre)?, y.broadcast_sub(&centre)?);
    let (here, there) = (x.sqr()?.sum_keepdim(1)?, y.sqr()?.sum_keepdim(1)?);
    let products = x.matmul(&y.t()?)?;
    here.broadcast_add(&there.t()?)? - products.affine(2.0, 0.0)?
}

/// Both clouds one after the other, and how many coordinates a point has.
fn joined(x: &Tensor, y: &Tensor) -> Result<(Tensor, usize)> {
    let ((_, d), (_, e)) = (x.dims2()?, y.dims2()?);
    if d != e || x.dtype() != y.dtype() {
        bail!(
            "transport: points {:?} of {:?} against {:?} of {:?}",
            x.dims(),
            x.dtype(),
            y.dims(),
            y.dtype()
        )
    }
    Ok((Tensor::cat(&[x, y], 0)?, d))
}

fn numbers<T: WithDType>(points: &Tensor) -> Result<Vec<T>> {
    points.flatten_all()?.to_vec1()
}

fn masses(tensor: &Tensor) -> Result<Vec<f64>> {
    let tensor = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
    tensor.to_vec1()
}

/// A number in the type and on the device of `like`.
fn scalar(value: f64, like: &Tensor) -> Result<Tensor> {
    let value = Tensor::new(value, &Device::Cpu)?.to_dtype(like.dtype())?;
    value.to_device(like.device())
}

/// Numbers in the type and on the device of `like`, which has as many.
fn vector(values: &[f64], like: &Tensor) -> Result<Tensor> {
    let values = Tensor::from_slice(values, values.len(), &Device::Cpu)?;
    values.to_dtype(like.dtype())?.to_device(like.device())
}

/// What a plan on a device is known by here: potentials and sums of both sides.
struct Lines<'a> {
    marginals: &'a Marginals,
    epsilon: f64,
    rows: (&'a [f64], Vec<f64>),
    cols: (&'a [f64], Vec<f64>),
}

impl Lines<'_> {
    fn totals(&self) -> (f64, f64) {
        let (a, b) = (self.marginals.rows(), self.marginals.cols());
        (a.iter().sum(), b.iter().sum())
    }

    /// Σ D*(φ) + Σ D*(ψ) − ε (ΣP − Σa Σb)
    fn value(&self) -> f64 {
        let m = self.marginals;
        let side = |penalty: Penalty, masses: &[f64], potentials: &[f64]| -> f64 {
            let carrying = masses.iter().zip(potentials).filter(|(m, _)| **m > 0.0);
            let each = carrying.map(|(&m, &f)| penalty.conjugate(m, f - self.epsilon * m.ln()));
            each.sum()
        };
        let (supply, demand) = self.totals();
        let moved: f64 = self.rows.1.iter().sum();
        side(m.row_penalty(), m.rows(), self.rows.0) + side(m.col_penalty(), m.cols(), self.cols.0)
            - self.epsilon * (moved - supply * demand)
    }

    /// With respect to the masses of both sides; zero for lines of no mass, of whose potential nobody knows.
    fn gradients(&self) -> (Vec<f64>, Vec<f64>) {
        let (m, (supply, demand)) = (self.marginals, self.totals());
        let side = |penalty: Penalty, masses: &[f64], line: &(&[f64], Vec<f64>), other: f64| {
            let each = masses.iter().zip(line.0).zip(&line.1);
            each.map(|((&mass, &f), sum)| {
                if mass == 0.0 {
                    return 0.0;
                }
                let ratio = if penalty.is_exact() { 1.0 } else { sum / mass };
                let price = penalty.conjugate(1.0, f - self.epsilon * mass.ln());
                price - self.epsilon * (ratio - other)
            })
            .collect::<Vec<f64>>()
        };
        let mut rows = side(m.row_penalty(), m.rows(), &self.rows, demand);
        let mut cols = side(m.col_penalty(), m.cols(), &self.cols, supply);
        if !m.is_relaxed() {
            let mean = |values: &[f64], masses: &[f64], total: f64| -> f64 {
                let both = values.iter().zip(masses);
                both.map(|(v, m)| v * (m / total)).sum()
            };
            let apart = mean(&cols, m.cols(), demand) - mean(&rows, m.rows(), supply);
            rows.iter_mut().for_each(|f| *f += 0.5 * apart);
            cols.iter_mut().for_each(|g| *g -= 0.5 * apart);
        }
        (rows, cols)
    }
}
