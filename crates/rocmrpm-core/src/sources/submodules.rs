//! Determines which commits a source consists of: the main commit and all of its submodules at the
//! recorded commits. It validates `.gitmodules`, which is untrusted, and does not pack anything.

use std::collections::BTreeMap;
use std::path::Path;

use super::SourceError;
use super::cache::Cache;
use super::git::{Repository, TreeEntry};
use super::url::{self, is_local};
use crate::names::is_commit;
use crate::process::ProcessError;

/// Maximum nesting depth of submodules.
const MAX_DEPTH: usize = 16;

/// Maximum number of submodules in a source: a few commits could reference millions.
const MAX_COUNT: usize = 500;

/// A commit that is part of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceCommit {
    /// The folder in the source; empty for the main commit.
    pub path: String,
    /// The URL for git.
    pub url: String,
    pub commit: String,
    /// The paths of the commit to pack, which may be empty; `None` for all.
    pub paths: Option<Vec<String>>,
}

impl SourceCommit {
    /// Refuses its submodule at a path.
    fn refuse(&self, path: &str, reason: String) -> SourceError {
        SourceError::BadSubmodule {
            path: path.to_owned(),
            superproject: url::shown(&self.url),
            commit: self.commit.clone(),
            reason,
        }
    }
}

/// Finds the parts of a source and fetches repositories as needed.
pub(super) struct Finder<'a> {
    pub cache: &'a Cache,
    pub workspace_root: &'a Path,
    pub offline: bool,
    /// Called before a commit is fetched.
    pub fetching: &'a dyn Fn(&SourceCommit),
}

/// A submodule in `.gitmodules`.
#[derive(Debug, Default)]
struct Module {
    path: Option<String>,
    url: Option<String>,
    /// Whether `git submodule update` skips it.
    unused: bool,
}

impl Finder<'_> {
    /// Returns the main commit and, with `submodules`, all nested submodules, sorted by path.
    pub fn parts(
        &self,
        main: SourceCommit,
        submodules: bool,
    ) -> Result<Vec<SourceCommit>, SourceError> {
        let mut parts = Vec::new();
        self.walk(main, submodules, 0, &mut parts)?;
        Ok(parts)
    }

    fn walk(
        &self,
        part: SourceCommit,
        submodules: bool,
        depth: usize,
        parts: &mut Vec<SourceCommit>,
    ) -> Result<(), SourceError> {
        let repository = self.repository(&part.url);
        repository.obtain(&part.commit, self.offline, || (self.fetching)(&part))?;
        let mut own = part.clone();
        if let Some(paths) = &mut own.paths {
            let mut inside = Vec::new();
            for path in paths.drain(..) {
                if !is_in_submodule(&repository, &part.commit, &path, submodules)? {
                    inside.push(path);
                }
            }
            *paths = inside;
        }
        parts.push(own);
        if !submodules {
            return Ok(());
        }
        let entries = repository.list(&part.commit, "", true)?;
        let (links, files): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.mode == "160000");
        let wanted: Vec<_> = links
            .into_iter()
            .filter_map(|link| Some((selected(part.paths.as_deref(), &link.path)?, link)))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let modules =
            read_modules(&repository, &part.commit, &files).map_err(|error| match error {
                SourceError::Process(ProcessError::Failed { tail, .. }) => {
                    part.refuse(&wanted[0].1.path, format!("`.gitmodules` cannot be read: {tail}"))
                }
                other => other,
            })?;
        for (paths, link) in wanted {
            let Some(inner) = self.submodule(&part, link, paths, &modules)? else { continue };
            if depth >= MAX_DEPTH {
                let reason = format!("submodules are nested more than {MAX_DEPTH} deep");
                return Err(part.refuse(&inner.path, reason));
            }
            if parts.len() > MAX_COUNT {
                let reason = format!("there are more than {MAX_COUNT} submodules");
                return Err(part.refuse(&inner.path, reason));
            }
            let (path, url) = (inner.path.clone(), url::shown(&inner.url));
            let commit = inner.commit.clone();
            self.walk(inner, true, depth + 1, parts).map_err(|error| match error {
                inner @ (SourceError::Submodule { .. }
                | SourceError::BadSubmodule { .. }
                | SourceError::Offline { .. }
                | SourceError::Process(_)) => inner,
                other => SourceError::Submodule { path, url, commit, source: Box::new(other) },
            })?;
        }
        Ok(())
    }

    /// Returns the submodule at an entry of `part`; `None` if `git submodule update` skips it.
    fn submodule(
        &self,
        part: &SourceCommit,
        TreeEntry { id: commit, path: link, .. }: TreeEntry,
        paths: Option<Vec<String>>,
        modules: &BTreeMap<String, Module>,
    ) -> Result<Option<SourceCommit>, SourceError> {
        let path =
            if part.path.is_empty() { link.clone() } else { format!("{}/{link}", part.path) };
        let refused = |reason: String| part.refuse(&path, reason);
        if !is_plain(&link) || !is_commit(&commit) {
            return Err(refused("its path leads out of the source".into()));
        }
        let module =
            modules.get(&link).ok_or_else(|| refused("`.gitmodules` does not name it".into()))?;
        if module.unused {
            return Ok(None);
        }
        let written = module
            .url
            .as_deref()
            .ok_or_else(|| refused("`.gitmodules` has no URL for it".into()))?;
        let base = match is_local(&part.url) && !part.url.contains("://") {
            true => self.workspace_root.join(&part.url).to_string_lossy().into_owned(),
            false => part.url.clone(),
        };
        let url = resolve(&base, written)
            .map_err(|reason| refused(format!("its URL `{}` {reason}", url::shown(written))))?;
        Ok(Some(SourceCommit { path, url, commit, paths }))
    }

    fn repository<'b>(&'b self, url: &'b str) -> Repository<'b> {
        Repository { cache: self.cache, url, workspace_root: self.workspace_root }
    }
}

/// Returns the requested paths of the submodule at `link`: the inner `None` means all, the outer
/// `None` means that none are requested.
fn selected(paths: Option<&[String]>, link: &str) -> Option<Option<Vec<String>>> {
    let Some(paths) =
        paths.filter(|paths| !paths.iter().any(|path| Path::new(link).starts_with(path)))
    else {
        return Some(None);
    };
    let inside = |path: &String| Some(path.strip_prefix(link)?.strip_prefix('/')?.to_owned());
    let inner: Vec<_> = paths.iter().filter_map(inside).collect();
    (!inner.is_empty()).then_some(Some(inner))
}

/// Checks that the commit contains the path or a submodule that may contain it, and returns whether
/// it is in a submodule.
fn is_in_submodule(
    repository: &Repository<'_>,
    commit: &str,
    path: &str,
    submodules: bool,
) -> Result<bool, SourceError> {
    let mut folder = String::new();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let entries = repository.list(commit, &folder, false)?;
        let missing = |entries: &[TreeEntry]| SourceError::NoPath {
            url: url::shown(repository.url),
            commit: commit.to_owned(),
            path: path.to_owned(),
            there: shown(&folder, entries),
        };
        let Some(entry) = entries.iter().find(|entry| entry.path == name) else {
            return Err(missing(&entries));
        };
        let here = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let last = here == path.trim_end_matches('/');
        match entry.mode.as_str() {
            "040000" => {}
            _ if last => {}
            "160000" if submodules => return Ok(true),
            _ => return Err(missing(&entries)),
        }
        folder = here;
    }
    Ok(false)
}

/// Describes the first entries of a folder.
fn shown(folder: &str, entries: &[TreeEntry]) -> String {
    const SHOWN: usize = 30;
    let folder =
        if folder.is_empty() { "its top folder".to_owned() } else { format!("`{folder}`") };
    let names: Vec<_> =
        entries.iter().take(SHOWN).map(|entry| format!("`{}`", entry.path)).collect();
    let more = match entries.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{folder} has {}{more}", names.join(", "))
}

/// Reads `.gitmodules` as specified in gitmodules(5), by submodule path.
fn read_modules(
    repository: &Repository<'_>,
    commit: &str,
    files: &[TreeEntry],
) -> Result<BTreeMap<String, Module>, SourceError> {
    // git rejects a `.gitmodules` that is a link because it could point outside.
    if !files.iter().any(|file| file.path == ".gitmodules" && file.mode.starts_with("100")) {
        return Ok(BTreeMap::new());
    }
    let mut by_name: BTreeMap<String, Module> = BTreeMap::new();
    for (key, value) in repository.gitmodules(commit)? {
        let named = key.strip_prefix("submodule.").and_then(|rest| rest.rsplit_once('.'));
        let Some((name, variable)) = named else { continue };
        let module = by_name.entry(name.to_owned()).or_default();
        match variable {
            "path" => module.path = Some(value.trim_end_matches('/').to_owned()),
            "url" => module.url = Some(value),
            "update" => module.unused = value == "none",
            _ => {}
        }
    }
    Ok(by_name.into_values().filter_map(|module| Some((module.path.clone()?, module))).collect())
}

fn is_plain(path: &str) -> bool {
    path.split('/')
        .all(|name| !matches!(name, "" | "." | "..") && !name.eq_ignore_ascii_case(".git"))
}

/// Resolves the URL of a submodule in `.gitmodules` against the superproject's URL like
/// git-submodule(1), or returns why it is rejected. A local superproject may have local submodules;
/// otherwise upstream could make us pack any local folder.
fn resolve(base: &str, written: &str) -> Result<String, String> {
    let url = if written.starts_with("./") || written.starts_with("../") {
        relative(base, written).ok_or("leads out of the superproject's server")?
    } else {
        written.to_owned()
    };
    if url.is_empty() || url.starts_with('-') || url.chars().any(char::is_control) {
        return Err("is not a URL".into());
    }
    let word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if let Some((transport, _)) = url.split_once("::")
        && word(transport)
    {
        return Err(format!("runs the program git-remote-{transport}"));
    }
    let allowed = match url.split_once("://") {
        Some((scheme, rest)) if word(scheme) => match scheme.to_ascii_lowercase().as_str() {
            "https" | "http" | "ssh" | "git" => !rest.starts_with('-'),
            "file" => is_local(base),
            _ => return Err(format!("has the scheme `{scheme}`")),
        },
        _ if is_local(&url) => url.starts_with('/') && is_local(base),
        // user@host:path, through ssh.
        _ => true,
    };
    if allowed {
        Ok(url)
    } else {
        Err("names a location on this machine or a program's option".into())
    }
}

/// Resolves `./x` and `../x` against the superproject's URL like `relative_url` in git's remote.c,
/// but never removes part of the server's name.
fn relative(base: &str, written: &str) -> Option<String> {
    let mut base = base.strip_suffix('/').unwrap_or(base);
    let mut rest = written;
    let mut separator = '/';
    loop {
        if let Some(after) = rest.strip_prefix("../") {
            let path = base.find("://").map_or(0, |at| at + 3);
            if let Some(slash) = base[path..].rfind('/') {
                base = &base[..path + slash];
            } else if path == 0 && separator == '/' {
                base = &base[..base.rfind(':')?];
                separator = ':';
            } else {
                return None;
            }
            rest = after;
        } else if let Some(after) = rest.strip_prefix("./") {
            rest = after;
        } else {
            break;
        }
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let only_server = base.ends_with("://") || base.is_empty() && separator == ':';
    (!rest.is_empty() && rest != ".." && !only_server).then(|| format!("{base}{separator}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_urls_like_git() {
        for (base, written, url) in [
            ("https://h/a/b", "../c", "https://h/a/c"),
            ("https://h/a/b.git/", "../../x/c.git/", "https://h/x/c.git"),
            ("https://h/a/b", "./c", "https://h/a/b/c"),
            ("https://u:p@h/a/b", "../c", "https://u:p@h/a/c"),
            ("git@h:a/b", "../c", "git@h:a/c"),
            ("git@h:a", "../c", "git@h:c"),
            ("/srv/git/a", "../b", "/srv/git/b"),
            ("file:///srv/a", "../b", "file:///srv/b"),
            ("https://h/a", "https://o/x", "https://o/x"),
            ("https://h/a", "git@o:x/y.git", "git@o:x/y.git"),
            ("https://h/a", "git@[::1]:x", "git@[::1]:x"),
            ("/srv/a", "/srv/b", "/srv/b"),
        ] {
            assert_eq!(resolve(base, written), Ok(url.to_owned()), "{base} {written}");
        }
    }

    #[test]
    fn rejects_hostile_urls() {
        for (base, written) in [
            ("https://h/a", "-uanything"),
            ("https://h/a", "--upload-pack=x"),
            ("https://h/a", ""),
            ("https://h/a", "ext::sh -c x"),
            ("https://h/a", "fd::17"),
            ("https://h/a", "https://h/\nb"),
            ("https://h/a", "file:///etc"),
            ("https://h/a", "FILE:///etc"),
            ("https://h/a", "/etc"),
            ("https://h/a", "etc/x"),
            ("git@h:a", "/etc"),
            ("/srv/a", "srv/b"),
            ("https://h/a", "../../../x"),
            ("https://h/a", "../"),
            ("git@h:a", "../../x"),
            // The server's address stays intact.
            ("git@[::1]:a", "../../x"),
            ("https:///a", "../evil/x"),
            ("file:///a", "../b"),
            ("https://h/a", "ssh://-oProxyCommand=x/y"),
            ("https://h/a", "gopher://h/x"),
        ] {
            assert!(
                resolve(base, written).is_err(),
                "{base} {written}: {:?}",
                resolve(base, written)
            );
        }
    }

    #[test]
    fn passes_paths_to_submodules() {
        let paths = |list: &[&str]| list.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
        assert_eq!(selected(None, "a"), Some(None));
        assert_eq!(selected(Some(&paths(&["a"])), "a/b"), Some(None));
        assert_eq!(selected(Some(&paths(&["a/b/c", "x"])), "a/b"), Some(Some(paths(&["c"]))));
        assert_eq!(selected(Some(&paths(&["a/bc"])), "a/b"), None);
        assert_eq!(selected(Some(&[]), "a"), None);
        for (path, plain) in
            [("a/b", true), ("../a", false), ("a/.GIT/b", false), ("/a", false), ("", false)]
        {
            assert_eq!(is_plain(path), plain, "{path}");
        }
    }
}
