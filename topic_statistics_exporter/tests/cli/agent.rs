// SPDX-License-Identifier: Apache-2.0

//! Agents of the robot, started as docs/fleet.md says: what arrives of which scrape, over a cut link and a SIGKILL.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener},
    ops::Range,
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

/// Serves the time series of an exporter, and the number of the scrape. Returns how long each scrape took.
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

/// The scrapes that never arrived.
struct Lost {
    scrapes: BTreeSet<usize>,
    /// Those while the site was away, up to the end of the first agent.
    cut: Range<usize>,
}

/// Runs an agent, which is away from its site for a while, and killed and started again meanwhile if `is_killed`.
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
    // The command line is that of the documentation.
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
    wait_for("scrapes without the site", || scraped() >= begin + 24);
    if is_killed {
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
    assert!(samples.is_sorted_by(|before, after| before < after), "each once and in order: {samples:?}");
    // An agent may not have taken a slow one.
    let scrapes = scrapes.lock().unwrap();
    let is_expected =
        |number: &usize| scrapes[*number] < Duration::from_millis(300) && !samples.contains(number);
    // The cut may begin a scrape earlier, and what the agent had at its end it may not have finished.
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

/// Prometheus sends only what it scrapes after its start: https://github.com/prometheus/prometheus/issues/8809
#[test]
fn a_killed_prometheus_loses_only_what_waited() {
    let Some(Lost { scrapes, cut }) = run("prometheus", true) else { return };
    assert!(scrapes.iter().all(|number| cut.contains(number)), "{scrapes:?} of {cut:?}");
    assert!(
        scrapes.len() > cut.len() / 2,
        "it sends what waited now: docs/fleet.md can say so ({scrapes:?})"
    );
}

/// vmagent has what waits for 5 s on disk, but for the block that it tries to send.
#[test]
fn a_killed_vmagent_loses_a_block_at_most() {
    let Some(Lost { scrapes, cut }) = run("vmagent", true) else { return };
    let (first, last) = (cut.start..cut.start + 12, cut.end - 5..cut.end);
    assert!(
        scrapes.iter().all(|number| first.contains(number) || last.contains(number)),
        "{scrapes:?} of {cut:?}"
    );
}
