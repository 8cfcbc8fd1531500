//! From the final tree to an answer.
//!
//! The flows of a tree follow from the masses alone, from the leaves inwards: what a node does not give
//! to its children goes to its parent. Flows kept up through thousands of pivots have drifted by
//! rounding; worked out afresh, every node is balanced to the last bit of its own mass, and the one
//! node of a piece that has to absorb what rounding leaves over is the heaviest.

use super::start::Masses;
use super::tree::Tree;
use crate::kernel::rounding::TREE_FLOW;

/// The plan's entries (slack included, as the last row and column) with flows worked out afresh.
pub(super) fn entries(tree: &Tree, masses: &Masses) -> Vec<(usize, usize, f64)> {
    let (rows, cols) = (masses.rows.len(), masses.cols.len());
    let mass = |v: usize| {
        if v < rows {
            masses.rows[v]
        } else {
            masses.cols[v - rows]
        }
    };
    let mut arcs: Vec<(usize, usize, f64)> = tree
        .arcs()
        .filter(|&(i, j, flow)| flow > TREE_FLOW * masses.rows[i].min(masses.cols[j]))
        .collect();
    // Neighbours of every node, as indices into `arcs`.
    let mut starts = vec![0usize; rows + cols + 1];
    for &(i, j, _) in &arcs {
        starts[i + 1] += 1;
        starts[rows + j + 1] += 1;
    }
    for v in 0..rows + cols {
        starts[v + 1] += starts[v];
    }
    let mut fill = starts.clone();
    let mut around = vec![0usize; 2 * arcs.len()];
    for (at, &(i, j, _)) in arcs.iter().enumerate() {
        for v in [i, rows + j] {
            around[fill[v]] = at;
            fill[v] += 1;
        }
    }
    let mut heaviest: Vec<usize> = (0..rows + cols).collect();
    heaviest.sort_by(|&a, &b| mass(b).total_cmp(&mass(a)).then(a.cmp(&b)));
    let mut seen = vec![false; rows + cols];
    let mut left: Vec<f64> = (0..rows + cols).map(mass).collect();
    let mut order: Vec<(usize, usize)> = Vec::new();
    for top in heaviest {
        if core::mem::replace(&mut seen[top], true) {
            continue;
        }
        // Outwards from the heaviest node of the piece, then back from the leaves.
        order.clear();
        order.push((top, usize::MAX));
        let mut at = 0;
        while let Some(&(v, _)) = order.get(at) {
            at += 1;
            for &arc in &around[starts[v]..starts[v + 1]] {
                let other = if v < rows {
                    rows + arcs[arc].1
                } else {
                    arcs[arc].0
                };
                if !core::mem::replace(&mut seen[other], true) {
                    order.push((other, arc));
                }
            }
        }
        for &(v, arc) in order.iter().skip(1).rev() {
            let flow = left[v].max(0.0);
            arcs[arc].2 = flow;
            let other = if v < rows {
                rows + arcs[arc].1
            } else {
                arcs[arc].0
            };
            left[other] -= flow;
        }
    }
    arcs
}
