//! Where to compute: names of devices, what to do when one is not there, and memory that ran out.

use std::fmt;
use std::str::FromStr;

use candle_core::Device;

/// What a device can say, in words that help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Candle or the device under it failed.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// The device ran out of memory.
    #[error("out of memory with a batch of {batch}: try {suggestion} (the device said: {message})")]
    OutOfMemory {
        /// Images in the batch that did not fit.
        batch: usize,
        /// A batch likely to fit.
        suggestion: usize,
        /// The device's own words.
        message: String,
    },
    /// A device name that is none of `cpu`, `cuda`, `cuda:N`, `metal`, `metal:N`.
    #[error("unknown device {name:?}: expected cpu, cuda, cuda:N, metal or metal:N")]
    UnknownDevice {
        /// What was asked for.
        name: String,
    },
}

/// A device by name: `cpu`, `cuda`, `cuda:1`, `metal`.
///
/// # Examples
/// ```
/// use earthmover_candle::DeviceName;
/// assert_eq!("cuda:1".parse::<DeviceName>()?, DeviceName::Cuda(1));
/// assert_eq!(DeviceName::Cuda(0).to_string(), "cuda:0");
/// let chosen = DeviceName::Cpu.open();
/// assert!(chosen.device.is_cpu() && chosen.fallback.is_none());
/// assert!("gpu".parse::<DeviceName>().is_err());
/// # Ok::<(), earthmover_candle::DeviceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// The processor.
    Cpu,
    /// An NVIDIA card by number.
    Cuda(usize),
    /// An Apple card by number.
    Metal(usize),
}

impl FromStr for DeviceName {
    type Err = DeviceError;

    fn from_str(name: &str) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::UnknownDevice {
            name: name.to_owned(),
        };
        let (kind, number) = match name.split_once(':') {
            Some((kind, number)) => (kind, Some(number.parse().map_err(|_| unknown())?)),
            None => (name, None),
        };
        match (kind, number) {
            ("cpu", None) => Ok(Self::Cpu),
            ("cuda", n) => Ok(Self::Cuda(n.unwrap_or(0))),
            ("metal", n) => Ok(Self::Metal(n.unwrap_or(0))),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => write!(f, "cpu"),
            Self::Cuda(n) => write!(f, "cuda:{n}"),
            Self::Metal(n) => write!(f, "metal:{n}"),
        }
    }
}

/// Why the processor was taken instead of what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FallbackReason {
    /// This binary was built without the feature.
    NotBuilt {
        /// The feature to build with.
        feature: &'static str,
    },
    /// The device did not open.
    Unavailable {
        /// Its own words.
        message: String,
    },
}

/// A fall back to the processor; its `Display` is the sentence to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// What was asked for.
    pub wanted: DeviceName,
    /// Why it was not to be had.
    pub reason: FallbackReason,
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = self.wanted;
        match &self.reason {
            FallbackReason::NotBuilt { feature } => write!(
                f,
                "{wanted} is not in this build (add --features {feature}); computing on the cpu"
            ),
            FallbackReason::Unavailable { message } => {
                write!(
                    f,
                    "{wanted} does not answer ({message}); computing on the cpu"
                )
            }
        }
    }
}

/// An open device, and the reason if it is not the one asked for.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Where to compute.
    pub device: Device,
    /// Set when this is the processor in place of another device.
    pub fallback: Option<Fallback>,
}

impl DeviceName {
    /// Opens the device, or the processor where it cannot be had.
    #[must_use]
    pub fn open(self) -> Chosen {
        let (built, feature, opened) = match self {
            Self::Cpu => (true, "", Ok(Device::Cpu)),
            Self::Cuda(n) => (
                candle_core::utils::cuda_is_available(),
                "cuda",
                Device::new_cuda(n),
            ),
            Self::Metal(n) => (
                candle_core::utils::metal_is_available(),
                "metal",
                Device::new_metal(n),
            ),
        };
        match opened {
            Ok(device) => Chosen {
                device,
                fallback: None,
            },
            Err(error) => {
                let reason = if built {
                    FallbackReason::Unavailable {
                        message: error.to_string(),
                    }
                } else {
                    FallbackReason::NotBuilt { feature }
                };
                Chosen {
                    device: Device::Cpu,
                    fallback: Some(Fallback {
                        wanted: self,
                        reason,
                    }),
                }
            }
        }
    }
}

/// Turns an error of a step on `batch` images into [`DeviceError::OutOfMemory`] if that is what it says.
///
/// Drivers only say it in words (CUDA: `CUDA_ERROR_OUT_OF_MEMORY`, cuBLAS and cuDNN:
/// `…_STATUS_ALLOC_FAILED`, Metal: a failed buffer), so the words are what is looked at. The batch to
/// try is the largest power of two below the one that failed: activations, which dominate, grow in
/// proportion to it.
///
/// # Examples
/// ```
/// use earthmover_candle::{DeviceError, explain_memory};
/// let said = candle_core::Error::Msg("DriverError(CUDA_ERROR_OUT_OF_MEMORY)".into());
/// let error = explain_memory(said, 448);
/// assert!(matches!(error, DeviceError::OutOfMemory { suggestion: 256, .. }));
/// ```
#[must_use]
pub fn explain_memory(error: candle_core::Error, batch: usize) -> DeviceError {
    let message = error.to_string();
    let lower = message.to_lowercase();
    let phrases = [
        "out_of_memory",
        "out of memory",
        "outofmemory",
        "alloc_failed",
        "failed to allocate",
        "failedtocreateresource",
        "failed to create metal resource",
        "cannot allocate memory",
    ];
    if !phrases.iter().any(|p| lower.contains(p)) {
        return DeviceError::Candle(error);
    }
    let half = (batch / 2).max(1);
    let suggestion = match batch.is_power_of_two() {
        true => half,
        false => batch.next_power_of_two() / 2,
    };
    DeviceError::OutOfMemory {
        batch,
        suggestion: suggestion.max(1),
        message: message.lines().next().unwrap_or_default().to_owned(),
    }
}
