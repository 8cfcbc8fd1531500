//! Saved allocators: what is accepted is saved again to the same bytes, and goes on without a panic.
//!
//! A stream ends in a sum of all before it, which no mutation would keep. So every input is tried twice: as it is,
//! and with its last eight bytes made the sum.

use earthmover_ssl::allocation::LabelAllocator;
use earthmover_testkit::fnv1a;

use crate::{LONGEST, readable};

/// The same bytes with a sum at the end that is right.
#[must_use]
pub fn summed(data: &[u8]) -> Vec<u8> {
    let body = &data[..data.len().saturating_sub(8)];
    [body, &fnv1a(body).to_le_bytes()].concat()
}

fn saved(allocator: &LabelAllocator) -> Vec<u8> {
    let mut bytes = Vec::new();
    allocator.save(&mut bytes).expect("memory takes everything");
    bytes
}

fn load(data: &[u8]) {
    let mut allocator = match LabelAllocator::load(data) {
        Ok(allocator) => allocator,
        Err(error) => return readable(&error, 400),
    };
    let bytes = saved(&allocator);
    // A stream may go on behind an allocator.
    assert!(data.starts_with(&bytes), "saved differently");
    assert_eq!(
        allocator.costs().len(),
        allocator.examples() * allocator.classes()
    );
    go_on(&mut allocator);
}

/// One more solve, of this allocator and of its copy.
fn go_on(allocator: &mut LabelAllocator) {
    let bytes = saved(allocator);
    // The cap is the third number behind magic and version; with a large one, long is not wrong.
    let cap = bytes[24..32].try_into().map(u64::from_le_bytes);
    if allocator.costs().len() > 4096 || cap.is_ok_and(|cap| cap > 200) {
        return;
    }
    let mut again = LabelAllocator::load(bytes.as_slice()).expect("what was saved");
    let (ours, theirs) = (allocator.allocate(0.5), again.allocate(0.5));
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            assert!(ours.mass.iter().all(|m| *m >= 0.0), "{ours:?}");
            assert!(ours.error >= 0.0, "{ours:?}");
            assert_eq!(
                (ours.status, ours.iterations),
                (theirs.status, theirs.iterations)
            );
            assert_eq!(ours.mass, theirs.mass);
            assert_eq!(saved(allocator), saved(&again));
        }
        (Err(ours), Err(theirs)) => {
            readable(&ours, 400);
            assert_eq!(ours.to_string(), theirs.to_string());
        }
        (ours, theirs) => panic!("{ours:?} {theirs:?}"),
    }
}

/// `LabelAllocator` from serde, by way of JSON.
pub fn json(data: &[u8]) {
    if data.len() > LONGEST {
        return;
    }
    match serde_json::from_slice::<LabelAllocator>(data) {
        Ok(mut allocator) => {
            let text = serde_json::to_string(&allocator).expect("numbers");
            let again: LabelAllocator = serde_json::from_str(&text).expect("what was saved");
            assert_eq!(saved(&allocator), saved(&again));
            go_on(&mut allocator);
        }
        // serde's own words, which quote what they find.
        Err(error) => readable(&error, 2 * LONGEST),
    }
}

/// `LabelAllocator::load`.
pub fn run(data: &[u8]) {
    if data.len() <= LONGEST {
        load(data);
        load(&summed(data));
    }
}
