//! The licenses of the packages: an SPDX expression from the RPMs' headers, and all texts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use python_packaging::wheel::{Content, Member, Stored};
use rocmrpm_base::events::{Event, Step};
use rocmrpm_base::style::count;
use rocmrpm_base::text::visible;

use super::release::Release;
use super::tree::Tree;
use super::{Request, SdkError};

/// The licenses of all RPMs.
pub(super) struct Licenses<'a> {
    /// The texts: names such as `hip/LICENSE.md`, the file of each, and its content.
    pub texts: BTreeMap<String, (&'a str, Stored)>,
    /// The SPDX expressions, by RPM; `None` for a license in another form.
    expressions: BTreeMap<&'a Path, Option<&'a str>>,
}

impl<'a> Licenses<'a> {
    /// Reads the licenses. Lists those that are not SPDX expressions, which METADATA cannot have.
    pub fn new(
        request: Request<'_>,
        release: &'a Release,
        tree: &'a Tree,
    ) -> Result<Self, SdkError> {
        let of = |tag: &'a str| (request.is_spdx)(tag).then_some(tag);
        let rpms = release.rpms.iter();
        let expressions: BTreeMap<_, _> =
            rpms.map(|(rpm, of_rpm)| (rpm.as_path(), of(&of_rpm.header.license))).collect();
        let mut other = release.rpms.iter().filter(|(rpm, _)| expressions[rpm.as_path()].is_none());
        let number = other.clone().count();
        if let Some((_, source)) = other.next() {
            let (name, license) = (&source.header.name, visible(&source.header.license));
            let detail = format!(
                "License-Expression: the license of {} is not an SPDX expression, such as `{license}` of \
                 {name}",
                count(number, "RPM")
            );
            request.events.event(Event::Step { step: Step::Omitting, detail });
        }
        Ok(Self { texts: tree.licenses()?, expressions })
    }

    /// Returns the files below the dist-info folder.
    pub fn members(&self) -> BTreeMap<String, Member> {
        let member = |(name, (_, stored)): (&String, &(&str, Stored))| {
            let member = Member { content: Content::File(*stored), executable: false };
            (format!("licenses/{name}"), member)
        };
        self.texts.iter().map(member).collect()
    }

    /// Returns the fields of METADATA for files of these RPMs.
    pub fn fields(&self, rpms: &BTreeSet<&Path>) -> String {
        let expressions = rpms.iter().map(|rpm| self.expressions.get(rpm).copied().flatten());
        let expressions: Option<BTreeSet<&str>> = expressions.collect();
        let mut fields = String::new();
        if let Some(all) = expressions.filter(|all| !all.is_empty()) {
            let one = |text: &&str| match all.len() > 1 && text.contains(" OR ") {
                true => format!("({text})"),
                false => (*text).to_owned(),
            };
            let text = all.iter().map(one).collect::<Vec<_>>().join(" AND ");
            fields += &format!("License-Expression: {text}\n");
        }
        fields
            + &self.texts.keys().map(|name| format!("License-File: {name}\n")).collect::<String>()
    }
}
