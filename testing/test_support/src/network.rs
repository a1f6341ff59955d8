// SPDX-License-Identifier: Apache-2.0

//! Two hosts on one machine, and the link between them.
//!
//! A host is an unnamed network namespace, and a thread that starts the processes of the host. The link is a TAP device
//! in each namespace, and a thread that copies frames between the two devices. This thread can delay, lose, repeat and
//! reorder frames.
//!
//! No cleanup is needed, not even after a test process was killed. When the last process in a namespace ends, the
//! kernel removes the namespace and its device. The kernel kills the processes of a host when the thread that started
//! them ends.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::File,
    io::{ErrorKind, Read, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::{fs::OpenOptionsExt, process::CommandExt},
    },
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Sender},
        Arc, Mutex,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    libc,
    poll::{ppoll, PollFd, PollFlags},
    sched::{unshare, CloneFlags},
    sys::{prctl::set_pdeathsig, signal::Signal},
};

/// Two hosts, connected by a link.
pub struct Network {
    /// The host of the publishers: 10.77.0.1.
    pub talking: Host,
    /// The host of the subscriptions: 10.77.0.2.
    pub listening: Host,
    pub link: Link,
}

impl Network {
    /// Creates two hosts and a link that delivers all frames at once.
    ///
    /// # Errors
    ///
    /// If this machine cannot create hosts, returns what is missing.
    pub fn new() -> Result<Network, String> {
        let (talking, talking_device) = Host::new(1, 2)?;
        let (listening, listening_device) = Host::new(2, 1)?;
        Ok(Network { talking, listening, link: Link::new([talking_device, listening_device]) })
    }
}

/// The command of a process to start, and the sender for the started process or the error.
type Start = (Command, Sender<std::io::Result<Child>>);

/// A host: a network namespace, and the thread that starts processes in it.
pub struct Host {
    starts: Option<Sender<Start>>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Creates the host 10.77.0.`number`, connected to 10.77.0.`other`. Also returns its device.
    fn new(number: u8, other: u8) -> Result<(Host, File), String> {
        let (starts, to_start) = mpsc::channel::<Start>();
        let (sender, made) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let device = enter_a_new_namespace().and_then(|()| open_device());
            let is_made = device.is_ok();
            let _made = sender.send(device);
            if !is_made {
                return;
            }
            for (mut command, child) in to_start {
                // SAFETY: The closure makes one system call between fork and exec, and allocates nothing.
                unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
                let _child = child.send(command.spawn());
            }
        });
        let host = Host { starts: Some(starts), thread: Some(thread) };
        let device = made.recv().unwrap()?;
        host.configure(number, other)?;
        Ok((host, device))
    }

    /// Starts a process. The kernel kills the process when the host ends.
    pub fn spawn(&self, command: Command) -> Child {
        self.try_spawn(command).unwrap_or_else(|error| panic!("cannot start: {error}"))
    }

    fn try_spawn(&self, command: Command) -> std::io::Result<Child> {
        let (sender, child) = mpsc::channel();
        self.starts.as_ref().unwrap().send((command, sender)).unwrap();
        child.recv().unwrap()
    }

    /// Sets the address of the device. The address of the other host gets a permanent entry in the ARP table, so that
    /// no ARP requests are lost while the link is cut.
    fn configure(&self, number: u8, other: u8) -> Result<(), String> {
        let commands = format!(
            "link set lo up\n\
             link set {DEVICE} address 02:00:00:00:00:0{number} up\n\
             address add 10.77.0.{number}/24 dev {DEVICE}\n\
             neighbour add 10.77.0.{other} lladdr 02:00:00:00:00:0{other} nud permanent dev {DEVICE}\n\
             route add 224.0.0.0/4 dev {DEVICE}\n"
        );
        let mut ip = Command::new("ip");
        ip.args(["-batch", "-"]).stdin(Stdio::piped());
        let mut ip = match self.try_spawn(ip) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err("there is no program ip".to_owned())
            }
            ip => ip.unwrap(),
        };
        ip.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
        assert!(ip.wait().unwrap().success(), "ip failed: {commands}");
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.starts.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

fn enter_a_new_namespace() -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|error| format!("this process may not create network namespaces (root may): {error}"))
}

/// The name of the TAP device in each host's namespace.
const DEVICE: &str = "tap0";

nix::ioctl_write_ptr_bad!(set_interface, libc::TUNSETIFF, libc::ifreq);

/// Opens a TAP device in the network namespace of this thread. The device exists until the file is closed.
fn open_device() -> Result<File, String> {
    let device = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun");
    let device = device.map_err(|error| format!("/dev/net/tun cannot be opened: {error}"))?;
    let flags = libc::__c_anonymous_ifr_ifru { ifru_flags: (libc::IFF_TAP | libc::IFF_NO_PI) as i16 };
    let mut request = libc::ifreq { ifr_name: [0; libc::IFNAMSIZ], ifr_ifru: flags };
    request.ifr_name.iter_mut().zip(DEVICE.bytes()).for_each(|(to, from)| *to = from as _);
    // SAFETY: The kernel reads and writes the request, which lives as long as the call.
    unsafe { set_interface(device.as_raw_fd(), &request) }
        .map_err(|error| format!("this process may not create a TAP device: {error}"))?;
    Ok(device)
}

/// A direction of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the talking host to the listening host.
    There = 0,
    /// From the listening host to the talking host.
    Back = 1,
}

/// How the link treats the frames of one direction. By default, each frame is delivered at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// The delay of each frame.
    pub delay: Duration,
    /// The fraction of frames that are lost, 0 to 1.
    pub loss: f64,
    /// The fraction of frames that are delivered twice.
    pub duplicates: f64,
    /// The fraction of frames that are additionally delayed by `extra_delay`, so that later frames overtake them.
    pub reordered: f64,
    /// The additional delay of reordered frames.
    pub extra_delay: Duration,
    /// Whether all frames are lost.
    pub is_cut: bool,
    /// Whether frames without messages, such as discovery and acknowledgements, are not lost, repeated or reordered.
    pub only_messages: bool,
}

/// What was counted in a direction since the creation of the link. A message is an RTPS DATA submessage of a publisher.
/// So a message that is sent to two subscriptions, or is repeated, counts twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub lost_frames: u64,
    pub lost_messages: u64,
    pub duplicated_messages: u64,
    pub reordered_messages: u64,
    /// Frames lost because the link already had [`Link::CAPACITY`] frames. A test is valid only if this is 0.
    pub overflow: u64,
}

/// The link between the two hosts: a thread that copies frames.
pub struct Link {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    ways: Mutex<[(Conditions, Counts); 2]>,
}

impl Link {
    /// The largest number of frames that are on the link at the same time. This number of frames takes about 6 MB.
    pub const CAPACITY: usize = 4096;

    fn new(devices: [File; 2]) -> Link {
        let shared = Arc::new(Shared::default());
        let copier = Copier {
            devices,
            shared: Arc::clone(&shared),
            // The seed is fixed, so each run of a test uses the same random numbers.
            random: fastrand::Rng::with_seed(10),
            under_way: BinaryHeap::new(),
            number: 0,
        };
        Link { shared, thread: Some(std::thread::spawn(|| copier.run())) }
    }

    /// Sets the conditions for all frames that a host sends in this direction from now on.
    pub fn set(&self, way: Way, conditions: Conditions) {
        self.shared.ways.lock().unwrap()[way as usize].0 = conditions;
    }

    pub fn cut(&self, is_cut: bool) {
        for (conditions, _) in self.shared.ways.lock().unwrap().iter_mut() {
            conditions.is_cut = is_cut;
        }
    }

    pub fn counts(&self, way: Way) -> Counts {
        self.shared.ways.lock().unwrap()[way as usize].1
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// A frame on the link: the time at which it is due, its number, the index of the device that it was read from, and its
/// bytes. The number keeps the order of frames that are due at the same time.
type Frame = (Instant, u64, usize, Vec<u8>);

struct Copier {
    /// The devices, indexed by the [`Way`] of the frames that are read from them.
    devices: [File; 2],
    shared: Arc<Shared>,
    random: fastrand::Rng,
    /// The frames on the link. The heap returns the frame that is due next.
    under_way: BinaryHeap<Reverse<Frame>>,
    number: u64,
}

impl Copier {
    /// The longest time until the thread notices that the link was dropped.
    const ROUND: Duration = Duration::from_millis(20);
    /// The size of the buffer, which is more than a frame with the usual MTU of 1500 bytes.
    const FRAME: usize = 2048;
    /// The largest number of frames that are read from a device before due frames are delivered.
    const BURST: usize = 32;

    fn run(mut self) {
        let mut buffer = [0; Self::FRAME];
        while !self.shared.ends.load(Ordering::Relaxed) {
            self.deliver();
            self.wait();
            for way in 0..self.devices.len() {
                for _ in 0..Self::BURST {
                    let Ok(length) = self.devices[way].read(&mut buffer) else { break };
                    self.enqueue(way, &buffer[..length]);
                }
            }
        }
    }

    fn deliver(&mut self) {
        let now = Instant::now();
        while self.under_way.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
            if let Some(Reverse((_, _, way, bytes))) = self.under_way.pop() {
                // The write fails if the host has ended.
                let _written = self.devices[1 - way].write(&bytes);
            }
        }
    }

    fn wait(&self) {
        let due =
            self.under_way.peek().map(|Reverse((due, ..))| due.saturating_duration_since(Instant::now()));
        let limit = due.map_or(Self::ROUND, |due| due.min(Self::ROUND));
        let mut devices =
            self.devices.each_ref().map(|device| PollFd::new(device.as_fd(), PollFlags::POLLIN));
        match ppoll(&mut devices, Some(limit.into()), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => panic!("the link cannot wait: {error}"),
        }
    }

    /// Decides by the conditions what happens to a frame, and puts it on the link if it is not lost.
    fn enqueue(&mut self, way: usize, bytes: &[u8]) {
        let mut ways = self.shared.ways.lock().unwrap();
        let (conditions, counts) = &mut ways[way];
        let messages = messages(bytes);
        let [is_lost, comes_twice, is_reordered] = match messages > 0 || !conditions.only_messages {
            true => [conditions.loss, conditions.duplicates, conditions.reordered]
                .map(|share| self.random.f64() < share),
            false => [false; 3],
        };
        if conditions.is_cut || is_lost {
            counts.lost_frames += 1;
            counts.lost_messages += messages;
            return;
        }
        let mut due = Instant::now() + conditions.delay;
        if is_reordered {
            due += conditions.extra_delay;
            counts.reordered_messages += messages;
        }
        if comes_twice {
            counts.duplicated_messages += messages;
        }
        for _ in 0..1 + usize::from(comes_twice) {
            if self.under_way.len() < Link::CAPACITY {
                self.under_way.push(Reverse((due, self.number, way, bytes.to_vec())));
                self.number += 1;
            } else {
                counts.overflow += 1;
            }
        }
    }
}

/// Returns the number of messages in a frame: RTPS DATA submessages of the publishers of nodes. Submessages of the
/// middleware's built-in writers, and of rmw's publisher of the graph (`ros_discovery_info`), are not counted.
fn messages(frame: &[u8]) -> u64 {
    const IPV4: [u8; 2] = [0x08, 0x00];
    const UDP: u8 = 17;
    const DATA: u8 = 0x15;
    // rmw_fastrtps creates the writer of the graph first in each participant, so this is the writer's id. The writer
    // repeats its last message for each reader that is discovered late, so its messages must not be counted.
    const GRAPH: [u8; 4] = [0, 0, 1, 3];
    let count = || {
        let ip = frame.get(14..).filter(|_| frame[12..14] == IPV4)?;
        let header = usize::from(ip.first()? & 0xf) * 4;
        let udp = ip.get(header..).filter(|_| ip.get(9) == Some(&UDP))?;
        let rtps = udp.get(8..)?.strip_prefix(b"RTPS")?;
        let mut rest = rtps.get(16..)?;
        let mut messages = 0;
        while let [kind, flags, low, high, ..] = *rest {
            let length = match flags & 1 {
                0 => u16::from_be_bytes([low, high]),
                _ => u16::from_le_bytes([low, high]),
            };
            let body = rest.get(4..)?;
            // The id of the writer follows two fields of flags and the id of the reader. The last byte of the id is the
            // kind of the writer. In the kind of a built-in writer, the upper two bits are set.
            if kind == DATA && body.get(11)? & 0xc0 == 0 && body[8..12] != GRAPH {
                messages += 1;
            }
            // If the last submessage has the length 0, it extends to the end of the frame.
            rest = if kind == DATA && length == 0 { &[] } else { body.get(usize::from(length)..)? };
        }
        Some(messages)
    };
    count().unwrap_or(0)
}
