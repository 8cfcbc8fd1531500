//! What was there, in 64 bits: FNV-1a.
//!
//! ```text
//! h ← (h ⊕ byte) · (2⁴⁰ + 435)   for each byte
//! ```

/// FNV-1a, 64 bits: tells damage and change from what was there, not from what somebody made on purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// The number.
    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

#[cfg(feature = "data")]
impl Fingerprint {
    /// Text and its end, so that no two lists of texts run together.
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0xff]);
    }

    pub(crate) fn finish(self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(feature = "train")]
impl Fingerprint {
    /// The sum of one piece.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut sum = Self::default();
        sum.bytes(bytes);
        sum
    }
}
