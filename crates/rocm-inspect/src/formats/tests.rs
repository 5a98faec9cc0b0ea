//! Formats a sample report that contains everything in each format, and compares texts with
//! `golden`. Reading files is tested elsewhere.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::*;
use crate::sample::sample;

/// The program that the golden files name.
const PROGRAM: Program<'_> =
    Program { name: "rocmrpm inspect", version: "1.0", explain: "rocmrpm explain" };

fn written(report: &Report, verbose: bool) -> String {
    to_text(report, TextOptions { verbose, color: false, program: PROGRAM })
}

/// Runs a Python program with `input` as its stdin and returns its stdout.
#[track_caller]
fn python(program: &str, input: &str) -> String {
    let mut child = Command::new("/usr/bin/python3")
        .args(["-I", "-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the package python3 is installed");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "python3 failed");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn formats_the_sample_as_text() {
    let text = written(&sample(), false);
    snapbox::assert_data_eq!(text, snapbox::file!["golden/sample.txt"].raw());
}

#[test]
fn shows_everything_in_verbose_text() {
    let (short, text) = (written(&sample(), false), written(&sample(), true));
    for part in
        ["Kernels_39_gfx1151.kdb", "Kernels_37_gfx1100.co", "8f2c1de07a4e5b6690aa", "partial RELRO"]
    {
        assert!(text.contains(part), "{part}");
        assert!(!short.contains(part), "{part}");
    }
    assert!(!text.contains("... and"), "{text}");
}

#[test]
fn escapes_control_characters_for_terminals() {
    let report = sample();
    for text in [written(&report, true), to_github(&report, PROGRAM), to_junit(&report, PROGRAM)] {
        assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'));
    }
}

#[test]
fn wraps_text_at_the_width_of_a_terminal() {
    let text = written(&sample(), true);
    // A line without spaces cannot be wrapped.
    for line in text.lines().filter(|line| !line.contains("<script>")) {
        assert!(line.chars().count() <= 100, "{} characters: {line}", line.chars().count());
    }
}

#[test]
fn formats_the_sample_as_workflow_commands() {
    let text = to_github(&sample(), PROGRAM);
    snapbox::assert_data_eq!(text, snapbox::file!["golden/sample.github"].raw());
}

#[test]
fn writes_one_workflow_command_per_finding() {
    let report = sample();
    let text = to_github(&report, PROGRAM);
    let commands: Vec<&str> = text.lines().filter(|line| line.starts_with("::")).collect();
    assert_eq!(commands.len(), report.findings.len() + 2, "and the two of the group");
    assert!(!text.contains("##["));
}

#[test]
fn formats_the_sample_as_junit() {
    let text = to_junit(&sample(), PROGRAM);
    snapbox::assert_data_eq!(text, snapbox::file!["golden/sample.xml"].raw());
}

/// Checks the elements, their order and attributes against Jenkins' `junit-10.xsd`, and the counts.
#[test]
fn writes_junit_that_matches_the_schema() {
    let program = r#"
import sys, xml.etree.ElementTree as tree
root = tree.fromstring(sys.stdin.buffer.read())
assert root.tag == "testsuites"
def counts(node):
    cases = list(node.iter("testcase"))
    failed = [c for c in cases if c.find("failure") is not None]
    assert node.get("tests") == str(len(cases)), node.get("tests")
    assert node.get("failures") == str(len(failed))
    assert node.get("errors") == node.get("skipped") == "0"
    float(node.get("time"))
    return len(cases), len(failed)
for suite in root:
    assert suite.tag == "testsuite" and suite.get("name")
    counts(suite)
    order = ["properties", "testcase", "system-out", "system-err"]
    places = [order.index(child.tag) for child in suite]
    assert places == sorted(places)
    names = [case.get("name") for case in suite.iter("testcase")]
    assert len(names) == len(set(names)) and all(names)
    for case in suite.iter("testcase"):
        assert set(case.attrib) == {"classname", "name", "time"}
        places = [["failure", "system-out"].index(child.tag) for child in case]
        assert places == sorted(set(places))
        for failure in case.iter("failure"):
            assert set(failure.attrib) == {"message", "type"} and failure.text
print(*counts(root))
"#;
    let report = sample();
    let printed = python(program, &to_junit(&report, PROGRAM));
    // 85 files, five whole subjects, two rules about the set; errors in three files and in one rule
    // about the set.
    assert_eq!(printed, format!("{} {}\n", 85 + 5 + 2, 3 + 1));
}

#[test]
fn reports_success_without_findings_in_every_format() {
    let mut report = sample();
    report.findings.clear();
    report.waived.clear();
    report.gpu_targets.truncate(1);
    serve_all(&mut report);
    let text = written(&report, false);
    assert!(text.ends_with("\nno findings | gfx1151: served exactly\n"), "{text}");
    assert!(!to_junit(&report, PROGRAM).contains("<failure"));
    assert!(!to_github(&report, PROGRAM).contains("::error"));
    assert!(to_html(&report, PROGRAM).contains("No problems found"));
}

/// Checks that all tags are closed, and that the page loads and runs nothing: it only has known
/// attributes.
#[test]
fn writes_a_complete_page_that_loads_nothing() {
    let program = r#"
import sys, html.parser
ALLOWED = set("""class style lang charset name content http-equiv scope role aria-labelledby aria-hidden id
    width height viewbox tabindex aria-label fill stroke stroke-width d x y cx cy r rx""".split())
class Page(html.parser.HTMLParser):
    open, text, seen = [], [], set()
    def handle_starttag(self, tag, attributes):
        assert tag not in ("script", "img", "link", "iframe", "object", "b", "so"), tag
        for name, value in attributes:
            assert name in ALLOWED, name
            assert name != "style" or value.startswith("width:"), value
        self.seen.add(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
    def handle_data(self, data):
        self.text.append(data)
page = Page(convert_charrefs=True)
page.feed(sys.stdin.buffer.read().decode())
page.close()
assert not page.open, page.open
text = "".join(page.text)
assert "url(" not in text and "@import" not in text
print("<script>alert('x')</script>\\u{202e}\"&\\u{1b}[31m,50%:\\n::error::.so" in text)
print(*sorted(page.seen & {"svg", "title", "table", "details", "article", "h1", "h2"}))
"#;
    let printed = python(program, &to_html(&sample(), PROGRAM));
    assert_eq!(printed, "True\narticle details h1 h2 svg table title\n");
}

#[test]
fn shows_requested_targets_that_are_missing() {
    let mut report = sample();
    assert!(!to_html(&report, PROGRAM).contains("requested, missing"), "SPIR-V serves everything");
    for file in report.subjects.iter_mut().flat_map(|s| &mut s.files) {
        file.device.retain(|code| matches!(code.target, Target::Gpu(_)));
    }
    let page = to_html(&report, PROGRAM);
    assert_eq!(page.matches("requested, missing").count(), 1, "only gfx1201");
}

#[test]
fn lists_all_findings_libraries_and_reasons_in_the_page() {
    let report = sample();
    let page = to_html(&report, PROGRAM);
    for need in &report.needs {
        assert!(page.contains(&need.library), "{}", need.library);
    }
    for id in report.findings.iter().map(|f| f.id).chain(report.waived.iter().map(|w| w.finding.id))
    {
        assert!(page.contains(&format!("<code>{id}</code>")), "{id}");
    }
    assert!(page.contains("the vendor&#39;s loader wants it &lt;so&gt;"));
}

#[test]
fn truncates_large_graphs_with_a_note() {
    let mut report = sample();
    let need = report.needs[0].clone();
    let name = |kind: &str, n: usize| format!("{kind}{n}/lib{kind}{n}.so");
    report.needs = (0..3000)
        .map(|n| Need { file: name("f", n % 300), library: name("l", n), ..need.clone() })
        .collect();
    for (n, need) in report.needs.iter_mut().enumerate() {
        need.by = Some(format!("package{n}"));
    }
    let page = to_html(&report, PROGRAM);
    let graph = page
        .split("aria-labelledby=\"graph-title\"")
        .nth(1)
        .unwrap()
        .split("</svg>")
        .next()
        .unwrap();
    assert!(graph.len() < 60_000, "{} bytes", graph.len());
    assert!(graph.contains("and 280 more, see the table"));
    assert!(graph.contains("and 2,988 more, see the table"));
    assert!(page.contains("and 1000 more"), "the table is truncated, too");
}

/// Removes the code for an unknown GPU, so that all remaining GPU code serves its target.
fn serve_all(report: &mut Report) {
    for file in report.subjects.iter_mut().flat_map(|s| &mut s.files) {
        file.device.retain(|code| !matches!(code.target, Target::Unknown(_)));
    }
}

#[test]
fn shows_incomplete_targets_in_every_headline() {
    let report = sample();
    let partly = "gfx1151: served in 1 of 2 files";
    let text = written(&report, false).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&format!("1 waived | {partly}")), "{text}");
    assert!(to_junit(&report, PROGRAM).contains(partly));
    assert!(to_github(&report, PROGRAM).contains(partly));
    assert!(
        to_html(&report, PROGRAM).contains("<span class=\"error\">served in 1 of 2 files</span>")
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["verdicts"][0]["served"], "partly");
}

#[test]
fn distinguishes_exact_generic_and_missing_targets() {
    let mut report = sample();
    let whole = report.clone();
    serve_all(&mut report);
    assert_eq!(
        verdict_line(&report),
        "gfx1151: served exactly; gfx1150: served by gfx11-generic, amdgcnspirv; gfx1201: served by amdgcnspirv"
    );
    let drop_code = |report: &mut Report, keep: fn(&Target) -> bool| {
        for file in report.subjects.iter_mut().flat_map(|s| &mut s.files) {
            file.device.retain(|code| keep(&code.target));
        }
    };
    report = whole;
    drop_code(&mut report, |target| matches!(target, Target::Unread | Target::Unknown(_)));
    assert!(verdict_line(&report).starts_with("gfx1151: unknown, part of the set was not read;"));
    drop_code(&mut report, |target| matches!(target, Target::Unknown(_)));
    assert!(verdict_line(&report).starts_with("gfx1151: not served;"));
    drop_code(&mut report, |_| false);
    assert!(verdict_line(&report).starts_with("gfx1151: no GPU code in this set;"));
}

#[test]
fn formats_numbers_and_sorts_targets_naturally() {
    assert_eq!([0, 999, 1000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
    let gpu = |name: &str| Target::Gpu(GpuTarget::parse(name).unwrap());
    let mut targets =
        [gpu("gfx11-generic"), Target::Spirv, gpu("gfx1010"), gpu("gfx90a:xnack+"), gpu("gfx908")];
    targets.sort_by_key(order);
    assert_eq!(list(&targets), "gfx908, gfx90a:xnack+, gfx1010, gfx11-generic, amdgcnspirv");
}
