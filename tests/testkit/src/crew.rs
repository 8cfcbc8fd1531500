//! A team of threads: what a cluster does, without one.

use std::sync::{Arc, Condvar, Mutex};

use earthmover::Error;
use earthmover::team::Team;

/// Runs `work` as each of so many members of a team, at the same time; what they return, by rank. A member that has returned is
/// gone: whoever waits for it gets an error.
///
/// ```
/// use earthmover_testkit::crew;
/// let heard = crew(3, |team| team.gather(&[team.rank() as f64]).unwrap().concat());
/// assert_eq!(heard, [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]);
/// ```
pub fn crew<R: Send>(size: usize, work: impl Fn(Arc<dyn Team>) -> R + Sync) -> Vec<R> {
    let table = Arc::new(Table {
        state: Mutex::new(State {
            given: vec![None; size],
            ..State::default()
        }),
        changed: Condvar::new(),
    });
    std::thread::scope(|scope| {
        let member = |rank| {
            let (table, work) = (Arc::clone(&table), &work);
            scope.spawn(move || {
                let leaving = Leaving(Arc::clone(&table));
                let found = work(Arc::new(Member { rank, size, table }));
                drop(leaving);
                found
            })
        };
        let members: Vec<_> = (0..size).map(member).collect();
        members.into_iter().map(|m| m.join().unwrap()).collect()
    })
}

/// What lies between the members.
#[derive(Debug)]
struct Table {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    given: Vec<Option<Vec<f64>>>,
    /// What all have given, until all have taken it.
    all: Option<Arc<Vec<Vec<f64>>>>,
    taken: usize,
    gone: usize,
}

#[derive(Debug)]
struct Member {
    rank: usize,
    size: usize,
    table: Arc<Table>,
}

/// Says that a member is gone, also where it panicked.
struct Leaving(Arc<Table>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().gone += 1;
        self.0.changed.notify_all();
    }
}

impl Team for Member {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn gather(&self, mine: &[f64]) -> Result<Vec<Vec<f64>>, Error> {
        let mut state = self.table.state.lock().unwrap();
        while state.all.is_some() {
            state = self.table.changed.wait(state).unwrap();
        }
        state.given[self.rank] = Some(mine.to_vec());
        if state.given.iter().all(Option::is_some) {
            let all = state.given.iter_mut().filter_map(Option::take).collect();
            (state.all, state.taken) = (Some(Arc::new(all)), 0);
            self.table.changed.notify_all();
        }
        while state.all.is_none() {
            if state.gone > 0 {
                return Err(Error::Backend {
                    backend: "crew",
                    message: "a member is gone".to_owned(),
                });
            }
            state = self.table.changed.wait(state).unwrap();
        }
        let all = state.all.clone().unwrap();
        state.taken += 1;
        if state.taken == self.size {
            state.all = None;
            self.table.changed.notify_all();
        }
        Ok(all.to_vec())
    }
}
