//! The stage that publishes: packages to the repository, wheels to the channel `testing` of the index,
//! and the evidence beside both.

use super::build::{add_packages, all_results};
use super::copr::OnCopr;
use super::destination::open;
use super::place::evidence_folder;
use super::rollback::taken_back;
use super::stage::{self, Flow, When};
use super::{Pipeline, PipelineBuilder, PipelineStage};
use crate::build::BuildLock;
use crate::error::Error;
use crate::events::Event;
use crate::evidence::{
    Bundle, Chain, ComponentEvidence, Draft, OpenQuestion, evidence_page, imported,
};
use crate::foreign;
use crate::index::change::plan_add;
use crate::index::place::Page;
use crate::production::tracked_index;
use crate::publishing::{
    PlannedPackages, apply_packages, apply_wheels, check_dirty, made_wheels, plan_packages,
    sign_wheels, upload_time,
};
use crate::rpms::signing::Signer;
use crate::sources::{Cache, Fetcher};
use crate::stack::{KeyInputs, Stack};
use crate::style::count;
use crate::workspace::Workspace;

/// The channel that a pipeline publishes to.
const CHANNEL: &str = "testing";

/// The folder of evidence in a destination.
const EVIDENCE: &str = "evidence";

impl Pipeline<'_> {
    /// Publishes the packages and wheels of a chroot, and its evidence.
    pub(super) fn publish(&self, chroot: &str, chain: &mut Chain) -> Result<Flow, Error> {
        let settings = self.settings;
        let repository = settings.repository.as_ref().map(|to| to.replace("{chroot}", chroot));
        let destinations = [settings.index.clone(), repository];
        let on_copr = self.request.builder == PipelineBuilder::Copr;
        if destinations.iter().all(Option::is_none) && !on_copr {
            return Ok(Flow::Continue);
        }
        let workspace = self.workspace(chroot)?;
        let stack = Stack::new(&workspace)?;
        let components = all_results(&stack)?;
        let mut inputs = KeyInputs::default();
        add_packages(&mut inputs, &components);
        for (what, to) in ["index", "repository"].into_iter().zip(&destinations) {
            if let Some(to) = to {
                inputs.add(what, to);
            }
        }
        let [index, repository] = &destinations;
        let always = (inputs, When::Always);
        let stage = PipelineStage::Publish;
        let flow = stage::run(stage, Some(chroot), always, chain, self.events, |draft, chain| {
            if (repository.is_some() || on_copr)
                && let Some(question) = self.publishes_again(&components, chain, chroot)
            {
                draft.question = Some(question);
                return Ok(false);
            }
            let lock = BuildLock::take(&workspace)?;
            let mut done = Vec::new();
            if on_copr {
                match self.publish_on_copr(&workspace)? {
                    OnCopr::Published => done.push("all builds on COPR".to_owned()),
                    OnCopr::Unchanged => {}
                    OnCopr::Question(question) => {
                        draft.question = Some(question);
                        return Ok(false);
                    }
                }
            }
            if let Some(to) = repository {
                done.extend(self.publish_packages(&stack, to, &lock, draft)?);
            }
            if let Some(to) = index {
                done.extend(self.publish_wheels(&stack, to, &lock, draft)?);
            }
            draft.summary = match done.is_empty() {
                true => "everything is published".to_owned(),
                false => done.join(", "),
            };
            draft.components = components;
            Ok(!done.is_empty())
        })?;
        for to in destinations.iter().flatten() {
            self.attach(to, chroot, &workspace, chain)?;
        }
        Ok(flow)
    }

    /// Publishes a chroot's packages; returns what was published.
    fn publish_packages(
        &self,
        stack: &Stack<'_>,
        to: &str,
        lock: &BuildLock,
        draft: &mut Draft,
    ) -> Result<Option<String>, Error> {
        let target = open(self.home, self.settings, to)?;
        let PlannedPackages { change, signed } = plan_packages(&target, stack, lock, false)?;
        let mut done = None;
        if !change.is_empty() {
            draft.details.extend(change.added.iter().map(|one| one.file.clone()));
            apply_packages(&target, &change)?;
            done = Some(format!("{} to {to}", count(change.added.len(), "new package")));
        }
        if !signed {
            draft.details.push("packages and metadata are unsigned".to_owned());
        }
        Ok(done)
    }

    /// Publishes a chroot's wheels, and the foreign ones that a closed index has; returns what was
    /// published.
    fn publish_wheels(
        &self,
        stack: &Stack<'_>,
        to: &str,
        lock: &BuildLock,
        draft: &mut Draft,
    ) -> Result<Option<String>, Error> {
        let workspace = stack.workspace;
        let wheels = made_wheels(lock, stack, self.events)?;
        if wheels.is_empty() {
            return Ok(None);
        }
        let fetcher = Fetcher::new(Cache::from_env()?, &workspace.root, self.events);
        let foreign = foreign::wheels(workspace, &wheels, &fetcher, self.events)?;
        let target = open(self.home, self.settings, to)?;
        let (time, tracks) = (upload_time()?, tracked_index(workspace)?);
        let (channel, tracks) = (Some(CHANNEL), tracks.as_deref());
        let mut change = plan_add(target.place(), channel, &wheels, &foreign, Some(time), tracks)?;
        for file in check_dirty(&change)? {
            self.events.event(Event::Warning(format!("{file} comes from a dirty build")));
        }
        sign_wheels(&target, &mut change, Some(&workspace.manifest))?;
        draft.details.extend(change.notes.iter().map(ToString::to_string));
        apply_wheels(&target, &change)?;
        let changed = !change.pages.is_empty() || !change.packages.is_empty();
        let files = count(change.notes.len(), "wheel");
        Ok(changed.then(|| format!("{files} to {CHANNEL} of {to}")))
    }

    /// Returns the question whether to publish packages that a rollback took back.
    fn publishes_again(
        &self,
        components: &[ComponentEvidence],
        chain: &Chain,
        chroot: &str,
    ) -> Option<OpenQuestion> {
        let taken_back = taken_back(chain, chroot);
        let all = components.iter().flat_map(|component| &component.packages);
        let package = all.into_iter().find(|package| taken_back.contains(&package.header))?;
        Some(OpenQuestion {
            what: format!("{} was rolled back, and is not published again", package.file),
            help: format!(
                "skip or fix the release; to publish it again, run `rocmrpm pipeline accept --pins {}`",
                self.pins
            ),
            acceptable: true,
        })
    }

    /// Writes the evidence of the set to a destination, unless it is there: all records, signed if
    /// the workspace has a key, and the page of the chroot.
    fn attach(
        &self,
        to: &str,
        chroot: &str,
        workspace: &Workspace,
        chain: &Chain,
    ) -> Result<(), Error> {
        let target = open(self.home, self.settings, to)?;
        let manifest = &workspace.manifest;
        let bundle = Bundle::of(chain, &manifest.name, self.pins).bytes();
        let path = |end: &str| format!("{EVIDENCE}/{}.{end}", self.pins);
        let there = target.place().read(&[path("json")])?.into_iter().flatten().next();
        if there.as_deref() == Some(&bundle[..]) {
            return Ok(());
        }
        let page = |path: String, bytes: Vec<u8>, media_type| Page { path, bytes, media_type };
        let imported = imported(&evidence_folder(self.home, self.pins), &manifest.name, self.pins)?;
        let html = evidence_page(chain, &imported, &manifest.name, self.pins, chroot);
        let mut pages =
            vec![page(format!("{EVIDENCE}/{}.{chroot}.html", self.pins), html.into(), "text/html")];
        if let Some(key) = &manifest.signing_key {
            let signature = Signer::find(key, &manifest.name)?.sign(&bundle)?;
            pages.push(page(path("json.asc"), signature, "application/pgp-signature"));
        }
        pages.push(page(path("json"), bundle, "application/json"));
        target.change(|place| place.put_pages(&pages))
    }
}
