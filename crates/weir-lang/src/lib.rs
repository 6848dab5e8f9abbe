//! The protocol language and the filter language: text to checked model, with diagnostics.
