//! A plain mutator for the stand-in: bit flips, interesting numbers, truncations, repeats and splices, from a seed.

use earthmover_testkit::Rng;

/// Numbers that readers stumble over.
const INTERESTING: [u64; 16] = [
    0,
    1,
    2,
    7,
    8,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 32,
    1 << 60,
    i64::MAX as u64,
    u64::MAX - 7,
    u64::MAX,
];

/// Floating-point numbers that solvers stumble over.
const STRANGE: [f64; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN_POSITIVE,
    5e-324,
    1e-300,
    1e300,
    1e15,
    1e-8,
];

/// One to eight changes to `data`, some of them with pieces of `other`.
#[must_use]
pub fn mutate(data: &[u8], other: &[u8], longest: usize, draw: &mut Rng) -> Vec<u8> {
    let mut out = data.to_vec();
    for _ in 0..1 << draw.below(4) {
        change(&mut out, other, draw);
    }
    out.truncate(longest);
    out
}

fn overwrite(out: &mut [u8], at: usize, with: &[u8]) {
    for (to, from) in out.iter_mut().skip(at).zip(with) {
        *to = *from;
    }
}

/// Headers matter more than what follows, so half of all changes are near the start.
fn place(length: usize, draw: &mut Rng) -> usize {
    if draw.below(2) == 0 {
        draw.below(length.min(128))
    } else {
        draw.below(length)
    }
}

fn change(out: &mut Vec<u8>, other: &[u8], draw: &mut Rng) {
    if out.is_empty() {
        let count = draw.below(64);
        out.extend(draw.bytes(count));
        return;
    }
    let at = place(out.len(), draw);
    match draw.below(12) {
        0 | 1 => out[at] ^= 1 << draw.below(8),
        2 => out[at] = draw.bits() as u8,
        3 => out[at] = out[at].wrapping_add_signed(draw.below(33) as i8 - 16),
        4 => {
            let mut number = INTERESTING[draw.below(INTERESTING.len())].to_le_bytes();
            let width = 1 << draw.below(4);
            if draw.below(2) == 0 {
                number[..width].reverse();
            }
            overwrite(out, at, &number[..width]);
        }
        5 => {
            let number = STRANGE[draw.below(STRANGE.len())];
            if draw.below(2) == 0 {
                overwrite(out, at, &number.to_le_bytes());
            } else {
                overwrite(out, at, &(number as f32).to_le_bytes());
            }
        }
        // Text: digits become others, or more.
        6 => match out.iter().skip(at).position(u8::is_ascii_digit) {
            Some(step) if draw.below(2) == 0 => out[at + step] = b'0' + draw.below(10) as u8,
            Some(step) => out.insert(at + step, b'0' + draw.below(10) as u8),
            None => out[at] = 0,
        },
        7 => out.truncate(at),
        8 => {
            let count = draw.below(out.len() - at).min(64);
            out.drain(at..at + count);
        }
        9 => {
            let count = 1 + draw.below(8);
            let more = draw.bytes(count);
            out.splice(at..at, more);
        }
        10 => {
            let count = draw.below(out.len() - at).min(64);
            let again = out[at..at + count].to_vec();
            out.splice(at..at, again);
        }
        _ => {
            let from = place(other.len(), draw);
            let count = draw.below(other.len().saturating_sub(from)).min(256);
            let piece = other.get(from..from + count).unwrap_or_default();
            if draw.below(2) == 0 {
                overwrite(out, at, piece);
            } else {
                out.splice(at..at, piece.iter().copied());
            }
        }
    }
}
