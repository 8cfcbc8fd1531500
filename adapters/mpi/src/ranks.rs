//! A team over a communicator.

use core::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use earthmover::Error;
use earthmover::team::Team;
use mpi::Threading;
use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives};

/// The ranks of a communicator, which is theirs alone: a duplicate of the one they were made from.
pub struct Ranks {
    communicator: Mutex<SimpleCommunicator>,
    rank: usize,
    size: usize,
    sent: AtomicU64,
}

// SAFETY: a communicator is a handle that any thread may use, one at a time: MPI was asked for `Threading::Serialized` or more, which
// `new` checks, and the lock lets one thread in at a time.
unsafe impl Send for Ranks {}
// SAFETY: as above.
unsafe impl Sync for Ranks {}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ranks")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

fn failed(message: impl Into<String>) -> Error {
    Error::Backend {
        backend: "MPI",
        message: message.into(),
    }
}

impl Ranks {
    /// Starts MPI, for the whole process and once, and takes all of its ranks. MPI ends when the universe is dropped.
    ///
    /// # Errors
    /// [`Error::Backend`] where MPI runs already or lets only one thread call it.
    pub fn of_the_world() -> Result<(Universe, Self), Error> {
        let (universe, _) = mpi::initialize_with_threading(Threading::Serialized)
            .ok_or_else(|| failed("it was initialised before"))?;
        let ranks = Self::new(&universe.world())?;
        Ok((universe, ranks))
    }

    /// The ranks of a communicator. All of them call it.
    ///
    /// # Errors
    /// [`Error::Backend`] where MPI was not told that threads may call it in turns.
    pub fn new(communicator: &impl Communicator) -> Result<Self, Error> {
        if mpi::environment::threading_support() < Threading::Serialized {
            return Err(failed("initialise it with Threading::Serialized or more"));
        }
        let communicator = communicator.duplicate();
        let whole = |n: i32| usize::try_from(n).map_err(|_| failed("a negative rank"));
        Ok(Self {
            rank: whole(communicator.rank())?,
            size: whole(communicator.size())?,
            communicator: Mutex::new(communicator),
            sent: AtomicU64::new(0),
        })
    }

    /// Bytes that this rank has given to others so far: what it had to say, times those who heard it.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Ends the program on all ranks at once, with this status: for what one rank alone knows to be wrong.
    pub fn abort(&self, status: i32) -> ! {
        let guard = self.communicator.lock().unwrap_or_else(|e| e.into_inner());
        guard.abort(status)
    }
}

impl Team for Ranks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn gather(&self, mine: &[f64]) -> Result<Vec<Vec<f64>>, Error> {
        if self.size == 1 {
            return Ok(vec![mine.to_vec()]);
        }
        let communicator = self
            .communicator
            .lock()
            .map_err(|_| failed("a thread died in it"))?;
        let count =
            i32::try_from(mine.len()).map_err(|_| failed("more than 2³¹ numbers at once"))?;
        let mut counts = vec![0i32; self.size];
        communicator.all_gather_into(&count, &mut counts[..]);
        let mut starts = Vec::with_capacity(self.size);
        let mut total = 0i32;
        for &count in &counts {
            starts.push(total);
            total = total
                .checked_add(count)
                .ok_or_else(|| failed("more than 2³¹ numbers at once"))?;
        }
        let mut all = vec![0.0f64; total as usize];
        {
            let mut parts = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
            communicator.all_gather_varcount_into(mine, &mut parts);
        }
        let others = (self.size - 1) as u64;
        self.sent
            .fetch_add((8 * mine.len() as u64 + 4) * others, Ordering::Relaxed);
        let parts = counts.iter().zip(&starts);
        Ok(parts
            .map(|(&n, &at)| all[at as usize..(at + n) as usize].to_vec())
            .collect())
    }
}
