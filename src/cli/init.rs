//! `rocmrpm init`.

use std::path::Path;

use super::{CommandResult, args, inspect, schemas};
use crate::error::{Error, IoError, Kind};
use crate::files;
use crate::names::is_plain;
use crate::process::{find_program, quote};
use crate::report::{Shell, Style};
use crate::text::visible;
use crate::trust::TrustList;
use crate::workspace::check_inputs;

/// The files of a new workspace in addition to `rocmrpm.toml`. They are those of the project's own
/// quickstart example, so that there is only one copy.
const FILES: &[(&str, &str)] = &[
    ("mock-configs/host.toml", include_str!("../../examples/quickstart/mock-configs/host.toml")),
    (
        "mock-configs/fedora-43.toml",
        include_str!("../../examples/quickstart/mock-configs/fedora-43.toml"),
    ),
    (
        "mock-configs/mock.cfg.tera",
        include_str!("../../examples/quickstart/mock-configs/mock.cfg.tera"),
    ),
    (
        "mock-configs/rocm/host.toml",
        include_str!("../../examples/quickstart/mock-configs/rocm/host.toml"),
    ),
    (
        "mock-configs/rocm/fedora.toml",
        include_str!("../../examples/quickstart/mock-configs/rocm/fedora.toml"),
    ),
    (
        "mock-configs/rocm/amdrocm.toml",
        include_str!("../../examples/quickstart/mock-configs/rocm/amdrocm.toml"),
    ),
    (
        "specs-templates/_shared/header.tera",
        include_str!("../../examples/quickstart/specs-templates/_shared/header.tera"),
    ),
    (
        "specs-templates/_shared/build-env.tera",
        include_str!("../../examples/quickstart/specs-templates/_shared/build-env.tera"),
    ),
    (
        "specs-templates/_shared/edits.tera",
        include_str!("../../specs-templates/_shared/edits.tera"),
    ),
    (
        "specs-templates/_shared/device-packages.tera",
        include_str!("../../examples/quickstart/specs-templates/_shared/device-packages.tera"),
    ),
    ("upstreams.toml", include_str!("../../examples/quickstart/upstreams.toml")),
    (
        "pins/stable.toml",
        "# One table per component: version and source. `rocmrpm add NAME` adds one.\n",
    ),
    (".gitignore", "/build/\n"),
];

/// The folders whose files can contain code.
const FOLDERS: &[&str] = &["copr", "mock-configs", "pins", "specs-templates"];

pub(super) fn run(args: &args::Init, dir: &Path, shell: &Shell) -> CommandResult {
    let dir = &args.folder.as_ref().map_or_else(|| dir.to_owned(), |folder| dir.join(folder));
    let action = || IoError::doing(format!("create a workspace in `{}`", dir.display()));
    let targets = inspect::targets(&args.gpu_targets)?;
    fs_err::create_dir_all(dir).map_err(action())?;
    let root = fs_err::canonicalize(dir).map_err(action())?;
    if root.join("rocmrpm.toml").exists() {
        let message = format!("`{}` is already a workspace", root.display());
        return Err(
            Error::new(Kind::Usage, message).with_help("add a component with `rocmrpm add NAME`")
        );
    }
    check_inputs(&root)?;
    // Existing files may come from an untrusted source.
    let is_new = FOLDERS.iter().all(|name| !root.join(name).exists());
    let folder = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = args.name.clone().unwrap_or(folder);
    if !is_plain(&name) {
        let message = format!("`{}` is not a valid name for a stack", visible(&name));
        let error = Error::new(Kind::Usage, message);
        return Err(error
            .with_help("choose a name of letters, digits, and `-`: `rocmrpm init --name NAME`"));
    }
    let (chroot, reason) = default_chroot(args)?;
    let targets: Vec<String> = targets.iter().map(|target| format!("\"{target}\"")).collect();
    let manifest = format!(
        "[stack]\nname = {}\n# Every component is built for these; `gfx1151` is Strix Halo.\n\
         gpu-targets = [{}]\ndefault-chroot = \"{chroot}\"\ndefault-pins = \"stable\"\n\n\
         [wheels]\n# Where installed wheels find ROCm: \"system\" is the distribution's RPMs,\n\
         # \"rocm-sdk\" AMD's rocm-sdk wheels.\nrocm = \"system\"\n\n\
         [index]\n# Where requirements come from that the stack does not provide;\n\
         # \"pip\" is the index that pip uses on this machine.\noutside = [\"pip\"]\n",
        toml_edit::Value::from(name.as_str()),
        targets.join(", "),
    );
    for (path, text) in FILES {
        let to = root.join(path);
        // Existing files may be the user's work.
        if !to.exists() {
            files::write_atomically(&to, schemas::with_line(path, text)).map_err(action())?;
        }
    }
    schemas::write(&root).map_err(action())?;
    // Written last, because this file turns the folder into a workspace.
    let manifest = schemas::with_line("rocmrpm.toml", &manifest);
    files::write_atomically(&root.join("rocmrpm.toml"), manifest).map_err(action())?;
    if is_new && let Err(error) = TrustList::of_user().and_then(|list| list.add(&root)) {
        shell.warning(format!("{error}; commands will ask before running the workspace's code"));
    }
    shell.status(Style::Good, "Created", format!("the workspace `{name}` in {}", root.display()));
    shell.status(Style::Good, "Default", format!("chroot `{chroot}`{reason}"));
    let next = Style::Note.paint("next:");
    let enter = args.folder.as_ref().map(|folder| quote(&folder.to_string_lossy()));
    let enter = enter.map(|folder| format!("`cd {folder}`, then ")).unwrap_or_default();
    shell
        .talk(format!("\n{next} {enter}add a component: `rocmrpm add NAME`, then `rocmrpm build`"));
    Ok(0)
}

/// Returns the default chroot of a new workspace, and why it is chosen.
fn default_chroot(args: &args::Init) -> Result<(&str, &'static str), Error> {
    let known = || FILES.iter().filter_map(|(path, _)| chroot_of(path));
    match args.chroot.as_deref() {
        Some(name) if known().any(|known| known == name) => Ok((name, "")),
        Some(name) => {
            let message = format!("a new workspace has no chroot `{}`", visible(name));
            let known: Vec<&str> = known().collect();
            Err(Error::new(Kind::Usage, message)
                .with_help(format!("choose {}", known.join(" or "))))
        }
        None if find_program("mock").is_some() => Ok(("fedora-43", ": mock is installed")),
        None => Ok(("host", ": this machine, because mock is not installed")),
    }
}

/// Returns the chroot that a file of a workspace defines.
fn chroot_of(path: &str) -> Option<&str> {
    let name = path.strip_prefix("mock-configs/")?.strip_suffix(".toml")?;
    (!name.contains('/')).then_some(name)
}
