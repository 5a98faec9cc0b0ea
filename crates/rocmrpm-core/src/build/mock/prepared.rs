//! The build root of a component before a build, for `rocmrpm shell`: with all BuildRequires, and with
//! the sources as `%prep` leaves them. mock keeps the root until it builds the component.

use std::path::{Path, PathBuf};

use super::{BuildRoot, MockBuilder};
use crate::build::record::Results;
use crate::build::stage::Stage;
use crate::build::{BuildError, BuildLock, Builder, Job, lay_out, refresh_repository};
use crate::canonical::canonical;
use crate::digest::Sha256;
use crate::error::{Error, IoError};
use crate::events::{Event, Events, WorkPhase};
use crate::files;
use crate::machine;
use crate::names::ComponentName;
use crate::sources::{self, Fetcher};
use crate::spec::{self, History, Rendered};
use crate::stack::Stack;
use crate::workspace::{Component, Workspace};

/// The file with a digest of everything that the root was made from. It is written last.
const KEY: &str = "key";

/// Returns the folder for preparing a component's build root. A build removes it, because the root is
/// then that of the build.
pub(in crate::build) fn shell_dir(build_dir: &Path, component: &ComponentName) -> PathBuf {
    build_dir.join("shell").join(component.as_str())
}

/// Returns whether a component's build root is from [`prepare_root`], and not from a failed build.
pub fn is_prepared(workspace: &Workspace, component: &ComponentName) -> bool {
    shell_dir(&workspace.build_dir_of(component), component).exists()
}

/// Makes the build root of a component, unless it is up to date.
pub fn prepare_root(
    stack: &Stack<'_>,
    component: &Component,
    fetcher: &Fetcher<'_>,
    events: &dyn Events,
) -> Result<BuildRoot, Error> {
    let workspace = stack.workspace;
    let builder = MockBuilder::new(workspace);
    builder.ready()?;
    let lock = BuildLock::take(workspace)?;
    let spec = spec::render(stack, component, &History::read(workspace)?)?;
    let (repository, _) = refresh_repository(&lock, stack)?;
    let root = BuildRoot::of(workspace, &component.name);
    let dir = shell_dir(&workspace.build_dir_of(&component.name), &component.name);
    let key = key(stack, component, &spec, &builder.config(&repository)?)?.to_string();
    let is_current = fs_err::read_to_string(dir.join(KEY)).is_ok_and(|made| made == key);
    if is_current && root.path()?.is_some() {
        return Ok(root);
    }
    let job = Job {
        component,
        gpu_targets: stack.gpu_targets(component),
        spec: &spec,
        sources: dir.join("sources"),
        work: dir.join("build"),
        logs: dir.join("logs"),
        jobs: machine::cores(),
        timeout: None,
        repository,
        required: Vec::new(),
        enter: None,
        events,
    };
    let action = || IoError::doing(format!("prepare `{}`", dir.display()));
    files::remove_dir_if_there(&dir).map_err(action())?;
    for folder in [&job.sources, &job.work, &job.logs] {
        fs_err::create_dir_all(folder).map_err(action())?;
    }
    events.event(Event::Planned { total: 1, numbered_at_end: false });
    lay_out(fetcher, component, workspace.pin(component), &spec, &job.sources)?;
    let (name, detail) = (component.name.clone(), spec.file_name.clone());
    events.event(Event::Phase { component: name, phase: WorkPhase::Packing, detail });
    let srpm = builder.srpm(&job)?;
    prepare(&builder, &job, &srpm)?;
    files::write_atomically(&dir.join(KEY), key).map_err(action())?;
    Ok(root)
}

/// Returns a digest of everything that a root is made from.
fn key(
    stack: &Stack<'_>,
    component: &Component,
    spec: &Rendered,
    config: &str,
) -> Result<Sha256, Error> {
    let workspace = stack.workspace;
    let pin = workspace.pin(component);
    let mut patches = Vec::new();
    for patch in component.patches_for(&pin.version) {
        let path = component.dir.join(&patch.file_name);
        let (digest, _) = Sha256::of_file(&path).map_err(IoError::doing("read a patch"))?;
        patches.push(digest.to_string());
    }
    let mut required = Vec::new();
    for other in stack.with_required(&[component]).into_values() {
        if other.name != component.name {
            let build_dir = workspace.build_dir_of(&other.name);
            let record = Results::of(&build_dir, Stage::Rpm, &other.name).record()?;
            required.push(record.map(|record| record.key.to_string()));
        }
    }
    let sources = sources::identities(pin, &workspace.root)?;
    Ok(digest(&(spec.digest.to_string(), sources, patches, required, config)))
}

/// What a root is made from: the spec's digest, the identities of sources by name, the digests of patches,
/// the keys of required components, `None` for those that are not built, and mock's configuration.
type Inputs<'a> = (String, Vec<(String, String)>, Vec<String>, Vec<Option<String>>, &'a str);

fn digest(inputs: &Inputs<'_>) -> Sha256 {
    Sha256::of_bytes(canonical(inputs))
}

/// Installs the BuildRequires and runs `%prep`. mock's `--short-circuit` keeps the sources that
/// `%prep` made, and makes no packages.
fn prepare(builder: &MockBuilder<'_>, job: &Job<'_>, srpm: &Path) -> Result<(), BuildError> {
    let options = ["--short-circuit", "prep", "--no-cleanup-after"];
    builder.mock(job, "prep", &options, &[("--rebuild", srpm)])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_has_fixed_bytes() {
        let inputs: Inputs<'_> = (
            "aa".into(),
            vec![("source".into(), "sha256:00".into())],
            vec!["bb".into()],
            vec![Some("cc".into()), None],
            "config_opts['root'] = 'x'",
        );
        let bytes = r#"("aa", [("source", "sha256:00")], ["bb"], [Some("cc"), None], "config_opts['root'] = 'x'")"#;
        assert_eq!(canonical(&inputs), bytes);
        assert_eq!(digest(&inputs), Sha256::of_bytes(bytes));
    }
}
