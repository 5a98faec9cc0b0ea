//! Workspaces with links to outside files, which a clone can contain: nothing outside is read,
//! written or deleted.

use crate::support::Workspace;
use std::os::unix::fs::symlink;

const SPEC: &str = "Name: <{ name }>
Version: <{ version }>
Release: <{ release }>
Summary: A test
License: MIT
Source0: <{ source_url }>
<@ for patch in patches @>Patch: <{ patch }>
<@ endfor @>BuildArch: noarch

%description
A test.

%files

%changelog
<{ changelog }>
";

/// Returns a committed workspace of the component `one`, and a folder beside it with `one/thesis`.
fn workspace() -> Workspace {
    let workspace = Workspace::init();
    workspace.write("pins/stable.toml", "[one]\nversion = \"1.0\"\npath = \"src/one\"\n");
    workspace.write("specs-templates/one/component.toml", "");
    workspace.write("specs-templates/one/one.spec.tera", SPEC);
    workspace.write("src/one/file.txt", "1\n");
    workspace.commit("Begin");
    fs_err::create_dir_all(workspace.holder().join("victim/one")).unwrap();
    fs_err::write(workspace.holder().join("victim/one/thesis"), "SECRET").unwrap();
    workspace
}

#[track_caller]
fn is_untouched(workspace: &Workspace) {
    let victim = workspace.holder().join("victim");
    let found: Vec<_> = walkdir::WalkDir::new(&victim).into_iter().map(Result::unwrap).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(fs_err::read_to_string(victim.join("one/thesis")).unwrap(), "SECRET");
}

#[test]
fn rejects_links_below_build() {
    let commands: [&[&str]; 5] = [
        &["lint", "--chroot", "host"],
        &["render", "--chroot", "host"],
        &["prep", "one", "--chroot", "host"],
        &["build", "one", "--chroot", "host", "--until", "srpm"],
        &["plan", "--chroot", "host"],
    ];
    let workspace = workspace();
    for link in ["build", "build/host", "build/host/specs", "build/host/prep", "build/host/work"] {
        fs_err::create_dir_all(workspace.path(link).parent().unwrap()).unwrap();
        symlink(workspace.holder().join("victim"), workspace.path(link)).unwrap();
        for command in commands {
            let message = format!("`{link}` is a link to `[HOLDER]/victim`");
            workspace
                .run(command)
                .exits(3)
                .reports([&message, &format!("help: remove the link: rm {link}")]);
            is_untouched(&workspace);
        }
        fs_err::remove_file(workspace.path(link)).unwrap();
    }
    workspace.run(commands[1]).exits(0);
}

#[test]
fn outside_files_do_not_reach_specs_or_srpms() {
    let workspace = workspace();
    let victim = workspace.holder().join("victim/one/thesis");
    for link in
        ["specs-templates/one/leak.patch", "specs-templates/_shared/leak.tera", "pins/leak.toml"]
    {
        fs_err::create_dir_all(workspace.path(link).parent().unwrap()).unwrap();
        symlink(&victim, workspace.path(link)).unwrap();
        for command in [
            &["lint", "--chroot", "host"][..],
            &["render", "--chroot", "host"],
            &["build", "one", "--chroot", "host", "--until", "srpm"],
        ] {
            let message = format!(
                "`{link}` is a link to `[HOLDER]/victim/one/thesis`, outside the workspace"
            );
            workspace.run(command).exits(3).reports([&message, &format!("rm {link}")]);
        }
        fs_err::remove_file(workspace.path(link)).unwrap();
    }
    assert!(!workspace.path("build").exists(), "something was written");
    // A link inside the workspace is read.
    workspace.write("specs-templates/_shared/a.tera", "# shared\n");
    symlink("a.tera", workspace.path("specs-templates/_shared/b.tera")).unwrap();
    workspace.write(
        "specs-templates/one/one.spec.tera",
        format!("<@ include \"_shared/b.tera\" @>\n{SPEC}"),
    );
    workspace.run(&["render", "--chroot", "host"]).exits(0);
    assert!(workspace.read("build/host/specs/one.spec").contains("# shared"));
}

#[test]
fn init_does_not_write_through_links() {
    let workspace = Workspace::empty();
    fs_err::create_dir(workspace.holder().join("victim")).unwrap();
    for link in ["mock-configs", "pins", "specs-templates"] {
        symlink(workspace.holder().join("victim"), workspace.path(link)).unwrap();
        let message = format!("`{link}` is a link to `[HOLDER]/victim`, outside the workspace");
        workspace
            .run(&["init", "--name", "lab"])
            .exits(3)
            .reports([&message, &format!("rm {link}")]);
        fs_err::remove_file(workspace.path(link)).unwrap();
    }
    assert_eq!(fs_err::read_dir(workspace.holder().join("victim")).unwrap().count(), 0);
    assert!(!workspace.path("rocmrpm.toml").exists());
    workspace.run(&["init", "--name", "lab"]).exits(0);
}
