#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| earthmover_fuzz::training::run_folder(data));
