//! Tests a small component whose Python closure uses all four places, from the laboratory's
//! repository to a running program: resolved, built, installed with dnf5, and run without a
//! network. Needs the index configured for pip.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use super::lab;
use super::support::{Workspace, copy, ran, text_of};
use super::tools;

struct Greeter {
    workspace: Workspace,
    closure: serde_json::Value,
    /// Locks the folder against other test programs.
    _lock: std::fs::File,
}

fn greeter() -> &'static Greeter {
    static GREETER: OnceLock<Greeter> = OnceLock::new();
    GREETER.get_or_init(|| {
        let (workspace, _lock) = prepared("laboratory-greeter");
        lab::hand_over(&workspace);
        let closure = rocmrpm(&workspace, "closure --live --write --json").exits(0).json();
        rocmrpm(&workspace, "build --builder host --until rpm").exits(0);
        Greeter { workspace, closure, _lock }
    })
}

/// Returns a workspace with the greeter and uv, and the lock that protects its folder from other
/// test programs.
pub fn prepared(name: &str) -> (Workspace, std::fs::File) {
    let store = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let lock = std::fs::File::create(store.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let workspace = Workspace::small(name);
    for vecsum in ["vecsum", "vecsum-python", "vecsum-report"] {
        std::fs::remove_dir_all(workspace.path("specs-templates").join(vecsum)).unwrap();
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    copy(&repository.join("tests/laboratory/greeter"), &workspace.root());
    let programs = "specs-templates/_shared/private-programs.tera";
    workspace.write(programs, std::fs::read(repository.join(programs)).unwrap());
    // Make dnf query the laboratory's repository instead of Fedora's.
    let chroot = "mock-configs/fedora-43.toml";
    workspace.replace(chroot, "\"fedora-43-x86_64.cfg\"", "\"laboratory.cfg\"");
    let repository = "\n[[repositories]]\nid = \"laboratory\"\nurl = \"file:///lab/fedora\"\n";
    workspace.write(chroot, workspace.read(chroot) + repository);
    let environment = tools::environment("python-tools", include_str!("../support/tools.txt"));
    // uv only needs the C library, so it runs there too.
    std::fs::copy(environment.join("bin/uv"), workspace.holder().join("uv")).unwrap();
    (workspace, lock)
}

/// Runs rocmrpm as the laboratory's ordinary user with uv in the path. uv needs SSL_CERT_FILE to
/// trust this machine's certificates.
#[track_caller]
fn rocmrpm(workspace: &Workspace, args: &str) -> super::support::Ran {
    lab::script(
        workspace,
        &format!(
            "export PATH=$PATH:/home/builder/test SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt\n{} {args}",
            lab::PROGRAM
        ),
    )
}

#[test]
fn places_of_members_are_stable() {
    let Greeter { workspace, closure, .. } = greeter();
    let places: BTreeMap<String, String> = closure["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| (text_of(&member["name"]), text_of(&member["place"])))
        .collect();
    let expected = [
        ("colorama", "dropped"),
        ("idna", "private"),
        ("iniconfig", "rpm"),
        ("packaging", "system"),
    ];
    assert_eq!(
        places,
        expected.map(|(name, place)| (name.into(), place.into())).into(),
        "{closure}"
    );
    // Offline, nothing is resolved again or rewritten.
    rocmrpm(workspace, "closure --live --offline --check").exits(0);
}

/// dnf5 for an empty root with the repositories of the laboratory and the stack.
pub const DNF: &str = "root=/mnt/root\n\
     dnf5 -y --installroot=$root --releasever=43 --use-host-config --setopt=reposdir=/nonexistent \
     --setopt=install_weak_deps=0 --setopt=cachedir=/mnt/cache --setopt=gpgcheck=0 \
     --repofrompath=fedora,file:///lab/fedora --repofrompath=stack,file://$PWD/build/fedora-43/repository ";

#[test]
fn program_uses_private_members_and_the_system_keeps_its_own() {
    let Greeter { workspace, .. } = greeter();
    let script = format!(
        "{DNF} install python3-greeter mock-needs >&2\n\
         rpm --root $root -V python3-greeter greeter-runtime python3-iniconfig >&2\n\
         run() {{ unshare --net chroot $root env -i PATH=/usr/bin LANG=C.UTF-8 \"$@\"; }}\n\
         run greeter\n\
         run python3 -c 'import idna, sys; print(idna.__file__, idna.__version__)'\n\
         rpm --root $root -q --provides greeter-runtime\n\
         rpm --root $root -q --qf '%{{DESCRIPTION}}\\n' python3-greeter"
    );
    let ran = lab::root(workspace, &script);
    let output = &ran.exits(0).stdout;
    let prefix = "/usr/lib64/greeter/lib/python3.14/site-packages";
    for part in [
        "greeter 1.0 in black and white\n",
        &format!("idna 3.10 {prefix}/idna/__init__.py\n"),
        " /usr/lib/python3.14/site-packages/iniconfig/__init__.py\n",
        " /usr/lib/python3.14/site-packages/packaging/__init__.py\n",
        "\n/usr/lib/python3.14/site-packages/idna/__init__.py 3.",
        "bundled(python3dist(idna)) = 3.10\n",
        "colorama: it greets without colors",
    ] {
        assert!(output.contains(part), "no {part:?}: {ran}");
    }
    assert!(!output.contains("python3.14dist(idna)"), "{ran}");
}

/// Follows the users' steps to add a package, here the one that greeter was packaged without.
#[test]
fn users_add_packages_in_an_environment_that_sees_the_private_prefix() {
    let Greeter { workspace, .. } = greeter();
    let wheels = workspace.holder().join("wheels");
    let mut fetch = Command::new("/usr/bin/python3");
    fetch
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"])
        .arg(&wheels);
    ran(fetch.args(["colorama==0.4.6", "idna==3.9"])).exits(0);
    // The laboratory's tools include Debian's ensurepip, which Fedora's python3 contains.
    let script = format!(
        "{DNF} install python3-greeter mock-needs lab-tools >&2\n\
         cp -r /home/builder/test/wheels $root/wheels\n\
         run() {{ unshare --net chroot $root env -i PATH=/usr/bin HOME=/root LANG=C.UTF-8 \"$@\"; }}\n\
         show='import idna, greeter; print(idna.__version__)'\n\
         run greeter-python -c \"$show\"\n\
         run greeter-venv /root/extra >&2\n\
         run greeter-venv /root/extra 2>&1 && exit 1\n\
         run /root/extra/bin/greeter\n\
         run /root/extra/bin/pip install --no-index --find-links /wheels colorama >&2\n\
         run /root/extra/bin/greeter\n\
         run greeter\n\
         run /root/extra/bin/python -c \"$show\"\n\
         run /root/extra/bin/pip install --no-index --find-links /wheels 'idna>=3.10' >&2\n\
         run /root/extra/bin/pip install --no-index --find-links /wheels 'idna<3.10' 2>&1 && exit 1\n\
         run greeter-venv /etc/passwd/none 2>&1 && exit 1\n\
         rpm --root $root -V python3-greeter greeter-runtime"
    );
    let ran = lab::root(workspace, &script);
    let output = &ran.exits(0).stdout;
    let mut rest = output.as_str();
    for part in [
        "3.10\n",
        "greeter-venv: error: /root/extra exists; choose another folder, or remove it first\n",
        "greeter 1.0 in black and white\n",
        "greeter 1.0 in color\n",
        "greeter 1.0 in black and white\n",
        "3.10\n",
        "ResolutionImpossible",
        "greeter-venv: error: cannot make /etc/passwd/none: ",
    ] {
        let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?} in {rest:?}: {ran}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn dnf5_names_a_removed_member() {
    let Greeter { workspace, .. } = greeter();
    let script = format!(
        "python3 {} solve $PWD/build/fedora-43/repository /lab/fedora --install python3-greeter",
        lab::SOLVER
    );
    let solved = lab::script(workspace, &script).exits(0).json();
    assert_eq!(solved["alone"]["solved"], true, "{solved}");
    for (package, missing) in [
        ("greeter-runtime", "nothing provides greeter-runtime(x86-64) = 1.0"),
        ("python3-iniconfig", "nothing provides python3.14dist(iniconfig) >= 2"),
    ] {
        let answer = &solved["without"][package];
        assert_eq!(answer["solved"], false, "without {package}: {answer}");
        let output = text_of(&answer["output"]);
        assert!(
            output.contains(missing) && output.contains("python3-greeter-1.0"),
            "without {package}: {output}"
        );
    }
}
