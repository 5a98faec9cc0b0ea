//! Extracts the links of an HTML page. It parses just enough for the index pages of PEP 503,
//! without a document tree.

/// A link with its attributes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Anchor {
    /// The value of `href`, with entities decoded.
    pub href: String,
    /// All attributes in order, with lower-case names and decoded entities.
    pub attributes: Vec<(String, String)>,
}

/// The links of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The value of the first `<base href>`.
    pub base: Option<String>,
    /// Every `<a href>`, in order.
    pub anchors: Vec<Anchor>,
}

/// Returns the targets of the links of a page, as written.
pub fn links_of_page(html: &str) -> Vec<String> {
    parse(html).anchors.into_iter().map(|anchor| anchor.href).collect()
}

/// Parses a page. Skips malformed markup, as browsers do.
pub fn parse(html: &str) -> Page {
    let mut page = Page::default();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let tag = rest[..end].to_ascii_lowercase();
        rest = &rest[end..];
        if tag != "a" && tag != "base" {
            continue;
        }
        let (attributes, after) = attributes(rest);
        rest = after;
        let Some(href) =
            attributes.iter().find(|(name, _)| name == "href").map(|(_, value)| value.clone())
        else {
            continue;
        };
        if tag == "a" {
            page.anchors.push(Anchor { href, attributes });
        } else if page.base.is_none() {
            page.base = Some(href);
        }
    }
    page
}

/// Parses attributes up to the end of the tag; returns the rest of the text.
fn attributes(mut rest: &str) -> (Vec<(String, String)>, &str) {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if rest.is_empty() {
            return (found, rest);
        }
        if let Some(after) = rest.strip_prefix('>') {
            return (found, after);
        }
        // A name has at least one character, so every iteration advances.
        let ends = |c: char| c.is_ascii_whitespace() || "=>/".contains(c);
        let first = rest.chars().next().map_or(1, char::len_utf8);
        let end = rest[first..].find(ends).map_or(rest.len(), |end| first + end);
        let name = rest[..end].to_ascii_lowercase();
        rest = rest[end..].trim_start();
        let mut value = "";
        if let Some(after) = rest.strip_prefix('=') {
            let after = after.trim_start();
            let quote = after.chars().next().filter(|c| "\"'".contains(*c));
            (value, rest) = match quote {
                Some(quote) => after[1..].split_once(quote).unwrap_or((&after[1..], "")),
                None => {
                    let end = after
                        .find(|c: char| c.is_ascii_whitespace() || c == '>')
                        .unwrap_or(after.len());
                    after.split_at(end)
                }
            };
        }
        found.push((name, decode(value)));
    }
}

/// Decodes the entities that URLs and attributes need.
fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        // The longest supported entity is `&#x10ffff;`.
        let end = rest.as_bytes().iter().take(12).position(|b| *b == b';');
        match end.and_then(|end| entity(&rest[1..end]).map(|c| (c, end))) {
            Some((c, end)) => {
                decoded.push(c);
                rest = &rest[end + 1..];
            }
            None => {
                decoded.push('&');
                rest = &rest[1..];
            }
        }
    }
    decoded.push_str(rest);
    decoded
}

fn entity(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            code.ok().and_then(char::from_u32)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hrefs(html: &str) -> Vec<String> {
        parse(html).anchors.into_iter().map(|a| a.href).collect()
    }

    #[test]
    fn parses_attributes_in_any_order_and_quoting() {
        let page = parse(
            "<!-- <a href=hidden> --><BASE HREF='/b/'>\n<a data-yanked=\"a &gt; b\" href='x&amp;y'>t</a>\
             <A\nclass=k HREF = u/v data-x>t</A><a name=n>t</a><abbr href=no><a href=\"&#x41;&#66;&bogus;&\"/>",
        );
        assert_eq!(page.base.as_deref(), Some("/b/"));
        let hrefs: Vec<_> = page.anchors.iter().map(|a| a.href.as_str()).collect();
        assert_eq!(hrefs, ["x&y", "u/v", "AB&bogus;&"]);
        assert_eq!(page.anchors[0].attributes[0], ("data-yanked".into(), "a > b".into()));
        assert_eq!(page.anchors[1].attributes[2], ("data-x".into(), String::new()));
    }

    #[test]
    fn parses_broken_pages() {
        for html in [
            "<a href=",
            "<a href='x",
            "<a ==>",
            "<a \u{e9}=1 href=x",
            "<!-- ",
            "<",
            "<a/",
            "<a href=x",
        ] {
            let _ = parse(html);
        }
        assert_eq!(hrefs("<a \u{e9}=1 href=x"), ["x"]);
        let page = "<!DOCTYPE html><a href=\"x&#9999999999;\u{e9}\">y</a><base href=z>";
        for end in (0..page.len()).filter(|end| page.is_char_boundary(*end)) {
            let _ = parse(&page[..end]);
        }
    }
}
