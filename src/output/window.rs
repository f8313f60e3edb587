//! The first and the last bytes of a stream, kept while the stream flows by.
//!
//! Memory is bounded whatever flows; the count is exact. What lies between head and tail is only counted.

/// Bytes kept from the start of a stream. Without a bound, one `yes` fills the server's memory.
pub const HEAD_BYTES: usize = 64 * 1024;
/// Bytes kept from the end of a stream.
pub const TAIL_BYTES: usize = 64 * 1024;

/// Head and tail of a stream of any length.
#[derive(Clone, Debug, Default)]
pub struct Window {
    head: Vec<u8>,
    /// Holds up to twice [`TAIL_BYTES`], so that the move to the front is paid once per [`TAIL_BYTES`].
    tail: Vec<u8>,
    bytes: u64,
}

impl Window {
    /// The window of a stream that is already whole.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut window = Self::default();
        window.push(bytes);
        window
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        let (first, rest) = chunk.split_at(chunk.len().min(HEAD_BYTES - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(TAIL_BYTES)..];
        if self.tail.len() + rest.len() > TAIL_BYTES * 2 {
            let keep = TAIL_BYTES - rest.len();
            self.tail.drain(..self.tail.len() - keep);
        }
        self.tail.extend_from_slice(rest);
    }

    /// The first bytes, at most [`HEAD_BYTES`].
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The last bytes after the head, at most [`TAIL_BYTES`].
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        &self.tail[self.tail.len().saturating_sub(TAIL_BYTES)..]
    }

    /// All bytes of the stream.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes between head and tail that are not kept. With 0, the tail continues the head.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        self.bytes - (self.head.len() + self.tail().len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_chunking_keeps_the_first_and_the_last_bytes(
            chunks in proptest::collection::vec((any::<u8>(), 0usize..100_000), 0..8),
        ) {
            let mut window = Window::default();
            let mut whole = Vec::new();
            for (seed, len) in chunks {
                let chunk: Vec<u8> = (seed..=250).chain(0..=250).cycle().take(len).collect();
                window.push(&chunk);
                whole.extend(chunk);
                prop_assert!(window.tail.len() <= TAIL_BYTES * 2);
            }
            let (head, rest) = whole.split_at(whole.len().min(HEAD_BYTES));
            prop_assert!(window.head() == head);
            prop_assert!(window.tail() == &rest[rest.len().saturating_sub(TAIL_BYTES)..]);
            prop_assert_eq!(window.bytes(), whole.len() as u64);
            prop_assert_eq!(window.omitted(), rest.len().saturating_sub(TAIL_BYTES) as u64);
        }
    }
}
