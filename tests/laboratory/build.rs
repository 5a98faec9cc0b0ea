//! Builds the small workspace with rpmbuild in the laboratory, once for all tests: the
//! prerequisites on an RPM-based machine, and the contents of the packages.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::lab;
use super::support::{Ran, Workspace, names_in, text_of};

const BUILD: [&str; 5] = ["build", "--chroot", "fedora-43", "--builder", "host"];

/// Creates the key that signs packages and metadata.
const KEY: &str = "install -d -m 700 $GNUPGHOME; gpg --batch --quiet --passphrase '' \
     --quick-generate-key 'Laboratory <laboratory@example.org>' rsa3072 sign never";

/// The workspace, and the output of its build.
pub struct Small {
    pub workspace: Workspace,
    run: Ran,
    /// Locks the folder against other test programs.
    _lock: std::fs::File,
}

impl Small {
    /// Returns a path in the chroot's build folder.
    pub fn built(&self, path: impl AsRef<Path>) -> PathBuf {
        self.workspace.path("build/fedora-43").join(path)
    }
}

/// Returns the built workspace. Its components require each other's packages, which the user cannot
/// install.
pub fn small() -> &'static Small {
    static SMALL: OnceLock<Small> = OnceLock::new();
    SMALL.get_or_init(|| {
        let store = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let lock = std::fs::File::create(store.join("laboratory-small.lock")).unwrap();
        lock.lock().unwrap();
        let workspace = Workspace::small("laboratory-small");
        let stack = workspace.read("rocmrpm.toml");
        workspace.write(
            "rocmrpm.toml",
            format!("{stack}\n[signing]\nkey = \"laboratory@example.org\"\n"),
        );
        lab::hand_over(&workspace);
        lab::script(&workspace, KEY).exits(0);
        let run = lab::rocmrpm(&workspace, &BUILD);
        run.exits(0);
        Small { workspace, run, _lock: lock }
    })
}

#[test]
fn rpm_6_builds_the_small_workspace() {
    let Small { workspace, run, .. } = small();
    run.reports([
        "Built vecsum 2 RPMs",
        "Built vecsum-python 3 RPMs",
        "Built vecsum-report 1 RPM",
        "Indexed 2 distributions",
        "Finished 3 built, 0 fresh",
    ]);
    let results = small().built("results");
    let rpms = |component| {
        let files = names_in(&results.join(component)).into_iter();
        files
            .filter(|file| file.ends_with(".rpm") && !file.ends_with(".src.rpm"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        rpms("vecsum"),
        ["vecsum-1.2.0-1.fc43.x86_64.rpm", "vecsum-devel-1.2.0-1.fc43.x86_64.rpm"]
    );
    assert!(rpms("vecsum-python").contains(&"python3-vecsum-0.3.0-1.fc43.x86_64.rpm".to_owned()));
    assert_eq!(rpms("vecsum-report"), ["python3-vecsum-report-2.0.1-1.fc43.noarch.rpm"]);

    // rpm's own description of the packages.
    let query = lab::root(
        workspace,
        "cd build/fedora-43/results && rpm -qp --qf '%{NAME} by rpm %{RPMVERSION}\\n' */*.rpm\n\
         rpm -qp --provides vecsum/vecsum-1*.x86_64.rpm\n\
         rpm -qp --requires vecsum/vecsum-1*.x86_64.rpm vecsum-python/python3-vecsum-0*.rpm vecsum-report/*.noarch.rpm\n\
         rpmkeys --checksig --nosignature */*.rpm",
    );
    let stdout = &query.exits(0).stdout;
    assert!(
        stdout
            .lines()
            .filter(|line| line.contains(" by rpm "))
            .all(|line| line.contains(" by rpm 6.")),
        "{stdout}"
    );
    for line in [
        "libvecsum.so.1()(64bit)",
        "rocm-gfx(gfx1151)",
        "libamdhip64.so.6()(64bit)",
        "python(abi) = 3.14",
        "python3.14dist(vecsum) >= 0.3",
        "vecsum >= 1.2.0",
    ] {
        assert!(stdout.lines().any(|found| found == line), "no {line}: {stdout}");
    }
}

#[test]
fn finds_the_kernel_for_gfx1151_and_a_second_run_builds_nothing() {
    let small = small();
    let library = "build/fedora-43/results/vecsum/vecsum-1.2.0-1.fc43.x86_64.rpm";
    let report =
        lab::rocmrpm(&small.workspace, &["inspect", "--json", "--deep", library]).exits(0).json();
    let file = &report["subjects"][0]["files"][0];
    assert_eq!(text_of(&file["elf"]["soname"]), "libvecsum.so.1", "{report}");
    assert_eq!(file["device"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(text_of(&file["device"][0]["target"]), "gfx1151", "{report}");
    assert_eq!(file["device"][0]["kernels"], 1, "{report}");

    let again = lab::rocmrpm(&small.workspace, &BUILD);
    again.exits(0).reports(["Finished 0 built, 3 fresh"]).never_reports("Built");
    let plan = lab::rocmrpm(
        &small.workspace,
        &["plan", "--chroot", "fedora-43", "--builder", "host", "--json"],
    )
    .exits(0)
    .json();
    let steps = plan["steps"].as_array().unwrap();
    assert!(steps.len() == 3 && steps.iter().all(|step| step["plan"] == "fresh"), "{plan}");
}
