//! One loop, compiled for every machine and once more for wide vectors.
//!
//! The bodies are safe and inlined into a function compiled for the features named; only running it on a processor without them
//! would be unsafe, so the processor is asked first.

/// `dispatch!("feature", …; plain, wide; (argument: type, …) -> type)` calls `plain`, or `wide` compiled for the features where the
/// processor has them.
macro_rules! dispatch {
    ($($feature:tt),+; $plain:path, $wide:path; ($($arg:ident: $ty:ty),*) $(-> $ret:ty)?) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature($(enable = $feature),+)]
            fn wide($($arg: $ty),*) $(-> $ret)? {
                $wide($($arg),*)
            }
            if $(is_x86_feature_detected!($feature))&&+ {
                // SAFETY: the processor has just been asked for the features.
                return unsafe { wide($($arg),*) };
            }
        }
        $plain($($arg),*)
    }};
}

pub(super) use dispatch;
