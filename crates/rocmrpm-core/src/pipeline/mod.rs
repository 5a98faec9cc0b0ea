//! Keeps a stack current in one call: finds newer releases, moves the pins, checks, builds, proves and
//! publishes them to the channel `testing`. Every stage leaves a record of evidence, from which a later
//! run sees what is finished. The stages themselves are in the other modules of this crate.

mod build;
mod checks;
mod copr;
mod destination;
mod error;
mod installed;
mod newer;
mod notify;
mod place;
mod preview;
mod promote;
mod publish;
mod releases;
mod rollback;
mod stage;
mod status;
mod update;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::PipelineError;
pub use installed::record_installed;
pub use place::{branch, evidence_folder, folder};
pub use preview::{Preview, PreviewStage, preview};
pub use promote::check_tier;
pub use rollback::{Rollback, plan_rollback};
pub use status::{collect, page_of, read, tiers_of_results};

use crate::build::BuilderName;
use crate::error::{Error, Kind};
use crate::events::Events;
use crate::evidence::{Chain, Draft, EvidenceRecord, OpenQuestion};
use crate::sources::{Cache, Fetcher};
use crate::stack::KeyInputs;
use crate::workspace::{PipelineSettings, Selection, Workspace};
use place::PipelineFolders;
use stage::{Flow, When};

/// A stage of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PipelineStage {
    /// Brings the branch up to date.
    Branch,
    /// Finds newer releases.
    Newer,
    /// Moves the pins.
    Update,
    /// Locks the sources, and renders the container files.
    Lock,
    /// Compares the pins with upstream's files and each other.
    Check,
    /// Applies patches and edits.
    Patches,
    /// Finds downloads of builds.
    Audit,
    /// Renders the specs and plans the build.
    Plan,
    /// Builds and inspects.
    Build,
    /// Proves that the packages can be installed together.
    Proof,
    /// Verifies an installation of the packages in an empty root.
    Verify,
    /// Publishes to `testing`.
    Publish,
}

impl PipelineStage {
    /// All stages, in their order.
    pub const ALL: [Self; 12] = [
        Self::Branch,
        Self::Newer,
        Self::Update,
        Self::Lock,
        Self::Check,
        Self::Patches,
        Self::Audit,
        Self::Plan,
        Self::Build,
        Self::Proof,
        Self::Verify,
        Self::Publish,
    ];

    /// Returns the name of the stage in records and output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Branch => "branch",
            Self::Newer => "newer",
            Self::Update => "update",
            Self::Check => "check",
            Self::Patches => "patches",
            Self::Audit => "audit",
            Self::Lock => "lock",
            Self::Plan => "plan",
            Self::Build => "build",
            Self::Proof => "proof",
            Self::Verify => "verify",
            Self::Publish => "publish",
        }
    }

    /// Returns whether the stage concerns the whole set; otherwise it runs for each chroot.
    pub fn is_of_set(self) -> bool {
        matches!(self, Self::Branch | Self::Newer | Self::Update | Self::Lock)
    }
}

/// What builds the packages of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelineBuilder {
    /// This machine; `None` for the chroot's default.
    Local(Option<BuilderName>),
    /// COPR, in the project that `copr/project.toml` describes.
    Copr,
}

impl Default for PipelineBuilder {
    fn default() -> Self {
        Self::Local(None)
    }
}

/// What a pipeline works on, and how.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The pin set; `None` for the workspace's default.
    pub pins: Option<String>,
    /// The chroots; the workspace's default if empty.
    pub chroots: Vec<String>,
    /// What builds.
    pub builder: PipelineBuilder,
    /// The time limit of each build; `None` for those of the components.
    pub timeout: Option<Duration>,
    /// Whether to use only the cache.
    pub offline: bool,
}

/// How a pipeline ended.
#[derive(Debug)]
pub enum End {
    /// All stages passed.
    Done,
    /// A person has to decide before the stage can pass.
    Question {
        /// The stage.
        stage: PipelineStage,
        /// The chroot, if the stage is about one.
        chroot: Option<String>,
        /// What is to be decided.
        question: OpenQuestion,
    },
}

/// The parts of a running pipeline.
struct Pipeline<'a> {
    request: &'a Request,
    settings: &'a PipelineSettings,
    place: &'a PipelineFolders,
    /// The user's workspace, to which destinations are relative.
    home: &'a Path,
    pins: &'a str,
    chroots: &'a [String],
    events: &'a dyn Events,
}

impl Pipeline<'_> {
    /// Loads the workspace of the branch with a chroot.
    fn workspace(&self, chroot: &str) -> Result<Workspace, Error> {
        let selection = Selection {
            chroot: Some(chroot.to_owned()),
            pins: Some(self.pins.to_owned()),
            ..Selection::default()
        };
        Ok(Workspace::load(&self.place.root, &selection)?)
    }

    /// Loads the workspace with the first chroot, for stages of the set.
    fn first_workspace(&self) -> Result<Workspace, Error> {
        self.workspace(self.chroots.first().map_or("", String::as_str))
    }

    fn fetcher<'f>(
        &'f self,
        workspace: &'f Workspace,
        events: &'f dyn Events,
    ) -> Result<Fetcher<'f>, Error> {
        let cache = Cache::from_env()?;
        Ok(Fetcher::new(cache, &workspace.root, events).offline(self.request.offline))
    }
}

/// Runs the pipeline of a pin set, from the stage at which the last run stopped. `dir` is in the
/// workspace. Failures of a stage are recorded, and then returned.
pub fn run(dir: &Path, request: &Request, events: &dyn Events) -> Result<End, Error> {
    let workspace = home_workspace(dir, request)?;
    let pins = workspace.pins.name.clone();
    let chroots = chosen(&workspace, request)?;
    if request.builder == PipelineBuilder::Copr {
        chroots.iter().try_for_each(|name| copr::project_of(&workspace, name).map(drop))?;
    }
    let settings = PipelineSettings::load(&workspace.root)?;
    let place = PipelineFolders::open(&workspace)?;
    let mut chain = Chain::read(&evidence_folder(&workspace.root, &pins), &pins)?;
    let pipeline = Pipeline {
        request,
        settings: &settings,
        place: &place,
        home: &workspace.root,
        pins: &pins,
        chroots: &chroots,
        events,
    };
    let before = chain.links().len();
    let end = pipeline.walk(&mut chain);
    let (of, new) = ((workspace.root.as_path(), pins.as_str()), (&chain, before));
    notify::notify(&settings.notify, of, &end, new, events);
    end
}

impl Pipeline<'_> {
    fn walk(&self, chain: &mut Chain) -> Result<End, Error> {
        for stage in PipelineStage::ALL {
            let of: Vec<Option<&str>> = match stage.is_of_set() {
                true => vec![None],
                false => self.chroots.iter().map(|name| Some(name.as_str())).collect(),
            };
            for chroot in of {
                crate::process::check_stop()?;
                if let Flow::Stop(question) = self.stage(stage, chroot, chain)? {
                    let chroot = chroot.map(str::to_owned);
                    return Ok(End::Question { stage, chroot, question });
                }
            }
        }
        Ok(End::Done)
    }

    fn stage(
        &self,
        stage: PipelineStage,
        chroot: Option<&str>,
        chain: &mut Chain,
    ) -> Result<Flow, Error> {
        let events = self.events;
        let of = chroot.unwrap_or_default();
        match stage {
            PipelineStage::Branch => {
                let question = self.place.prepare(self.pins)?;
                let known = chain.last(stage.name(), None).is_none_or(EvidenceRecord::is_done);
                if question.is_none() && known {
                    return Ok(Flow::Continue);
                }
                let inputs = (KeyInputs::default(), When::Always);
                stage::run(stage, None, inputs, chain, events, |draft, _| {
                    draft.summary = "the branch is up to date".to_owned();
                    draft.question = question;
                    Ok(false)
                })
            }
            PipelineStage::Newer => self.newer(chain),
            PipelineStage::Update => self.update(chain),
            PipelineStage::Check => self.check(of, chain),
            PipelineStage::Patches => self.patches(of, chain),
            PipelineStage::Audit => self.audit(of, chain),
            PipelineStage::Lock => self.lock(chain),
            PipelineStage::Plan => self.plan(of, chain),
            PipelineStage::Build => self.build(of, chain),
            PipelineStage::Proof => self.proof(of, chain),
            PipelineStage::Verify => self.verify(of, chain),
            PipelineStage::Publish => self.publish(of, chain),
        }
    }
}

/// Accepts the open questions of a pin set that need no change of a file. Returns them.
pub fn accept(dir: &Path, request: &Request, reason: &str) -> Result<Vec<OpenQuestion>, Error> {
    let workspace = home_workspace(dir, request)?;
    let pins = &workspace.pins.name;
    // No run may be between two stages.
    let _place = PipelineFolders::open(&workspace)?;
    let mut chain = Chain::read(&evidence_folder(&workspace.root, pins), pins)?;
    let open: Vec<EvidenceRecord> = chain.open_questions().into_iter().cloned().collect();
    let mut accepted = Vec::new();
    for record in open {
        let Some(question) = record.question.filter(|question| question.acceptable) else {
            continue;
        };
        let stage = PipelineStage::ALL.into_iter().find(|stage| stage.name() == record.stage);
        let Some(stage) = stage else { continue };
        let mut draft = Draft::new(stage.name(), record.chroot.as_deref(), record.inputs);
        draft.summary.clone_from(&question.what);
        if !reason.is_empty() {
            draft.details.push(reason.to_owned());
        }
        draft.accept(&mut chain)?;
        accepted.push(question);
    }
    if accepted.is_empty() {
        let message = format!("the pipeline of `{pins}` has no question that can be accepted");
        return Err(Error::new(Kind::Usage, message).with_help(format!(
            "run `rocmrpm pipeline status --pins {pins}` to see where it stopped"
        )));
    }
    Ok(accepted)
}

/// Returns the folder of the workspace with the chosen pin set, and the pin set's name.
pub fn locate(dir: &Path, pins: Option<&str>) -> Result<(PathBuf, String, String), Error> {
    let request = Request { pins: pins.map(str::to_owned), ..Request::default() };
    let workspace = home_workspace(dir, &request)?;
    Ok((workspace.root, workspace.pins.name, workspace.manifest.name))
}

fn home_workspace(dir: &Path, request: &Request) -> Result<Workspace, Error> {
    let selection = Selection {
        pins: request.pins.clone(),
        chroot: request.chroots.first().cloned(),
        ..Selection::default()
    };
    Ok(Workspace::load(dir, &selection)?)
}

/// Returns the names of the chosen chroots, each once.
fn chosen(workspace: &Workspace, request: &Request) -> Result<Vec<String>, Error> {
    let mut chroots = vec![workspace.chroot.name.clone()];
    for name in &request.chroots {
        let known = || workspace.all_chroots().map(|chroot| chroot.name.clone()).collect();
        if !workspace.all_chroots().any(|chroot| chroot.name == *name) {
            return Err(crate::workspace::WorkspaceError::Unknown {
                kind: "chroot",
                name: name.clone(),
                known: known(),
            }
            .into());
        }
        if !chroots.contains(name) {
            chroots.push(name.clone());
        }
    }
    Ok(chroots)
}
