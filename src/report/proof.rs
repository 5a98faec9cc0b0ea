//! Formats the proof of wheels as text: how many files are identical to those of the RPMs, which
//! ones rocmrpm made, and every difference.

use super::{Style, count, human_size};
use crate::digest::Sha256;
use crate::outputs::Verified;
use crate::text::visible;
use crate::wheel::{Difference, Made, Proof};

/// Formats the verified wheels as text for a terminal.
pub fn proof_text(all: &[Verified]) -> String {
    let mut text = String::new();
    for verified in all {
        for (rpm, difference) in &verified.rpms {
            text.push_str(&format!("{}\n", Style::Bold.paint(visible(rpm))));
            difference_text(&mut text, difference);
        }
        for proof in &verified.wheels {
            wheel_text(&mut text, proof);
        }
    }
    text
}

/// Returns a summary line for all wheels.
pub fn proof_summary(all: &[Verified]) -> String {
    let wheels = || all.iter().flat_map(|verified| &verified.wheels);
    let differences: usize = all.iter().map(|v| v.rpms.len()).sum::<usize>()
        + wheels().map(|proof| proof.differences.len()).sum::<usize>();
    let identical = wheels().map(|proof| proof.identical).sum();
    let bytes = wheels().map(|proof| proof.identical_bytes).sum();
    let what = match differences {
        0 => Style::Good.paint("no differences"),
        n => Style::Bad.paint(count(n, "difference")),
    };
    format!(
        "{}: {} ({}) of the RPMs, {what}",
        count(wheels().count(), "wheel"),
        count(identical, "file"),
        human_size(bytes)
    )
}

fn wheel_text(text: &mut String, proof: &Proof) {
    text.push_str(&format!("{}\n", Style::Bold.paint(visible(&proof.wheel))));
    let good = Style::Good.paint('=');
    if proof.identical > 0 {
        let files = count(proof.identical, "file");
        let verb = if proof.identical == 1 { "is" } else { "are" };
        let size = human_size(proof.identical_bytes);
        text.push_str(&format!(
            "  {good} {files} ({size}) {verb} identical to the RPM's, by SHA-256\n"
        ));
        for rpm in &proof.rpms {
            text.push_str(&format!("      {}\n", Style::Dim.paint(visible(rpm))));
        }
    }
    if !proof.made.is_empty() {
        let files = count(proof.made.len(), "file");
        let verb = if proof.made.len() == 1 { "is" } else { "are" };
        text.push_str(&format!("  {} {files} {verb} made by rocmrpm\n", Style::Note.paint('+')));
    }
    for Made { member, changes } in &proof.made {
        text.push_str(&format!("      {}\n", visible(member)));
        for change in changes {
            let style = if change.starts_with('-') { Style::Bad } else { Style::Good };
            text.push_str(&format!("        {}\n", style.paint(visible(change))));
        }
    }
    for difference in &proof.differences {
        difference_text(text, difference);
    }
}

fn difference_text(text: &mut String, difference: &Difference) {
    let Difference { member, what, expected, found } = difference;
    let member = member.as_ref().map(|name| format!("{}: ", visible(name))).unwrap_or_default();
    text.push_str(&format!("  {} {member}{what}\n", Style::Bad.paint("error:")));
    for (name, digest) in [("expected", expected), ("found", found)] {
        if let Some(digest) = digest {
            text.push_str(&format!(
                "      {} {}\n",
                Style::Dim.paint(format!("{name:<8}")),
                sha256(digest)
            ));
        }
    }
}

fn sha256(digest: &Sha256) -> String {
    format!("sha256:{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_a_proof() {
        let made = |member: &str, changes: &[&str]| Made {
            member: member.into(),
            changes: changes.iter().map(|change| (*change).into()).collect(),
        };
        let proof = Proof {
            wheel: "a-1.0+rocm7.14-py3-none-any.whl".into(),
            rpms: vec!["python3-a-1.0-1.noarch.rpm".into()],
            identical: 2,
            identical_bytes: 1200,
            made: vec![
                made("a-1.0.dist-info/METADATA", &["-Version: 1.0", "+Version: 1.0+rocm7.14"]),
                made("a-1.0.dist-info/RECORD", &[]),
            ],
            differences: vec![Difference {
                member: Some("a/x.py".into()),
                what: "it differs from the RPM's file".into(),
                expected: Some(Sha256::of_bytes("")),
                found: Some(Sha256::of_bytes("x")),
            }],
            ..Proof::default()
        };
        let rpm = Difference::of_file("it is not the RPM that build.json records", None, None);
        let rpms = vec![("python3-a-1.0-1.noarch.rpm".to_owned(), rpm)];
        let all = [Verified { component: "a".into(), rpms, wheels: vec![proof] }];
        let plain = |text: &str| anstream::adapter::strip_str(text).to_string();
        snapbox::assert_data_eq!(
            plain(&proof_text(&all)),
            snapbox::str![[r#"
python3-a-1.0-1.noarch.rpm
  error: it is not the RPM that build.json records
a-1.0+rocm7.14-py3-none-any.whl
  = 2 files (1.2 kB) are identical to the RPM's, by SHA-256
      python3-a-1.0-1.noarch.rpm
  + 2 files are made by rocmrpm
      a-1.0.dist-info/METADATA
        -Version: 1.0
        +Version: 1.0+rocm7.14
      a-1.0.dist-info/RECORD
  error: a/x.py: it differs from the RPM's file
      expected sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
      found    sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881

"#]]
        );
        assert_eq!(
            plain(&proof_summary(&all)),
            "1 wheel: 2 files (1.2 kB) of the RPMs, 2 differences"
        );
    }
}
