//! Asks GitHub for the states of issues, pull requests, and releases, and keeps the answers in the cache
//! for runs without a network. Other forges are not asked: their states are those of `watch.toml`.
//!
//! Source: GitHub's REST API, "Get an issue", which also knows pull requests, and "Get a release by tag
//! name".

use std::time::Duration;

use jiff::civil::Date;
use serde::Deserialize;

use crate::error::Error;
use crate::sources::{Fetcher, SourceError, shown_url};
use crate::text::{PATH, SEGMENT, percent_encode};
use crate::workspace::{WatchEntry, WatchKind, WatchState};

/// The default address of GitHub's API; `ROCMRPM_GITHUB_API` overrides it.
const ADDRESS: &str = "https://api.github.com";

/// The only forge that is asked.
const GITHUB: &str = "github.com";

/// The time limit of an answer.
const LIMIT: Duration = Duration::from_secs(15);

/// A state, and the day on which it was that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownState {
    pub state: WatchState,
    pub day: Option<Date>,
}

/// What is known about an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ForgeAnswer {
    /// The newest known state.
    pub known: Option<KnownState>,
    /// Why the forge did not answer.
    pub error: Option<String>,
    /// What the answer shows about the entry itself.
    pub remark: Option<String>,
}

/// An issue or a pull request.
#[derive(Deserialize)]
struct Issue {
    html_url: String,
    state: String,
    pull_request: Option<PullRequest>,
}

#[derive(Deserialize)]
struct PullRequest {
    merged_at: Option<String>,
}

#[derive(Deserialize)]
struct Release {
    html_url: String,
}

/// Returns what is known about each entry.
pub(super) fn ask(
    entries: &[&WatchEntry],
    fetcher: &Fetcher<'_>,
    today: Date,
) -> Result<Vec<ForgeAnswer>, Error> {
    let mut answers = Vec::new();
    for entry in entries {
        let mut known = entry.state.map(|state| KnownState { state, day: entry.checked });
        let kept = fetcher.remembered(&recipe(entry))?.as_deref().and_then(kept);
        if let Some(kept) = kept.filter(|kept| known.is_none_or(|known| kept.day >= known.day)) {
            known = Some(kept);
        }
        let error = (entry.subject.host != GITHUB)
            .then(|| format!("only {GITHUB} is asked; update `state` and `checked` by hand"));
        answers.push(ForgeAnswer { known, error, remark: None });
    }
    let asked: Vec<usize> =
        (0..entries.len()).filter(|at| entries[*at].subject.host == GITHUB).collect();
    if fetcher.is_offline() {
        asked.iter().for_each(|at| answers[*at].error = Some("offline".to_owned()));
        return Ok(answers);
    }
    let address = std::env::var("ROCMRPM_GITHUB_API").unwrap_or_else(|_| ADDRESS.to_owned());
    let token = std::env::var("GITHUB_TOKEN").unwrap_or_default();
    let urls: Vec<String> =
        asked.iter().map(|at| api_url(&address, &token, entries[*at])).collect();
    let fetched = fetcher.get_each(&urls, LIMIT)?;
    for ((at, url), fetched) in asked.into_iter().zip(&urls).zip(fetched) {
        let (entry, answer) = (entries[at], &mut answers[at]);
        let read = match fetched {
            Ok(bytes) => read(&bytes, entry)
                .map_err(|wrong| format!("unexpected response from {}: {wrong}", shown_url(url))),
            Err(error) => absent(&error, entry).ok_or_else(|| reason(&error)),
        };
        match read {
            Ok((Some(state), remark)) => {
                answer.known = Some(KnownState { state, day: Some(today) });
                answer.remark = remark;
                fetcher.remember(&recipe(entry), &format!("{} {today}", state.name()))?;
            }
            Ok((None, remark)) => answer.remark = remark,
            Err(error) => answer.error = Some(error),
        }
    }
    Ok(answers)
}

/// Returns the cache key of an entry's state.
fn recipe(entry: &WatchEntry) -> String {
    format!("watched state 1\n{}\n", entry.url)
}

/// Reads a state from the cache.
fn kept(text: &str) -> Option<KnownState> {
    let (state, day) = text.split_once(' ')?;
    Some(KnownState { state: WatchState::parse(state)?, day: Some(day.parse().ok()?) })
}

/// Returns the URL that answers for an entry. A token is sent as the password of this user (GitHub's
/// documentation, "Authenticating as a GitHub App installation").
fn api_url(address: &str, token: &str, entry: &WatchEntry) -> String {
    let address = address.trim_end_matches('/');
    let address = match (address.split_once("://"), token) {
        (_, "") | (None, _) => address.to_owned(),
        (Some((scheme, rest)), token) => {
            format!("{scheme}://x-access-token:{}@{rest}", percent_encode(token, SEGMENT))
        }
    };
    let of = &entry.subject;
    let path = match of.kind {
        WatchKind::Issue | WatchKind::PullRequest => format!("issues/{}", of.id),
        WatchKind::Release => format!("releases/tags/{}", percent_encode(&of.id, PATH)),
    };
    format!("{address}/repos/{}/{path}", of.repository)
}

/// What an answer states: the state, and a remark about the entry.
type Read = (Option<WatchState>, Option<String>);

/// Reads an answer; the error is what is wrong with it.
fn read(bytes: &[u8], entry: &WatchEntry) -> Result<Read, String> {
    let wrong = |error: serde_json::Error| error.to_string();
    let (state, url) = match entry.subject.kind {
        WatchKind::Release => {
            let Release { html_url } = serde_json::from_slice(bytes).map_err(wrong)?;
            (WatchState::Released, html_url)
        }
        WatchKind::Issue | WatchKind::PullRequest => {
            let issue: Issue = serde_json::from_slice(bytes).map_err(wrong)?;
            let merged = issue.pull_request.is_some_and(|pull| pull.merged_at.is_some());
            let state = match issue.state.as_str() {
                _ if merged => WatchState::Merged,
                "open" => WatchState::Open,
                "closed" => WatchState::Closed,
                other => return Err(format!("unknown state `{}`", crate::text::visible(other))),
            };
            (state, issue.html_url)
        }
    };
    let moved = !url.eq_ignore_ascii_case(&entry.url);
    Ok((Some(state), moved.then(|| format!("its address is now {}", crate::text::visible(&url)))))
}

/// Returns what a missing page means: a release that does not exist yet, or an issue that was deleted.
fn absent(error: &SourceError, entry: &WatchEntry) -> Option<Read> {
    let SourceError::Transfer { status: 404 | 410, .. } = error else { return None };
    Some(match entry.subject.kind {
        WatchKind::Release => (Some(WatchState::Unreleased), None),
        WatchKind::Issue | WatchKind::PullRequest => {
            (None, Some("it does not exist, or is not public".to_owned()))
        }
    })
}

/// Returns why a forge did not answer.
fn reason(error: &SourceError) -> String {
    match error {
        SourceError::Transfer { status: 403 | 429, .. } => {
            format!("{error}: it limits requests; set GITHUB_TOKEN for a higher limit")
        }
        error => error.to_string(),
    }
}
