//! One kernel, compiled once for every machine and once for wide vectors.
//!
//! `dispatch!` takes a plain safe function and compiles its body twice: as it stands, and with AVX2
//! allowed. Which one runs is decided at run time. The body is the same safe Rust in both, AVX2 has no
//! fused multiply-add and Rust never reassociates floating-point sums, so both give the same bits; the
//! plain one is the oracle of the other in the tests of the kernels.

/// Compiles a function for the baseline and for AVX2, and picks at run time.
macro_rules! dispatch {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$($T:ident : $bound:path),+>(
            $($arg:ident : $ty:ty),* $(,)?
        ) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name<$($T: $bound),+>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn plain<$($T: $bound),+>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                #[allow(clippy::too_many_arguments)]
                fn wide<$($T: $bound),+>($($arg: $ty),*) $(-> $ret)? {
                    plain($($arg),*)
                }
                if $crate::kernel::dispatch::wide_vectors() {
                    // SAFETY: `wide` is safe code whose only requirement is a processor with AVX2,
                    // and `wide_vectors` is true only where the processor reports it.
                    return unsafe { wide($($arg),*) };
                }
            }
            plain($($arg),*)
        }
    };
}

pub(crate) use dispatch;

/// Whether this processor has 256-bit integer and floating-point vectors.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn wide_vectors() -> bool {
    #[cfg(test)]
    if FORCE_PLAIN.with(core::cell::Cell::get) {
        return false;
    }
    std::is_x86_feature_detected!("avx2")
}

#[cfg(test)]
thread_local! {
    static FORCE_PLAIN: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

/// Runs `work` with the baseline kernels on this thread: the oracle of the wide ones.
#[cfg(test)]
pub(crate) fn plainly<R>(work: impl FnOnce() -> R) -> R {
    FORCE_PLAIN.with(|f| f.set(true));
    let answer = work();
    FORCE_PLAIN.with(|f| f.set(false));
    answer
}
