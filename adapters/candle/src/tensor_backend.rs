//! Sinkhorn sweeps in candle tensor operations: on a CPU, on CUDA, on Metal, the same code.
//!
//! With z_ij = (g_j − C_ij)/ε and s the slack's logit,
//!
//! ```text
//! m_i = max(s, max_j z_ij)      P_ij = a_i e^{z_ij − m_i} / (e^{s − m_i} + Σ_j e^{z_ij − m_i})
//! ```
//!
//! The costs stay where they are; k + 1 potentials go there, k + 1 sums and the logarithms of n row sums come back; where masses
//! are penalised the n masses that follow from those go there, too. Three things need care:
//! a row whose logits are all −∞ must be named, not turned into NaN; the largest potential is taken out in
//! f64 before anything is narrowed to f32; and long f32 sums drift, so columns are summed on the device
//! in tiles of 1,024 rows and the tiles on the host in f64.

use candle_core::{D, DType, Device, Tensor};
use earthmover::sweep::{Backend, DualPoint, Law};
use earthmover::{Error, Side};

use crate::ops::log_sum_exp;

const NAME: &str = "tensor";
const TILE: usize = 1024;

/// A [`Backend`] whose costs are a candle tensor.
///
/// # Examples
/// ```
/// use candle_core::{Device, Tensor};
/// use earthmover::sweep::{Backend, DualPoint, Law};
/// use earthmover_candle::TensorBackend;
/// let cost = Tensor::new(&[[0f64, 1.0], [1.0, 0.0]], &Device::Cpu)?;
/// let mut backend = TensorBackend::new(cost, &[0.5, 0.5])?;
/// let mut sums = [0.0; 3];
/// let at = DualPoint { epsilon: 0.1, cols: &[0.0, 0.0], slack: f64::NEG_INFINITY };
/// backend.sweep(&at, &mut sums)?;
/// assert!((sums[0] - 0.5f64).abs() < 1e-12 && sums[2] == 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TensorBackend {
    cost: Tensor,
    rows: usize,
    cols: usize,
    masses: Vec<f64>,
    /// a_i as a column.
    mass: Tensor,
    /// Largest finite |C_ij|.
    reach: f64,
    last: Option<Last>,
    resolution: f64,
    law: Law,
}

/// What the last sweep leaves for the rarer questions.
#[derive(Debug)]
struct Last {
    epsilon: f64,
    shift: f64,
    /// z, n × k.
    logits: Tensor,
    /// ln Z_i in f64 on the host, the shift taken out.
    log_totals: Vec<f64>,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Backend {
        backend: NAME,
        message: error.to_string(),
    }
}

impl TensorBackend {
    /// Costs \[n, k\] in f32 or f64, wherever they are, with one mass per row.
    ///
    /// # Errors
    /// [`Error::Cost`] for a cost that is NaN or −∞, [`Error::Length`] or [`Error::Mass`] for masses that
    /// do not fit or are no masses, [`Error::Backend`] for another shape or type, or if the device fails.
    pub fn new(cost: Tensor, masses: &[f64]) -> Result<Self, Error> {
        let (rows, cols) = cost.dims2().map_err(failed)?;
        if rows == 0 || cols == 0 {
            return Err(Error::Empty { rows, cols });
        }
        if !matches!(cost.dtype(), DType::F32 | DType::F64) {
            return Err(failed(format!(
                "costs must be f32 or f64, not {:?}",
                cost.dtype()
            )));
        }
        if masses.len() != rows {
            return Err(Error::Length {
                what: "row masses",
                expected: rows,
                found: masses.len(),
            });
        }
        if let Some(index) = masses.iter().position(|a| !(a.is_finite() && *a >= 0.0)) {
            return Err(Error::Mass {
                side: Side::Rows,
                index,
                value: masses[index],
            });
        }
        check_costs(&cost)?;
        let mass = narrow(masses, (rows, 1), &cost)?;
        let largest = || -> candle_core::Result<f64> {
            let forbidden = cost.eq(f64::INFINITY)?;
            let finite = forbidden.where_cond(&cost.zeros_like()?, &cost)?;
            let most = finite.abs()?.max_all()?.to_device(&Device::Cpu)?;
            most.to_dtype(DType::F64)?.to_scalar()
        };
        let reach = largest().map_err(failed)?;
        let resolution = 8.0 * unit(cost.dtype());
        Ok(Self {
            cost: cost.detach(),
            rows,
            cols,
            masses: masses.to_vec(),
            mass,
            reach,
            last: None,
            resolution,
            law: Law::EXACT,
        })
    }

    fn run(&mut self, at: &DualPoint<'_>, sums: &mut [f64]) -> Result<(), Error> {
        let all = at.cols.iter().copied().chain([at.slack]);
        let top = all.clone().fold(f64::NEG_INFINITY, f64::max);
        let shift = if top.is_finite() { top } else { 0.0 };
        let potentials: Vec<f64> = at.cols.iter().map(|g| g - shift).collect();
        let g = narrow(&potentials, (1, self.cols), &self.cost)?;
        let slack = (at.slack - shift) / at.epsilon;
        let computed = || -> candle_core::Result<_> {
            let logits = (g.broadcast_sub(&self.cost)? * (1.0 / at.epsilon))?;
            let most = logits.max_keepdim(D::Minus1)?.maximum(slack)?;
            // All −∞ where a row has no way out: any finite number keeps NaN away, the sum stays zero.
            let blocked = most.eq(f64::NEG_INFINITY)?;
            let most = blocked.where_cond(&most.zeros_like()?, &most)?;
            let weights = logits.broadcast_sub(&most)?.exp()?;
            let kept = most.affine(-1.0, slack)?.exp()?;
            let total = (weights.sum_keepdim(D::Minus1)? + &kept)?;
            let log_total = (total.log()? + &most)?;
            Ok((logits, weights, kept, total, log_total))
        };
        let (logits, weights, kept, total, log_total) = computed().map_err(failed)?;
        let last = Last {
            epsilon: at.epsilon,
            shift,
            logits,
            log_totals: host(&log_total)?,
        };
        let mass = self.masses_at(&last)?;
        let shared = || -> candle_core::Result<_> {
            let scale = (mass / total.maximum(1e-30)?)?;
            Ok((weights.broadcast_mul(&scale)?, (kept * scale)?))
        };
        let (plan, rest) = shared().map_err(failed)?;
        let (columns, slack_sum) = sums.split_at_mut(self.cols);
        column_sums(&plan, columns)?;
        column_sums(&rest, slack_sum)?;
        let span = all.filter(|x| x.is_finite());
        let span = span.fold(self.reach, |m, x| m.max((x - shift).abs()));
        self.resolution = unit(self.cost.dtype()) * (8.0 + span / at.epsilon);
        self.last = Some(last);
        Ok(())
    }

    /// The masses of the rows as their law makes them, as a column.
    fn masses_at(&self, last: &Last) -> Result<Tensor, Error> {
        let is_exact = self.law.is_exact();
        let mut masses = Vec::with_capacity(self.rows);
        for (index, (&mass, &log)) in self.masses.iter().zip(&last.log_totals).enumerate() {
            // A row without any way out carries nothing, where it may.
            let is_number = log.is_finite() || (!is_exact && log == f64::NEG_INFINITY);
            if mass > 0.0 && !is_number {
                return Err(Error::Blocked {
                    side: Side::Rows,
                    index,
                    mass,
                });
            }
            let log_sum = log + last.shift / last.epsilon;
            masses.push(self.law.mass(last.epsilon, mass, log_sum));
        }
        if is_exact {
            return Ok(self.mass.clone());
        }
        narrow(&masses, (self.rows, 1), &self.cost)
    }

    /// f_i + shift of every row, at the law in force; −∞ for rows of no mass.
    fn rows_at(&self, last: &Last) -> Vec<f64> {
        let (epsilon, shift) = (last.epsilon, last.shift);
        let each = self.masses.iter().zip(&last.log_totals);
        each.map(|(&mass, &log)| match (mass > 0.0, self.law.is_exact()) {
            (false, _) => f64::NEG_INFINITY,
            (true, true) => epsilon * (mass.ln() - log),
            (true, false) => self.law.potential(epsilon, mass, log + shift / epsilon) + shift,
        })
        .collect()
    }

    fn last(&self) -> Result<&Last, Error> {
        let last = self.last.as_ref();
        last.ok_or_else(|| failed("nothing has been swept yet"))
    }
}

impl Backend for TensorBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn cols(&self) -> usize {
        self.cols
    }

    fn sweep(&mut self, at: &DualPoint<'_>, sums: &mut [f64]) -> Result<(), Error> {
        for (what, expected, found) in [
            ("column potentials", self.cols, at.cols.len()),
            ("column sums", self.cols + 1, sums.len()),
        ] {
            if expected != found {
                return Err(Error::Length {
                    what,
                    expected,
                    found,
                });
            }
        }
        self.run(at, sums)
    }

    fn log_sums(&mut self, cols: &[usize], out: &mut [f64]) -> Result<(), Error> {
        let last = self.last()?;
        let computed = || -> candle_core::Result<Vec<f64>> {
            // Few columns are asked for: their logits fit the host, where f64 is to be had everywhere.
            let picked: Vec<u32> = cols.iter().map(|&c| c as u32).collect();
            let picked = Tensor::from_vec(picked, cols.len(), last.logits.device())?;
            let columns = last
                .logits
                .index_select(&picked, 1)?
                .to_device(&Device::Cpu)?;
            let columns = columns.to_dtype(DType::F64)?.t()?;
            let rows = self
                .rows_at(last)
                .iter()
                .map(|f| f / last.epsilon)
                .collect();
            let rows = Tensor::from_vec(rows, (1, self.rows), &Device::Cpu)?;
            log_sum_exp(&columns.broadcast_add(&rows)?)?
                .flatten_all()?
                .to_vec1()
        };
        if cols.is_empty() {
            return Ok(());
        }
        let found = computed().map_err(failed)?;
        out.iter_mut().zip(found).for_each(|(o, f)| *o = f);
        Ok(())
    }

    fn row_potentials(&mut self, out: &mut [f64]) -> Result<(), Error> {
        let last = self.last()?;
        for (f, row) in out.iter_mut().zip(self.rows_at(last)) {
            *f = row - last.shift;
        }
        Ok(())
    }

    fn resolution(&self) -> f64 {
        self.resolution
    }

    fn obey(&mut self, law: &Law) -> bool {
        self.law = *law;
        true
    }
}

/// Rounding unit of a type.
fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    }
}

/// Numbers of the host in the type and on the device of `like`.
pub(crate) fn narrow(
    values: &[f64],
    shape: (usize, usize),
    like: &Tensor,
) -> Result<Tensor, Error> {
    // Narrowed on the host: not every device knows f64.
    Tensor::from_slice(values, shape, &Device::Cpu)
        .and_then(|t| t.to_dtype(like.dtype())?.to_device(like.device()))
        .map_err(failed)
}

pub(crate) fn host(tensor: &Tensor) -> Result<Vec<f64>, Error> {
    let read = || -> candle_core::Result<Vec<f64>> {
        let tensor = tensor.to_device(&Device::Cpu)?.flatten_all()?;
        tensor.to_dtype(DType::F64)?.to_vec1()
    };
    read().map_err(failed)
}

/// Σ over the rows of \[n, c\], tile by tile.
fn column_sums(plan: &Tensor, out: &mut [f64]) -> Result<(), Error> {
    let (n, c) = plan.dims2().map_err(failed)?;
    let whole = n / TILE;
    let mut parts = Vec::new();
    if whole > 0 {
        let tiles = plan
            .narrow(0, 0, whole * TILE)
            .and_then(|p| p.contiguous()?.reshape((whole, TILE, c))?.sum(1));
        parts.push(tiles.map_err(failed)?);
    }
    if n % TILE > 0 {
        let rest = plan.narrow(0, whole * TILE, n % TILE);
        parts.push(rest.and_then(|p| p.sum_keepdim(0)).map_err(failed)?);
    }
    out.fill(0.0);
    for part in parts {
        for row in host(&part)?.chunks_exact(c.max(1)) {
            out.iter_mut().zip(row).for_each(|(o, s)| *o += s);
        }
    }
    Ok(())
}

/// Refuses NaN and −∞, naming the first.
fn check_costs(cost: &Tensor) -> Result<(), Error> {
    let bad = || -> candle_core::Result<bool> {
        let wrong = (cost.ne(cost)? + cost.eq(f64::NEG_INFINITY)?)?;
        Ok(wrong.max_all()?.to_scalar::<u8>()? > 0)
    };
    if !bad().map_err(failed)? {
        return Ok(());
    }
    let (_, cols) = cost.dims2().map_err(failed)?;
    let values = host(cost)?;
    let first = values
        .iter()
        .position(|v| v.is_nan() || *v == f64::NEG_INFINITY);
    let index = first.unwrap_or(0);
    Err(Error::Cost {
        row: index / cols,
        col: index % cols,
        value: values[index],
    })
}
