//! What a vault promises.
