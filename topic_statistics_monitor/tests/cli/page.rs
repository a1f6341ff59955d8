// SPDX-License-Identifier: Apache-2.0

//! A test of the page of a report in a real browser.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use topic_statistics_core::{collector::Distribution, Metric};
use topic_statistics_observe::{
    page::{render, Origin},
    recording::Recording,
    require::Conditions,
    testing::{at, row, window},
};

/// An HTML document whose script shows a page in a frame, and writes facts about the page into the document.
const FRAME: &str = r#"<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe src="PAGE" style="border:0; width: WIDTHpx; height: 2000px"></iframe>
<script>
onload = () => {
  const page = document.querySelector('iframe').contentDocument;
  const found = {
    title: page.title,
    text: page.body.innerText,
    rates: [...page.querySelectorAll('tr[data-topic] data.rate')].map(data => Number(data.value)),
    scripts: page.scripts.length,
    images: page.images.length,
    captions: [...page.querySelectorAll('figcaption')].map(caption => caption.innerText),
    widths: [...page.querySelectorAll('figure svg')].map(svg => svg.getBoundingClientRect().width),
    width: page.documentElement.scrollWidth,
    background: getComputedStyle(page.body).backgroundColor,
    line: getComputedStyle(page.querySelector('svg polyline')).stroke,
    loaded: document.querySelector('iframe').contentWindow.performance.getEntriesByType('resource').length,
  };
  const result = document.createElement('pre');
  result.id = 'result';
  result.textContent = JSON.stringify(found).replace(/[^ -~]|[<>&]/g,
    c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
  document.body.append(result);
};
</script>
"#;

const MARKUP: &str = "\"'></style></title><script>alert(1)</script><img src=x onerror=alert(2)>&lt;";

/// Chromium without a window (headless), with a separate profile directory.
struct Browser {
    program: PathBuf,
    directory: tempfile::TempDir,
}

impl Browser {
    /// Returns facts about a page in a window of this width. Panics if the browser writes a message to its console.
    fn look(&self, page: &Path, width: u32, is_dark: bool) -> Value {
        let frame = self.directory.path().join("frame.html");
        let text = FRAME.replace("PAGE", &format!("file://{}", page.display()));
        fs::write(&frame, text.replace("WIDTH", &width.to_string())).unwrap();
        let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark));
        let files = "--allow-file-access-from-files";
        let (output, log) = self.run(&[files, "--dump-dom", "--enable-logging=stderr", &scheme], &frame);
        assert!(!log.contains(":CONSOLE"), "{log}");
        let result = output.split("<pre id=\"result\">").nth(1).and_then(|rest| rest.split("</pre>").next());
        serde_json::from_str(result.unwrap_or_else(|| panic!("no result: {output}\n{log}"))).unwrap()
    }

    fn run(&self, arguments: &[&str], page: &Path) -> (String, String) {
        let output = Command::new(&self.program)
            // In a container, Chromium's sandbox does not work, and /dev/shm is too small. So neither is used.
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .arg(format!("--user-data-dir={}", self.directory.path().join("profile").display()))
            .args(arguments)
            .arg(format!("file://{}", page.display()))
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    }
}

/// Returns a report of three topics. The name of one topic contains markup.
fn report() -> String {
    let conditions: Conditions = "/imu:rate>=1000 lost=0".parse().unwrap();
    let mut recording = Recording::new(Duration::from_secs(1), conditions.0);
    let mut rows = ["/imu", "/lossy", MARKUP].map(|name| row(name, 50.0, 0));
    for stop in 101..120 {
        for row in &mut rows {
            let mut last = window(stop, 50.0, u64::from(row.name == "/lossy"));
            let mut distribution = Distribution::default();
            (1..50).for_each(|sample| assert!(distribution.accept(f64::from(sample))));
            last.distributions.push((Metric::MessageAge, Arc::new(distribution)));
            row.add_window(last);
            recording.add(row);
        }
    }
    recording.finish(&rows.each_ref(), at(120));
    let title = "ROS 2 topics on robot".to_owned();
    let facts = vec![("Host", MARKUP.to_owned())];
    let origin = Origin { title, facts, program: "topic_monitor", arguments: vec![MARKUP.to_owned()] };
    render(&recording, &origin, at(120))
}

#[test]
fn the_page_is_readable_everywhere_and_needs_no_network() {
    const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let paths = env::var_os("PATH").unwrap_or_default();
    let mut programs = env::split_paths(&paths).flat_map(|path| PROGRAMS.map(|name| path.join(name)));
    let Some(program) = programs.find(|program| program.is_file()) else {
        return test_support::skip("the page of a report", "there is no Chromium on PATH");
    };
    let browser = Browser { program, directory: tempfile::tempdir().unwrap() };
    let file = browser.directory.path().join("report.html");
    fs::write(&file, report()).unwrap();
    let (desktop, phone) = (browser.look(&file, 1280, false), browser.look(&file, 390, true));
    for (found, width) in [(&desktop, 1280), (&phone, 390)] {
        assert_eq!(found["width"], width, "the page is not wider than the window");
        for nothing in ["scripts", "images", "loaded"] {
            assert_eq!(found[nothing], 0, "{nothing}");
        }
        assert!(found["title"].as_str().unwrap().starts_with("ROS 2 topics on robot, "));
        assert_eq!(found["rates"], serde_json::json!([50, 50, 50]));
        let text = found["text"].as_str().unwrap();
        for part in ["sensor_msgs/msg/Imu", "/talker", "/imu", "failed.", "<script>alert(1)</script>", "&lt;"]
        {
            assert!(text.contains(part), "no {part}: {text}");
        }
        let captions = found["captions"].to_string();
        for caption in ["Rate, Hz", "Period, ms", "Age, ms", "Distribution of message_age", "Messages lost"] {
            assert!(captions.contains(caption), "no {caption}: {captions}");
        }
        let mut widths = found["widths"].as_array().unwrap().iter().map(|width| width.as_f64().unwrap());
        assert!(widths.all(|width| (340.0..640.0).contains(&width)), "{}", found["widths"]);
    }
    assert_eq!(desktop["background"], "rgb(255, 255, 255)");
    assert_eq!(phone["background"], "rgb(22, 24, 27)");
    assert_ne!(desktop["line"], phone["line"]);

    // To keep the pictures of the page, set the variable REPORT_PICTURES to a directory.
    let pictures = env::var_os("REPORT_PICTURES").map_or(browser.directory.path().to_owned(), PathBuf::from);
    for (option, name) in [("print-to-pdf", "report.pdf"), ("screenshot", "desktop.png")] {
        let to = pictures.join(name);
        browser.run(&["--window-size=1280,1600", &format!("--{option}={}", to.display())], &file);
        assert!(fs::metadata(to).unwrap().len() > 20_000, "{name}");
    }
}
