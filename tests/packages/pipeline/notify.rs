//! The command that gets the summary of a run.

use super::fixture::{PipelineFixture, WORKS};
use crate::support::names_in;

impl PipelineFixture {
    /// Sets the command, which is read from the user's checkout.
    fn notify(&self, command: &str) {
        let settings = self.workspace.read("pipeline.toml");
        let others = settings.lines().filter(|line| !line.starts_with("notify"));
        let mut text: String = others.map(|line| format!("{line}\n")).collect();
        text += &format!("notify = {command}\n");
        self.workspace.write("pipeline.toml", text);
    }

    /// Returns what the command wrote since the last call.
    fn summary(&self) -> Option<String> {
        let path = self.workspace.holder().join("summary");
        let text = std::fs::read_to_string(&path).ok();
        let _ = std::fs::remove_file(path);
        text
    }
}

#[test]
fn summary_of_each_end_reaches_the_command() {
    let fixture = PipelineFixture::new();
    // A file.
    fixture.notify("[\"sh\", \"-c\", \"cat > ../summary\"]");
    fixture.pipeline(&["run"]).exits(0);
    let summary = fixture.summary().unwrap();
    assert!(summary.starts_with("The pipeline of stable passed.\n\n"), "{summary}");
    assert!(summary.contains("publish for host passed: "), "{summary}");
    fixture.pipeline(&["run"]).exits(0);
    assert_eq!(fixture.summary(), None, "the run did nothing");

    // A mail, as the program `mail` or sendmail gets it.
    let mail = "(printf 'To: me@example.org\\\\nSubject: rocmrpm\\\\n\\\\n'; cat) > ../summary";
    fixture.notify(&format!("[\"sh\", \"-c\", \"{mail}\"]"));
    fixture.release("1.1", &[("LICENSE", "Apache-2.0\n")]);
    fixture.pipeline(&["run"]).exits(1);
    let summary = fixture.summary().unwrap();
    let (head, body) = summary.split_once("\n\n").unwrap();
    assert_eq!(head, "To: me@example.org\nSubject: rocmrpm");
    assert!(
        body.starts_with("The pipeline of stable stopped at update: greet 1.1: its license files"),
        "{body}"
    );
    assert!(body.contains("\nhelp: correct the component in"), "{body}");
    fixture.pipeline(&["accept"]).exits(0);

    // The body of a pull request, beside the branch that it is about.
    let body =
        "{ echo '```'; cat; echo '```'; git log -1 --format=%s rocmrpm/stable; } > ../summary";
    fixture.notify(&format!("[\"sh\", \"-c\", \"{body}\"]"));
    fixture.release("1.2", &[("build.sh", "#!/bin/sh\nexit 3\n")]);
    fixture.pipeline(&["run"]).exits(10);
    let summary = fixture.summary().unwrap();
    assert!(summary.starts_with("```\nThe pipeline of stable failed: "), "{summary}");
    assert!(summary.contains("build for host failed: "), "{summary}");
    assert!(summary.ends_with("\n```\nUpdate greet to 1.2\n"), "{summary}");
}

#[test]
fn command_that_fails_does_not_lose_the_run() {
    let fixture = PipelineFixture::new();
    let head = fixture.workspace.git(&["rev-parse", "HEAD"]);
    for (version, command, reason) in [
        ("1.1", "[\"sh\", \"-c\", \"echo no route to host >&2; exit 7\"]", "no route to host"),
        ("1.2", "[\"no-such-mailer\"]", "no-such-mailer"),
    ] {
        fixture.notify(command);
        fixture.release(version, &[("build.sh", WORKS)]);
        let ran = fixture.pipeline(&["run"]);
        ran.exits(0).reports(["`notify` of pipeline.toml failed", reason]);
        assert_eq!(fixture.published(), [format!("greet-{version}-1.noarch.rpm")]);
        // The records are complete: after a run that no longer finds a newer release, nothing is to do.
        fixture.pipeline(&["run"]).exits(0);
        let records = fixture.records();
        fixture.pipeline(&["run"]).exits(0).never_reports("notify");
        assert_eq!(fixture.records(), records);
    }
    fixture.workspace.git(&["restore", "pipeline.toml"]);
    fixture.assert_sound(&head);
    assert!(names_in(&fixture.folder("")).contains(&"evidence".to_owned()));
}
