// SPDX-License-Identifier: Apache-2.0

//! Runs agents (Prometheus in agent mode, vmagent) on a robot with the commands of docs/fleet.md. The tests check which
//! scrapes still arrive at the site if the link is interrupted, and if the agent is killed with SIGKILL.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener},
    ops::Range,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use test_support::{wait_for, Process};

use crate::{
    common::{folder, get},
    exporter::Exporter,
    prometheus::{find, free_port, Prometheus},
};

/// Starts a server that adds a scrape number to an exporter's time series. Returns the address of the server, and the
/// list of the durations of all scrapes, which grows with each scrape.
fn numbered(exporter: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<Duration>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, scrapes) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Duration>>>::default());
    let taken = Arc::clone(&scrapes);
    thread::spawn(move || {
        for mut stream in listener.incoming().map(Result::unwrap) {
            let begun = Instant::now();
            let head = BufReader::new(&stream).lines().map_while(Result::ok);
            if head.take_while(|line| !line.is_empty()).count() == 0 {
                continue;
            }
            let number = taken.lock().unwrap().len();
            let text = format!("{}scrape_number {number}\n", get(exporter, "/metrics").text());
            let is_sent = write!(stream, "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n{text}").is_ok();
            taken.lock().unwrap().push(if is_sent { begun.elapsed() } else { Duration::MAX });
        }
    });
    (address, scrapes)
}

/// Returns the size of the files in a directory and its subdirectories, in bytes.
fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0, // the agent has removed the file
    });
    sizes.sum()
}

/// The scrapes that never arrived at the site.
struct Lost {
    scrapes: BTreeSet<usize>,
    /// The numbers of the scrapes between the loss of the connection to the site and the end of the first agent.
    cut: Range<usize>,
}

/// Runs an agent while its site is unreachable for some time. If `is_killed`, the agent is killed and restarted during
/// this time. Returns the scrapes that never arrived at the site.
fn run(program: &str, is_killed: bool) -> Option<Lost> {
    const WHAT: &str = "agents of the robot";
    let (prometheus, _) = (find("prometheus", WHAT)?, find(program, WHAT)?);
    let exporter = Exporter::start(&[]);
    let (target, scrapes) = numbered(exporter.address());
    let scraped = || scrapes.lock().unwrap().len();
    let (site, directory) = (free_port(), tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name).display().to_string();
    let start_site = || {
        let arguments = ["--web.enable-remote-write-receiver", "--enable-feature=native-histograms"];
        Prometheus::start_at(&prometheus, site, &directory.path().join("site"), "global: {}", &arguments)
    };

    let deployed = folder("topic_statistics_exporter/deploy/agent.yml");
    let config = [
        ("15s", "500ms".to_owned()),
        ("127.0.0.1:9877", target.to_string()),
        ("prometheus.site:9090", site.to_string()),
    ];
    let config = config.iter().fold(fs::read_to_string(deployed).unwrap(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    fs::write(path("agent.yml"), config).unwrap();
    // The command line is taken from the documentation.
    let docs = fs::read_to_string(folder("docs/fleet.md")).unwrap().replace("\\\n", "");
    let line =
        docs.lines().find(|line| line.starts_with(&format!("{program} ")) && line.contains("agent.yml"));
    let line = line.unwrap().replace("prometheus.site:9090", &site.to_string());
    let line = line.replace("/var/lib/agent", &path("data")).replace("agent.yml", &path("agent.yml"));
    let (_, arguments) = line.split_once(' ').unwrap();
    let listen = if program == "vmagent" { "-httpListenAddr" } else { "--web.listen-address" };
    let start_agent = || {
        let mut command = Command::new(find(program, WHAT).unwrap());
        command.args(arguments.split_whitespace()).arg(format!("{listen}={}", free_port()));
        Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))
    };

    let at_site = start_site();
    let mut agent = start_agent();
    wait_for("the first scrapes", || at_site.samples("scrape_number").len() >= 4);
    let begin = scraped();
    drop(at_site);
    let on_disk = || size(Path::new(&path("data")));
    let before = on_disk();
    wait_for("scrapes without the site", || scraped() >= begin + 24);
    if is_killed {
        wait_for("data on the disk", || program != "vmagent" || on_disk() > before);
        agent.signal("KILL");
        agent.wait();
    }
    let end = scraped();
    if is_killed {
        agent = start_agent();
    }
    wait_for("scrapes of the second agent", || scraped() >= end + 6);
    let at_site = start_site();
    let last = scraped() + 2;
    let mut samples = vec![];
    wait_for("what waited", || {
        samples = at_site.samples("scrape_number");
        samples.last() >= Some(&last)
    });
    assert!(program == "vmagent" || at_site.samples("up").is_empty());
    agent.stop();
    assert!(samples.is_sorted_by(|before, after| before < after), "not each once and in order: {samples:?}");
    // A slow scrape is not expected at the site, because it may have exceeded the agent's time limit for a scrape.
    let scrapes = scrapes.lock().unwrap();
    let is_expected =
        |number: &usize| scrapes[*number] < Duration::from_millis(300) && !samples.contains(number);
    // The interruption may also affect scrapes shortly before it, and the end of the agent may affect the last scrape.
    Some(Lost { scrapes: (0..last).filter(is_expected).collect(), cut: begin.saturating_sub(2)..end + 1 })
}

#[test]
fn an_agent_that_runs_on_loses_nothing_over_a_cut() {
    thread::scope(|scope| {
        for program in ["prometheus", "vmagent"] {
            scope.spawn(move || {
                let lost = run(program, false).map(|lost| lost.scrapes).unwrap_or_default();
                assert!(lost.is_empty(), "{program}: {lost:?}");
            });
        }
    });
}

/// After a restart, Prometheus sends only scrapes since its start:
/// <https://github.com/prometheus/prometheus/issues/8809>
#[test]
fn a_killed_prometheus_loses_only_what_waited() {
    let Some(Lost { scrapes, cut }) = run("prometheus", true) else { return };
    assert!(scrapes.iter().all(|number| cut.contains(number)), "{scrapes:?} of {cut:?}");
    assert!(
        scrapes.len() > cut.len() / 2,
        "Prometheus now also sends older scrapes: change docs/fleet.md ({scrapes:?})"
    );
}

/// After a restart, vmagent also sends what it had written to disk. How much it had not yet written depends on the
/// machine's speed.
#[test]
fn a_killed_vmagent_sends_what_is_on_disk() {
    let Some(Lost { scrapes, cut }) = run("vmagent", true) else { return };
    assert!(scrapes.iter().all(|number| cut.contains(number)), "{scrapes:?} of {cut:?}");
    let mut waited = cut.start + 2..cut.end - 1;
    assert!(
        waited.any(|number| !scrapes.contains(&number)),
        "all that waited is lost: {scrapes:?} of {cut:?}"
    );
}
