// SPDX-License-Identifier: Apache-2.0

//! The open connections, and the choice of the connection that is closed to make room for a new connection.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

/// The open connections, in the order in which they were accepted. Their number is limited.
///
/// If the limit is reached, a new connection replaces a connection of the address with the most connections. So clients
/// at other addresses are still served, even if one address opens very many connections.
#[derive(Debug)]
pub struct Connections<T> {
    max: usize,
    all: Vec<Connection<T>>,
}

#[derive(Debug)]
struct Connection<T> {
    address: IpAddr,
    accepted: Instant,
    has_request: Arc<AtomicBool>,
    task: T,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Room<T> {
    Free,
    /// This connection has to be closed to make room.
    Close(T),
    /// The new connection is refused: the address with the most connections has only connections that are being
    /// answered and are at most 2 s old.
    No,
}

impl<T> Connections<T> {
    /// A connection that is being answered can be closed to make room for a new connection when it is older than this
    /// duration.
    const GIVES_WAY: Duration = Duration::from_secs(2);

    pub fn new(max: usize) -> Self {
        Self { max, all: vec![] }
    }

    /// Adds a connection. Its task sets `has_request` to true after it has read the header of the request.
    pub fn add(&mut self, address: IpAddr, task: T, has_request: Arc<AtomicBool>, now: Instant) {
        self.all.push(Connection { address: network(address), accepted: now, has_request, task });
    }

    pub fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.all.retain(|connection| is_kept(&connection.task));
    }

    /// Makes room for a new connection from an address. If the limit is reached, removes a connection of the address
    /// with the most connections: the oldest connection that has sent no request yet; if there is none, the oldest
    /// connection, if it is older than 2 s.
    pub fn make_room(&mut self, address: IpAddr, now: Instant) -> Room<T> {
        if self.all.len() < self.max {
            return Room::Free;
        }
        let address = network(address);
        let mut counts = HashMap::from([(address, 1)]);
        for connection in &self.all {
            *counts.entry(connection.address).or_insert(0) += 1;
        }
        // Among several addresses with the most connections, the address of the new connection is chosen.
        let most = counts.into_iter().max_by_key(|(other, count)| (*count, *other == address));
        let is_its = |connection: &&Connection<T>| most.is_some_and(|(most, _)| connection.address == most);
        let has_request = |connection: &Connection<T>| connection.has_request.load(Ordering::Relaxed);
        let is_old =
            |connection: &Connection<T>| now.saturating_duration_since(connection.accepted) > Self::GIVES_WAY;
        let idle = self.all.iter().position(|connection| is_its(&connection) && !has_request(connection));
        let closed =
            idle.or_else(|| self.all.iter().position(|connection| is_its(&connection) && is_old(connection)));
        closed.map_or(Room::No, |closed| Room::Close(self.all.remove(closed).task))
    }
}

/// Returns the address by which connections are counted: for IPv6, the /64 network of a host.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_none() => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address.to_canonical(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections whose tasks are only numbers, and a simulated time.
    struct Table {
        connections: Connections<usize>,
        accepted: usize,
        now: Instant,
    }

    impl Table {
        fn new(max: usize) -> Self {
            Self { connections: Connections::new(max), accepted: 0, now: Instant::now() }
        }

        fn accept(&mut self, address: &str, has_request: bool) -> Room<usize> {
            let address = address.parse().unwrap();
            let room = self.connections.make_room(address, self.now);
            if room != Room::No {
                let has_request = Arc::new(AtomicBool::new(has_request));
                self.connections.add(address, self.accepted, has_request, self.now);
                self.accepted += 1;
            }
            room
        }
    }

    #[test]
    fn an_address_with_idle_connections_takes_room_from_itself_only() {
        let mut table = Table::new(100);
        for address in ["192.0.2.1", "2001:db8::1"].into_iter().chain(["192.0.2.7"; 98]) {
            assert_eq!(table.accept(address, false), Room::Free);
        }
        // The host 192.0.2.7 connects 900 more times. Each new connection closes the oldest connection of this host.
        for closed in 2..902 {
            assert_eq!(table.accept("192.0.2.7", false), Room::Close(closed));
        }
        // To accept a connection from another address, the table also closes a connection of 192.0.2.7.
        for (address, closed) in [("192.0.2.1", 902), ("2001:db8::1", 903), ("2001:db8::ffff", 904)] {
            assert_eq!(table.accept(address, true), Room::Close(closed));
        }
        table.connections.retain(|number| *number > 1 && *number < 1000);
        assert_eq!((table.connections.all.len(), table.accept("192.0.2.1", true)), (95, Room::Free));
    }

    #[test]
    fn addresses_share_and_old_answers_give_way() {
        let mut table = Table::new(6);
        for address in ["192.0.2.1"; 6] {
            table.accept(address, false);
        }
        for (address, closed) in [
            ("192.0.2.2", 0),
            ("192.0.2.2", 1),
            ("::ffff:192.0.2.2", 2),
            ("192.0.2.2", 6), // both addresses have 3 connections now,
            ("192.0.2.1", 3), // so each address replaces its own connections
        ] {
            assert_eq!(table.accept(address, false), Room::Close(closed));
        }
        let mut table = Table::new(3);
        for has_request in [true, false, true] {
            table.accept("192.0.2.1", has_request);
        }
        assert_eq!(table.accept("192.0.2.1", true), Room::Close(1), "the idle connection is closed");
        assert_eq!(table.accept("192.0.2.1", true), Room::No);
        table.now += Duration::from_millis(2001);
        assert_eq!(table.accept("192.0.2.1", true), Room::Close(0));
    }
}
