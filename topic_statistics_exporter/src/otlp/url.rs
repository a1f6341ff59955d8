// SPDX-License-Identifier: Apache-2.0

//! Functions for URLs of collectors. Such URLs can contain secrets.

use topic_statistics_core::Escaped;

/// Returns the URL without user, password, query and fragment, which can be secrets. The result is safe to show.
pub fn shown(url: &str) -> String {
    let [scheme, authority, path] = parts(url);
    let host = authority.rsplit('@').next().unwrap_or_default();
    Escaped(&[scheme, host, path].concat()).to_string()
}

/// Returns whether a URL has a user or a password.
pub fn has_user(url: &str) -> bool {
    parts(url)[1].contains('@')
}

/// Returns the scheme, the authority and the path of a URL.
fn parts(url: &str) -> [&str; 3] {
    let url = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    let (scheme, rest) = url.find("://").map_or(("", url), |end| url.split_at(end + 3));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    [scheme, authority, path]
}
