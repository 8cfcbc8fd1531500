//! Numbers that may be infinite, for formats that know no infinity.
//!
//! JSON has no ±∞: where a format is for people, such numbers are written as the words `"inf"`, `"-inf"` and `"nan"`, all
//! others as numbers; elsewhere every number is written as it is.

use core::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number that may be infinite.
struct Extended(f64);

impl Serialize for Extended {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() || !serializer.is_human_readable() {
            return serializer.serialize_f64(self.0);
        }
        serializer.serialize_str(match self.0 {
            f64::INFINITY => "inf",
            f64::NEG_INFINITY => "-inf",
            _ => "nan",
        })
    }
}

impl<'de> Deserialize<'de> for Extended {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(NumberOrWord)
        } else {
            f64::deserialize(deserializer).map(Self)
        }
    }
}

struct NumberOrWord;

impl Visitor<'_> for NumberOrWord {
    type Value = Extended;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, \"inf\", \"-inf\" or \"nan\"")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Extended, E> {
        Ok(Extended(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Extended, E> {
        Ok(Extended(value as f64))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Extended, E> {
        Ok(Extended(value as f64))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Extended, E> {
        match word {
            "inf" => Ok(Extended(f64::INFINITY)),
            "-inf" => Ok(Extended(f64::NEG_INFINITY)),
            "nan" => Ok(Extended(f64::NAN)),
            _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
        }
    }
}

pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Extended(*value).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Extended::deserialize(deserializer).map(|x| x.0)
}

/// The same for lists of them.
pub(crate) mod list {
    use super::{Deserialize, Deserializer, Extended, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        values: &[f64],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(|x| Extended(*x)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<f64>, D::Error> {
        let values = Vec::<Extended>::deserialize(deserializer)?;
        Ok(values.into_iter().map(|x| x.0).collect())
    }
}
