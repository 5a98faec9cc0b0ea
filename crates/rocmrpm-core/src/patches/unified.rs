//! Parses unified diffs: which files a patch changes, and where. It does not apply them.

use std::ops::Range;

/// The changes of a patch to one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileChange {
    /// The old file name without its first component; `None` for a new file.
    pub old: Option<String>,
    /// The new file name without its first component; `None` for a removed file.
    pub new: Option<String>,
    /// The changed places.
    pub hunks: Vec<Hunk>,
    /// The lines of the patch that contain this change, counted from 1.
    pub lines: Range<usize>,
}

/// One changed place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunk {
    /// The first line in the old file, counted from 1.
    pub old_start: usize,
    /// Number of lines in the old file.
    pub old_len: usize,
    /// Number of lines in the new file.
    pub new_len: usize,
    /// The `@@` line.
    pub header: String,
    /// The old lines with context, each with its line feed.
    pub old: Vec<String>,
    /// The new lines with context, each with its line feed.
    pub new: Vec<String>,
}

impl FileChange {
    /// Returns the file name to show in messages.
    pub fn name(&self) -> &str {
        self.old.as_deref().or(self.new.as_deref()).unwrap_or_default()
    }

    /// Returns the old and new names, if any.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.old.iter().chain(&self.new).map(String::as_str)
    }
}

/// Parses a patch. Skips lines that are neither file headers nor hunks, as patch does.
pub fn parse(text: &str) -> Vec<FileChange> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut files: Vec<FileChange> = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let line = line.trim_end_matches(['\n', '\r']);
        let next = lines.get(at + 1).copied().unwrap_or_default();
        if let Some(names) = line.strip_prefix("diff --git ") {
            let (old, new) = git_names(names);
            files.push(FileChange { old, new, lines: at + 1..at + 2, ..FileChange::default() });
        } else if let (Some(old), Some(new)) =
            (line.strip_prefix("--- "), next.strip_prefix("+++ "))
        {
            let (old, new) = (name(old), name(new.trim_end()));
            match files.last_mut().filter(|file| file.hunks.is_empty() && file.lines.end == at + 1)
            {
                Some(file) => (file.old, file.new) = (old, new),
                None => files.push(FileChange {
                    old,
                    new,
                    lines: at + 1..at + 2,
                    ..FileChange::default()
                }),
            }
            at += 1;
        } else if let (Some(file), Some(hunk)) = (files.last_mut(), hunk_header(line)) {
            let (hunk, length) = read_hunk(hunk, &lines[at + 1..]);
            file.hunks.push(hunk);
            at += length;
        } else if let Some(file) = files.last_mut().filter(|file| file.hunks.is_empty()) {
            let moved = |from: &str| line.strip_prefix(from).map(|name| unquoted(name.trim_end()));
            if let Some(old) = moved("rename from ").or_else(|| moved("copy from ")) {
                file.old = Some(old);
            } else if let Some(new) = moved("rename to ").or_else(|| moved("copy to ")) {
                file.new = Some(new);
            } else if line.starts_with("new file mode") {
                file.old = None;
            } else if line.starts_with("deleted file mode") {
                file.new = None;
            } else if line == "-- " || line.is_empty() {
                at += 1;
                continue;
            }
        } else {
            at += 1;
            continue;
        }
        at += 1;
        if let Some(file) = files.last_mut() {
            file.lines.end = at + 1;
        }
    }
    // Prose that contains `--- x` without a change is not a file.
    files.retain(|file| file.old.is_some() || file.new.is_some());
    files
}

/// Parses the file name in a `---` or `+++` line.
fn name(text: &str) -> Option<String> {
    let text = text.split('\t').next().unwrap_or_default().trim_end();
    let text = unquoted(text);
    if text == "/dev/null" { None } else { Some(without_first(&text)) }
}

/// Strips the path component that `-p1` strips.
fn without_first(name: &str) -> String {
    // Keep absolute names and names with `..` so that a later check rejects them.
    match name.split_once('/') {
        Some((first, rest)) if !first.is_empty() => rest.to_owned(),
        _ => name.to_owned(),
    }
}

/// Parses both names in a `diff --git` line. The names cannot always be separated (git-diff(1)); if
/// they differ, other lines contain them.
fn git_names(text: &str) -> (Option<String>, Option<String>) {
    let text = text.trim_end();
    let half = (text.len().saturating_sub(1)) / 2;
    let (old, new) = match (text.get(..half), text.get(half + 1..)) {
        (Some(old), Some(new)) if text.as_bytes().get(half) == Some(&b' ') => (old, new),
        _ => text.split_once(' ').unwrap_or((text, text)),
    };
    (name(old), name(new))
}

/// Undoes git's quoting of names (core.quotePath in git-config(1)).
fn unquoted(name: &str) -> String {
    let Some(inner) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else {
        return name.to_owned();
    };
    let mut bytes = Vec::new();
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    if let Some(digit) = rest.next_if(|byte| (b'0'..=b'7').contains(byte)) {
                        value = value * 8 + u32::from(digit - b'0');
                    }
                }
                bytes.push(u8::try_from(value).unwrap_or(b'?'));
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parses `@@ -1,2 +3,4 @@ ...`.
fn hunk_header(line: &str) -> Option<Hunk> {
    let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| match text.split_once(',') {
        Some((start, len)) => Some((start.parse().ok()?, len.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    };
    let ((old_start, old_len), (_, new_len)): ((usize, usize), (usize, usize)) =
        (range(old)?, range(new)?);
    Some(Hunk {
        old_start,
        old_len,
        new_len,
        header: line.to_owned(),
        old: Vec::new(),
        new: Vec::new(),
    })
}

/// Parses the lines of a hunk and returns how many there were.
fn read_hunk(mut hunk: Hunk, lines: &[&str]) -> (Hunk, usize) {
    let (mut old, mut new, mut read) = (0, 0, 0);
    for line in lines {
        if old >= hunk.old_len && new >= hunk.new_len && !line.starts_with('\\') {
            break;
        }
        match line.as_bytes().first() {
            Some(b'-') => {
                old += 1;
                hunk.old.push(line[1..].to_owned());
            }
            Some(b'+') => {
                new += 1;
                hunk.new.push(line[1..].to_owned());
            }
            // An empty line is a context line that lost its trailing space.
            Some(b' ' | b'\n') => {
                (old, new) = (old + 1, new + 1);
                let line = line.strip_prefix(' ').unwrap_or(line).to_owned();
                hunk.old.push(line.clone());
                hunk.new.push(line);
            }
            Some(b'\\') => {}
            _ => break,
        }
        read += 1;
    }
    (hunk, read)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "From 0 Mon\nSubject: [PATCH] x\n\n--- not a file\n---\n a | 2 +-\n\n\
        diff --git a/dir/a b/dir/a\nindex 1..2 100644\n--- a/dir/a\n+++ b/dir/a\n\
        @@ -1,2 +1,2 @@\n one\n--- two\n+++ drei\n@@ -9 +9,0 @@ fn x\n-nine\n\
        diff --git a/old name b/new name\nsimilarity index 100%\nrename from old name\nrename to new name\n\
        diff --git \"a/\\303\\274\" \"b/\\303\\274\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/\\303\\274\"\n\
        @@ -0,0 +1 @@\n+u\n-- \n2.47.3\n";

    #[test]
    fn distinguishes_files_and_hunks_from_prose() {
        let files = parse(PATCH);
        let names: Vec<_> =
            files.iter().map(|file| (file.old.as_deref(), file.new.as_deref())).collect();
        let expected = [
            (Some("dir/a"), Some("dir/a")),
            (Some("old name"), Some("new name")),
            (None, Some("ü")),
        ];
        assert_eq!(names, expected);
        let hunks: Vec<_> =
            files[0].hunks.iter().map(|hunk| (hunk.old_start, hunk.old.concat())).collect();
        assert_eq!(hunks, [(1, "one\n-- two\n".to_owned()), (9, "nine\n".to_owned())]);
        assert_eq!(files[0].lines, 8..18);
        assert_eq!(files[2].lines, 22..28);
    }

    #[test]
    fn does_not_panic_on_truncated_patches() {
        for end in (0..PATCH.len()).filter(|end| PATCH.is_char_boundary(*end)) {
            parse(&PATCH[..end]);
        }
        parse("@@ -1,99999999999999999999 +1 @@\n");
        parse("--- a/x\n+++ b/x\n@@ -1,18446744073709551615 +1,2 @@\n x\n");
    }
}
