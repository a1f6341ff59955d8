// SPDX-License-Identifier: Apache-2.0

//! A page in a real browser.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Inspects a page in a frame, and writes the results into its own document: the frame's page runs no script.
const FRAME: &str = r#"<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe src="PAGE" style="border:0; width: WIDTHpx; height: 2000px"></iframe>
<script>
onload = () => {
  const page = document.querySelector('iframe').contentDocument, root = page.documentElement;
  const figures = [...page.querySelectorAll('tr[data-topic]')].map(row => ({
    ...row.dataset,
    text: row.innerText,
    figures: [...row.querySelectorAll('data')].map(data => [data.className, Number(data.value), data.innerText]),
  }));
  const found = {
    figures,
    title: page.title,
    text: page.body.innerText,
    scripts: page.scripts.length,
    images: page.images.length,
    charts: [...page.querySelectorAll('figure')].map(figure => ({
      caption: figure.querySelector('figcaption').innerText, width: figure.querySelector('svg').getBoundingClientRect().width,
    })),
    width: root.scrollWidth,
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

/// Chromium without a window, with files of its own.
pub struct Browser {
    program: PathBuf,
    directory: tempfile::TempDir,
}

impl Browser {
    /// Returns the browser of this machine. Logs that `what` is skipped if there is none.
    pub fn find(what: &str) -> Option<Self> {
        const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
        let paths = env::var_os("PATH").unwrap_or_default();
        let programs = env::split_paths(&paths).flat_map(|path| PROGRAMS.map(|name| path.join(name)));
        let program = programs.into_iter().find(|program| program.is_file());
        if program.is_none() {
            test_support::skip(what, "there is no Chromium on PATH");
        }
        Some(Self { program: program?, directory: tempfile::tempdir().unwrap() })
    }

    /// Returns the content of a page in a window of this width. Panics if the browser reports anything on its console.
    pub fn look(&self, page: &Path, width: u32, is_dark: bool) -> Value {
        let frame = self.directory.path().join("frame.html");
        let text = FRAME.replace("PAGE", &format!("file://{}", page.display()));
        fs::write(&frame, text.replace("WIDTH", &width.to_string())).unwrap();
        let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark));
        let dump = [
            "--allow-file-access-from-files",
            "--dump-dom",
            "--enable-logging=stderr",
            "--hide-scrollbars",
            &scheme,
        ];
        let (output, log) = self.run(&dump, &frame);
        let messages: Vec<&str> = log.lines().filter(|line| line.contains(":CONSOLE")).collect();
        assert!(messages.is_empty(), "{messages:#?}");
        let result = output.split("<pre id=\"result\">").nth(1).and_then(|rest| rest.split("</pre>").next());
        serde_json::from_str(result.unwrap_or_else(|| panic!("no result: {output}\n{log}"))).unwrap()
    }

    /// Prints a page to PDF. Returns the file's size.
    pub fn print(&self, page: &Path, to: &Path) -> u64 {
        self.run(&["--no-pdf-header-footer", &format!("--print-to-pdf={}", to.display())], page);
        fs::metadata(to).unwrap().len()
    }

    /// Writes a picture of a page. Returns the file's size.
    pub fn screenshot(&self, page: &Path, to: &Path, arguments: &[&str]) -> u64 {
        let to_file = format!("--screenshot={}", to.display());
        self.run(&[&["--hide-scrollbars", &*to_file], arguments].concat(), page);
        fs::metadata(to).unwrap().len()
    }

    fn run(&self, arguments: &[&str], page: &Path) -> (String, String) {
        let output = Command::new(&self.program)
            // In a container there is no sandbox, and /dev/shm is small.
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", self.directory.path().join("profile").display()))
            .args(arguments)
            .arg(format!("file://{}", page.display()))
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (output, log) = ((text(&output.stdout), text(&output.stderr)), output.status);
        assert!(log.success(), "{log}: {}", output.1);
        output
    }
}
