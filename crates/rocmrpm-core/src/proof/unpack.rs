//! Unpacks a wheel into the folders that an installer would use. It does not run code from the
//! wheel or verify its content, which the fetcher has already verified.

use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use fs_err as fs;

use rocmrpm_base::limits::Bounded;
use rocmrpm_fetch::limits;

/// The subfolders that wheels are unpacked to.
pub(super) const SITE: &str = "site";
pub(super) const BIN: &str = "bin";
pub(super) const DATA: &str = "data";

/// Unpacks a wheel into `site`, `bin` and `data` below `root`, following pip's scheme (the binary
/// distribution format, "Installing a wheel"). For a private prefix, skips programs and makes all
/// libraries executable.
pub(super) fn wheel(path: &Path, root: &Path, private: bool) -> io::Result<()> {
    let file = fs::File::open(path)?;
    let limit = limits::unpacked(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut left = limit;
    let mut archive = zip::ZipArchive::new(file).map_err(io::Error::other)?;
    let mut programs = String::new();
    for at in 0..archive.len() {
        let mut member = archive.by_index(at).map_err(io::Error::other)?;
        let Some(inside) = member.enclosed_name() else {
            return Err(io::Error::other(format!("the member {at} is outside of the wheel")));
        };
        let Some((folder, rest)) = placed(&inside) else { continue };
        if member.is_dir() || private && folder == BIN {
            continue;
        }
        let shared = rest.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
        let executable =
            folder == BIN || private && shared || member.unix_mode().unwrap_or(0) & 0o111 != 0;
        let to = root.join(folder).join(&rest);
        let mut member = Bounded::new(&mut member, left);
        fs::create_dir_all(to.parent().unwrap_or(root))?;
        if rest.ends_with("entry_points.txt") && rest.components().count() == 2 {
            left -= member.read_to_string(&mut programs)? as u64;
            fs::write(&to, &programs)?;
        } else {
            left -= io::copy(&mut member, &mut fs::File::create(&to)?)?;
        }
        let mode = if executable { 0o755 } else { 0o644 };
        fs::set_permissions(&to, PermissionsExt::from_mode(mode))?;
    }
    if !private {
        for (program, entry_point) in console_scripts(&programs) {
            let to = root.join(BIN).join(program);
            fs::create_dir_all(root.join(BIN))?;
            fs::write(&to, format!("#!/usr/bin/python3 -s\n# {entry_point}\n"))?;
            fs::set_permissions(&to, PermissionsExt::from_mode(0o755))?;
        }
    }
    Ok(())
}

/// Returns the destination of a member: folder and relative path; `None` if it is not installed.
fn placed(inside: &Path) -> Option<(&'static str, PathBuf)> {
    let mut parts = inside.components();
    let Some(Component::Normal(first)) = parts.next() else { return None };
    if !first.to_string_lossy().ends_with(".data") {
        return Some((SITE, inside.to_owned()));
    }
    let Some(Component::Normal(scheme)) = parts.next() else { return None };
    let rest = parts.as_path().to_owned();
    match scheme.to_str()? {
        "purelib" | "platlib" => Some((SITE, rest)),
        "scripts" => Some((BIN, rest)),
        "data" => Some((DATA, rest)),
        "headers" => Some((DATA, Path::new("include").join(rest))),
        _ => None,
    }
}

/// Returns the programs in an entry_points.txt and their entry points.
fn console_scripts(text: &str) -> Vec<(&str, &str)> {
    let mut programs = Vec::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = ["[console_scripts]", "[gui_scripts]"].contains(&line);
        } else if let Some((name, entry_point)) =
            line.split_once('=').filter(|_| inside && !line.starts_with('#'))
        {
            let name = name.trim();
            if !name.is_empty() && !name.contains('/') {
                programs.push((name, entry_point.trim()));
            }
        }
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_members_like_an_installer() {
        let of = |path: &str| {
            placed(Path::new(path)).map(|(folder, rest)| format!("{folder}/{}", rest.display()))
        };
        assert_eq!(of("a/b.py").as_deref(), Some("site/a/b.py"));
        assert_eq!(of("a-1.data/purelib/a/b.py").as_deref(), Some("site/a/b.py"));
        assert_eq!(of("a-1.data/scripts/a").as_deref(), Some("bin/a"));
        assert_eq!(of("a-1.data/data/share/a").as_deref(), Some("data/share/a"));
        assert_eq!(of("a-1.data/headers/a.h").as_deref(), Some("data/include/a.h"));
        assert_eq!(of("a-1.data/else/a"), None);
    }

    #[test]
    fn reads_programs_from_two_groups() {
        let text = "[console_scripts]\na = a:main\n# b = c\n[other]\nx = y\n[gui_scripts]\ng=g:main\n../z = z\n";
        assert_eq!(console_scripts(text), [("a", "a:main"), ("g", "g:main")]);
    }
}
