//! A hint to the processor that something is read soon, so that the loads of many places overlap: with a million keys
//! each search waits for main memory otherwise, and with ten thousand for the second-level cache.
//!
//! The one `unsafe` of this crate: Rust has no stable safe call for it yet.

#![allow(unsafe_code)]

/// Has the processor fetch what lies here; where it cannot be told, nothing happens.
#[inline]
pub(crate) fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the program sees nothing of it, and it cannot fault; the address is that of a reference besides.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
