//! Sums of bytes.

/// FNV-1a, 64 bits: the sum at the end of a saved allocator and beside the files of a checkpoint.
///
/// ```
/// assert_eq!(earthmover_testkit::fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
/// ```
#[must_use]
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
