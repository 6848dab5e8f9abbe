//! The contents of streams and messages: as files, as parts of conversations, and as searched.

pub(crate) mod decoded_bodies;
pub(crate) mod extraction;
pub(crate) mod first_connections;
pub(crate) mod stream_columns;
pub(crate) mod stream_files;
