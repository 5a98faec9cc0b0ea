//! `rocmrpm closure audit`.

use std::path::Path;

use jiff::Timestamp;

use super::workspace;
use crate::cli::{CommandResult, args};
use crate::closure::audit::{AuditProblem, Finding, ProvidedBy, Request, audit};
use crate::closure::compute::{Computation, component, compute};
use crate::error::{Error, Kind};
use crate::events::Events;
use crate::osv::{ADDRESS, Service};
use crate::report::{Progress, Shell, Style, audit_json, audit_text};
use crate::sources::{Cache, Fetcher};
use crate::stack::Stack;

/// Sets another address for the service, such as that of a mirror.
const VARIABLE: &str = "ROCMRPM_OSV_URL";

pub(super) fn run(args: &args::ClosureAudit, dir: &Path, shell: &Shell) -> CommandResult {
    if args.offline && args.export.is_empty() {
        return Err(Error::new(Kind::Usage, "`--offline` does not allow querying for advisories")
            .with_help("pass an export: `rocmrpm closure audit --offline --export all.zip`"));
    }
    let workspace = workspace(dir, &args.choice)?;
    let stack = Stack::new(&workspace)?;
    let component = component(&stack, args.component.as_deref())?;
    let progress = Progress::new(shell);
    let events: &dyn Events = &progress;
    let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events).offline(args.offline);
    let how = Computation { live: args.live, offline: args.offline, upgrade: None };
    let computed = compute(&stack, component, how, &fetcher, events)?;
    let address = std::env::var(VARIABLE).ok().filter(|address| !address.is_empty());
    let request = Request {
        closure: &computed.closure,
        version: &workspace.pin(component).version,
        accepts: &computed.rules.accepts,
        system: args.system,
        exports: &args.export,
        service: Service { address: address.as_deref().unwrap_or(ADDRESS), limit: args.timeout },
        offline: args.offline,
        now: Timestamp::now(),
    };
    let audit = audit(&request, &fetcher)?;
    drop(progress);
    if computed.fresh && component.closure.is_some() {
        shell.warning(
            "the closure is not locked; the audit covers the versions resolved in this run",
        );
    }
    audit.warnings.iter().for_each(|warning| shell.warning(warning));
    if args.json {
        shell.json(&audit_json(&computed.closure, &audit))?;
    } else {
        shell.data(audit_text(&computed.closure, &audit))?;
    }
    if audit.passed_over > 0 {
        let chroot = &workspace.chroot.name;
        let what = match audit.passed_over {
            1 => {
                format!("1 member is a package of {chroot} and was skipped; `--system` includes it")
            }
            n => format!(
                "{n} members are packages of {chroot} and were skipped; `--system` includes them"
            ),
        };
        shell.talk(format!("\n{} {what}", Style::Note.paint("note:")));
    }
    if let Some(name) = audit.open().find_map(upgradable) {
        shell.talk(format!(
            "{} run `rocmrpm closure --upgrade {name}` to upgrade {name}",
            Style::Note.paint("help:")
        ));
    }
    Ok(u8::from(!audit.is_clean()))
}

/// Returns the member to upgrade, if another version would fix the finding.
fn upgradable(finding: &Finding) -> Option<&str> {
    let ours = matches!(finding.holder, ProvidedBy::Rpm | ProvidedBy::Private);
    let fixed = match &finding.what {
        AuditProblem::Yanked(_) => true,
        AuditProblem::Vulnerable(one) => one.fixed.is_some() && one.part.is_none(),
    };
    (ours && fixed).then_some(&finding.package)
}
