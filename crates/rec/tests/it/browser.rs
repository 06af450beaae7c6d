//! The page of a run in a real browser: its script runs, and answers the pointer.

use std::path::{Path, PathBuf};
use std::process::Command;

use bireme_rec::report;

/// Moves the pointer over every chart, and leaves what happened in the page.
const PROBE: &str = r#"<script>
addEventListener("error", (event) => document.body.append("PROBE failed: " + event.message));
for (const chart of document.querySelectorAll(".chart")) {
  const svg = chart.querySelector("svg");
  const box = svg.getBoundingClientRect();
  svg.dispatchEvent(new PointerEvent("pointermove", { clientX: box.x + box.width / 2, clientY: box.y + 50 }));
  document.body.append("PROBE " + chart.querySelector("h2").textContent + ": " + chart.querySelector(".at").textContent + ";");
}
</script></body>"#;

fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let all = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    std::env::var_os("BROWSER")
        .map(PathBuf::from)
        .into_iter()
        .chain(all)
        .find(|path| path.is_file())
}

fn write_log(folder: &Path, trainer: u32) {
    let mut lines = vec![format!(
        r#"{{"event":"start","time":1.0,"model":"dnn","mode":"sync","trainer":{trainer},"trainers":2,"batch":0,"config":{{}}}}"#
    )];
    for batch in 1..=9 {
        lines.push(format!(
            r#"{{"event":"step","time":1.0,"epoch":0,"batch":{batch},"loss":0.{},"metrics":{{"auc":0.{batch}}},"samples":64,"seconds":0.5,"reader_seconds":0.1,"samples_per_second":128.0}}"#,
            10 - batch
        ));
    }
    std::fs::write(folder.join(format!("trainer-{trainer}.jsonl")), lines.join("\n")).unwrap();
}

#[test]
#[ignore = "needs a browser: `cargo xtask browser` runs it"]
fn the_page_of_a_run_answers_the_pointer() {
    let Some(browser) = browser() else {
        eprintln!("skipped: there is no Chromium or Chrome on the path, and BROWSER is not set");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    (0..2).for_each(|trainer| write_log(folder.path(), trainer));
    let page = report::page(&report::read(folder.path()).unwrap());
    let file = folder.path().join("report.html");
    std::fs::write(&file, page.replace("</body>", PROBE)).unwrap();
    let mut command = Command::new(browser);
    command.args(["--headless", "--disable-gpu", "--no-sandbox", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
    let seen = command.arg(format!("file://{}", file.display())).output().unwrap();
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.contains("dnn · sync · 2 trainers"), "{seen}");
    assert!(!seen.contains("PROBE failed: Uncaught"), "{seen}");
    for chart in ["Loss", "AUC", "Samples a second"] {
        let probe = format!("PROBE {chart}: batch 5 · trainer 0: ");
        assert!(seen.contains(&probe), "`{probe}` is not in {seen}");
    }
}
