//! `rocmrpm index check`.

use std::path::Path;

use super::{Done, args, context};
use crate::closure::lock;
use crate::error::{Error, Kind};
use crate::index::check::{Options, check};
use crate::index::environment::Environment;
use crate::index::listing::Listing;
use crate::index::outside;
use crate::report::{Shell, count, index_check_text};

pub(super) fn run(args: &args::IndexCheck, dir: &Path, shell: &Shell) -> Done {
    let workspace = context::workspace(dir, &args.choice, &[])?;
    let root = args.dir.clone().unwrap_or_else(|| workspace.build_dir().join("index"));
    let view = Listing::read(&root, args.channel.as_deref())?;
    let environment = Environment::of(&workspace.chroot)?;
    let outside = outside::declared(&workspace.manifest.outside)?;
    let held = lock::held(&workspace)?;
    let options = Options {
        environment: &environment,
        outside: &outside,
        held: &held,
        offline: args.offline,
        digests: args.digests,
    };
    let report = check(&view, &options)?;
    if args.json {
        shell.json(&report)?;
    } else {
        shell.data(index_check_text(&report))?;
    }
    if report.has_errors() {
        return Ok(1);
    }
    let unreachable = report.unchecked.iter().filter(|unchecked| unchecked.unreachable).count();
    if unreachable > 0 {
        let message = format!(
            "{} could not be checked: an outside index cannot be reached",
            count(unreachable, "requirement")
        );
        return Err(Error::new(Kind::Network, message)
            .hinted("run the same command again later, or with `--offline` to check the rest alone"));
    }
    Ok(0)
}
