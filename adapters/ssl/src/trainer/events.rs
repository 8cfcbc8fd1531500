//! Event files, which TensorBoard reads: `tensorboard --logdir runs`.
//!
//! ```text
//! record   length: u64 | masked CRC-32C of it: u32 | event | masked CRC-32C of the event: u32       (little-endian)
//! event    protocol buffer { 1: time in seconds (double), 2: step, 3: "brain.Event:2" | 5: summary | 7: session }
//! summary  { 1: { 1: name, 2: value (float) }, … }
//! ```
//!
//! A run that goes on opens a new file whose session event tells readers to forget what was logged beyond its step.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::error::TrainError;
use super::records::{Evaluation, StepRecord};

const PREFIX: &str = "events.out.tfevents.";
/// Steps of a run that are written: a page cannot show more, and a million would be a gigabyte.
const SHOWN: u64 = 2000;

/// An open event file.
#[derive(Debug)]
pub(crate) struct Events {
    path: PathBuf,
    file: BufWriter<File>,
    every: u64,
}

impl Events {
    /// Opens a file for what happens from `step` of `steps` on.
    pub(crate) fn open(folder: &Path, step: u64, steps: u64) -> Result<Self, TrainError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = now.map_or(0, |d| d.as_secs());
        // Readers take files in the order of their names.
        let name = format!("{PREFIX}{seconds:010}.{step:010}.earthmover");
        let path = folder.join(name);
        let file = BufWriter::new(File::create(&path).map_err(TrainError::io(&path))?);
        let mut events = Self {
            path,
            file,
            every: steps.div_ceil(SHOWN).max(1),
        };
        let mut version = Vec::new();
        bytes_field(&mut version, 3, b"brain.Event:2");
        events.write(0, &version)?;
        if step > 0 {
            let mut start = Vec::new();
            // The session's status: 1 is START.
            bytes_field(&mut start, 7, &[0x08, 1]);
            events.write(step, &start)?;
        }
        Ok(events)
    }

    /// Removes the event files of a folder.
    pub(crate) fn discard(folder: &Path) -> Result<(), TrainError> {
        for entry in fs::read_dir(folder).map_err(TrainError::io(folder))? {
            let path = entry.map_err(TrainError::io(folder))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(PREFIX) && name.ends_with(".earthmover") {
                fs::remove_file(&path).map_err(TrainError::io(&path))?;
            }
        }
        Ok(())
    }

    /// Logs a step, if it is one of those shown.
    pub(crate) fn step(&mut self, r: &StepRecord) -> Result<(), TrainError> {
        if !r.step.is_multiple_of(self.every) {
            return Ok(());
        }
        self.scalars(
            r.step,
            &[
                ("train/labeled_loss", r.labeled_loss),
                ("train/unlabeled_loss", r.unlabeled_loss),
                ("train/learning_rate", r.rate),
                ("allocation/allocated", r.allocated),
                ("allocation/label_accuracy", r.label_accuracy),
                ("allocation/iterations", r.iterations as f64),
                ("time/step_seconds", r.seconds),
                ("time/allocation_seconds", r.allocation_seconds),
            ],
        )
    }

    /// Logs an evaluation.
    pub(crate) fn evaluation(&mut self, e: &Evaluation) -> Result<(), TrainError> {
        let mut scalars = Vec::new();
        let name = |what: &str, on: &str| format!("{on}/{what}");
        let both = [
            (e.on.name(), e.scores.as_ref()),
            ("validation", e.validation.as_ref()),
        ];
        // Where there is no test part the two are the same.
        let both = &both[..if e.on.name() == "validation" { 1 } else { 2 }];
        for (on, scores) in both {
            let Some(s) = scores else { continue };
            for (what, value) in [
                ("error_percent", 100.0 * (1.0 - s.accuracy)),
                ("loss", s.loss),
                ("balanced_accuracy", s.balanced_accuracy),
                ("macro_f1", s.macro_f1),
                ("top5", s.top5),
                ("calibration_error", s.calibration_error),
            ] {
                scalars.push((name(what, on), value));
            }
        }
        let scalars: Vec<(&str, f64)> = scalars.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        self.scalars(e.step, &scalars)
    }

    pub(crate) fn flush(&mut self) -> Result<(), TrainError> {
        self.file.flush().map_err(TrainError::io(&self.path))
    }

    fn scalars(&mut self, step: u64, scalars: &[(&str, f64)]) -> Result<(), TrainError> {
        let mut summary = Vec::new();
        for (name, value) in scalars.iter().filter(|(_, v)| v.is_finite()) {
            let mut one = Vec::new();
            bytes_field(&mut one, 1, name.as_bytes());
            // Field 2, four bytes.
            one.push(2 << 3 | 5);
            one.extend((*value as f32).to_le_bytes());
            bytes_field(&mut summary, 1, &one);
        }
        let mut event = Vec::new();
        bytes_field(&mut event, 5, &summary);
        self.write(step, &event)
    }

    /// Time and step, then `rest`, as one record.
    fn write(&mut self, step: u64, rest: &[u8]) -> Result<(), TrainError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut event = vec![1 << 3 | 1];
        event.extend(now.map_or(0.0, |d| d.as_secs_f64()).to_le_bytes());
        event.push(2 << 3);
        varint(&mut event, step);
        event.extend_from_slice(rest);
        let record = record(&event);
        let written = self.file.write_all(&record);
        written.map_err(TrainError::io(&self.path))
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A field of bytes, text or a message.
fn bytes_field(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn record(event: &[u8]) -> Vec<u8> {
    let length = (event.len() as u64).to_le_bytes();
    let mut out = length.to_vec();
    out.extend(masked(&length).to_le_bytes());
    out.extend_from_slice(event);
    out.extend(masked(event).to_le_bytes());
    out
}

fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Castagnoli's polynomial, bits reversed; records are short, so bit by bit will do.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0x82f6_3b78 & 0u32.wrapping_sub(crc & 1));
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standard() {
        // RFC 3720, B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn numbers_of_many_bytes() {
        let mut out = Vec::new();
        varint(&mut out, 300);
        assert_eq!(out, [0xac, 2]);
    }

    #[test]
    fn records_carry_length_and_sums() {
        let one = record(b"abc");
        assert_eq!(one[..8], 3u64.to_le_bytes());
        assert_eq!(one.len(), 8 + 4 + 3 + 4);
        assert_eq!(one[15..], masked(b"abc").to_le_bytes());
    }
}
