// SPDX-License-Identifier: Apache-2.0

//! gzip compression of HTTP responses and of OTLP requests.

use std::io::{self, Read, Write};

use flate2::{bufread::GzDecoder, write::GzEncoder, Compression};

pub fn compress(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // A write to a `Vec` cannot fail.
    let _never_fails = encoder.write_all(content);
    encoder.finish().unwrap_or_default()
}

/// Decompresses the output of [`compress`].
pub fn decompress(compressed: &[u8]) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    GzDecoder::new(compressed).read_to_end(&mut content)?;
    Ok(content)
}
