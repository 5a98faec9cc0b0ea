//! Tests upgrading an installed root with dnf5 to the next release: Fedora's package replaces a
//! member that the new Fedora contains, members that became private are removed, and everything
//! else is upgraded. The packages are small; their specs are rendered from a workspace's history.

use std::collections::{BTreeMap, BTreeSet};

use rocmrpm::closure::earlier::obsoletes;
use rocmrpm::closure::offers::Offers;
use rocmrpm::closure::{Closure, Graph, Member, Offer};
use rocmrpm::workspace::{MemberPlace, Selection};

use super::lab;
use super::support::Workspace;

/// Members with their own RPMs in both closures.
const FIRST: [(&str, &str); 4] =
    [("gone", "3.0"), ("kept", "2.0"), ("rises", "1.0"), ("taken", "1.0")];
const SECOND: [(&str, &str); 1] = [("kept", "2.0")];

/// Packages of the second release.
const FEDORA: [(&str, &str); 2] = [("rises", "1.5"), ("taken", "1.0")];

const MEMBER: &str = "Name: python3-<{ name }>\nVersion: <{ version }>\nRelease: <{ release }>\n\
     Summary: A member\nLicense: MIT\nBuildArch: noarch\n%description\nA member.\n%files\n%changelog\n<{ changelog }>\n";

const APP: &str = "Name: python3-app\nVersion: <{ version }>\nRelease: <{ release }>\n\
     Summary: A component\nLicense: MIT\nBuildArch: noarch\n\
     <@ for required in closure.requires @>Requires: <{ required }>\n<@ endfor @>\
     <@ for obsolete in closure.obsoletes @>Obsoletes: <{ obsolete }>\n<@ endfor @>\
     %description\nA component.\n%files\n%changelog\n<{ changelog }>\n";

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    for release in ["43", "44"] {
        let chroot = format!(
            "release = \"{release}\"\narch = \"x86_64\"\npython = \"3.14\"\ndist = \".fc{release}\"\n\
             rocm-provider = \"host\"\nbase-config = \"f.cfg\"\n"
        );
        workspace.write(format!("mock-configs/fedora-{release}.toml"), chroot);
    }
    workspace.replace(
        "rocmrpm.toml",
        "default-chroot = \"host\"",
        "default-chroot = \"fedora-43\"",
    );
    workspace.write("src/app/hello", "hello\n");
    workspace.pin("app", "path = \"src/app\"");
    workspace.write("specs-templates/app/component.toml", "[closure]\n");
    workspace.write("specs-templates/app/app.spec.tera", APP);
    write(&workspace, "stable", &FIRST, &FIRST, &[]);
    // The obsoletes for a build on the second release, as determined by `rocmrpm closure --write`.
    let obsoletes = found(&workspace);
    assert_eq!(obsoletes, ["python3-gone < 3.0-1"]);
    let required: Vec<_> = SECOND.iter().chain(&FEDORA).copied().collect();
    write(&workspace, "stable.fedora-44", &SECOND, &required, &obsoletes);
    commit(&workspace, "One");
    // This commit only affects the first release.
    let chroot = workspace.read("mock-configs/fedora-43.toml");
    workspace.write("mock-configs/fedora-43.toml", chroot + "[macros]\nonly_for_43 = \"1\"\n");
    commit(&workspace, "Two");
    for chroot in ["fedora-43", "fedora-44"] {
        workspace.run(&["render", "--chroot", chroot]).exits(0);
    }
    workspace
}

/// Writes a closure like `rocmrpm closure --write`.
fn write(
    workspace: &Workspace,
    stem: &str,
    members: &[(&str, &str)],
    required: &[(&str, &str)],
    obsoletes: &[String],
) {
    let digest = "0".repeat(64);
    let mut pins = String::new();
    for (name, version) in members {
        pins += &format!(
            "[{name}]\nversion = \"{version}\"\nsdist = \"{name}\"\nsha256 = \"{digest}\"\n"
        );
        let folder = format!("specs-templates/generated/{stem}/{name}");
        workspace.write(format!("{folder}/component.toml"), "generated = \"app\"\n");
        workspace.write(format!("{folder}/python-{name}.spec.tera"), MEMBER);
    }
    workspace.write(format!("pins/{stem}.generated.toml"), pins);
    let required: Vec<_> = required.iter().map(|(name, _)| format!("python3-{name}")).collect();
    let closure = format!("requires = {required:?}\nobsoletes = {obsoletes:?}\n");
    workspace.write(format!("specs-templates/generated/{stem}/closure.toml"), closure);
}

/// Returns the component's obsoletes on the second release.
fn found(workspace: &Workspace) -> Vec<String> {
    let chroot = Some("fedora-44".to_owned());
    let selection = Selection { chroot, without_generated: true, ..Selection::default() };
    let loaded = rocmrpm::workspace::Workspace::load(&workspace.root(), &selection).unwrap();
    let component = loaded.component("app").unwrap();
    let offer = |(name, version): &(&str, &str)| {
        let offer = Offer {
            package: format!("python3-{name}"),
            evr: (*version).to_owned(),
            version: version.parse().ok(),
            requires: rocmrpm::closure::Requires::default(),
        };
        ((*name).to_owned(), offer)
    };
    let member = |(name, _): &(&str, &str)| {
        let member = Member {
            name: (*name).to_owned(),
            node: None,
            offer: None,
            place: MemberPlace::Rpm,
            reason: String::new(),
            decided: false,
            without: None,
        };
        ((*name).to_owned(), member)
    };
    let graph = Graph {
        component: component.name.clone(),
        root: "app".into(),
        nodes: BTreeMap::new(),
        edges: vec![],
        not_after: None,
    };
    let members = SECOND.iter().map(member).collect();
    let closure = Closure { graph, chroot: "fedora-44".into(), pins: "stable".into(), members };
    obsoletes(&loaded, component, &closure, &Offers::from_list(FEDORA.iter().map(offer))).unwrap()
}

fn commit(workspace: &Workspace, subject: &str) {
    let git = "git -c user.name=T -c user.email=t@example.com -c commit.gpgsign=false";
    let line = format!(
        "git init -q . && printf 'build/\\nfedora/\\nroot/\\n' > .gitignore && git add . && {git} commit -qm {subject}"
    );
    workspace.shell(&line).exits(0);
}

#[test]
fn upgrade_removes_old_packages_and_downgrades_none() {
    let workspace = workspace();
    for (name, version) in FEDORA {
        let spec = MEMBER.replace("<{ name }>", name).replace("<{ version }>", version);
        let spec =
            spec.replace("<{ release }>", "1%{?dist}").replace("%changelog\n<{ changelog }>\n", "");
        workspace.write(format!("fedora/{name}.spec"), spec);
    }
    lab::hand_over(&workspace);
    let script = "for release in 43 44; do\n\
         specs=$(ls build/fedora-$release/specs/*.spec)\n\
         [ $release = 43 ] || specs=\"$specs $(ls fedora/*.spec)\"\n\
         for spec in $specs; do rpmbuild -bb --quiet --nodeps --define \"_rpmdir /mnt/$release\" \
             --define \"_topdir /mnt/work\" --define \"dist .fc$release\" $spec >&2; done\n\
         createrepo_c -q /mnt/$release; done\n\
         dnf() { release=$1; shift; dnf5 -y --installroot=/mnt/root --releasever=$release --use-host-config \
             --setopt=reposdir=/nonexistent --setopt=cachedir=/mnt/cache-$release \
             --repofrompath=stack,file:///mnt/$release --setopt=stack.gpgcheck=0 \"$@\"; }\n\
         list() { rpm --root /mnt/root -qa --qf \"$1 %{NAME}-%{VERSION}-%{RELEASE}\\n\" | sort; }\n\
         dnf 43 install python3-app >&2; list old\n\
         dnf 44 upgrade >&2; list new\n\
         dnf 44 check >&2; dnf 44 check-upgrade >&2";
    let ran = lab::root(&workspace, script);
    let output = &ran.exits(0).stdout;
    let of = |word: &str| -> BTreeSet<&str> {
        output.lines().filter_map(|line| line.strip_prefix(word)).collect()
    };
    let old = [
        "python3-app-1.0-2.fc43",
        "python3-gone-3.0-0.2.fc43",
        "python3-kept-2.0-0.2.fc43",
        "python3-rises-1.0-0.2.fc43",
        "python3-taken-1.0-0.2.fc43",
    ];
    let new = [
        "python3-app-1.0-2.fc44",
        "python3-kept-2.0-0.2.fc44",
        "python3-rises-1.5-1.fc44",
        "python3-taken-1.0-1.fc44",
    ];
    assert_eq!(of("old "), BTreeSet::from(old), "{ran}");
    assert_eq!(of("new "), BTreeSet::from(new), "{ran}");
    for word in ["Downgrading", "Skipping", "Problem"] {
        assert!(!ran.stderr.contains(word), "{word}: {ran}");
    }
}
