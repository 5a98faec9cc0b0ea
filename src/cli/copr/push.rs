//! `rocmrpm copr push`.

use serde::Serialize;

use super::{Target, sync};
use crate::build::{BuildLock, Outcome, Prepared, Run, Stage};
use crate::cli::build::documents::RunReport;
use crate::cli::plan::Planned;
use crate::cli::{CommandResult, args, build, install};
use crate::closure::resolve;
use crate::copr::{
    Client, CoprBuilder, MacrosPackage, ProjectChroot, Published, Sent, get_ready, package, publish,
};
use crate::document::Document;
use crate::error::{Error, Kind};
use crate::events::Events;
use crate::names::ComponentName;
use crate::process::own_program;
use crate::production::{Order, Production, plan_with, produce_with, selected};
use crate::proof::prove;
use crate::publishing::check_closures;
use crate::report::{Progress, Shell, Style, Table};
use crate::sources::{Cache, Fetcher};
use crate::stack::Stack;
use crate::workspace::copr::AFTER_INSPECTION;
use crate::workspace::{Component, CoprProject, Workspace};

/// What `rocmrpm copr push --json` prints: what was built on COPR, or would be.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct PushReport<'a> {
    schema: &'static str,
    /// `owner/project`.
    project: &'a str,
    /// The project's page.
    url: String,
    /// Whether nothing was built, because of `--dry-run`.
    dry_run: bool,
    /// Whether the builds are published.
    published: bool,
    /// The chroots of the project.
    chroots: Vec<ChrootPush>,
}

/// The builds of a chroot, or the plan with `--dry-run`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum ChrootPush {
    /// What would be built.
    Plan {
        /// The chroot.
        chroot: String,
        /// The components, in build order.
        steps: Vec<PushStep>,
    },
    /// What was built.
    Run {
        #[serde(flatten)]
        run: RunReport,
        /// The newest build of each component on COPR.
        builds: Vec<SentBuild>,
    },
}

/// A component of a plan.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PushStep {
    /// The component.
    component: String,
    /// Its version and release.
    version: String,
    /// The number of the wave, from 1: components of one wave do not require each other.
    wave: usize,
    /// The planned action.
    plan: Planned,
    /// What changed since its last build or inspection.
    reasons: Vec<String>,
}

/// A build on COPR.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SentBuild {
    /// The component.
    component: String,
    /// COPR's number of the build.
    build: u64,
    /// The build's page.
    url: String,
}

impl Document for PushReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/copr-push/2";
}

pub(super) fn run(args: &args::CoprPush, target: &Target, shell: &Shell) -> CommandResult {
    check_closures(&target.workspaces, &args.components)?;
    let progress = Progress::new(shell);
    let client =
        Client::new(args.access.config.as_deref(), &target.project.full_name(), &progress)?;
    let places = sync::places(target)?;
    let push = Push { args, client: &client, project: &target.project, places: &places, shell };
    let mut code = 0;
    let mut documents = Vec::new();
    for place in &places {
        let (of_chroot, document) = push.chroot(place, &progress)?;
        documents.push(document);
        if code == 0 {
            code = of_chroot;
        }
        if of_chroot == Kind::Interrupted.exit_code() || of_chroot != 0 && !args.keep_going {
            break;
        }
    }
    let mut published = None;
    if target.project.publish == AFTER_INSPECTION && !args.dry_run {
        if code == 0 {
            published = Some(push.publish()?);
            code = if published == Some(true) { 0 } else { Kind::Findings.exit_code() };
        } else {
            shell.talk("not published: builds are published once all of them pass inspection");
        }
    }
    if args.json {
        let at_once = target.project.publish != AFTER_INSPECTION && !args.dry_run;
        shell.json(&PushReport {
            schema: PushReport::SCHEMA,
            project: client.project(),
            url: client.page(),
            dry_run: args.dry_run,
            published: published.unwrap_or(at_once),
            chroots: documents,
        })?;
    }
    Ok(code)
}

struct Push<'a> {
    args: &'a args::CoprPush,
    client: &'a Client<'a>,
    project: &'a CoprProject,
    places: &'a [ProjectChroot<'a>],
    shell: &'a Shell,
}

impl Push<'_> {
    /// Builds the outdated components for a chroot; returns the exit code and the chroot's part of
    /// the document.
    fn chroot(
        &self,
        place: &ProjectChroot<'_>,
        events: &dyn Events,
    ) -> Result<(u8, ChrootPush), Error> {
        let Self { args, client, shell, .. } = *self;
        let ProjectChroot { workspace, .. } = *place;
        let stack = Stack::new(workspace)?;
        let builder = CoprBuilder::new(client, self.project, workspace, events)?;
        let order = Order {
            keep_going: args.keep_going,
            ..Order::up_to(Stage::Rpm, args.components.clone())
        };
        for warning in other_targets(place, &stack, &order)? {
            shell.warning(warning);
        }
        if args.dry_run {
            let _lock = BuildLock::take(workspace)?;
            return self.show(place, &plan_with((&builder, None), &stack, &order, events)?);
        }
        let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, events);
        let get_ready = || {
            get_ready(&builder, self.places, place)?;
            let graph = resolve::written(&stack, &fetcher, events)?;
            let proof = prove(&stack, graph.as_ref(), &fetcher, events)?;
            install::show(&proof, &workspace.chroot.name, shell)
        };
        let Production { prepared, run: done, .. } =
            produce_with((&builder, None), get_ready, &stack, &order, &fetcher, events)?;
        let code = build::report_failures(&done, shell);
        if code == 0 {
            let built = done
                .outcomes
                .iter()
                .filter(|(_, outcome)| matches!(outcome, Outcome::Built(_)))
                .count();
            let text =
                format!("{built} built, {} fresh: {}", done.outcomes.len() - built, client.page());
            shell.status(Style::Good, "Finished", text);
        }
        self.remarks(&prepared, &done, code);
        let builds = done.outcomes.iter().filter_map(|(name, _)| {
            let build = sent(client, &prepared, name)?.build;
            Some(SentBuild { component: name.to_string(), build, url: client.build_page(build) })
        });
        let builds = builds.collect();
        Ok((
            code,
            ChrootPush::Run { run: RunReport::of(workspace, &done, Stage::Rpm, None), builds },
        ))
    }

    fn show(
        &self,
        place: &ProjectChroot<'_>,
        prepared: &Prepared<'_, '_>,
    ) -> Result<(u8, ChrootPush), Error> {
        let waves = prepared.stack.waves(&prepared.selected);
        let mut table = Table::new(&["wave", "component", "version", "plan", "why"]);
        let mut steps = Vec::new();
        for step in &prepared.plan.steps {
            let version = &prepared.stack.workspace.pins.pins[&step.component].value.version;
            let release = &prepared.specs[&step.component].release.release;
            let release = release.replace("%{?dist}", &place.workspace.chroot.dist);
            let (plan, reasons) = Planned::of(&step.verdict);
            let wave = waves.iter().position(|wave| wave.iter().any(|c| c.name == step.component));
            let wave = wave.map_or(0, |at| at + 1);
            let version = format!("{version}-{release}");
            table.row([
                wave.to_string(),
                step.component.to_string(),
                version.clone(),
                plan.word().to_owned(),
                reasons.join(", "),
            ]);
            let (component, reasons) = (step.component.to_string(), reasons.to_vec());
            steps.push(PushStep { component, version, wave, plan, reasons });
        }
        if !self.args.json {
            self.shell.status(
                Style::Good,
                "Plan",
                format!("{} on COPR (dry run)", place.chroot.name.value),
            );
            self.shell.data(table.text())?;
        }
        Ok((0, ChrootPush::Plan { chroot: place.workspace.chroot.name.clone(), steps }))
    }

    /// Makes COPR publish the accepted builds of this and earlier runs; returns whether all builds
    /// are accepted.
    fn publish(&self) -> Result<bool, Error> {
        let Self { client, shell, .. } = *self;
        let Some(place) = self.places.first() else { return Ok(true) };
        let root = place.workspace.root.join("build");
        let obstacles = match publish(client, &root, &MacrosPackage::name_of(place.workspace))? {
            Published::Already => return Ok(true),
            Published::Asked => {
                shell.status(
                    Style::Good,
                    "Published",
                    format!("COPR is regenerating the repository: {}", client.page()),
                );
                return Ok(true);
            }
            Published::Not(obstacles) => obstacles,
        };
        shell.warning("the builds are not published, because COPR would also publish:");
        sync::show_obstacles(client, obstacles, shell);
        shell.line(format!("then run `{} copr push` to publish", own_program()));
        Ok(false)
    }

    /// Warns about builds that COPR has although they failed inspection.
    fn remarks(&self, prepared: &Prepared<'_, '_>, done: &Run, code: u8) {
        let Self { client, shell, .. } = *self;
        for (component, outcome) in &done.outcomes {
            if let Outcome::Failed(error) = outcome
                && error.kind() == Kind::Findings
                && let Some(sent) = sent(client, prepared, component)
            {
                let delete = client.command(&["delete-build", &sent.build.to_string()]);
                let has = match self.project.publish == AFTER_INSPECTION {
                    true => "is on COPR, but not published,",
                    false => "is already published on COPR,",
                };
                shell.warning(format!(
                    "`{component}` failed inspection and {has} as build {}; to delete it: {delete}",
                    sent.build
                ));
            }
        }
        let failed =
            done.outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
        let running = failed
            .filter_map(|(name, _)| sent(client, prepared, name))
            .filter(|sent| !sent.settled);
        let running: Vec<String> = running.map(|sent| sent.build.to_string()).collect();
        if code == Kind::Interrupted.exit_code() && !running.is_empty() {
            let program = own_program();
            shell.line(format!(
                "COPR is still running build {}; `{program} copr push` resumes with it, \
                 `{program} copr watch` follows it, `{program} copr cancel` cancels it",
                running.join(", ")
            ));
        }
    }
}

/// Returns the last build that was sent for a component.
fn sent(
    client: &Client<'_>,
    prepared: &Prepared<'_, '_>,
    component: &ComponentName,
) -> Option<Sent> {
    let name = package(&prepared.specs[component].text);
    let build_dir = prepared.stack.workspace.build_dir();
    Sent::read(&build_dir, client.project(), name.as_deref().unwrap_or(component.as_str()))
}

/// Warns about components whose GPU targets differ from those of the macros package, which the
/// whole stack shares.
fn other_targets(
    place: &ProjectChroot<'_>,
    stack: &Stack<'_>,
    order: &Order,
) -> Result<Vec<String>, Error> {
    let workspace: &Workspace = place.workspace;
    let macros: Option<&MacrosPackage> = place.macros.as_ref();
    if macros.is_none() || workspace.provider.gpu_macros.is_empty() {
        return Ok(Vec::new());
    }
    let selected = selected(stack, &order.components, order.until)?.into_iter();
    let others = selected.filter(|component| {
        stack.gpu_targets(component) != workspace.manifest.gpu_targets.as_slice()
    });
    let warn = |component: &Component| {
        format!(
            "`{}` has other GPU targets than the stack, and {} on COPR has those of the stack; list the \
             component's own in its spec",
            component.name,
            workspace.provider.gpu_macros.join(" and "),
        )
    };
    Ok(others.map(warn).collect())
}
