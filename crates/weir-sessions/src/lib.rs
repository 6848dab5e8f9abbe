//! Application sessions: one parser a file, behind one trait.
