//! The data path: tables, sequences, timers, counters.
