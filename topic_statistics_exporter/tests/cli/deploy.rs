// SPDX-License-Identifier: Apache-2.0

//! Checks the files in `deploy/`, as far as possible without running Docker, systemd services and Grafana.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Stdio},
};

use clap::Parser;
use test_support::{skip, wait_for, Process};
use topic_statistics_exporter::testing::Options;

use crate::{
    common::folder,
    exporter::Exporter,
    otlp::{certificate, python_packages},
    prometheus::{find, free_port},
};

fn deployed(name: &str) -> PathBuf {
    folder("topic_statistics_exporter/deploy").join(name)
}

/// Runs a command and waits for its end. Panics if the command fails. Returns the standard output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

#[test]
fn the_systemd_unit_is_valid_and_may_do_little() {
    let Some(analyze) = find("systemd-analyze", "the systemd unit with systemd-analyze") else { return };
    let unit = deployed("topic-statistics-exporter.service");
    let verified = Command::new(&analyze).args(["verify", "--man=no"]).arg(&unit).output().unwrap();
    let text = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !text.contains("topic-statistics-exporter"), "{text}");
    run(Command::new(analyze).args(["security", "--offline=true", "--threshold=40"]).arg(unit));
}

/// Runs the commands in the files with a fake `ros2` that prints its arguments. Fails if a command has an argument that
/// the exporter does not accept.
#[test]
fn it_takes_the_commands_of_unit_container_and_compose_file() {
    let workspace = tempfile::tempdir().unwrap();
    let install = workspace.path().join("install");
    fs::create_dir(&install).unwrap();
    fs::write(install.join("setup.bash"), format!("PATH={}:$PATH\n", install.display())).unwrap();
    fs::write(install.join("ros2"), "#!/bin/sh\necho $PPID; printf '%s\\n' \"$@\"\n").unwrap();
    fs::set_permissions(install.join("ros2"), fs::Permissions::from_mode(0o755)).unwrap();
    let read = |name: &str| fs::read_to_string(deployed(name)).unwrap();
    let unit = read("topic-statistics-exporter.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let container = read("Containerfile");
    let list = |instruction: &str| -> Vec<String> {
        let list = container.lines().find_map(|line| line.strip_prefix(instruction)).unwrap();
        serde_json::from_str(list).unwrap()
    };
    let compose = read("compose.yml");
    let of_compose = compose.split_once("command:\n").unwrap().1.split_once("    environment:").unwrap().0;
    let of_compose = of_compose.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let of_compose = of_compose.map(str::to_owned).collect();
    for (words, listen) in [
        (vec!["/bin/sh".to_owned(), "-c".to_owned(), format!("exec {start}")], "127.0.0.1:9877"),
        ([list("ENTRYPOINT "), list("CMD ")].concat(), ":9877"),
        ([list("ENTRYPOINT "), of_compose].concat(), "127.0.0.1:9877"),
    ] {
        let words = words.iter().map(|word| word.replace("/opt/robot", workspace.path().to_str().unwrap()));
        let words: Vec<_> = words.collect();
        let mut command = Command::new(&words[0]);
        let printed = run(command.args(&words[1..]));
        let printed: Vec<_> = printed.lines().collect();
        // This test is the parent process of `ros2`, because the shell has replaced itself with `ros2` (`exec`). If a
        // shell were the parent, it would not pass on signals.
        assert_eq!(printed[0], std::process::id().to_string(), "{words:?}");
        assert_eq!(printed[1..4], ["run", "topic_statistics_exporter", "exporter"]);
        let options = Options::try_parse_from(&printed[3..]).unwrap();
        assert_eq!(options.listen.to_string(), listen);
    }
}

#[test]
fn prometheus_accepts_the_configuration() {
    let Some(promtool) = find("promtool", "the configuration of Prometheus") else { return };
    let directory = tempfile::tempdir().unwrap();
    for file in [deployed("prometheus.yml"), folder("grafana/alerts.yml"), folder("grafana/rules.yml")] {
        fs::copy(&file, directory.path().join(file.file_name().unwrap())).unwrap();
    }
    run(Command::new(&promtool).args(["check", "config"]).arg(directory.path().join("prometheus.yml")));
    run(Command::new(promtool).args(["check", "config", "--agent"]).arg(deployed("agent.yml")));
}

#[test]
fn what_the_compose_file_builds_and_mounts_is_there() {
    let compose = fs::read_to_string(deployed("compose.yml")).unwrap();
    let quoted = |c: char| c.is_whitespace() || "\"[]".contains(c);
    let sources = compose.split(quoted).filter(|word| word.starts_with('.') && word.contains(":/"));
    let sources: Vec<_> = sources.map(|word| word.split(':').next().unwrap()).collect();
    assert!(sources.len() >= 6, "{sources:?}");
    for source in sources {
        assert!(deployed(source).is_file(), "{source}");
    }
    assert!(compose.contains("{context: ../.., dockerfile: topic_statistics_exporter/deploy/Containerfile}"));
    for copied in ["ros_interface_crates/Cargo.toml", "msg/topic_statistics_interfaces/package.xml"] {
        assert!(folder(copied).is_file(), "{copied}");
    }
}

/// Without Docker and Grafana, this test checks the compose file with the schema of the Compose specification, and the
/// dashboards with Grafana's models.
#[test]
fn files_of_engines_that_are_not_run_are_valid() {
    let Some(packages) = python_packages("schemas") else {
        return skip("the schemas of compose files and dashboards", "they cannot be installed from PyPI");
    };
    let invalid = |compose: PathBuf, collector: PathBuf, dashboards: &[PathBuf]| {
        let mut command = Command::new("python3");
        command.arg(folder("topic_statistics_exporter/tests/cli/schemas.py")).args([compose, collector]);
        command.args(dashboards);
        run(command.env("PYTHONPATH", &packages)).trim().to_owned()
    };
    let dashboards = ["fleet.json", "robot.json"].map(|name| folder("grafana").join(name));
    for collector in ["collector.yml", "robot-collector.yml"] {
        assert_eq!(invalid(deployed("compose.yml"), deployed(collector), &dashboards), "");
    }
    // Fails if the check does not find the errors that this test adds to copies of the files.
    let directory = tempfile::tempdir().unwrap();
    let wrong = |path: PathBuf, from: &str, to: &str| {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        let path = directory.path().join(path.file_name().unwrap());
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        path
    };
    let compose = wrong(deployed("compose.yml"), "volumes:", "volume:");
    let dashboard = wrong(dashboards[0].clone(), "\"gridPos\"", "\"gridPosition\"");
    let collector = wrong(deployed("robot-collector.yml"), "\nexporters:\n  otlp:", "\nexporters:\n  oltp:");
    let invalid = invalid(compose, collector, &[dashboard]);
    for found in ["'volume' does not match", "gridPosition", "no otlp in exporters"] {
        assert!(invalid.contains(found), "{invalid}");
    }
}

/// nginx runs as a reverse proxy for the exporter, and adds TLS and a password.
#[test]
fn nginx_adds_tls_and_a_password() {
    const WHAT: &str = "TLS and a password over nginx";
    let Some(nginx) = find("nginx", WHAT) else { return };
    let exporter = Exporter::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let Some((certificate, key)) = certificate(directory.path(), "robot", WHAT) else { return };
    fs::rename(&certificate, path("robot.crt")).unwrap();
    assert_eq!(key, path("robot.key"));
    let hash = run(Command::new("openssl").args(["passwd", "-6", "secret"]));
    fs::write(path("users"), format!("prometheus:{hash}")).unwrap();
    let address = free_port();
    let configuration = fs::read_to_string(deployed("nginx.conf")).unwrap();
    // If the nginx package is only unpacked and not installed, the default folders for temporary files do not exist.
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|folder| format!("{folder}_temp_path {folder};"));
    let configuration = configuration
        .replace("192.0.2.7:9878", &address.to_string())
        .replace("127.0.0.1:9877", &exporter.address().to_string())
        .replace("/etc/topic-statistics-exporter", directory.path().to_str().unwrap())
        .replacen("http {", &format!("http {{ {}", folders.join(" ")), 1);
    fs::write(path("nginx.conf"), configuration).unwrap();
    let global = format!("daemon off; error_log stderr; pid {};", path("nginx.pid").display());
    let mut command = Command::new(nginx);
    command.arg("-p").arg(directory.path()).args(["-c", "nginx.conf", "-g", &global]).stderr(Stdio::null());
    let _nginx = Process::spawn(&mut command);
    let curl = |arguments: &[&str]| -> (String, String) {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--cacert"]).arg(path("robot.crt")).args(["--write-out", "\n%{http_code}"]);
        let output = curl.args(arguments).arg(format!("https://{address}/metrics")).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap_or_default();
        (body.to_owned(), status.to_owned())
    };
    wait_for("nginx", || curl(&[]).1 == "401");
    assert_eq!(curl(&["--user", "prometheus:wrong"]).1, "401");
    let (body, status) = curl(&["--user", "prometheus:secret"]);
    assert!(status == "200" && body.contains("topic_statistics_exporter_build_info"), "{status}: {body}");
}
