// SPDX-License-Identifier: Apache-2.0

//! The files of `deploy/`, as far as they run without their engines.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;
use test_support::{domain, program, wait_for, Process};

use crate::{
    otlp::python_packages,
    process::{get, Exporter},
    prometheus::{find, folder, free_port},
};

fn deployed(name: &str) -> PathBuf {
    folder("topic_statistics_exporter/deploy").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(deployed(name)).unwrap()
}

/// A workspace in which `ros2 run topic_statistics_exporter exporter` runs the program.
fn workspace() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let install = directory.path().join("install");
    fs::create_dir(&install).unwrap();
    fs::write(install.join("setup.bash"), format!("PATH={}:$PATH\n", install.display())).unwrap();
    let ros2 = install.join("ros2");
    let script = format!(
        "#!/bin/sh\n[ \"$1 $2 $3\" = 'run topic_statistics_exporter exporter' ] || exit 2\nshift 3\nexec {} \"$@\"\n",
        program("exporter").display()
    );
    fs::write(&ros2, script).unwrap();
    fs::set_permissions(&ros2, fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// Runs a command of a shell as the exporter, and stops it as systemd and containers do.
fn serves_and_ends(command: &mut Command) {
    let mut exporter = Exporter::of(command);
    assert_eq!(get(exporter.address, "/healthz").text(), "ok\n");
    exporter.process.signal("TERM");
    assert!(exporter.process.wait().success());
}

#[test]
fn the_systemd_unit_is_valid_and_its_command_runs() {
    let unit = read("topic-statistics-exporter.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let workspace = workspace();
    let start = start.replace("/opt/robot", workspace.path().to_str().unwrap());
    let start = start.replace("exporter --otlp", "exporter --listen 127.0.0.1:0 --otlp");
    let state = tempfile::tempdir().unwrap();
    let mut command = test_support::command("/bin/sh", &["-c", &format!("exec {start}")], domain());
    command.env("STATE_DIRECTORY", state.path()).env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    serves_and_ends(&mut command);
    assert!(state.path().join("otlp/requests.sqlite").is_file(), "what waits is where the unit says");

    let Some(analyze) = find("systemd-analyze", "the systemd unit with systemd-analyze") else { return };
    let mut verify = Command::new(&analyze);
    verify.args(["verify", "--man=no"]).arg(deployed("topic-statistics-exporter.service"));
    let output = verify.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let of_unit: Vec<_> = text.lines().filter(|line| line.contains("topic-statistics-exporter")).collect();
    assert!(output.status.success() && of_unit.is_empty(), "{text}");
    let mut security = Command::new(analyze);
    security
        .args(["security", "--offline=true", "--threshold=40"])
        .arg(deployed("topic-statistics-exporter.service"));
    let output = security.output().unwrap();
    assert!(output.status.success(), "it may do too much: {}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_entry_point_of_the_container_runs() {
    let file = read("Containerfile");
    let list = |instruction: &str| -> Vec<String> {
        let list = file.lines().find_map(|line| line.strip_prefix(instruction)).unwrap();
        serde_json::from_str(list).unwrap()
    };
    let workspace = workspace();
    let state = tempfile::tempdir().unwrap();
    let words = [list("ENTRYPOINT "), list("CMD ")].concat().into_iter().map(|word| {
        let word = word.replace("/opt/robot", workspace.path().to_str().unwrap());
        let word = word.replace("/var/lib/topic-statistics-exporter", state.path().to_str().unwrap());
        if word == ":9877" {
            "127.0.0.1:0".to_owned()
        } else {
            word
        }
    });
    let words: Vec<_> = words.collect();
    let arguments: Vec<_> = words[1..].iter().map(String::as_str).collect();
    serves_and_ends(&mut test_support::command(&words[0], &arguments, domain()));
    // What is copied into it is there.
    let root = folder("");
    assert!(root.join("ros_interface_crates/Cargo.toml").is_file());
    let name = "topic_statistics_interfaces";
    assert!(file.contains(name) && root.join("msg").join(name).join("package.xml").is_file());
}

/// Reads a file of YAML by Python. None where it has no YAML.
fn yaml(name: &str) -> Option<Value> {
    let program = "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let output = Command::new("python3")
        .args(["-c", program])
        .arg(deployed(name))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    if !output.status.success() {
        test_support::skip(name, "this Python has no PyYAML");
        return None;
    }
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn the_compose_file_names_files_that_are_there_and_options_that_there_are() {
    let Some(compose) = yaml("compose.yml") else { return };
    let services = compose["services"].as_object().unwrap();
    assert_eq!(services.keys().collect::<Vec<_>>(), ["collector", "exporter", "grafana", "prometheus"]);
    for (name, service) in services {
        for volume in service["volumes"].as_array().unwrap() {
            let source = volume.as_str().unwrap().split(':').next().unwrap();
            let is_there = match source.starts_with('.') {
                true => deployed(source).is_file(),
                false => compose["volumes"][source].is_object(),
            };
            assert!(is_there, "{name}: {source}");
        }
        assert!(service["build"].is_object() || service["image"].as_str().unwrap().contains(':'), "{name}");
    }
    let build = &services["exporter"]["build"];
    let context = deployed(build["context"].as_str().unwrap());
    assert!(context.join(build["dockerfile"].as_str().unwrap()).is_file());
    // The exporter takes its options.
    let state = tempfile::tempdir().unwrap();
    let words = services["exporter"]["command"].as_array().unwrap().iter().map(|word| {
        let word = word
            .as_str()
            .unwrap()
            .replace("/var/lib/topic-statistics-exporter", state.path().to_str().unwrap());
        if word == "127.0.0.1:9877" {
            "127.0.0.1:0".to_owned()
        } else {
            word
        }
    });
    let words: Vec<_> = words.collect();
    let arguments: Vec<_> = words.iter().map(String::as_str).collect();
    serves_and_ends(&mut test_support::command(program("exporter"), &arguments, domain()));
    for name in ["collector.yml", "grafana-datasource.yml", "grafana-dashboards.yml"] {
        assert!(yaml(name).is_some_and(|content| content.is_object()), "{name}");
    }
}

/// Docker and Grafana are not run. The compose file is checked by the schema of its specification, the dashboards by
/// Grafana's models.
#[test]
fn files_of_engines_that_are_not_run_are_valid() {
    let Some(packages) = python_packages("schemas") else {
        return test_support::skip(
            "the schemas of compose files and dashboards",
            "they cannot be installed from PyPI",
        );
    };
    let invalid = |compose: PathBuf, dashboards: &[PathBuf]| {
        let mut command = Command::new("python3");
        command.arg(folder("topic_statistics_exporter/tests/it/schemas.py")).arg(compose).args(dashboards);
        let output = command.env("PYTHONPATH", &packages).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let dashboards = ["fleet.json", "robot.json"].map(|name| folder("grafana").join(name));
    assert_eq!(invalid(deployed("compose.yml"), &dashboards), "");
    // It finds what is wrong.
    let directory = tempfile::tempdir().unwrap();
    let wrong = |name: &str, text: &str, from: &str, to: &str| {
        assert!(text.contains(from));
        let path = directory.path().join(name);
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        path
    };
    let compose = wrong("compose.yml", &read("compose.yml"), "volumes:", "volume:");
    let dashboard = fs::read_to_string(&dashboards[0]).unwrap();
    let dashboard = wrong("fleet.json", &dashboard, "\"gridPos\"", "\"gridPosition\"");
    let invalid = invalid(compose, &[dashboard]);
    assert!(invalid.contains("'volume' does not match") && invalid.contains("gridPosition"), "{invalid}");
}

#[test]
fn prometheus_accepts_the_configuration() {
    let Some(promtool) = find("promtool", "the configuration of Prometheus") else { return };
    let directory = tempfile::tempdir().unwrap();
    for file in [deployed("prometheus.yml"), folder("grafana/alerts.yml"), folder("grafana/rules.yml")] {
        fs::copy(&file, directory.path().join(file.file_name().unwrap())).unwrap();
    }
    let mut check = Command::new(promtool);
    let output =
        check.args(["check", "config"]).arg(directory.path().join("prometheus.yml")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Prometheus with TLS and a password, over nginx.
#[test]
fn nginx_adds_tls_and_a_password() {
    const WHAT: &str = "TLS and a password over nginx";
    let Some(nginx) = find("nginx", WHAT) else { return };
    let exporter = Exporter::start(&[], domain());
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).current_dir(directory.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let subject = ["-subj", "/CN=robot", "-addext", "subjectAltName=IP:127.0.0.1"];
    let new = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-out",
        "robot.crt",
        "-keyout",
        "robot.key",
    ];
    openssl(&[&new[..], &subject].concat());
    fs::write(path("users"), format!("prometheus:{}", openssl(&["passwd", "-6", "secret"]))).unwrap();
    let address = free_port();
    let configuration = read("nginx.conf")
        .replace("192.0.2.7:9878", &address.to_string())
        .replace("127.0.0.1:9877", &exporter.address.to_string())
        .replace("/etc/topic-statistics-exporter", directory.path().to_str().unwrap());
    // A package that is only unpacked has no folders for them.
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|folder| format!("{folder}_temp_path {folder};"));
    let configuration = configuration.replacen("http {", &format!("http {{ {}", folders.join(" ")), 1);
    fs::write(path("nginx.conf"), configuration).unwrap();
    let global = format!("daemon off; error_log stderr; pid {};", path("nginx.pid").display());
    let mut command = Command::new(nginx);
    command.arg("-p").arg(directory.path()).args(["-c", "nginx.conf", "-g", &global]).stderr(Stdio::null());
    let _nginx = Process::spawn(&mut command);
    let curl = |arguments: &[&str]| -> (String, String) {
        let url = format!("https://{address}/metrics");
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--cacert"]).arg(path("robot.crt")).args(["--write-out", "\n%{http_code}"]);
        let output = curl.args(arguments).arg(url).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap_or_default();
        (body.to_owned(), status.to_owned())
    };
    wait_for("nginx", || curl(&[]).1 == "401");
    assert_eq!(curl(&["--user", "prometheus:wrong"]).1, "401");
    let (body, status) = curl(&["--user", "prometheus:secret"]);
    assert_eq!(status, "200");
    assert!(body.contains("topic_statistics_exporter_build_info"), "{body}");
}
