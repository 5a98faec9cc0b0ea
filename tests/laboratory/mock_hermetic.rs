//! Tests hermetic and repeated builds with the real mock, using exactly the packages in the lock of
//! an earlier build. Requires ROCMRPM_LAB_MOCK to name a checkout of mock; see CONTRIBUTING.md.

use super::lab;
use super::support::{Parts, Workspace, names_in, template};

#[test]
#[ignore = "needs ROCMRPM_LAB_MOCK"]
fn rebuilds_with_exactly_the_locked_packages() {
    assert!(
        std::env::var_os("ROCMRPM_LAB_MOCK").is_some(),
        "ROCMRPM_LAB_MOCK does not name a checkout of mock"
    );
    let workspace = Workspace::small("laboratory-hermetic");
    workspace.component("base", &Parts::default());
    let top = Parts {
        toml: "requires = [\"base\"]\n",
        preamble: "BuildRequires: base",
        ..Parts::default()
    };
    workspace.component("top", &top);
    lab::hand_over(&workspace);
    let rocmrpm =
        |args: &[&str]| lab::rocmrpm(&workspace, &[args, &["--chroot", "fedora-43"]].concat());
    let hermetic = || rocmrpm(&["build", "--until", "rpm", "--hermetic", "top"]);

    hermetic().exits(3).reports(["no buildroot_lock.json found for `base`, `top`"]);
    rocmrpm(&["build", "--until", "rpm", "top"]).exits(0).reports(["2 built, 0 fresh"]);
    let results = workspace.path("build/fedora-43/results/top");
    let lock = std::fs::read(results.join("buildroot_lock.json")).unwrap();
    assert!(
        String::from_utf8_lossy(&lock).contains("/build/fedora-43/repository/base-1.0-1"),
        "{lock:?}"
    );

    let again = rocmrpm(&["reproduce", "top"]);
    again.exits(0).reports(["Reproduced top"]);
    assert!(again.stdout.contains("  identical\n"), "{again}");
    // Once everything is fetched, the cache is sufficient.
    rocmrpm(&["reproduce", "top", "--offline"]).exits(0);

    workspace.replace(&template("top"), "Summary:        A component", "Summary:        One");
    hermetic().exits(0).reports(["1 built, 1 fresh"]);
    assert_eq!(std::fs::read(results.join("buildroot_lock.json")).unwrap(), lock);
    assert!(names_in(&results.join("logs/rpm")).contains(&"build.log".to_owned()));

    // The stack's own package in the lock no longer exists.
    std::fs::remove_dir_all(workspace.path("../cache/buildroots")).unwrap();
    workspace.replace(&template("base"), "Summary:        A component", "Summary:        One");
    rocmrpm(&["build", "--until", "rpm", "base"]).exits(0);
    hermetic().exits(20).reports(["is no longer available: `base` was rebuilt from other inputs"]);
}
