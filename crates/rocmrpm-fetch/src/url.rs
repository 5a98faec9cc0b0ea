//! The little of RFC 3986 that sources need: joining, credentials, last segments.
//! Nothing is fetched here.

use rocmrpm_base::text::percent_decode_lossy;

/// A URL's user and password, percent-decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user; may be empty.
    pub user: String,
    /// The password; may be empty.
    pub password: String,
}

/// A URL in the parts of RFC 3986, appendix B.
struct Parts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

fn parts(url: &str) -> Parts<'_> {
    let url = url.split('#').next().unwrap_or(url);
    let (rest, query) = match url.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (url, None),
    };
    let is_scheme = |s: &str| {
        s.starts_with(|c: char| c.is_ascii_alphabetic())
            && s.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, after)) if is_scheme(scheme) => (Some(scheme), after),
        _ => (None, rest),
    };
    let (authority, path) = match rest.strip_prefix("//") {
        Some(after) => {
            let end = after.find('/').unwrap_or(after.len());
            (Some(&after[..end]), &after[end..])
        }
        None => (None, rest),
    };
    Parts { scheme, authority, path, query }
}

/// Resolves a reference found on the page `base` (RFC 3986, section 5.2). The
/// fragment is dropped. Blanks around a reference and line ends in it do not count, as in
/// browsers: no scheme hides behind them.
pub fn join(base: &str, reference: &str) -> String {
    let reference = reference.trim_matches(|c: char| c <= ' ').replace(['\t', '\n', '\r'], "");
    let (base, reference) = (parts(base), parts(&reference));
    if let Some(scheme) = reference.scheme {
        return assemble(Some(scheme), reference.authority, &tidy(reference.path), reference.query);
    }
    if reference.authority.is_some() {
        return assemble(base.scheme, reference.authority, &tidy(reference.path), reference.query);
    }
    let (path, query) = if reference.path.is_empty() {
        (base.path.to_owned(), reference.query.or(base.query))
    } else if reference.path.starts_with('/') {
        (tidy(reference.path), reference.query)
    } else {
        let folder = base.path.rfind('/').map_or("/", |at| &base.path[..=at]);
        (tidy(&format!("{folder}{}", reference.path)), reference.query)
    };
    assemble(base.scheme, base.authority, &path, query)
}

fn assemble(scheme: Option<&str>, authority: Option<&str>, path: &str, query: Option<&str>) -> String {
    let mut url = String::new();
    if let Some(scheme) = scheme {
        url = format!("{scheme}:");
    }
    if let Some(authority) = authority {
        url = format!("{url}//{authority}");
    }
    url.push_str(path);
    if let Some(query) = query {
        url = format!("{url}?{query}");
    }
    url
}

/// Removes `.` and `..` segments.
fn tidy(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." && kept.len() > 1 {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    kept.join("/")
}

/// Takes the credentials out of a URL.
pub fn split_credentials(url: &str) -> (String, Option<Credentials>) {
    let Some((scheme, after)) = url.split_once("://") else { return (url.to_owned(), None) };
    let end = after.find(['/', '?', '#']).unwrap_or(after.len());
    let Some((user_info, host)) = after[..end].rsplit_once('@') else { return (url.to_owned(), None) };
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    let credentials = Credentials { user: percent_decode_lossy(user), password: percent_decode_lossy(password) };
    (format!("{scheme}://{host}{}", &after[end..]), Some(credentials))
}

/// Returns the URL as it may be shown: without credentials.
pub fn shown(url: &str) -> String {
    split_credentials(url).0
}

/// Returns the password that a URL has, as other programs may print it: as written and
/// decoded.
pub fn password(url: &str) -> Vec<String> {
    let Some(credentials) = split_credentials(url).1 else { return Vec::new() };
    let authority = parts(url).authority.unwrap_or_default();
    let user_info = authority.rsplit_once('@').map_or("", |(user_info, _)| user_info);
    let written = user_info.split_once(':').map_or("", |(_, password)| password);
    let all = [written.to_owned(), credentials.password];
    all.into_iter().filter(|password| !password.is_empty()).collect()
}

/// Returns whether credentials for one URL are meant for the other, too.
pub fn same_origin(one: &str, other: &str) -> bool {
    let (one, other) = (shown(one), shown(other));
    let (one, other) = (parts(&one), parts(&other));
    let same = |a: Option<&str>, b: Option<&str>| match (a, b) {
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        _ => false,
    };
    same(one.scheme, other.scheme) && same(one.authority, other.authority)
}

/// Returns the last segment of a URL's path, percent-decoded; may be empty.
pub fn last_segment(url: &str) -> String {
    percent_decode_lossy(parts(url).path.rsplit('/').next().unwrap_or(""))
}

/// Returns whether a URL is fetched over TLS.
pub fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
}

/// Returns whether anyone between this machine and the server could change what comes: the URL is
/// of another machine, and not of TLS.
pub fn is_unprotected(url: &str) -> bool {
    let url = shown(url);
    let Parts { scheme: Some(scheme), authority: Some(authority), .. } = parts(&url) else { return false };
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let own = host.eq_ignore_ascii_case("localhost")
        || host == "[::1]"
        || host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    scheme.eq_ignore_ascii_case("http") && !own
}

/// Returns whether a URL or path of a file or git repository is on this machine.
pub fn is_local(url: &str) -> bool {
    match url.split_once("://") {
        Some((scheme, _)) => scheme.eq_ignore_ascii_case("file"),
        None => url.find(':').is_none_or(|colon| url[..colon].contains('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_joined() {
        let base = "http://h:1/a/b/c?q";
        for (reference, joined) in [
            ("x.tar.gz", "http://h:1/a/b/x.tar.gz"),
            ("../x#sha256=0", "http://h:1/a/x"),
            ("../../../../x", "http://h:1/x"),
            ("./y/./z?k=v", "http://h:1/a/b/y/z?k=v"),
            ("/x", "http://h:1/x"),
            ("//o/x", "http://o/x"),
            ("https://o/x/../y", "https://o/y"),
            ("", "http://h:1/a/b/c?q"),
            ("..", "http://h:1/a/"),
            ("a:b/c", "a:b/c"),
            (" \n file:///x", "file:///x"),
            ("fi\tle:///x\0", "file:///x"),
        ] {
            assert_eq!(join(base, reference), joined, "{reference}");
        }
        assert_eq!(join("http://h", "x"), "http://h/x");
        assert_eq!(join("file:///i/p/index.html", "../f"), "file:///i/f");
    }

    #[test]
    fn credentials_are_taken_out() {
        let (url, credentials) = split_credentials("https://me:p%40ss@h/p@q");
        assert_eq!(url, "https://h/p@q");
        let credentials = credentials.unwrap();
        assert_eq!((credentials.user.as_str(), credentials.password.as_str()), ("me", "p@ss"));
        assert_eq!(shown("https://token@h"), "https://h");
        assert_eq!(shown("git@h:x.git"), "git@h:x.git");
        assert!(same_origin("https://u:p@H:1/simple", "https://h:1/files/x"));
        assert!(!same_origin("https://u:p@h/simple", "https://files.h/x"));
        assert!(!same_origin("https://h/", "http://h/"));
    }

    #[test]
    fn http_to_another_machine_is_unprotected() {
        for url in [
            "http://h/x",
            "http://127.0.0.1.example/x",
            "HTTP://u:p@h:80/x",
            "http://[2001:db8::1]/x",
            "http://localhost.example/x",
        ] {
            assert!(is_unprotected(url), "{url}");
        }
        for url in [
            "https://h/x",
            "file:///x",
            "http://127.0.0.1:8000/x",
            "http://localhost:1",
            "http://[::1]:1/",
            "x",
        ] {
            assert!(!is_unprotected(url), "{url}");
        }
    }

    #[test]
    fn last_segments_are_decoded() {
        assert_eq!(last_segment("http://h/a/torch-1%2Bx.tar.gz?download=1#f"), "torch-1+x.tar.gz");
        assert_eq!(last_segment("http://h/a/"), "");
    }
}
