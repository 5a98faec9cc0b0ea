//! `rocmrpm pipeline`.

use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;

use super::{CommandResult, args};
use crate::document::Document;
use crate::error::{Error, Kind};
use crate::evidence::{Blocked, OpenQuestion, SetStatus, Standing, Tier, status_page};
use crate::pipeline::{self, End, Preview, PreviewStage, Request};
use crate::report::{Progress, Shell, Style, Table};

pub(super) fn run(command: &args::Pipeline, dir: &Path, shell: &Shell) -> CommandResult {
    match command {
        args::Pipeline::Run(command) => run_pipeline(command, dir, shell),
        args::Pipeline::Status(command) => status(command, dir, shell),
        args::Pipeline::Accept(command) => accept(command, dir, shell),
        args::Pipeline::Rollback(command) => super::rollback::run(command, dir, shell),
    }
}

/// What `rocmrpm pipeline run --json` prints: how a pipeline ended, or what it would do.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PipelineReport {
    schema: &'static str,
    /// Whether all stages passed.
    done: bool,
    /// The stage that needs a person.
    stage: Option<&'static str>,
    /// Its chroot, if it is about one.
    chroot: Option<String>,
    /// What a person has to decide.
    question: Option<OpenQuestion>,
    /// What would happen, with `--dry-run`.
    preview: Option<Preview>,
}

impl Document for PipelineReport {
    const SCHEMA: &'static str = "rocmrpm/pipeline/1";
}

fn run_pipeline(args: &args::PipelineRun, dir: &Path, shell: &Shell) -> CommandResult {
    let request = Request {
        pins: args.pins.clone(),
        chroots: args.chroot.clone(),
        builder: args.builder.map_or_else(Default::default, Into::into),
        timeout: args.timeout,
        offline: args.offline,
    };
    let progress = Progress::new(shell);
    if args.dry_run {
        let preview = pipeline::preview(dir, &request, &progress)?;
        drop(progress);
        return show_preview(preview, args.json, shell);
    }
    let end = pipeline::run(dir, &request, &progress)?;
    drop(progress);
    let (stage, chroot, question) = match end {
        End::Done => (None, None, None),
        End::Question { stage, chroot, question } => (Some(stage.name()), chroot, Some(question)),
    };
    if args.json {
        let done = question.is_none();
        let (schema, preview) = (PipelineReport::SCHEMA, None);
        let question = question.clone();
        shell.json(&PipelineReport { schema, done, stage, chroot, question, preview })?;
    }
    match question {
        None => {
            shell.status(Style::Good, "Finished", "all stages passed");
            Ok(0)
        }
        Some(_) if args.json => Ok(Kind::Findings.exit_code()),
        Some(question) => Err(Error::new(Kind::Findings, question.what).with_help(question.help)),
    }
}

fn show_preview(preview: Preview, json: bool, shell: &Shell) -> CommandResult {
    if json {
        shell.json(&PipelineReport {
            schema: PipelineReport::SCHEMA,
            done: false,
            stage: None,
            chroot: None,
            question: None,
            preview: Some(preview),
        })?;
        return Ok(0);
    }
    for line in &preview.newer {
        shell.data(line)?;
    }
    if !preview.newer.is_empty() {
        shell.data("")?;
    }
    let mut table = Table::new(&["stage", "chroot", "last", "result"]);
    for PreviewStage { stage, chroot, last, summary } in preview.stages {
        table.row(vec![
            stage.to_owned(),
            chroot.unwrap_or_default(),
            last.unwrap_or_else(|| "never".to_owned()),
            summary.unwrap_or_default(),
        ]);
    }
    shell.data(table.text())?;
    shell.talk("dry run: no changes made");
    Ok(0)
}

/// What `rocmrpm pipeline status --json` prints: what is proved, outdated, and blocked.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PipelineStatusReport<'a> {
    schema: &'static str,
    /// The pin sets.
    sets: Vec<SetReport<'a>>,
}

/// The status of a pin set.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SetReport<'a> {
    /// The pin set.
    pins: &'a str,
    /// When the newest record was written: RFC 3339 in UTC.
    updated: &'a str,
    /// Newer releases, and other results of the last search.
    newer: &'a [String],
    /// What stopped the last run; null if nothing did.
    blocked: Option<&'a Blocked>,
    /// The components in each chroot.
    components: Vec<ComponentReport<'a>>,
}

/// What is proved about a component in a chroot.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ComponentReport<'a> {
    /// The chroot.
    chroot: &'a str,
    /// The component.
    component: &'a str,
    /// Its upstream version.
    version: &'a str,
    /// Its Release; empty before the spec is rendered.
    release: &'a str,
    /// The highest tier that a record proves; null if none does.
    tier: Option<Tier>,
    /// When that was proved: RFC 3339 in UTC.
    since: &'a str,
    /// The fingerprint of the key that signed the record, if it is of another machine.
    key: Option<&'a str>,
    /// Why the newest build failed.
    failure: Option<&'a str>,
}

impl Document for PipelineStatusReport<'_> {
    const SCHEMA: &'static str = "rocmrpm/pipeline-status/1";
}

impl<'a> SetReport<'a> {
    fn of(set: &'a SetStatus) -> Self {
        let of_chroot = |of: &'a crate::evidence::ChrootStatus| {
            of.standings.iter().map(|(component, standing)| ComponentReport {
                chroot: &of.chroot,
                component,
                version: &standing.version,
                release: &standing.release,
                tier: standing.tier,
                since: &standing.since,
                key: standing.key.as_deref(),
                failure: standing.failure.as_deref(),
            })
        };
        Self {
            pins: &set.pins,
            updated: &set.updated,
            newer: &set.newer,
            blocked: set.blocked.as_ref(),
            components: set.chroots.iter().flat_map(of_chroot).collect(),
        }
    }
}

fn status(args: &args::PipelineStatus, dir: &Path, shell: &Shell) -> CommandResult {
    let (root, _, stack) = pipeline::locate(dir, args.pins.as_deref())?;
    let sets = pipeline::collect(&root, &stack, args.pins.as_deref())?;
    if args.html {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        shell.data(status_page(&stack, &sets, &now))?;
        return Ok(0);
    }
    if args.json {
        let (schema, sets) =
            (PipelineStatusReport::SCHEMA, sets.iter().map(SetReport::of).collect());
        shell.json(&PipelineStatusReport { schema, sets })?;
        return Ok(0);
    }
    if sets.is_empty() {
        shell.talk("no pipeline has run yet; `rocmrpm pipeline run` runs one");
        return Ok(0);
    }
    let mut table = Table::new(&["pins", "chroot", "component", "version", "proved", "since"]);
    for set in &sets {
        for of in &set.chroots {
            for (component, standing) in &of.standings {
                let mut row: Vec<(Option<Style>, String)> =
                    [&set.pins, &of.chroot, component].map(|text| (None, text.clone())).into();
                row.extend(standing_cells(standing));
                table.styled_row(row);
            }
        }
    }
    shell.data(table.text())?;
    for set in &sets {
        if let Some(blocked) = &set.blocked {
            let chroot = blocked.chroot.as_ref().map(|of| format!(" for {of}")).unwrap_or_default();
            let stage = format!("{}: {}{chroot}: {}", set.pins, blocked.stage, blocked.what);
            shell.warning(stage);
            blocked.help.iter().for_each(|help| shell.help(help));
        }
    }
    Ok(0)
}

fn standing_cells(standing: &Standing) -> [(Option<Style>, String); 3] {
    let version = match standing.release.as_str() {
        "" => standing.version.clone(),
        release => format!("{}-{release}", standing.version),
    };
    let tier = standing.tier.map_or("nothing".to_owned(), |tier| tier.to_string());
    let (style, tier) = match &standing.failure {
        Some(_) => (Style::Bad, format!("{tier}, then failed")),
        None => (Style::Good, tier),
    };
    let day = standing.since.get(..10).unwrap_or_default().to_owned();
    [(None, version), (Some(style), tier), (Some(Style::Dim), day)]
}

fn accept(args: &args::PipelineAccept, dir: &Path, shell: &Shell) -> CommandResult {
    let request = Request { pins: args.pins.clone(), ..Request::default() };
    for question in pipeline::accept(dir, &request, &args.reason)? {
        shell.status(Style::Good, "Accepted", question.what);
    }
    Ok(0)
}
