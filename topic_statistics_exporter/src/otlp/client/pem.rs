// SPDX-License-Identifier: Apache-2.0

//! The files of certificates and keys.

use std::{fs, path::Path};

use ureq::tls::{parse_pem, Certificate, PemItem, PrivateKey};

use super::options::ClientError;

/// Reads a file.
pub fn read(path: &Path) -> Result<Vec<u8>, ClientError> {
    fs::read(path).map_err(|error| unusable(path, error))
}

/// The error of a file that cannot be used.
pub fn unusable(path: &Path, reason: impl ToString) -> ClientError {
    ClientError::Certificate { path: path.to_owned(), reason: reason.to_string() }
}

/// Reads certificates: at least one.
pub fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, ClientError> {
    let is_certificate = |item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    };
    let certificates: Vec<_> = pem(path)?.into_iter().filter_map(is_certificate).collect();
    match certificates.is_empty() {
        true => Err(unusable(path, "it has no certificate in PEM")),
        false => Ok(certificates),
    }
}

/// Reads a key without a passphrase.
pub fn private_key(path: &Path) -> Result<PrivateKey<'static>, ClientError> {
    let is_key = |item| match item {
        PemItem::PrivateKey(key) => Some(key),
        _ => None,
    };
    let key = pem(path)?.into_iter().find_map(is_key);
    key.ok_or_else(|| unusable(path, "it has no private key in PEM without a passphrase"))
}

fn pem(path: &Path) -> Result<Vec<PemItem<'static>>, ClientError> {
    parse_pem(&read(path)?).collect::<Result<_, _>>().map_err(|error| unusable(path, error))
}
