// SPDX-License-Identifier: Apache-2.0

//! The address where the HTTP server listens.

use std::{
    fmt, io,
    net::{Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs},
    str::FromStr,
};

/// An IP address or a name of this host, and a port. Nothing before the colon means all addresses of this host.
#[derive(Clone, Debug, PartialEq)]
pub struct Listen(String);

impl Listen {
    /// A text that describes the valid addresses, for error messages.
    pub const RIGHT: &str = "an address and a port: 127.0.0.1:9877, localhost:9877, [::1]:9877 or :9877";

    /// Returns the possible addresses, in order of preference. If the host is a name, this function resolves the name.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        // On Linux, a socket that is bound to [::] also accepts IPv4 connections, so [::] means all addresses.
        let all = match self.0.starts_with(':') {
            false => "",
            true if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() => "[::]",
            true => "0.0.0.0",
        };
        let mut addresses: Vec<_> = format!("{all}{}", self.0).to_socket_addrs()?.collect();
        // IPv4 comes first, because scrapers are configured with 127.0.0.1 more often than with ::1.
        addresses.sort_by_key(SocketAddr::is_ipv6);
        Ok(addresses)
    }
}

impl FromStr for Listen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').ok_or(Self::RIGHT)?;
        let is_right = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)),
        };
        let port = port.parse::<u16>().ok().filter(|_| is_right).ok_or(Self::RIGHT)?;
        Ok(Self(format!("{host}:{port}")))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_a_name_or_nothing_before_the_port() {
        for (text, first) in [
            ("127.0.0.1:9877", "127.0.0.1:9877"),
            ("localhost:9877", "127.0.0.1:9877"),
            ("[::1]:0", "[::1]:0"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!(listen.to_string(), text);
            assert_eq!(listen.addresses().unwrap()[0], first.parse().unwrap());
        }
        assert_eq!(":+09877".parse::<Listen>().unwrap().to_string(), ":9877");
        let all = ":9877".parse::<Listen>().unwrap().addresses().unwrap();
        assert!(all[0].ip().is_unspecified() && all[0].port() == 9877, "{all:?}");
        for wrong in
            ["", "localhost", "localhost:", ":x", "::1:9877", "[::1:9877", "a b:1", "x:70000", "http://x:1"]
        {
            assert_eq!(wrong.parse::<Listen>(), Err(Listen::RIGHT), "{wrong:?}");
        }
        assert!("no-such-host.invalid:1".parse::<Listen>().unwrap().addresses().is_err());
    }
}
