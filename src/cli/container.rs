//! `rocmrpm container`.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::Path;

use serde::Serialize;

use super::{CommandResult, args, context};
use crate::container::{self, Difference, Engine, Launch, Runner};
use crate::document::Document;
use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::pipeline;
use crate::report::{Progress, Shell, Style, Table, count};
use crate::stack::Stack;
use crate::workspace::{Flavor, PackagesFrom};

pub(super) fn run(args: &args::Container, dir: &Path, shell: &Shell) -> CommandResult {
    match &args.command {
        None => render(args, dir, shell),
        Some(args::ContainerCommand::Build(args)) => build(args, dir, shell),
        Some(args::ContainerCommand::Run(args)) => start(args, dir, shell),
        Some(args::ContainerCommand::Check(args)) => check(args, dir, shell),
    }
}

fn render(args: &args::Container, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let flavor = &args.flavor.flavor;
    let text = container::render(&stack, flavor)?;
    if args.print {
        shell.data(text)?;
        return Ok(0);
    }
    let path = workspace.root.join(container::file_name(&workspace.chroot.name, flavor));
    container::write(&path, &text, &workspace, &Progress::new(shell))?;
    Ok(0)
}

fn build(args: &args::ContainerBuild, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let flavor = &args.flavor.flavor;
    let text = container::render(&stack, flavor)?;
    let from =
        workspace.manifest.containers.get(flavor).map(|settings| settings.from).unwrap_or_default();
    container::check_prerequisites(&stack, flavor, from)?;
    let engine = Engine::of_machine()?;
    let path = workspace.root.join(container::file_name(&workspace.chroot.name, flavor));
    container::write(&path, &text, &workspace, &Progress::new(shell))?;
    let image = args.tag.clone().unwrap_or_else(|| container::image_name(&stack, flavor));
    let log = workspace.build_dir().join("container").join(format!("{}.log", flavor.name()));
    let prepare = || IoError::doing(format!("write `{}`", log.display()));
    fs_err::create_dir_all(log.parent().unwrap_or(Path::new("."))).map_err(prepare())?;
    files::remove_if_there(&log).map_err(prepare())?;
    shell.status(
        Style::Good,
        "Building",
        format!("{image} with {} (log: {})", engine.name(), log.display()),
    );
    let labels = match from {
        PackagesFrom::Local if flavor.has_builds() => {
            container::tier_labels(&stack, flavor, &pipeline::tiers_of_results(&stack)?)?
        }
        _ => BTreeMap::new(),
    };
    engine.build(&path, &image, args.base.as_deref(), &labels, &log)?;
    shell.status(Style::Good, "Built", &image);
    Ok(0)
}

fn start(args: &args::ContainerRun, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let flavor = &args.flavor.flavor;
    container::check_flavor(&workspace, flavor)?;
    if *flavor == Flavor::Toolbox {
        let message = "a container of the flavor `toolbox` is started by toolbox".to_owned();
        let name = container::image_name(&stack, flavor);
        return Err(Error::new(Kind::Usage, message)
            .with_help(format!("run `toolbox create --image localhost/{name} {name}`")));
    }
    let image = args.tag.clone().unwrap_or_else(|| container::image_name(&stack, flavor));
    let launch = Launch {
        image: &image,
        flavor,
        gpu: !args.without_gpu,
        terminal: std::io::stdin().is_terminal() && std::io::stdout().is_terminal(),
        command: &args.command,
    };
    let command = launch.command(Runner::of_machine()?, Path::new("/"))?;
    if args.print {
        shell.data(command.line())?;
        return Ok(0);
    }
    Ok(command.interactive()?)
}

/// What `rocmrpm container check --json` prints: how the labels of an image differ from the workspace.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ImageCheck<'a> {
    schema: &'static str,
    /// The image.
    image: &'a str,
    /// The flavor that its labels name.
    flavor: &'a str,
    /// The chroot.
    chroot: &'a str,
    /// The pin set.
    pins: &'a str,
    /// The labels that differ; empty if the image matches the pin set.
    differences: &'a [Difference],
}

impl Document for ImageCheck<'_> {
    const SCHEMA: &'static str = "rocmrpm/container-check/1";
}

fn check(args: &args::ContainerCheck, dir: &Path, shell: &Shell) -> CommandResult {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let stack = Stack::new(&workspace)?;
    let found = Engine::of_machine()?.labels(&args.image)?;
    let (flavor, differences) = container::check(&stack, &found, &args.image)?;
    if args.json {
        shell.json(&ImageCheck {
            schema: ImageCheck::SCHEMA,
            image: &args.image,
            flavor: flavor.name(),
            chroot: &workspace.chroot.name,
            pins: &workspace.pins.name,
            differences: &differences,
        })?;
    } else if differences.is_empty() {
        shell.data(format!("{} matches the pin set `{}`", args.image, workspace.pins.name))?;
    } else {
        let mut table = Table::new(&["label", "image", "workspace"]);
        for difference in &differences {
            let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            table.row([
                difference.label.clone(),
                shown(&difference.image),
                shown(&difference.workspace),
            ]);
        }
        shell.data(table.text().trim_end())?;
        let differ = count(differences.len(), "label");
        shell.talk(format!(
            "{}: {differ} different from the pin set `{}`",
            args.image, workspace.pins.name
        ));
    }
    Ok(u8::from(!differences.is_empty()))
}
