//! Names of devices, falling back, and memory that ran out.

use earthmover_candle::{DeviceError, DeviceName, FallbackReason, explain_memory};

#[test]
fn names_go_both_ways() {
    for (text, name) in [
        ("cpu", DeviceName::Cpu),
        ("cuda:0", DeviceName::Cuda(0)),
        ("cuda:3", DeviceName::Cuda(3)),
        ("metal:0", DeviceName::Metal(0)),
    ] {
        assert_eq!(text.parse::<DeviceName>().unwrap(), name);
        assert_eq!(name.to_string(), text);
    }
    assert_eq!("cuda".parse::<DeviceName>().unwrap(), DeviceName::Cuda(0));
    assert_eq!("metal".parse::<DeviceName>().unwrap(), DeviceName::Metal(0));
    for wrong in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cpu:0", "CPU"] {
        let said = wrong.parse::<DeviceName>().unwrap_err().to_string();
        assert!(
            said.contains(&format!("{wrong:?}")) && said.contains("cuda:N"),
            "{said}"
        );
    }
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_device_not_built_falls_back_and_says_how_to_get_it() {
    let chosen = DeviceName::Cuda(1).open();
    assert!(chosen.device.is_cpu());
    let fallback = chosen.fallback.unwrap();
    assert_eq!(
        fallback.reason,
        FallbackReason::NotBuilt { feature: "cuda" }
    );
    let said = fallback.to_string();
    assert!(
        said.contains("cuda:1") && said.contains("--features cuda"),
        "{said}"
    );
}

#[test]
fn memory_that_ran_out_names_a_batch_to_try() {
    for (batch, expected) in [(448, 256), (64, 32), (960, 512), (1, 1), (2, 1), (3, 2)] {
        let said = candle_core::Error::Msg("CUBLAS_STATUS_ALLOC_FAILED".into());
        match explain_memory(said, batch) {
            DeviceError::OutOfMemory { suggestion, .. } => assert_eq!(suggestion, expected),
            other => panic!("{other}"),
        }
    }
    let other = candle_core::Error::Msg("shape mismatch".into());
    assert!(matches!(explain_memory(other, 64), DeviceError::Candle(_)));
}
