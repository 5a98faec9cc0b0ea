//! Answers requests from an index's folder: with a page in the form that the client accepts, with a
//! file, or with the address where it is. Never serves files outside the folder.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::negotiation::{self, Form};
use super::request::{Refused, Request};
use python_packaging::wheel;
use rocmrpm_base::text::{SEGMENT, percent_encode};

#[derive(Debug)]
pub(super) struct FileResponse {
    pub(super) status: u16,
    /// Header fields in addition to those of every answer.
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) body: Body,
}

/// The content of an answer.
#[derive(Debug)]
pub(super) enum Body {
    /// A sentence.
    Text(String),
    /// A file of this size.
    File(File, u64),
    /// No content and no Content-Length.
    Nothing,
}

impl FileResponse {
    /// Returns an answer with only a status and a sentence.
    pub(super) fn plain(status: u16, text: impl Into<String>) -> Self {
        let fields = vec![("Content-Type", "text/plain; charset=utf-8".to_owned())];
        Self { status, fields, body: Body::Text(text.into() + "\n") }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }
}

impl From<Refused> for FileResponse {
    fn from(refused: Refused) -> Self {
        Self::plain(refused.status, refused.reason)
    }
}

#[derive(Debug)]
pub(super) struct Site {
    /// The canonical path, without symbolic links.
    root: PathBuf,
}

/// What exists at a path.
enum ServedPath {
    Folder(PathBuf),
    File(PathBuf),
}

impl Site {
    pub(super) fn new(root: &Path) -> io::Result<Self> {
        Ok(Self { root: root.canonicalize()? })
    }

    pub(super) fn answer(&self, request: &Request) -> FileResponse {
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            return FileResponse::plain(405, "the index is read-only").with("Allow", "GET, HEAD");
        }
        match self.find(&request.segments) {
            Some(ServedPath::File(path)) if !request.folder => {
                self.file(&path, media_type(&path), "", request)
            }
            Some(ServedPath::Folder(path)) if request.folder => self.page(&path, request),
            Some(ServedPath::Folder(_)) => moved(&request.segments, request),
            _ => self.elsewhere(request),
        }
    }

    /// Finds the file or folder of a request path, unless it is hidden or outside the root.
    fn find(&self, segments: &[String]) -> Option<ServedPath> {
        if segments.iter().any(|segment| segment.starts_with('.')) {
            return None;
        }
        self.within(&self.root.join(segments.join("/")))
    }

    /// Finds the file or folder at a path of the file system, unless it is outside the root.
    fn within(&self, path: &Path) -> Option<ServedPath> {
        let path = path.canonicalize().ok()?;
        if !path.starts_with(&self.root) {
            return None;
        }
        let kind = path.metadata().ok()?.file_type();
        match (kind.is_dir(), kind.is_file()) {
            (true, _) => Some(ServedPath::Folder(path)),
            (_, true) => Some(ServedPath::File(path)),
            // Opening a pipe or a device could block forever.
            _ => None,
        }
    }

    /// Answers a request for a missing path: redirects if a project's name is not normalized (PEP
    /// 503: a repository may redirect such requests).
    fn elsewhere(&self, request: &Request) -> FileResponse {
        if let [above @ .., parent, name] = &request.segments[..]
            && parent == "simple"
            && let Some(normalized) =
                wheel::normalized(name).filter(|normalized| normalized != name)
        {
            let right: Vec<String> = above.iter().chain([parent, &normalized]).cloned().collect();
            if let Some(ServedPath::Folder(_)) = self.find(&right) {
                return moved(&right, request);
            }
        }
        match &request.segments[..] {
            [] => FileResponse::plain(404, "the index is at /simple/"),
            _ => FileResponse::plain(404, "no such page or file in this index"),
        }
    }

    fn page(&self, folder: &Path, request: &Request) -> FileResponse {
        // The parameter overrides the header (PEP 691, "URL Parameter").
        let format = request.parameter("format");
        let accept = format.as_deref().or(request.accept.as_deref());
        // A page must be a file inside the root, too.
        let path = |form: Form| match self.within(&folder.join(form.file())) {
            Some(ServedPath::File(path)) => Some(path),
            _ => None,
        };
        if path(Form::Json).or_else(|| path(Form::Html)).is_none() {
            return self.elsewhere(request);
        }
        let chosen = negotiation::choose(accept, |form| path(form).is_some());
        let answer = match chosen.and_then(|form| Some((form, path(form)?))) {
            Some((form, path)) => {
                let mark = if form == Form::HtmlV1 { "-v1" } else { "" };
                self.file(&path, form.media_type(), mark, request)
            }
            None => FileResponse::plain(
                406,
                "this page is available as JSON or HTML (PEP 691), and the client accepts neither",
            ),
        };
        answer.with("Vary", "Accept")
    }

    /// Answers with a file. `mark` distinguishes answers with the same bytes.
    fn file(&self, path: &Path, media_type: &str, mark: &str, request: &Request) -> FileResponse {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (meta, file) = match opened {
            Ok((meta, file)) => (meta, file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.elsewhere(request);
            }
            Err(_) => return FileResponse::plain(500, "cannot read the file"),
        };
        // Replacing a file gives it another inode number or time.
        let nanoseconds = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        let tag = format!("\"{:x}-{nanoseconds:x}-{:x}{mark}\"", meta.ino(), meta.len());
        let answer =
            |status, body| FileResponse { status, fields: Vec::new(), body }.with("ETag", &tag);
        if request.if_none_match.as_deref().is_some_and(|tags| lists(tags, &tag)) {
            return answer(304, Body::Nothing);
        }
        // A server may ignore `Range` (RFC 9110, section 14.2). uv uses ranges only to read
        // METADATA, which exists as a file beside each wheel here.
        answer(200, Body::File(file, meta.len())).with("Content-Type", media_type)
    }
}

/// Redirects a client to a folder.
fn moved(segments: &[String], request: &Request) -> FileResponse {
    let path: String =
        segments.iter().map(|segment| format!("/{}", percent_encode(segment, SEGMENT))).collect();
    let query = match request.query.as_deref().filter(|query| query.is_ascii()) {
        Some(query) => format!("?{query}"),
        None => String::new(),
    };
    let location = format!("{path}/{query}");
    FileResponse::plain(301, format!("moved to {location}")).with("Location", location)
}

/// Returns whether a list of entity tags has this one (RFC 9110, section 13.1.2: a weak tag
/// matches, too).
fn lists(tags: &str, tag: &str) -> bool {
    tags.split(',')
        .map(str::trim)
        .any(|other| other == "*" || other.strip_prefix("W/").unwrap_or(other) == tag)
}

/// Returns the media type of a file: PEP 691's for pages, and the usual ones of other indexes for
/// the files that pages link to.
fn media_type(path: &Path) -> &'static str {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match name.rsplit('.').next().unwrap_or_default() {
        _ if name == Form::Json.file() => Form::Json.media_type(),
        "html" => Form::Html.media_type(),
        "json" => "application/json",
        // The email format (core metadata specification). Browsers display text/plain.
        "metadata" | "txt" => "text/plain; charset=utf-8",
        "gz" => "application/gzip",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = "application/vnd.pypi.simple.v1+json";

    /// An index with one project, and a secret file outside its root.
    fn site() -> (tempfile::TempDir, Site) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("secret.txt", "secret"),
            ("index/simple/index.html", "root"),
            ("index/simple/index.json", "{}"),
            ("index/simple/flash-attn/index.html", "html"),
            ("index/simple/flash-attn/index.json", "json"),
            ("index/simple/old/index.html", "html"),
            ("index/simple/empty/x", ""),
            ("index/packages/flash-attn/f-1+x.whl", "0123456789"),
            ("index/packages/flash-attn/f-1+x.whl.metadata", "Name: f"),
            ("index/.lock", "hidden"),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(to, dir.path().join("index").join(name)).unwrap()
        };
        link("../secret.txt", "out.txt");
        link("..", "up");
        link("simple", "inside");
        link("loop", "loop");
        link("../../../secret.txt", "simple/empty/index.html");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join("index/pipe"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        let site = Site::new(&dir.path().join("index")).unwrap();
        (dir, site)
    }

    fn asked(target: &str) -> Request {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (target, None),
        };
        Request {
            method: "GET".into(),
            target: target.into(),
            segments: path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
            folder: path.ends_with('/'),
            query,
            host: None,
            keep_alive: true,
            accept: None,
            if_none_match: None,
        }
    }

    fn field<'a>(answer: &'a FileResponse, name: &str) -> &'a str {
        let mut of_name = answer.fields.iter().filter(|(field, _)| *field == name);
        let value = of_name.next().map_or("", |(_, value)| value.as_str());
        assert!(of_name.next().is_none(), "duplicate {name}: {answer:?}");
        value
    }

    fn body(answer: &mut FileResponse) -> String {
        match &mut answer.body {
            Body::Text(text) => text.clone(),
            Body::Nothing => String::new(),
            Body::File(file, _) => io::read_to_string(file).unwrap(),
        }
    }

    #[test]
    fn serves_media_types() {
        let (_dir, site) = site();
        for (target, media, text) in [
            ("/packages/flash-attn/f-1+x.whl", "application/octet-stream", "0123456789"),
            ("/packages/flash-attn/f-1+x.whl.metadata", "text/plain; charset=utf-8", "Name: f"),
            ("/simple/flash-attn/index.json", JSON, "json"),
            ("/simple/flash-attn/index.html", "text/html; charset=utf-8", "html"),
            ("/inside/flash-attn/index.html", "text/html; charset=utf-8", "html"),
        ] {
            let mut answer = site.answer(&asked(target));
            assert_eq!((answer.status, field(&answer, "Content-Type")), (200, media), "{target}");
            assert_eq!(body(&mut answer), text, "{target}");
            assert_eq!(field(&answer, "Vary"), "");
        }
    }

    #[test]
    fn negotiates_pages() {
        let (_dir, site) = site();
        for (target, accept, status, media, text) in [
            ("/simple/", None, 200, "text/html; charset=utf-8", "root"),
            ("/simple/flash-attn/", Some(JSON), 200, JSON, "json"),
            (
                "/simple/flash-attn/",
                Some("application/vnd.pypi.simple.latest+json"),
                200,
                JSON,
                "json",
            ),
            (
                "/simple/flash-attn/",
                Some("application/vnd.pypi.simple.v1+html"),
                200,
                "application/vnd.pypi.simple.v1+html",
                "html",
            ),
            (
                "/simple/flash-attn/?format=application/vnd.pypi.simple.v1+json",
                Some("text/html"),
                200,
                JSON,
                "json",
            ),
            (
                "/simple/flash-attn/?x=1&format=text%2Fhtml",
                Some(JSON),
                200,
                "text/html; charset=utf-8",
                "html",
            ),
            (
                "/simple/old/",
                Some("application/vnd.pypi.simple.v1+json, text/html;q=0.1"),
                200,
                "text/html; charset=utf-8",
                "html",
            ),
        ] {
            let mut request = asked(target);
            request.accept = accept.map(str::to_owned);
            let mut answer = site.answer(&request);
            assert_eq!(
                (answer.status, field(&answer, "Content-Type")),
                (status, media),
                "{target} {accept:?}"
            );
            assert_eq!(body(&mut answer), text, "{target} {accept:?}");
            assert_eq!(field(&answer, "Vary"), "Accept");
        }
        for (target, accept) in
            [("/simple/old/", JSON), ("/simple/", "image/png"), ("/simple/?format=nonsense", "*/*")]
        {
            let mut request = asked(target);
            request.accept = Some(accept.into());
            let answer = site.answer(&request);
            assert_eq!(
                (answer.status, field(&answer, "Vary")),
                (406, "Accept"),
                "{target} {accept}"
            );
        }
    }

    #[test]
    fn redirects_clients() {
        let (_dir, site) = site();
        for (target, location) in [
            ("/simple", "/simple/"),
            ("/simple/flash-attn", "/simple/flash-attn/"),
            ("/simple/Flash_Attn/", "/simple/flash-attn/"),
            ("/simple/Flash.-Attn?format=text/html", "/simple/flash-attn/?format=text/html"),
            ("/simple/OLD/?ü", "/simple/old/"),
        ] {
            let answer = site.answer(&asked(target));
            assert_eq!((answer.status, field(&answer, "Location")), (301, location), "{target}");
        }
        for target in [
            "/simple/Flash_Attn_2/",
            "/simple/no",
            "/other/Flash_Attn/",
            "/simple/empty/",
            "/simple/_/",
            "/",
            "/packages/",
        ] {
            assert_eq!(site.answer(&asked(target)).status, 404, "{target}");
        }
    }

    #[test]
    fn serves_nothing_outside_the_index() {
        let (_dir, site) = site();
        for target in [
            "/out.txt",
            "/up/secret.txt",
            "/up/",
            "/loop",
            "/pipe",
            "/.lock",
            "/simple/.x/",
            "/packages/flash-attn/f-1+x.whl/",
        ] {
            let mut answer = site.answer(&asked(target));
            assert_eq!(answer.status, 404, "{target}");
            assert!(!body(&mut answer).contains("secret"));
        }
        let mut request = asked("/simple/");
        request.method = "POST".into();
        let answer = site.answer(&request);
        assert_eq!((answer.status, field(&answer, "Allow")), (405, "GET, HEAD"));
    }

    #[test]
    fn answers_304_for_known_files() {
        let (dir, site) = site();
        let mut request = asked("/simple/flash-attn/");
        let tag = field(&site.answer(&request), "ETag").to_owned();
        for (tags, status) in [
            (tag.clone(), 304),
            (format!("\"a\", W/{tag}"), 304),
            ("*".into(), 304),
            ("\"a\"".into(), 200),
            (tag.trim_matches('"').into(), 200),
        ] {
            request.if_none_match = Some(tags.clone());
            let answer = site.answer(&request);
            assert_eq!((answer.status, field(&answer, "Vary")), (status, "Accept"), "{tags}");
        }
        request.if_none_match = Some(tag.clone());
        request.accept = Some("application/vnd.pypi.simple.v1+html".into());
        assert_eq!(
            site.answer(&request).status,
            200,
            "the same bytes under another media type are a different page"
        );
        request.accept = None;
        rocmrpm_base::files::write_atomically(
            &dir.path().join("index/simple/flash-attn/index.html"),
            "HTML",
        )
        .unwrap();
        assert_eq!(site.answer(&request).status, 200);
    }
}
