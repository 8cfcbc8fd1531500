//! Sweeps over the entries that matter, and problems whose rows change a few at a time.
//!
//! At small ε a row's mass sits on one column, or is shared by two or three: every other entry of P(g) is
//! below e⁻¹⁶ and stays so while g moves a little. [`Active`] keeps, per row, only the entries within
//!
//! ```text
//! (g_j − C_ij)/ε  ≥  max_j (g_j − C_ij)/ε  −  (cut + 2 · leash)
//! ```
//!
//! of the row's best. While no potential has moved more than `leash` (in units of ε, a common shift not
//! counted) from where the lists were made, what is left out weighs less than e^−cut: the tolerance sets
//! the cut. A row with one entry left costs nothing at all. When the potentials have moved further the lists are made
//! anew; a row remembers how far behind the entries are that it leaves out, so that hardly any has to be read again.
//!
//! [`Incremental`] adds the other half of what makes repeated solves cheap: it keeps the column sums up to
//! date while rows are replaced, so that most re-solves find that there is nothing to do.

mod backend;
mod chord;
mod classify;
mod incremental;
mod lists;
mod table;

pub use incremental::{Checkpoint, Incremental, Resolve};
pub use table::{Rewritable, Table};

pub(crate) use backend::Active;
pub(crate) use lists::MOST;
