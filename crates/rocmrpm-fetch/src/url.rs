//! Handles URLs of sources and package indexes: resolves references, removes credentials, compares
//! origins. It fetches nothing.

use ::url::{Host, Url};

use rocmrpm_base::text::percent_decode_lossy;

/// A URL's user and password, percent-decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user, possibly empty.
    pub user: String,
    /// The password, possibly empty.
    pub password: String,
}

/// Resolves a reference on the page `base` as browsers do, without its fragment. Returns `None` if
/// the result is not a valid URL.
pub fn join(base: &str, reference: &str) -> Option<String> {
    let mut url = Url::parse(base).ok()?.join(reference).ok()?;
    url.set_fragment(None);
    Some(url.into())
}

/// Splits a URL into its scheme, its user information, and the rest from the host on, at the same
/// places as curl. It does not use `Url`, which accepts only valid URLs and rewrites them: a
/// mistake elsewhere in a URL must not reveal its password.
fn split_user_info(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, after) = url.split_once("://")?;
    let end = after.find(['/', '?', '#']).unwrap_or(after.len());
    let (user_info, _) = after[..end].rsplit_once('@')?;
    Some((scheme, user_info, &after[user_info.len() + 1..]))
}

fn user_and_password(user_info: &str) -> (&str, &str) {
    user_info.split_once(':').unwrap_or((user_info, ""))
}

/// Splits the credentials from a URL.
pub fn split_credentials(url: &str) -> (String, Option<Credentials>) {
    let Some((scheme, user_info, rest)) = split_user_info(url) else {
        return (url.to_owned(), None);
    };
    let (user, password) = user_and_password(user_info);
    let credentials =
        Credentials { user: percent_decode_lossy(user), password: percent_decode_lossy(password) };
    (format!("{scheme}://{rest}"), Some(credentials))
}

/// Returns the URL without credentials, for messages.
pub fn shown(url: &str) -> String {
    let text = split_credentials(url).0;
    // curl accepts `https:/user:password@host`, too.
    match Url::parse(&text) {
        Ok(mut url) if !url.username().is_empty() || url.password().is_some() => {
            let cleared = url.set_username("").and_then(|()| url.set_password(None));
            if cleared.is_ok() { url.into() } else { text }
        }
        _ => text,
    }
}

/// Returns the password of a URL in each form that another program may print: verbatim and decoded.
pub fn password(url: &str) -> Vec<String> {
    let Some((_, user_info, _)) = split_user_info(url) else { return Vec::new() };
    let (_, written) = user_and_password(user_info);
    let all = [written.to_owned(), percent_decode_lossy(written)];
    all.into_iter().filter(|password| !password.is_empty()).collect()
}

/// Parses a URL without its credentials, so that its host is the one that curl connects to.
fn parse(url: &str) -> Option<Url> {
    Url::parse(&shown(url)).ok()
}

/// Returns whether credentials for one URL are also valid for the other.
pub fn same_origin(one: &str, other: &str) -> bool {
    // `file:` URLs have opaque origins, which are never equal.
    parse(one).zip(parse(other)).is_some_and(|(one, other)| one.origin() == other.origin())
}

/// Returns the last segment of a URL's path, percent-decoded; may be empty.
pub fn last_segment(url: &str) -> String {
    let url = parse(url);
    let last = url.as_ref().and_then(|url| url.path_segments()?.next_back());
    percent_decode_lossy(last.unwrap_or_default())
}

/// Returns whether a URL uses TLS.
pub fn is_https(url: &str) -> bool {
    parse(url).is_some_and(|url| url.scheme() == "https")
}

/// Returns whether the network between this machine and the server could modify a response: the URL
/// is on another machine and does not use TLS.
pub fn is_unprotected(url: &str) -> bool {
    let Some(parsed) = parse(url) else {
        // curl may still fetch a URL that this parser refuses.
        return url.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("http:"));
    };
    let is_here = match parsed.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    parsed.scheme() == "http" && !is_here
}

/// Returns whether the URL or path of a file or git repository is on this machine.
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
    fn joins_references() {
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
            ("%2e%2e/%2E%2E/x", "http://h:1/x"),
            ("..\\a b+c%2Bd~", "http://h:1/a/a%20b+c%2Bd~"),
        ] {
            assert_eq!(join(base, reference).unwrap(), joined, "{reference}");
        }
        assert_eq!(join("http://h", "x").unwrap(), "http://h/x");
        assert_eq!(join("file:///i/p/index.html", "../f").unwrap(), "file:///i/f");
        for reference in ["http://[x", "//h:99999/x", "https://a b/x"] {
            assert_eq!(join(base, reference), None, "{reference}");
        }
    }

    #[test]
    fn splits_credentials() {
        let (url, credentials) = split_credentials("https://me:p%40ss@h/p@q");
        assert_eq!(url, "https://h/p@q");
        let credentials = credentials.unwrap();
        assert_eq!((credentials.user.as_str(), credentials.password.as_str()), ("me", "p@ss"));
        assert_eq!(shown("https://token@h"), "https://h");
        assert_eq!(shown("git@h:x.git"), "git@h:x.git");
        for url in [
            "https://u:secret@h:99999/",
            "https://u:secret@[x",
            "https:/u:secret@h/",
            "https:u:secret@h",
        ] {
            assert!(!shown(url).contains("secret"), "{url}");
        }
        assert_eq!(password("https://u:p%40@h"), ["p%40", "p@"]);
        assert!(same_origin("https://h/simple", "https://h:443/x"));
        assert!(!same_origin("https://h@evil/", "https://h/"));
        // curl connects to `evil`; browsers may differ.
        assert!(!same_origin("https://h\\@evil/", "https://h/"));
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
            "http://localhost\\@evil/x",
            "http://h:99999/x",
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
    fn decodes_last_segments() {
        assert_eq!(last_segment("http://h/a/torch-1%2Bx.tar.gz?download=1#f"), "torch-1+x.tar.gz");
        assert_eq!(last_segment("http://h/a/"), "");
    }
}
