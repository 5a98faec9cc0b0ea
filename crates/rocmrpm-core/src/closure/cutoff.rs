//! The cutoff day of a closure: files that were published later are not used. uv applies it.

use std::collections::BTreeMap;
use std::str::FromStr;

use jiff::civil::Date;
use pep440_rs::Version;

use super::{ClosureError, own};
use crate::sources::Fetcher;
use crate::workspace::pin::Source;
use crate::workspace::{ClosureRules, Component, Workspace};

/// The last days, in UTC, from which files on the index are used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cutoff {
    /// The day for all distributions; `None` for no limit.
    pub day: Option<Date>,
    /// The days for single members, by normalized name, which override `day`.
    pub members: BTreeMap<String, Date>,
}

impl Cutoff {
    /// Returns the cutoff that `[closure]` sets; the default is the day on which the pinned version
    /// was uploaded to the index, or `locked` if the index may not be queried.
    pub fn of(
        workspace: &Workspace,
        component: &Component,
        rules: &ClosureRules,
        fetcher: &Fetcher<'_>,
        locked: Option<Date>,
    ) -> Result<Self, ClosureError> {
        let day = match rules.not_after {
            Some(day) => Some(day),
            None => {
                released(workspace, component, fetcher)?.or(locked.filter(|_| fetcher.is_offline()))
            }
        };
        let member = |member: &crate::workspace::MemberRule| {
            Some((member.name.value.clone(), member.not_after?))
        };
        Ok(Self { day, members: rules.members.iter().filter_map(member).collect() })
    }

    /// Returns uv's arguments for the cutoff. It does not apply to `exempt` distributions: the
    /// stack's own, which were never uploaded.
    pub fn uv_args<'a>(&self, exempt: impl IntoIterator<Item = &'a String>) -> Vec<String> {
        let mut args = Vec::new();
        if let Some(day) = self.day {
            args.extend(["--exclude-newer".to_owned(), end_of(day)]);
            let exempt = exempt.into_iter().map(|name| format!("{name}=false"));
            args.extend(exempt.flat_map(|text| ["--exclude-newer-package".to_owned(), text]));
        }
        for (name, day) in &self.members {
            args.extend(["--exclude-newer-package".to_owned(), format!("{name}={}", end_of(*day))]);
        }
        args
    }

    /// Returns its lines in the inputs of a closure.
    pub fn lines(&self) -> String {
        let mut text = format!("not-after {}\n", day_text(self.day));
        for (name, day) in &self.members {
            text += &format!("not-after {name} {day}\n");
        }
        text
    }
}

/// Returns a day as it is written in a lock.
pub(super) fn day_text(day: Option<Date>) -> String {
    day.map_or_else(|| NONE.to_owned(), |day| day.to_string())
}

/// Parses [`day_text`].
pub(super) fn day_of(text: &str) -> Result<Option<Date>, String> {
    match text {
        NONE => Ok(None),
        day => day
            .parse()
            .map(Some)
            .map_err(|_| format!("`not-after` is neither a day such as `2026-05-10` nor `{NONE}`")),
    }
}

const NONE: &str = "none";

/// Returns the first moment after a day, in uv's format (RFC 3339).
fn end_of(day: Date) -> String {
    // The last representable day has no successor.
    format!("{}T00:00:00Z", day.tomorrow().unwrap_or(day))
}

/// Returns the day on which the pinned version was uploaded to the index; `None` if it does not
/// come from the index, or if the index does not state the day.
fn released(
    workspace: &Workspace,
    component: &Component,
    fetcher: &Fetcher<'_>,
) -> Result<Option<Date>, ClosureError> {
    let pin = workspace.pin(component);
    let Ok(version) = Version::from_str(&pin.version) else { return Ok(None) };
    match &pin.source {
        Source::Folder { .. } => Ok(None),
        _ => Ok(fetcher.release_day(&own::name_of(workspace, component), &version)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_the_end_of_each_day_to_uv() {
        let day = |text: &str| text.parse::<Date>().unwrap();
        let members = BTreeMap::from([("h11".to_owned(), day("2026-06-30"))]);
        let cutoff = Cutoff { day: Some(day("2026-05-10")), members };
        let args = cutoff.uv_args(&["torch".to_owned()]).join(" ");
        assert_eq!(
            args,
            "--exclude-newer 2026-05-11T00:00:00Z --exclude-newer-package torch=false \
             --exclude-newer-package h11=2026-07-01T00:00:00Z"
        );
        assert_eq!(cutoff.lines(), "not-after 2026-05-10\nnot-after h11 2026-06-30\n");
        let open = Cutoff::default();
        assert!(open.uv_args(&["torch".to_owned()]).is_empty());
        assert_eq!(open.lines(), "not-after none\n");
    }

    #[test]
    fn reads_the_day_that_it_wrote() {
        for day in [None, Some("2026-05-10".parse().unwrap())] {
            assert_eq!(day_of(&day_text(day)), Ok(day));
        }
        assert!(day_of("yesterday").unwrap_err().contains("2026-05-10"));
    }
}
