//! What both examples do: flags, masses, the one line that is printed.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use earthmover::team::{Shard, Team};
use earthmover::{Cost, Real, Solution};
use earthmover_mpi::{Ranks, RowFile};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// `--name value` pairs.
pub(crate) struct Flags(BTreeMap<String, String>);

impl Flags {
    pub(crate) fn read() -> Outcome<Self> {
        let mut found = BTreeMap::new();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let name = word
                .strip_prefix("--")
                .ok_or_else(|| format!("`{word}` is no flag"))?;
            let value = words
                .next()
                .ok_or_else(|| format!("--{name} wants a value"))?;
            found.insert(name.to_owned(), value);
        }
        Ok(Self(found))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str, default: N) -> Outcome<N> {
        match self.text(name) {
            None => Ok(default),
            Some(word) => Ok(word
                .parse()
                .map_err(|_| format!("--{name} {word} is no such number"))?),
        }
    }
}

/// Runs on every rank. What goes wrong is said once, by the first rank where all know it and by the rank itself where it may be
/// alone with it, and ends the job with a status that is not zero.
pub(crate) fn main(run: impl FnOnce(&Flags, &Arc<Ranks>) -> Outcome<()>) -> std::process::ExitCode {
    let (universe, ranks) = match Ranks::of_the_world() {
        Ok((universe, ranks)) => (universe, Arc::new(ranks)),
        Err(error) => {
            eprintln!("{error}");
            return std::process::ExitCode::FAILURE;
        }
    };
    if let Err(error) = Flags::read().and_then(|flags| run(&flags, &ranks)) {
        eprintln!("rank {}: {error}", ranks.rank());
        // Complaints that all share have reached all by now; one that a rank has alone must not leave the others waiting.
        ranks.abort(1);
    }
    // The communicator ends before MPI does.
    drop(ranks);
    drop(universe);
    std::process::ExitCode::SUCCESS
}

/// FNV-1a over the potentials of the columns, slack last.
fn checksum(cols: &[f64], slack: f64) -> u64 {
    let bits = cols
        .iter()
        .chain([&slack])
        .flat_map(|g| g.to_bits().to_le_bytes());
    bits.fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A random number in [0, 1) for each pair, the same on every rank.
pub(crate) fn unit(seed: u64, row: usize, col: usize) -> f64 {
    let mut z = seed
        ^ (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ ((col as u64) << 1 | 1).wrapping_mul(0xd1b5_4a32_d192_ed03);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Prints the line, writes labels or plan where asked. All ranks call it.
pub(crate) fn report<T: Real, C: Cost<T>>(
    flags: &Flags,
    ranks: &Ranks,
    shard: Option<&Shard>,
    start: Instant,
    solution: &Solution<'_, T, C>,
    shape: (usize, usize),
) -> Outcome<()> {
    let solved = start.elapsed();
    let proof = *solution.certificate();
    let bytes: f64 = ranks
        .gather(&[ranks.bytes_sent() as f64])?
        .concat()
        .iter()
        .sum();
    if let Some(shard) = shard {
        write_rows(flags, shard, solution)?;
    }
    if ranks.rank() == 0 {
        let (cols, slack) = (&solution.potentials().cols, solution.potentials().slack_col);
        println!(
            "{{\"ranks\":{},\"rows\":{},\"cols\":{},\"ms\":{:.1},\"ms_with_certificate\":{:.1},\"status\":\"{}\",\"sweeps\":{},\
             \"violation\":{:e},\"objective\":{:?},\"primal\":{:?},\"dual\":{:?},\"bytes_sent\":{bytes},\"checksum\":\"{:016x}\"}}",
            ranks.size(),
            shape.0,
            shape.1,
            solved.as_secs_f64() * 1e3,
            start.elapsed().as_secs_f64() * 1e3,
            solution.status(),
            solution.iterations(),
            solution.violation(),
            proof.objective,
            proof.primal,
            proof.dual,
            checksum(cols, slack),
        );
    }
    Ok(())
}

/// `--labels FILE`: each row's best column, −1 for none. `--plan FILE`: all of the plan. Each rank writes its own rows.
fn write_rows<T: Real, C: Cost<T>>(
    flags: &Flags,
    shard: &Shard,
    solution: &Solution<'_, T, C>,
) -> Outcome<()> {
    let plan = solution.plan();
    if let Some(path) = flags.text("labels").map(PathBuf::from) {
        let file = RowFile::create::<i64>(&path, shard, 0)?;
        let labels: Vec<i64> = plan
            .argmax()
            .iter()
            .map(|j| j.map_or(-1, |j| j as i64))
            .collect();
        let written = file.write(0, &labels);
        file.finish(written)?;
    }
    if let Some(path) = flags.text("plan").map(PathBuf::from) {
        let file = RowFile::create::<f64>(&path, shard, shard.cols())?;
        let mut written = Ok(());
        plan.for_each_row(|i, row| {
            if written.is_ok() {
                written = file.write(i, row);
            }
        });
        file.finish(written)?;
    }
    Ok(())
}

/// `--pids FOLDER`: leaves this rank's process number there, for whoever wants to see what happens without it.
pub(crate) fn leave_pid(flags: &Flags, rank: usize) -> Outcome<()> {
    if let Some(folder) = flags.text("pids") {
        std::fs::write(
            PathBuf::from(folder).join(rank.to_string()),
            std::process::id().to_string(),
        )?;
    }
    Ok(())
}
