//! A small workspace for COPR: `app` requires `lib`; `other` is independent.

use serde_json::Value;

use crate::site::{Copr, TOKEN};
use crate::support::documents;
use crate::support::{Parts, Ran, Running, Workspace, ran};
use crate::users::{Packages, downloads, packages_in};

pub const PROJECT: &str = "alice/rocm";
pub const CHROOT: &str = "fedora-43-x86_64";
pub const PROJECT_TOML: &str = "copr/project.toml";

/// A minimal definition of Fedora 43 for these packages.
const FEDORA: &str = "release = \"43\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc43\"\n\
                      rocm-provider = \"host\"\nbase-config = \"fedora-43-x86_64.cfg\"\n";

/// A workspace and the COPR that builds it.
pub struct Stack {
    pub copr: Copr,
    pub workspace: Workspace,
}

impl Stack {
    /// Creates both, without a project.
    pub fn new() -> Self {
        let (copr, workspace) = (Copr::start(), Workspace::new());
        workspace.write("mock-configs/fedora-43.toml", FEDORA);
        let project = format!(
            "owner = \"alice\"\nproject = \"rocm\"\nchroots = [\"{CHROOT}\"]\n\
             description = \"\"\"\n# ROCm for gfx1151\n\nlib <{{ versions.lib }}>\n\"\"\"\n\
             instructions = \"dnf copr enable {PROJECT}\"\n"
        );
        workspace.write(PROJECT_TOML, project);
        for (name, toml) in [("lib", ""), ("app", "requires = [\"lib\"]\n"), ("other", "")] {
            // If the macro `broken` is defined, the package contains an invalid file.
            let install = format!(
                "install -Dpm 644 hello %{{buildroot}}%{{_datadir}}/{name}/hello\n\
                 %{{?broken:printf '\\177ELF\\2\\1\\1' > %{{buildroot}}%{{_datadir}}/{name}/lib{name}.so}}"
            );
            workspace.component(name, &Parts { toml, install: &install, ..Parts::default() });
        }
        Self { copr, workspace }
    }

    /// Creates both, and the project.
    pub fn synced() -> Self {
        let stack = Self::new();
        stack.run(&["copr", "sync"]).exits(0);
        stack
    }

    /// Commits the workspace so that releases reflect the commit.
    pub fn commit(&self) {
        let git = "git -c user.name=T -c user.email=t@example.com -c commit.gpgsign=false";
        let line = format!(
            "git init -q . && printf 'build/\\n' > .gitignore && git add . && {git} commit -qm One"
        );
        self.workspace.shell(&line).exits(0);
    }

    /// Runs rocmrpm and checks that its output never contains the token.
    pub fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.workspace.command(args);
        self.copr.settle(&mut command);
        let ran = ran(&mut command);
        assert_no_token(&ran);
        ran
    }

    pub fn push(&self) -> Ran {
        self.run(&["copr", "push"])
    }

    /// Starts rocmrpm without waiting for it.
    pub fn start(&self, args: &[&str]) -> Running {
        self.workspace.start_with(args, |command| self.copr.settle(command))
    }

    /// Returns `component plan` for everything that a push would do.
    pub fn plan(&self) -> Vec<String> {
        let document =
            self.run(&["copr", "push", "--dry-run", "--json"]).document("rocmrpm/copr-push/2");
        let steps = document["chroots"][0]["steps"].as_array().unwrap().clone();
        let text = |step: &Value, key: &str| step[key].as_str().unwrap().to_owned();
        steps
            .iter()
            .map(|step| format!("{} {}", text(step, "component"), text(step, "plan")))
            .collect()
    }

    /// Returns the packages in the metadata that users see.
    pub fn published(&self) -> Vec<String> {
        let repository = self.copr.path("server/results").join(PROJECT).join(CHROOT);
        let repodata = repository.join("repodata");
        let names = rocmrpm::files::names_in(&repodata).unwrap();
        let Some(primary) = names.iter().find(|name| name.ends_with("-primary.xml.gz")) else {
            return Vec::new();
        };
        let bytes = std::fs::read(repodata.join(primary)).unwrap_or_default();
        let mut text = String::new();
        let mut gz = flate2::read::MultiGzDecoder::new(bytes.as_slice());
        std::io::Read::read_to_string(&mut gz, &mut text).unwrap();
        let hrefs =
            text.split("<location href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let mut files: Vec<String> =
            hrefs.filter(|href| !href.ends_with(".src.rpm")).map(str::to_owned).collect();
        files.sort();
        files
    }

    /// Returns the packages of a component that passed inspection.
    pub fn accepted_packages(&self, component: &str) -> Packages {
        assert!(self.accepted(component), "{component}");
        packages_in(&self.workspace.path("build/fedora-43/results").join(component))
    }

    /// Checks that users get exactly the accepted packages with dnf, byte for byte.
    #[track_caller]
    pub fn assert_users_get(&self, components: &[&str]) {
        self.assert_from("", components);
    }

    /// Checks the same for the build root of a component that requires these.
    #[track_caller]
    pub fn assert_dependents_get(&self, components: &[&str]) {
        self.assert_from("devel/", components);
    }

    #[track_caller]
    fn assert_from(&self, folder: &str, components: &[&str]) {
        let url = format!("{}/backend/results/{PROJECT}/{CHROOT}/{folder}", self.copr.url);
        let expected: Packages =
            components.iter().flat_map(|name| self.accepted_packages(name)).collect();
        assert!(expected.len() >= components.len());
        // COPR generates metadata asynchronously.
        let mut got = Packages::new();
        for _ in 0..50 {
            got = downloads(&url, &self.copr.ca(), components);
            if got == expected {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        let names = |packages: &Packages| packages.keys().cloned().collect::<Vec<_>>();
        panic!("dnf downloads {:?}, but {:?} were accepted", names(&got), names(&expected));
    }

    /// Returns whether a component's results exist, inspected and accepted.
    pub fn accepted(&self, component: &str) -> bool {
        let results = self.workspace.path("build/fedora-43/results").join(component);
        let accepted =
            results.join("build.json").exists() && results.join("inspection.json").exists();
        if accepted {
            documents::read(&results.join("logs/copr.json"), "rocmrpm/copr-origin/2");
        }
        accepted
    }
}

#[track_caller]
pub fn assert_no_token(ran: &Ran) {
    assert!(!ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN), "the token is shown");
}
