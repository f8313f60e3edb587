//! Media types of files whose author is not trusted: by content first, by name where content says nothing.
//!
//! Nothing is decoded here: an image's size is read from its header alone, since decoders of hostile images
//! are where attackers look first. Only four kinds count as images, and only up to a bound.

use std::{borrow::Cow, io};

use imagesize::ImageType;

/// The type of what is not known better.
pub const OCTET_STREAM: &str = "application/octet-stream";
/// The type of text that is not known better.
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";
/// The largest image that is shown as an image: it travels in base64 through the model's context.
pub const MAX_IMAGE_BYTES: usize = 1024 * 1024;
/// The most pixels of an image that is shown: a header of a few bytes can claim gigabytes for its reader.
pub const MAX_IMAGE_PIXELS: usize = 16 * 1024 * 1024;
/// The longest side of an image that is shown, in pixels, which is as much as readers take.
pub const MAX_IMAGE_SIDE: usize = 8000;
/// What images are called that can be shown.
const IMAGE_NAMES: [(&str, &str); 5] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
];
/// Bytes from the start of a file in which its kind is looked for.
const SNIFFED_BYTES: usize = 8 * 1024;
/// Bytes read at a time to look at.
const READ_BYTES: usize = 256 * 1024;

/// Looks at content as it flows by.
#[derive(Debug)]
pub struct Sniffer {
    head: Vec<u8>,
    /// The start of a character whose rest is still to come, at most 3 bytes.
    unfinished: Vec<u8>,
    text: bool,
}

impl Default for Sniffer {
    fn default() -> Self {
        Self {
            head: Vec::new(),
            unfinished: Vec::new(),
            text: true,
        }
    }
}

impl Sniffer {
    /// Takes the next bytes.
    pub fn push(&mut self, chunk: &[u8]) {
        let room = SNIFFED_BYTES - self.head.len();
        self.head.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if !self.text {
            return;
        }
        let joined = if self.unfinished.is_empty() {
            Cow::Borrowed(chunk)
        } else {
            Cow::Owned([self.unfinished.as_slice(), chunk].concat())
        };
        self.text = !chunk.contains(&0);
        self.unfinished.clear();
        if let Err(error) = std::str::from_utf8(&joined) {
            self.text &= error.error_len().is_none();
            if self.text {
                self.unfinished
                    .extend_from_slice(&joined[error.valid_up_to()..]);
            }
        }
    }

    /// The media type of content, read as far as it takes to tell.
    pub fn read(mut content: impl io::Read, name: &str) -> io::Result<&'static str> {
        let mut sniffer = Self::default();
        let mut chunk = vec![0; READ_BYTES];
        // What is no text is known by its beginning.
        while sniffer.text || sniffer.head.len() < SNIFFED_BYTES {
            match content.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => sniffer.push(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sniffer.finish(name))
    }

    /// The media type of all that was pushed, under this name.
    #[must_use]
    pub fn finish(&self, name: &str) -> &'static str {
        let extension = extension_of(name);
        if self.text && self.unfinished.is_empty() {
            // Text can only imitate the marks of other formats; of those that may be text, these are worth it.
            return match &self.head[..] {
                [b'%', b'P', b'D', b'F', b'-', ..] => "application/pdf",
                _ => text_type(&extension),
            };
        }
        match infer::get(&self.head) {
            Some(kind) => kind.mime_type(),
            None => binary_type(&extension),
        }
    }
}

/// The media type of a whole file.
#[must_use]
pub fn media_type(name: &str, bytes: &[u8]) -> &'static str {
    let mut sniffer = Sniffer::default();
    sniffer.push(bytes);
    sniffer.finish(name)
}

/// The media type that a name alone suggests.
#[must_use]
pub fn media_type_of_name(name: &str) -> &'static str {
    let extension = extension_of(name);
    if let Some((_, media_type)) = IMAGE_NAMES.iter().find(|(known, _)| *known == extension) {
        return media_type;
    }
    match text_type(&extension) {
        PLAIN_TEXT if extension != "txt" => binary_type(&extension),
        known => known,
    }
}

/// Whether a name says that its file is an image that could be shown.
#[must_use]
pub fn is_image_name(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    let extension = extension_of(&name);
    IMAGE_NAMES.iter().any(|(known, _)| *known == extension)
}

fn extension_of(name: &str) -> String {
    name.rsplit_once('.')
        .map(|(_, extension)| extension.to_ascii_lowercase())
        .filter(|extension| !extension.contains('/'))
        .unwrap_or_default()
}

fn text_type(extension: &str) -> &'static str {
    match extension {
        "csv" => "text/csv; charset=utf-8",
        "tsv" => "text/tab-separated-values; charset=utf-8",
        "md" | "markdown" => "text/markdown; charset=utf-8",
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" | "cjs" => "text/javascript; charset=utf-8",
        "json" | "ipynb" | "geojson" => "application/json",
        "jsonl" | "ndjson" => "application/x-ndjson",
        "xml" => "application/xml",
        "svg" => "image/svg+xml",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        _ => PLAIN_TEXT,
    }
}

fn binary_type(extension: &str) -> &'static str {
    match extension {
        "parquet" => "application/vnd.apache.parquet",
        "arrow" | "feather" => "application/vnd.apache.arrow.file",
        _ => OCTET_STREAM,
    }
}

/// An image small enough to be shown as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShowableImage {
    /// Its media type.
    pub media_type: &'static str,
    /// Its width in pixels, as its header claims.
    pub width: usize,
    /// Its height in pixels, as its header claims.
    pub height: usize,
}

/// Whether a whole file is a PNG, JPEG, GIF or WebP within all bounds.
#[must_use]
pub fn showable_image(bytes: &[u8]) -> Option<ShowableImage> {
    if bytes.len() > MAX_IMAGE_BYTES {
        return None;
    }
    let media_type = match imagesize::image_type(bytes).ok()? {
        ImageType::Png => "image/png",
        ImageType::Jpeg => "image/jpeg",
        ImageType::Gif => "image/gif",
        ImageType::Webp => "image/webp",
        _ => return None,
    };
    let imagesize::ImageSize { width, height } = imagesize::blob_size(bytes).ok()?;
    let side = 1..=MAX_IMAGE_SIDE;
    let shown = side.contains(&width)
        && side.contains(&height)
        && width
            .checked_mul(height)
            .is_some_and(|pixels| pixels <= MAX_IMAGE_PIXELS);
    shown.then_some(ShowableImage {
        media_type,
        width,
        height,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        png.extend(width.to_be_bytes());
        png.extend(height.to_be_bytes());
        png.extend(b"\x08\x06\0\0\0\0\0\0\0");
        png
    }

    #[test]
    fn content_comes_before_the_name() {
        for (name, bytes, expected) in [
            ("plot.png", &png(1, 1)[..], "image/png"),
            ("plot.txt", &png(1, 1)[..], "image/png"),
            ("fake.png", b"no image", PLAIN_TEXT),
            ("fake.png", b"\0no image", OCTET_STREAM),
            ("data.CSV", b"a,b\n", "text/csv; charset=utf-8"),
            ("stdout", "höher\n".as_bytes(), PLAIN_TEXT),
            ("stdout", b"h\xf6her\n", OCTET_STREAM),
            ("stdout", b"cut \xe2\x82", OCTET_STREAM),
            ("empty", b"", PLAIN_TEXT),
            ("a.b/c", b"x", PLAIN_TEXT),
            ("BM.txt", b"BM is text", PLAIN_TEXT),
            ("x.pdf", b"%PDF-1.4", "application/pdf"),
            ("t.parquet", b"PAR1\0\xff", "application/vnd.apache.parquet"),
            ("a.gz", b"\x1f\x8b\x08\0\0\0\0\0", "application/gzip"),
        ] {
            assert_eq!(media_type(name, bytes), expected, "{name} {bytes:?}");
        }
    }

    #[test]
    fn an_image_is_shown_only_within_its_bounds() {
        let shown = ShowableImage {
            media_type: "image/png",
            width: 640,
            height: 480,
        };
        assert_eq!(showable_image(&png(640, 480)), Some(shown));
        for (width, height) in [
            (0, 5),
            (5, 0),
            (8001, 1),
            (1, 8001),
            (8000, 8000),
            (u32::MAX, u32::MAX),
        ] {
            assert_eq!(
                showable_image(&png(width, height)),
                None,
                "{width}x{height}"
            );
        }
        let mut large = png(640, 480);
        large.resize(MAX_IMAGE_BYTES + 1, 0);
        assert_eq!(showable_image(&large), None);
        assert_eq!(showable_image(b"BM\0\0"), None);
        let gif = b"GIF89a\x0a\0\x0b\0\0\0\0";
        assert_eq!(
            showable_image(gif).map(|i| (i.media_type, i.width, i.height)),
            Some(("image/gif", 10, 11))
        );
    }

    #[test]
    fn content_that_is_read_only_as_far_as_needed_is_of_the_same_type() {
        let text = vec![b'x'; 3 * READ_BYTES];
        let late = [&text[..], b"\0"].concat();
        let binary = [&[0x1f, 0x8b, 8][..], &vec![0; 3 * READ_BYTES]].concat();
        for content in [&text[..], &late, &binary, b""] {
            assert_eq!(
                Sniffer::read(content, "stdout").unwrap(),
                media_type("stdout", content)
            );
        }
        let mut rest = &binary[..];
        Sniffer::read(&mut rest, "stdout").unwrap();
        assert_eq!(rest.len(), binary.len() - READ_BYTES);
    }

    proptest! {
        #[test]
        fn any_chunking_finds_the_same_type(
            text in any::<String>(), more in any::<Vec<u8>>(), size in 1usize..7,
        ) {
            let bytes = [text.as_bytes(), &more].concat();
            let mut sniffer = Sniffer::default();
            bytes.chunks(size).for_each(|chunk| sniffer.push(chunk));
            prop_assert_eq!(sniffer.finish("x"), media_type("x", &bytes));
            let is_text = !bytes.contains(&0) && std::str::from_utf8(&bytes).is_ok();
            prop_assert_eq!(is_text, media_type("x", &bytes) == PLAIN_TEXT);
        }

        #[test]
        fn no_header_of_an_image_makes_it_panic(
            magic in prop::sample::select(vec![
                &b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"[..], b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8X",
                b"RIFF\0\0\0\0WEBPVP8 ", b"RIFF\0\0\0\0WEBPVP8L", b"",
            ]),
            rest in any::<Vec<u8>>(),
        ) {
            let _ = showable_image(&[magic, &rest].concat());
        }
    }
}
