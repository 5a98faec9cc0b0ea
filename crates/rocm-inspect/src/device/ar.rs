//! Reads static archives: the members of `ar` files in the GNU and BSD formats. It does not
//! interpret the members. Sources: `ar(5)` of FreeBSD; the GNU binutils' manual, "ar", for long
//! names in a member `//` and symbol tables in `/`.

use std::ops::Range;

use super::bundle::Broken;

/// The first bytes of an archive.
pub(crate) const MAGIC: &[u8; 8] = b"!<arch>\n";

const HEADER: usize = 60;

/// Yields the range of each member's content, except for symbol tables and name tables. Stops after
/// an error.
pub(crate) fn members(file: &[u8]) -> Members<'_> {
    Members { file, at: MAGIC.len() }
}

/// The iterator that [`members`] returns.
pub(crate) struct Members<'a> {
    file: &'a [u8],
    at: usize,
}

impl Iterator for Members<'_> {
    type Item = Result<Range<usize>, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.at >= self.file.len() {
                return None;
            }
            match self.member() {
                Ok(None) => {}
                Ok(Some(range)) => return Some(Ok(range)),
                Err(broken) => {
                    self.at = self.file.len();
                    return Some(Err(broken));
                }
            }
        }
    }
}

impl Members<'_> {
    fn member(&mut self) -> Result<Option<Range<usize>>, Broken> {
        let at = self.at as u64;
        let header = self.file[self.at..].first_chunk::<HEADER>();
        let header = header
            .ok_or_else(|| Broken::new(at, "is an archive that ends within a member's header"))?;
        if !header.ends_with(b"`\n") {
            return Err(Broken::new(at, "is an archive that lacks an expected member header"));
        }
        let start = self.at + HEADER;
        let size = number(&header[48..58]).filter(|size| *size <= self.file.len() - start);
        let size =
            size.ok_or_else(|| Broken::new(at + 48, "is an archive that ends within a member"))?;
        // Members start at even offsets; the padding of the last one may be missing.
        self.at = start + size + size % 2;
        let name = header[..16].trim_ascii_end();
        let content = start..start + size;
        // BSD stores a long name before the content and includes it in the size.
        if let Some(length) = name.strip_prefix(b"#1/").and_then(number) {
            let own = content.start.checked_add(length).filter(|own| *own <= content.end);
            let own = own.ok_or_else(|| {
                Broken::new(at, "is an archive with a name longer than its member")
            })?;
            let table = self.file[content.start..own].starts_with(b"__.SYMDEF");
            return Ok((!table).then_some(own..content.end));
        }
        let table = matches!(name, b"/" | b"//" | b"/SYM64/") || name.starts_with(b"__.SYMDEF");
        Ok((!table).then_some(content))
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits.trim_ascii()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{archive, flip_bytes};

    fn contents(file: &[u8]) -> Vec<Result<&[u8], Broken>> {
        members(file).map(|member| member.map(|range| &file[range])).collect()
    }

    fn mixed() -> Vec<u8> {
        archive(&[
            ("/", b"symbols!"),
            ("//", b"a_long_name_of_a_member.o/\n"),
            ("/SYM64/", b"more symbols"),
            ("short.o/", b"odd"),
            ("/0", b"even"),
            ("#1/9", b"bsdname.ocontent"),
            ("#1/20", b"__.SYMDEF SORTED\0\0\0\0table"),
            ("__.SYMDEF", b"table"),
            ("last.o/", b"x"),
        ])
    }

    #[test]
    fn yields_members_without_tables() {
        let file = mixed();
        let found: Vec<_> = contents(&file).into_iter().map(Result::unwrap).collect();
        assert_eq!(found, [&b"odd"[..], b"even", b"content", b"x"]);
        // Without the padding of the last member.
        assert_eq!(contents(&file[..file.len() - 1]).len(), 4);
        assert!(contents(MAGIC).is_empty());
    }

    #[test]
    fn reports_truncation_within_members() {
        let file = mixed();
        for length in 8..file.len() - 1 {
            let found = contents(&file[..length]);
            let errors = found.iter().filter(|member| member.is_err()).count();
            let between = file[..length].ends_with(b"\n") || file[length..].starts_with(b"\n");
            let header = file[length..].len() >= HEADER;
            let at_member = header
                && (file[length + 58..].starts_with(b"`\n")
                    || file[length + 59..].starts_with(b"`\n"));
            assert!(errors == 1 || between || at_member, "{length}");
        }
    }

    #[test]
    fn rejects_wrong_sizes_and_corruption() {
        let file = mixed();
        for size in ["-1        ", "x         ", "9999999999", "18446744073709551615"] {
            let mut wrong = file.clone();
            wrong[8 + 48..8 + 58].copy_from_slice(&size.as_bytes()[..10]);
            assert!(contents(&wrong)[0].is_err());
        }
        flip_bytes(&file, 5000, |bytes| {
            if bytes.len() > 8 {
                contents(bytes);
            }
        });
    }
}
