//! Chooses the form of a page for a client (PEP 691, "Version + Format Selection"; RFC 9110,
//! section 12.5.1). It does not read the page.

use crate::page;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// PEP 691's JSON.
    Json,
    /// PEP 503's HTML, under PEP 691's media type.
    HtmlV1,
    /// PEP 503's HTML.
    Html,
}

impl Form {
    /// All forms, in order of descending information.
    const ALL: [Self; 3] = [Self::Json, Self::HtmlV1, Self::Html];

    /// Returns the media type of the form.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Json => page::JSON,
            Self::HtmlV1 => "application/vnd.pypi.simple.v1+html",
            Self::Html => page::HTML,
        }
    }

    /// Returns the name of its file.
    pub(super) fn file(self) -> &'static str {
        if self == Self::Json { "index.json" } else { "index.html" }
    }

    /// Returns how exactly a media range matches the form; `None` if it does not.
    fn meant_by(self, range: &str) -> Option<Exactness> {
        let (names, group): (&[&str], _) = match self {
            Self::Json => {
                const JSON: &[&str] = &[
                    "application/vnd.pypi.simple.v1+json",
                    "application/vnd.pypi.simple.latest+json",
                ];
                (JSON, "application/*")
            }
            Self::HtmlV1 => {
                const HTML: &[&str] = &[
                    "application/vnd.pypi.simple.v1+html",
                    "application/vnd.pypi.simple.latest+html",
                ];
                (HTML, "application/*")
            }
            Self::Html => (&["text/html"], "text/*"),
        };
        if names.iter().any(|name| range.eq_ignore_ascii_case(name)) {
            Some(Exactness::Type)
        } else if range.eq_ignore_ascii_case(group) {
            Some(Exactness::Group)
        } else {
            (range == "*/*").then_some(Exactness::Anything)
        }
    }
}

/// How exactly a media range names a media type; the most exact range decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Exactness {
    Anything,
    Group,
    Type,
}

/// Returns the existing form that the client prefers; `None` if it accepts none. A client without a
/// preference gets HTML, as PEP 691 recommends.
pub(super) fn choose(accept: Option<&str>, there: impl Fn(Form) -> bool) -> Option<Form> {
    let accept = accept.map(str::trim).filter(|accept| !accept.is_empty()).unwrap_or("*/*");
    let ranges: Vec<(&str, u16)> = accept.split(',').filter_map(media_range).collect();
    let mut best: Option<(u16, Exactness, Form)> = None;
    for form in Form::ALL.into_iter().filter(|form| there(*form)) {
        let meant =
            ranges.iter().filter_map(|(range, weight)| Some((form.meant_by(range)?, *weight)));
        let Some((exactness, weight)) = meant.max() else { continue };
        let better = match best {
            _ if weight == 0 => false,
            None => true,
            Some((w, e, _)) if (weight, exactness) == (w, e) => exactness == Exactness::Anything,
            Some((w, e, _)) => (weight, exactness) > (w, e),
        };
        if better {
            best = Some((weight, exactness, form));
        }
    }
    best.map(|(_, _, form)| form)
}

/// Parses a media range and its weight in thousandths; `None` if the weight is invalid.
fn media_range(text: &str) -> Option<(&str, u16)> {
    let mut parts = text.split(';');
    let range = parts.next().unwrap_or_default().trim();
    let mut weight = 1000;
    for parameter in parts {
        if let Some((name, value)) = parameter.split_once('=')
            && name.trim().eq_ignore_ascii_case("q")
        {
            weight = thousandths(value.trim())?;
        }
    }
    Some((range, weight))
}

/// Parses a weight (RFC 9110, section 12.4.2): 0 to 1 with at most three decimals.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = decimals.len() <= 3 && decimals.bytes().all(|b| b.is_ascii_digit());
    let decimals: u16 = if digits { format!("{decimals:0<3}").parse().ok()? } else { return None };
    match whole {
        "0" => Some(decimals),
        "1" if decimals == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIP: &str = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01";

    fn of_all(accept: &str) -> Option<Form> {
        choose(Some(accept), |_| true)
    }

    #[test]
    fn chooses_preferred_form() {
        for (accept, form) in [
            (PIP, Some(Form::Json)),
            ("text/html", Some(Form::Html)),
            ("TEXT/HTML;q=1.000", Some(Form::Html)),
            ("application/vnd.pypi.simple.v1+html", Some(Form::HtmlV1)),
            ("application/vnd.pypi.simple.latest+json", Some(Form::Json)),
            ("application/vnd.pypi.simple.latest+html", Some(Form::HtmlV1)),
            ("application/vnd.pypi.simple.v2+json, text/html;q=0.2", Some(Form::Html)),
            ("application/vnd.pypi.simple.v1+json;q=0.2, text/html;q=0.3", Some(Form::Html)),
            ("application/vnd.pypi.simple.v1+json, text/html", Some(Form::Json)),
            (
                "text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8",
                Some(Form::Html),
            ),
            ("application/*", Some(Form::Json)),
            ("text/*;q=0.1", Some(Form::Html)),
            ("*/*", Some(Form::Html)),
            ("*/*, text/html;q=0, application/vnd.pypi.simple.v1+html;q=0", Some(Form::Json)),
            ("*/*;q=0.5, application/vnd.pypi.simple.v1+json", Some(Form::Json)),
            ("", Some(Form::Html)),
            ("application/vnd.pypi.simple.v2+json", None),
            ("text/html;q=0", None),
            ("text/html;q=0.0", None),
            ("image/png", None),
            ("text/html;q=2", None),
            ("text/html;q=0.1234", None),
            ("text/html;q=", None),
            (",;q=,;;==,*", None),
        ] {
            assert_eq!(of_all(accept), form, "{accept:?}");
        }
        assert_eq!(choose(None, |_| true), Some(Form::Html));
    }

    #[test]
    fn chooses_only_existing_forms() {
        assert_eq!(choose(Some(PIP), |form| form != Form::Json), Some(Form::HtmlV1));
        assert_eq!(choose(Some("*/*"), |form| form == Form::Json), Some(Form::Json));
        assert_eq!(choose(Some("text/html"), |form| form == Form::Json), None);
    }
}
