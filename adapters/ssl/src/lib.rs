//! Label allocation.
