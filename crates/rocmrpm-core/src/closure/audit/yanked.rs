//! Finds the locked files that upstream yanked (PEP 592), using the pages of the index. Does not
//! replace them.

use super::scope::Scope;
use super::{AuditError, AuditProblem, Finding, ProvidedBy, Status};
use crate::closure::{LockedFile, LockedOrigin};
use crate::sources::Fetcher;
use crate::workspace::MemberPlace;

/// Returns the yanked files, and warns about files that the index no longer has.
pub(super) fn findings(
    scope: &Scope<'_>,
    fetcher: &Fetcher<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Finding>, AuditError> {
    let names: Vec<&str> = scope.ours.iter().map(|member| member.name.as_str()).collect();
    let mut findings = Vec::new();
    for (member, offered) in scope.ours.iter().zip(fetcher.projects(&names)?) {
        let Some(locked) = member.node.as_ref().map(|node| &node.locked) else { continue };
        let LockedOrigin::Index { wheel, sdist } = &locked.origin else { continue };
        let mut yanked = Vec::new();
        for LockedFile { name, .. } in [wheel, sdist].into_iter().flatten() {
            match offered.iter().find(|file| file.name == *name) {
                Some(file) if file.yanked => yanked.push(name.clone()),
                Some(_) => {}
                None => warnings.push(format!("the index no longer has `{name}`")),
            }
        }
        if !yanked.is_empty() {
            findings.push(Finding {
                package: member.name.clone(),
                version: locked.version.to_string(),
                holder: if member.place == MemberPlace::Rpm {
                    ProvidedBy::Rpm
                } else {
                    ProvidedBy::Private
                },
                what: AuditProblem::Yanked(yanked),
                status: Status::Open,
            });
        }
    }
    Ok(findings)
}
