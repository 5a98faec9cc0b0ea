//! `rocmrpm pins export`.

use std::path::Path;

use super::{CommandResult, args, context};
use crate::error::IoError;
use crate::files;
use crate::pins;
use crate::report::{Shell, Style};

pub(super) fn run(args: &args::PinsExport, dir: &Path, shell: &Shell) -> CommandResult {
    let choice = args::Choice { chroot: None, pins: args.pins.clone() };
    let workspace = context::workspace(dir, &choice, &[])?;
    let (text, left_out) = match args.format {
        args::PinsFormat::VersionsEnv => (pins::versions_env(&workspace)?, Vec::new()),
        args::PinsFormat::SourceManifest => pins::source_manifest(&workspace)?,
    };
    match &args.output {
        None => shell.data(text)?,
        Some(path) => {
            let shown = path.display();
            let changed = files::write_if_changed(path, text);
            let changed = changed.map_err(IoError::doing(format!("write `{shown}`")))?;
            let (style, word) =
                if changed { (Style::Good, "Exported") } else { (Style::Dim, "Unchanged") };
            shell.status(style, word, shown);
        }
    }
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        shell.warning(format!(
            "a source manifest lists only components with a git commit and a `therock` name in upstreams.toml; \
             left out: {names}"
        ));
    }
    Ok(0)
}
