//! Reading what somebody else wrote, up to a bound.

use std::io::{self, Read};

/// At most `most` bytes of `reader`. Whoever must know that there is more asks for one byte more than is allowed.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where reading to the end is bounded"
)]
pub fn read_at_most(reader: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::read_at_most;

    #[test]
    fn an_endless_reader_ends_at_the_bound() {
        assert_eq!(read_at_most(std::io::repeat(7), 3).unwrap(), [7, 7, 7]);
        assert_eq!(read_at_most(&b"ab"[..], 3).unwrap(), b"ab");
    }
}
