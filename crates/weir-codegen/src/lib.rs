//! Graph to native code.
