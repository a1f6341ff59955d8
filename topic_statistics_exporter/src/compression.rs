// SPDX-License-Identifier: Apache-2.0

//! gzip compression of HTTP responses and of OTLP requests.

use std::io::{self, Read, Write};

use flate2::{bufread::MultiGzDecoder, write::GzEncoder, Compression};

/// The largest size of decompressed content, in bytes. The OTLP specification recommends this limit for the size of
/// requests.
pub const MAX_CONTENT: u64 = 20 << 20;

pub fn compress(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // A write to a `Vec` cannot fail.
    let _never_fails = encoder.write_all(content);
    encoder.finish().unwrap_or_default()
}

/// Decompresses the output of [`compress`].
///
/// Returns an error if the data is damaged, or if the content is larger than [`MAX_CONTENT`].
pub fn decompress(compressed: &[u8]) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    MultiGzDecoder::new(compressed).take(MAX_CONTENT + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_CONTENT {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_that_swells_beyond_the_largest_is_an_error() {
        let bomb = compress(&vec![0; MAX_CONTENT as usize + 1]);
        assert!(bomb.len() < 200_000);
        assert!(decompress(&bomb).is_err());
        assert_eq!(decompress(&compress(&vec![0; MAX_CONTENT as usize])).unwrap().len() as u64, MAX_CONTENT);
    }
}
