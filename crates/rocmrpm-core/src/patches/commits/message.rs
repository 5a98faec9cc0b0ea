//! The messages of commits that stand for patches: from a patch's header to a commit's message and
//! author, and back. A trailer names the patch's file. It does not read repositories.

use super::super::repository::{CommitText, Repository};
use crate::error::{Error, IoError};
use crate::workspace::Patch;
use crate::workspace::patch::header_end;

/// The trailer with the file of a patch, as gbp-pq(1) uses `Gbp-Pq`. It survives what git's own
/// tools do with commits.
const FILE: &str = "Patch-File:";

/// The trailer of the commit with a component's edits.
const EDITS: &str = "Edits-Of:";

/// The first words of a header in the form of a mail.
const MAIL: &[&[u8]] = &[b"From ", b"From:", b"Subject:", b"Date:"];

/// Returns the author and the message of a patch. Trailers that stand among a mail's header fields
/// become part of the message.
pub(super) fn of_patch(
    repository: &Repository,
    patch: &Patch,
    bytes: &[u8],
) -> Result<CommitText, Error> {
    let header = &bytes[..header_end(bytes)];
    let is_mail = MAIL.iter().any(|start| header.starts_with(start));
    let mut text = match is_mail {
        true => of_mail(repository, header)?,
        false => CommitText::message(&String::from_utf8_lossy(header)),
    };
    text.message = normalized(&text.message);
    let versions = patch.versions.to_string();
    let trailers =
        [("Origin", &patch.origin), ("Drop-When", &patch.drop_when), ("Versions", &versions)];
    let has_no_subject = text.message.is_empty()
        || trailers.iter().any(|(name, _)| text.message.starts_with(&format!("{name}:")));
    if has_no_subject {
        let stem = patch.file_name.trim_end_matches(".patch");
        let subject = stem.trim_start_matches(|c: char| c.is_ascii_digit()).replace('-', " ");
        text.message = normalized(&format!("{}\n\n{}", subject.trim(), text.message));
    }
    for (name, value) in trailers {
        let is_there = text.message.lines().any(|line| line.starts_with(&format!("{name}:")));
        if !value.is_empty() && !is_there {
            text.message = with_trailer(&text.message, &format!("{name}:"), value);
        }
    }
    Ok(text)
}

fn of_mail(repository: &Repository, header: &[u8]) -> Result<CommitText, Error> {
    let action = || IoError::doing("read a patch's header");
    let scratch = tempfile::Builder::new().prefix("rocmrpm-").tempdir().map_err(action())?;
    let (message, rest) = (scratch.path().join("message"), scratch.path().join("rest"));
    let mail = repository.git().args(["mailinfo", "-b", "--encoding=UTF-8"]).arg(&message);
    let done = mail.arg(rest).stdin([header, b"\n---\n"].concat()).run()?;
    if !done.success() {
        return Ok(CommitText::message(&String::from_utf8_lossy(header)));
    }
    let fields = String::from_utf8_lossy(&done.stdout).into_owned();
    let field = |name: &str| {
        let line = fields.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    let body = fs_err::read(message).map_err(action())?;
    let message = format!("{}\n\n{}", field("Subject:"), String::from_utf8_lossy(&body));
    Ok(CommitText { author: [field("Author:"), field("Email:"), field("Date:")], message })
}

/// Returns a message as git stores it after an edit.
pub(super) fn normalized(message: &str) -> String {
    let mut lines: Vec<&str> = message.lines().map(str::trim_end).collect();
    lines.dedup_by(|line, before| line.is_empty() && before.is_empty());
    lines.join("\n").trim_matches('\n').to_owned()
}

/// Adds a trailer to a message, in the last paragraph if that consists of trailers.
fn with_trailer(message: &str, name: &str, value: &str) -> String {
    let last = message.rsplit_once("\n\n").map(|(_, last)| last).unwrap_or_default();
    let is_trailer = |line: &str| {
        let key = line.split_once(": ").map(|(key, _)| key).unwrap_or_default();
        line.starts_with([' ', '\t'])
            || !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    let trailers = !last.is_empty() && last.lines().all(is_trailer);
    let between = if trailers { "\n" } else { "\n\n" };
    format!("{message}{between}{name} {value}")
}

/// Returns the message of the commit of a patch.
pub(super) fn with_file(message: &str, file: &str) -> String {
    with_trailer(message, FILE, file) + "\n"
}

/// Returns the message of the commit of a component's edits.
pub(super) fn of_edits() -> String {
    let message = "Make the edits of component.toml\n\nChange them there, not in this commit.";
    with_trailer(message, EDITS, "component.toml") + "\n"
}

/// Splits the message of a commit into the message of the patch and the file, if it has one.
pub(super) fn split(message: &str) -> (String, Option<String>) {
    let file = message.lines().find_map(|line| line.strip_prefix(FILE));
    let file = file.map(|file| file.trim().to_owned());
    let own = message.lines().filter(|line| !line.starts_with(FILE)).collect::<Vec<_>>().join("\n");
    (normalized(&own), file)
}

/// Returns whether a message is that of the commit of a component's edits.
pub(super) fn is_of_edits(message: &str) -> bool {
    message.lines().any(|line| line.starts_with(EDITS))
}

/// Returns the value of a trailer; empty if there is none.
pub(super) fn trailer<'m>(message: &'m str, name: &str) -> &'m str {
    let value = message.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_and_removes_the_name_of_the_file() {
        for message in
            ["Do this", "Do this\n\nBecause: of that.", "Do\n\nWhy.\n\nOrigin: own\n more"]
        {
            let (own, file) = split(&with_file(message, "0001-x.patch"));
            assert_eq!((own.as_str(), file.as_deref()), (message, Some("0001-x.patch")));
        }
        let joined = with_file("Do\n\nOrigin: own", "x.patch");
        assert_eq!(joined, "Do\n\nOrigin: own\nPatch-File: x.patch\n");
        assert_eq!(with_file("fix: it", "x"), "fix: it\n\nPatch-File: x\n");
        assert!(is_of_edits(&of_edits()) && !is_of_edits(&joined));
    }

    #[test]
    fn reads_headers_of_mails_and_of_plain_patches() {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::new(dir.path().join("git")).unwrap();
        let patch = Patch {
            file_name: "0007-fix-it.patch".into(),
            subject: String::new(),
            origin: "own".into(),
            drop_when: String::new(),
            versions: Default::default(),
        };
        let read = |bytes: &str| of_patch(&repository, &patch, bytes.as_bytes()).unwrap();
        let mail = "From 00 Mon Sep 17 00:00:00 2001\nFrom: =?UTF-8?q?J=C3=BC?= <j@example.org>\n\
                    Date: Sat, 21 Nov 2026 12:00:00 +0000\nSubject: [PATCH 1/2] [ROCm] Do\n this\n\n\
                    Why.\n\nOrigin: own\n---\n x | 1 +\n";
        let text = read(mail);
        assert_eq!(text.author[..2], ["Jü", "j@example.org"]);
        assert_eq!(text.message, "[ROCm] Do this\n\nWhy.\n\nOrigin: own");
        assert_eq!(read("--- a/x\n+++ b/x\n").message, "fix it\n\nOrigin: own");
        let trailers = "Origin: own\nDrop-When: never\n--- a/x\n";
        assert_eq!(read(trailers).message, "fix it\n\nOrigin: own\nDrop-When: never");
        let field = "Subject: Do\nOrigin: own\n---\n";
        assert_eq!(read(field).message, "Do\n\nOrigin: own");
        assert_eq!(read("Prose.\n\nOrigin: own\n--- a/x\n").message, "Prose.\n\nOrigin: own");
    }
}
