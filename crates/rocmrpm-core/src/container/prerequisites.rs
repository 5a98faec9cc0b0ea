//! Checks whether what an image is made of is there and up to date. Builds nothing.

use crate::build::{Results, Stage, find_elsewhere};
use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::sources;
use crate::stack::Stack;
use crate::workspace::{Flavor, PackagesFrom, Workspace};

/// Returns an error if the build folder lacks something that an image of this flavor is made of.
pub fn check_prerequisites(
    stack: &Stack<'_>,
    flavor: &Flavor,
    from: PackagesFrom,
) -> Result<(), Error> {
    if flavor.has_builds() && from == PackagesFrom::Local {
        complete(stack, flavor)?;
    }
    if *flavor == Flavor::Toolbox {
        specs_exist(stack.workspace)?;
    }
    Ok(())
}

/// Refuses to build an image from outdated results, because its labels would be wrong.
fn complete(stack: &Stack<'_>, flavor: &Flavor) -> Result<(), Error> {
    let workspace = stack.workspace;
    let build_dir = workspace.build_dir();
    let again = format!("run `rocmrpm build --chroot {}`", workspace.chroot.name);
    for component in stack.order().iter().filter(|component| !component.optional) {
        let pin = workspace.pin(component);
        let sources = sources::identities(pin, &workspace.root)?;
        let problem = match Results::of(&build_dir, Stage::Rpm, &component.name).record()? {
            Some(record) if record.version != pin.version => {
                format!("was built in version {}, while {} is pinned", record.version, pin.version)
            }
            Some(record) => {
                match sources.iter().find(|(name, of)| record.inputs.get(name) != Some(of)) {
                    Some((name, of)) => format!("was built before its {name} was {of}"),
                    None => continue,
                }
            }
            None => format!("has not been built for `{}`", workspace.chroot.name),
        };
        let message = format!("`{}` is part of the image, but {problem}", component.name);
        let elsewhere = find_elsewhere(workspace, &format!("results/{}", component.name));
        let elsewhere = elsewhere.filter(|_| problem.starts_with("has not"));
        return Err(Error::new(Kind::Usage, message).with_help(elsewhere.unwrap_or(again)));
    }
    let lock = build_dir.join("requirements/requirements.lock");
    if *flavor == Flavor::Ubuntu && !lock.is_file() {
        let message = format!("cannot find {}, which lists what pip installs", lock.display());
        let help = format!(
            "run `rocmrpm requirements --resolve --chroot {}` to write it",
            workspace.chroot.name
        );
        return Err(Error::new(Kind::Usage, message).with_help(help));
    }
    Ok(())
}

/// Refuses to build a toolbox without specs, whose requirements it has.
fn specs_exist(workspace: &Workspace) -> Result<(), Error> {
    let specs = workspace.build_dir().join("specs");
    let names = files::names_in(&specs).map_err(IoError::doing("read the folder of specs"))?;
    if names.iter().any(|name| name.ends_with(".spec")) {
        return Ok(());
    }
    let message = format!("there are no specs in {}", specs.display());
    let chroot = &workspace.chroot.name;
    let help = format!("run `rocmrpm build --until spec --chroot {chroot}` to render them");
    Err(Error::new(Kind::Usage, message).with_help(help))
}
