//! The library that people depend on.
