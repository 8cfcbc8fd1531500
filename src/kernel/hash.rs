//! A fixed hash, for draws that no pattern in the data can follow and that are the same every time.

/// How far apart the counts of neighbours are: the golden ratio of 2⁶⁴.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// 64 bits with good avalanche: the finaliser of SplitMix64.
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(STEP);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
