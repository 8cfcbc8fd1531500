//! Sorting numbers by their bits.
//!
//! A double's bits, with the sign turned round, sort like the number. Three passes of counting sort, eleven bits each from the
//! thirty-first up, leave runs that agree in sign, exponent and twenty-one bits of the fraction: short ones for anything measured, and
//! sorted by comparison whatever they are. One pass moves every element once, so that a million numbers take a few
//! milliseconds. Ties are broken by the element as a whole: the order depends on nothing else.

use super::tiles::both;

/// What is sorted: numbers, or numbers that carry where they came from.
pub(crate) trait Keyed: Copy + Ord + Default {
    /// The bits of the number, as [`key`] arranges them.
    fn key(self) -> u64;
}

impl Keyed for u64 {
    fn key(self) -> u64 {
        self
    }
}

impl Keyed for (u64, u32) {
    fn key(self) -> u64 {
        self.0
    }
}

/// With a weight, as bits.
impl Keyed for (u64, u64) {
    fn key(self) -> u64 {
        self.0
    }
}

/// Bits that sort like the number.
#[inline(always)]
pub(crate) fn key(x: f64) -> u64 {
    let bits = x.to_bits();
    let mask = ((bits as i64) >> 63) as u64 | (1 << 63);
    bits ^ mask
}

/// The number whose bits these are.
#[inline(always)]
pub(crate) fn unkey(key: u64) -> f64 {
    let mask = (key >> 63).wrapping_sub(1) | (1 << 63);
    f64::from_bits(key ^ mask)
}

const DIGIT: u32 = 11;
const BUCKETS: usize = 1 << DIGIT;
const SHIFTS: [u32; 3] = [31, 42, 53];

/// Below this many elements comparing is as fast.
const COMPARED_BELOW: usize = 1500;

/// Sorts, least first.
pub(crate) fn sort<K: Keyed>(elements: &mut Vec<K>) {
    if elements.len() < COMPARED_BELOW {
        elements.sort_unstable();
        return;
    }
    let mut counts = vec![[0u32; BUCKETS]; SHIFTS.len()];
    if u32::try_from(elements.len()).is_err() {
        elements.sort_unstable();
        return;
    }
    for e in elements.iter() {
        for (count, shift) in counts.iter_mut().zip(SHIFTS) {
            count[digit(*e, shift)] += 1;
        }
    }
    let mut other = vec![K::default(); elements.len()];
    for (count, shift) in counts.iter_mut().zip(SHIFTS) {
        let first = digit(elements[0], shift);
        if count[first] as usize == elements.len() {
            continue;
        }
        let mut start = 0;
        for c in count.iter_mut() {
            start += core::mem::replace(c, start);
        }
        for e in elements.iter() {
            let place = &mut count[digit(*e, shift)];
            other[*place as usize] = *e;
            *place += 1;
        }
        core::mem::swap(elements, &mut other);
    }
    // What agrees in its upper bits.
    let upper = |e: K| e.key() >> SHIFTS[0];
    let mut start = 0;
    for end in 1..=elements.len() {
        if end == elements.len() || upper(elements[end]) != upper(elements[start]) {
            if end - start > 1 {
                elements[start..end].sort_unstable();
            }
            start = end;
        }
    }
}

/// Below this many elements a second thread is not worth the merging.
const HALVED_FROM: usize = 1 << 17;

/// Sorts, least first, one half beside the other where there are many; the order is that of [`sort`].
pub(crate) fn sort_by_halves<K: Keyed + Send>(mut elements: Vec<K>) -> Vec<K> {
    if elements.len() < HALVED_FROM {
        sort(&mut elements);
        return elements;
    }
    let mut upper = elements.split_off(elements.len() / 2);
    both(|| sort(&mut elements), || sort(&mut upper));
    let mut merged = Vec::with_capacity(elements.len() + upper.len());
    let (mut i, mut j) = (0, 0);
    while i < elements.len() && j < upper.len() {
        let first = elements[i] <= upper[j];
        merged.push(if first { elements[i] } else { upper[j] });
        i += usize::from(first);
        j += usize::from(!first);
    }
    merged.extend_from_slice(&elements[i..]);
    merged.extend_from_slice(&upper[j..]);
    merged
}

#[inline(always)]
fn digit<K: Keyed>(element: K, shift: u32) -> usize {
    (element.key() >> shift) as usize & (BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;

    #[test]
    fn halves_come_together_in_the_same_order() {
        let mut random = Random::new(3, 3);
        let number = |x: f64| key((x * 1e3).round());
        let pairs: Vec<(u64, u64)> = (0..HALVED_FROM + 1)
            .map(|_| (number(random.normal()), random.unit().to_bits()))
            .collect();
        let mut whole = pairs.clone();
        sort(&mut whole);
        assert_eq!(sort_by_halves(pairs), whole);
    }

    #[test]
    fn keys_sort_like_numbers_and_come_back() {
        let numbers = [
            f64::NEG_INFINITY,
            -1e300,
            -1.0,
            -1e-310,
            -0.0,
            0.0,
            1e-310,
            1.0,
            1e300,
        ];
        assert!(numbers.windows(2).all(|w| key(w[0]) < key(w[1])));
        assert!(
            numbers
                .iter()
                .all(|x| unkey(key(*x)).to_bits() == x.to_bits())
        );
    }

    #[test]
    fn radix_passes_agree_with_comparisons() {
        let mut random = Random::new(1, 0);
        let draws: [&mut dyn FnMut(usize) -> f64; 4] = [
            &mut |_| random.normal(),
            &mut |i| 1.0 + (i * 7919 % 1000) as f64 * 1e-15, // one run
            &mut |i| (i % 3) as f64,
            &mut |i| -(i as f64),
        ];
        for draw in draws {
            let numbers: Vec<f64> = (0..5000).map(draw).collect();
            let mut keys: Vec<u64> = numbers.iter().map(|x| key(*x)).collect();
            sort(&mut keys);
            let mut sorted = numbers.clone();
            sorted.sort_by(f64::total_cmp);
            assert!(keys.iter().zip(&sorted).all(|(k, x)| unkey(*k) == *x));
            let mut pairs: Vec<(u64, u32)> =
                numbers.iter().zip(0..).map(|(x, i)| (key(*x), i)).collect();
            sort(&mut pairs);
            assert!(pairs.windows(2).all(|w| w[0] < w[1]));
        }
    }
}
