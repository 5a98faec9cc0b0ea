//! What rocmrpm reads from COPR: the project, its builds and chroots, and folders of results. Does not
//! change anything.

use std::collections::BTreeMap;

use serde_json::Value;

use super::client::{Client, MAX_OUTPUT, curl, require_https};
use super::error::{CoprError, RESULT_URL};
use super::settings::DEFAULT;
use super::state::{Build, BuildState};
use crate::process::last_lines;

/// Seconds between retries while waiting for a build, which may take a day: half an hour in all.
const LONG_PAUSES: &[u64] = &[2, 4, 8, 16, 32, 60, 120, 240, 480, 840];

impl Client<'_> {
    /// Reads the builds of the project's packages, newest first. Leaves out those whose SRPM COPR
    /// has not read yet.
    pub fn builds(&self) -> Result<Vec<Build>, CoprError> {
        #[derive(serde::Deserialize)]
        struct Package {
            #[serde(default)]
            builds: Vec<Build>,
        }
        let packages: Vec<Package> = self.list("list-packages", &["--with-all-builds"])?;
        let mut builds: Vec<Build> =
            packages.into_iter().flat_map(|package| package.builds).collect();
        builds.sort_by_key(|build| std::cmp::Reverse(build.id));
        Ok(builds)
    }

    /// Reads the numbers and states of the builds whose SRPM COPR has not read yet.
    pub fn nameless(&self) -> Result<Vec<(u64, BuildState)>, CoprError> {
        #[derive(serde::Deserialize)]
        struct BuildRow {
            id: u64,
            name: Option<String>,
            state: BuildState,
        }
        let rows: Vec<BuildRow> = self.list("list-builds", &[])?;
        let nameless = rows.into_iter().filter(|row| row.name.is_none() && !row.state.is_over());
        Ok(nameless.map(|row| (row.id, row.state.of_source())).collect())
    }

    /// Reads the name of the file that a build was uploaded as; `None` if it was not uploaded. COPR
    /// reports it immediately.
    pub(super) fn source_file(&self, build: u64) -> Result<Option<String>, CoprError> {
        let path = format!("build/source-build-config/{build}");
        let answer = self.api(&format!("look up the source of build {build}"), &path, &[])?;
        let file =
            answer.as_ref().and_then(|answer| answer.get("source_dict")?.get("pkg")?.as_str());
        Ok(file.map(str::to_owned))
    }

    /// Reads the project; `None` if it does not exist.
    pub(super) fn project_settings(&self) -> Result<Option<Value>, CoprError> {
        let (owner, name) = self.project().split_once('/').unwrap_or((self.project(), ""));
        self.api("read the project", "project", &[("ownername", owner), ("projectname", name)])
    }

    /// Reads the result URLs of the project's chroots by name. The URLs have a trailing slash.
    pub(super) fn chroots(&self) -> Result<BTreeMap<String, String>, CoprError> {
        let project = self.project_settings()?;
        let chroots = project.as_ref().and_then(|project| project.get("chroot_repos")?.as_object());
        let chroot = |(name, url): (&String, &Value)| {
            let url = format!("{}/", url.as_str()?.trim_end_matches('/'));
            Some((name.clone(), url))
        };
        Ok(chroots.into_iter().flatten().filter_map(chroot).collect())
    }

    /// Lists a folder of results; empty if it does not exist. Names of folders have a trailing
    /// slash.
    pub(super) fn files_at(&self, url: &str) -> Result<Vec<String>, CoprError> {
        require_https(RESULT_URL, url)?;
        let text = self.folder_page(url)?;
        let links = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        Ok(links.map(|link| link.trim_start_matches("./").to_owned()).collect())
    }

    /// Reads the page of a folder; empty if the folder does not exist.
    fn folder_page(&self, url: &str) -> Result<String, CoprError> {
        #[cfg(test)]
        if let Some(answers) = &self.answers {
            return answers(url);
        }
        let what = format!("list {url}");
        self.retried(|| {
            let done = curl(url, MAX_OUTPUT).args(["--write-out", "\n%{http_code}"]).run()?;
            let text = String::from_utf8_lossy(&done.stdout);
            let (body, status) = text.rsplit_once('\n').unwrap_or(("", &text));
            let reported = match status {
                "200" if done.success() => return Ok(body.to_owned()),
                "404" => return Ok(String::new()),
                _ if !done.success() => last_lines(&done.stderr, 1).concat(),
                status => format!("HTTP status {status}"),
            };
            Err(CoprError::Server { what: what.clone(), url: self.url().to_owned(), reported })
        })
    }

    /// Checks that COPR accepts the token, before packing anything. `copr-cli whoami` only prints
    /// the configuration; this is the cheapest call of copr-cli that logs in. It passes even if the
    /// user may not see permissions.
    pub fn check_login(&self) -> Result<(), CoprError> {
        match self.cli("log in", &["list-permissions".to_owned(), self.project().to_owned()]) {
            Err(CoprError::Forbidden { .. } | CoprError::Refused { .. }) => Ok(()),
            other => other.map(drop),
        }
    }

    fn list<T: serde::de::DeserializeOwned>(
        &self,
        action: &str,
        args: &[&str],
    ) -> Result<Vec<T>, CoprError> {
        let mut words = vec![action.to_owned(), self.project().to_owned()];
        words.extend(["--output-format".to_owned(), "json".to_owned()]);
        words.extend(args.iter().map(|arg| (*arg).to_owned()));
        let text = self.cli("list the builds", &words)?;
        // copr-cli prints nothing for an empty list.
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        serde_json::from_str(&text).map_err(|error| CoprError::Answer {
            asked: self.command(&[action]),
            why: error.to_string(),
        })
    }

    /// Reads a build's state, retrying for half an hour; `None` if the build does not exist.
    /// `copr-cli status` does not show whether COPR has read the SRPM.
    pub fn state(&self, build: u64) -> Result<Option<BuildState>, CoprError> {
        let (what, path) = (format!("read the state of build {build}"), format!("build/{build}"));
        let answer = self.retried_after(LONG_PAUSES, || self.api_once(&what, &path, &[]))?;
        let build: Option<Build> = answer
            .map(serde_json::from_value)
            .transpose()
            .map_err(|error| CoprError::Answer { asked: path, why: error.to_string() })?;
        Ok(build.map(|build| build.state))
    }

    /// Reads the bootstrap that a chroot has for a build, its own or the project's; `None` if there
    /// is no such build. COPR shows it nowhere else. Source: COPR, apiv3_build_chroots.py,
    /// `build_config`.
    pub(super) fn bootstrap(&self, build: u64, chroot: &str) -> Result<Option<String>, CoprError> {
        let what = format!("read the bootstrap of the chroot `{chroot}`");
        let query = [("build_id", &*build.to_string()), ("chrootname", chroot)];
        let answer = self.api(&what, "build-chroot/build-config", &query)?;
        let bootstrap = |answer: Value| Some(answer.get("bootstrap")?.as_str()?.to_owned());
        Ok(answer.map(|answer| bootstrap(answer).unwrap_or_else(|| DEFAULT.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Silent;

    #[test]
    fn project_without_builds_is_an_empty_list() {
        for (answer, expected) in [("", Some(0)), ("\n", Some(0)), ("[]", Some(0)), ("{", None)] {
            let client = Client::answering("@g/p", &Silent, Box::new(|_| Ok(answer.to_owned())));
            assert_eq!(client.builds().ok().map(|builds| builds.len()), expected, "{answer:?}");
        }
    }
}
