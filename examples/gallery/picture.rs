//! A picture of red, green and blue bytes, and as little of PNG as it takes to write one.

use std::io;
use std::path::Path;

pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// Three bytes a pixel, row by row.
    pub(crate) pixels: Vec<u8>,
}

impl Picture {
    pub(crate) fn new(width: usize, height: usize, colour: [u8; 3]) -> Self {
        Self {
            width,
            height,
            pixels: colour.repeat(width * height),
        }
    }

    pub(crate) fn set(&mut self, x: usize, y: usize, colour: [u8; 3]) {
        let at = 3 * (y * self.width + x);
        self.pixels[at..at + 3].copy_from_slice(&colour);
    }

    pub(crate) fn write(&self, file: &Path) -> io::Result<()> {
        let mut header = Vec::new();
        header.extend((self.width as u32).to_be_bytes());
        header.extend((self.height as u32).to_be_bytes());
        header.extend([8, 2, 0, 0, 0]); // eight bits, true colour
        // Each line begins with the filter it was written with: each byte less the one a pixel before it.
        let mut lines = Vec::new();
        for line in self.pixels.chunks_exact(3 * self.width) {
            lines.push(1);
            lines.extend((0..line.len()).map(|k| {
                let before = if k < 3 { 0 } else { line[k - 3] };
                line[k].wrapping_sub(before)
            }));
        }
        let mut png = vec![0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a];
        chunk(&mut png, b"IHDR", &header);
        chunk(&mut png, b"IDAT", &zlib(&lines));
        chunk(&mut png, b"IEND", &[]);
        std::fs::write(file, png)
    }
}

fn chunk(png: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    png.extend((data.len() as u32).to_be_bytes());
    let start = png.len();
    png.extend(name);
    png.extend(data);
    let mut crc = u32::MAX;
    for byte in &png[start..] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    png.extend((!crc).to_be_bytes());
}

/// Bits, the lowest first.
struct Bits {
    bytes: Vec<u8>,
    held: u32,
    count: u32,
}

impl Bits {
    fn put(&mut self, value: u32, count: u32) {
        self.held |= value << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.held as u8);
            self.held >>= 8;
            self.count -= 8;
        }
    }

    /// A symbol of the fixed code, whose bits go the other way round.
    fn symbol(&mut self, symbol: u32) {
        let (code, length) = match symbol {
            0..=143 => (0x30 + symbol, 8),
            144..=255 => (0x190 + symbol - 144, 9),
            256..=279 => (symbol - 256, 7),
            _ => (0xc0 + symbol - 280, 8),
        };
        self.put(code.reverse_bits() >> (32 - length), length);
    }
}

/// One block of the fixed code, with runs of a repeated byte written as one.
fn zlib(data: &[u8]) -> Vec<u8> {
    let mut bits = Bits {
        bytes: vec![0x78, 0x01],
        held: 0,
        count: 0,
    };
    bits.put(0b011, 3);
    let mut at = 0;
    while at < data.len() {
        let run = data[at..]
            .iter()
            .take(259)
            .take_while(|b| **b == data[at])
            .count();
        bits.symbol(u32::from(data[at]));
        if run > 10 {
            // The same byte again, 258 or 10 to 3 times, one place back.
            let mut left = run - 1;
            while left >= 3 {
                let length = if left >= 258 { 258 } else { left.min(10) };
                bits.symbol(if length == 258 {
                    285
                } else {
                    254 + length as u32
                });
                bits.put(0, 5);
                left -= length;
            }
            at += run - left;
        } else {
            at += 1;
        }
    }
    bits.symbol(256);
    bits.put(0, 7);
    let (mut a, mut b) = (1u32, 0u32);
    for byte in data {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    bits.bytes.extend(((b << 16) | a).to_be_bytes());
    bits.bytes
}
