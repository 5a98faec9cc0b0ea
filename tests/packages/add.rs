//! Builds what `rocmrpm add` drafts for each build system with rpmbuild, without edits other than
//! the summary. Offline; needs rpmbuild, gcc, cmake, meson, autoconf, automake, libtool, and cargo.

use std::process::Command;

use crate::support::{Parts, Workspace, names_in, ran};

const LIBRARY: (&str, &str) = ("vec.c", "#include \"vec.h\"\nint vec(int a) { return 2 * a; }\n");
const HEADER: (&str, &str) = ("vec.h", "int vec(int a);\n");
const PROGRAM: (&str, &str) =
    ("main.c", "#include \"vec.h\"\nint main(void) { return vec(2) != 4; }\n");
const LICENSE: (&str, &str) = ("LICENSE", "MIT\n");

/// The files of a library with a program in `%files`, and those of its `-devel`.
const FILES: &str = "/usr/bin/vec-tool /usr/lib64/libvec.so.1 /usr/lib64/libvec.so.1.2.3";
const DEVEL: &str = "/usr/include/vec.h /usr/lib64/libvec.so /usr/lib64/pkgconfig/vec.pc";

/// Returns a workspace with the source of `vec`, of which nothing is packaged yet.
fn source(files: &[(&str, &str)]) -> Workspace {
    let workspace = Workspace::init();
    for (path, text) in [LIBRARY, HEADER, PROGRAM, LICENSE].iter().chain(files) {
        workspace.write(format!("src/vec/{path}"), text);
    }
    workspace
}

/// Adds the component `vec`, and returns its template after filling in its summary.
#[track_caller]
fn added(workspace: &Workspace) -> String {
    workspace
        .run(&["add", "vec", "--path", "src/vec", "--version", "1.2.3"])
        .exits(0)
        .never_reports("review `%files`");
    let template = "specs-templates/vec/vec.spec.tera";
    let text = workspace.read(template).replace("TODO: one line, no period at its end", "A test");
    workspace.write(template, &text);
    text
}

/// Builds `vec` and returns the files of its package and those of its `-devel`, without licenses.
#[track_caller]
fn built(workspace: &Workspace) -> [String; 2] {
    workspace.run(&["build", "vec", "--chroot", "host", "--until", "rpm"]).exits(0);
    ["vec", "vec-devel"].map(|package| {
        let results = workspace.built("results/vec");
        let start = format!("{package}-1.2.3-");
        let name = names_in(&results)
            .into_iter()
            .find(|name| name.starts_with(&start) && !name.ends_with(".src.rpm"));
        let Some(name) = name else { return String::new() };
        let listed = ran(Command::new("rpm").args(["-qpl"]).arg(results.join(name)));
        let hidden = |path: &&str| path.contains("/licenses") || path.contains("/.build-id");
        let files: Vec<&str> = listed.stdout.lines().filter(|path| !hidden(path)).collect();
        files.join(" ")
    })
}

#[track_caller]
fn assert_has(template: &str, lines: &[&str]) {
    for line in lines {
        assert!(template.contains(line), "{line}\n{template}");
    }
}

#[test]
fn meson_project_builds() {
    let meson = "project('vec', 'c', version: '1.2.3', license: 'MIT')\n\
        vec = library('vec', 'vec.c', version: meson.project_version(), install: true)\n\
        install_headers('vec.h')\nimport('pkgconfig').generate(vec, description: 'x')\n\
        tool = executable('vec-tool', 'main.c', link_with: vec, install: true)\ntest('tool', tool)\n\
        dependency('no-such-library', required: false)\n";
    let workspace = source(&[("meson.build", meson)]);
    let template = added(&workspace);
    assert_has(
        &template,
        &[
            "BuildRequires:  gcc\nBuildRequires:  meson\n",
            "# The build also uses, if installed: pkgconfig(no-such-library)\n",
            "%meson\n%meson_build\n",
            "%meson_install\n",
            "%check\n%meson_test\n",
            "%{_libdir}/libvec.so.1{,.*}\n",
            "Requires:       %{name}%{?_isa} = %{version}-%{release}\n",
        ],
    );
    assert_eq!(built(&workspace), [FILES, DEVEL]);
}

#[test]
fn autotools_project_builds() {
    let configure = "AC_INIT([vec], [1.2.3], [], [vec], [https://example.org/vec])\n\
        AM_INIT_AUTOMAKE([foreign])\nAC_PROG_CC\nAM_PROG_AR\nLT_INIT\n\
        AC_CONFIG_FILES([Makefile vec.pc])\nAC_OUTPUT\n";
    let makefile = "lib_LTLIBRARIES = libvec.la\nlibvec_la_SOURCES = vec.c\n\
        libvec_la_LDFLAGS = -version-info 3:3:2\ninclude_HEADERS = vec.h\n\
        bin_PROGRAMS = vec-tool\nvec_tool_SOURCES = main.c\nvec_tool_LDADD = libvec.la\n\
        pkgconfigdir = $(libdir)/pkgconfig\npkgconfig_DATA = vec.pc\nTESTS = vec-tool\n";
    let pc = "Name: vec\nDescription: x\nVersion: @PACKAGE_VERSION@\nLibs: -L@libdir@ -lvec\n";
    let files = [("configure.ac", configure), ("Makefile.am", makefile), ("vec.pc.in", pc)];
    let workspace = source(&files);
    assert_has(
        &added(&workspace),
        &[
            "URL:            https://example.org/vec\n",
            "BuildRequires:  autoconf\nBuildRequires:  automake\nBuildRequires:  gcc\n\
             BuildRequires:  libtool\nBuildRequires:  make\n",
            "autoreconf -fiv\n%configure --disable-static\n%make_build\n",
            "%make_install\nfind %{buildroot} -name '*.la' -delete\n",
            "%check\n%make_build check\n",
        ],
    );
    let files = "/usr/bin/vec-tool /usr/lib64/libvec.so.1 /usr/lib64/libvec.so.1.2.3";
    assert_eq!(built(&workspace), [files, DEVEL]);
}

#[test]
fn project_with_a_makefile_builds() {
    let makefile = "PREFIX = /usr/local\nLIBDIR = $(PREFIX)/lib\nCFLAGS = -O0 -fPIC\n\
        all: vec-tool\nlibvec.so.1: vec.c\n\t$(CC) $(CFLAGS) -shared -Wl,-soname,$@ -o $@ $<\n\
        vec-tool: main.c libvec.so.1\n\t$(CC) $(CFLAGS) -o $@ $^\n\
        check: vec-tool\n\tLD_LIBRARY_PATH=. ./vec-tool\n\
        install:\n\tinstall -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include\n\
        \tinstall -D -m 755 vec-tool $(DESTDIR)$(PREFIX)/bin/vec-tool\n\
        \tinstall -m 755 libvec.so.1 $(DESTDIR)$(LIBDIR)\n\
        \tln -sf libvec.so.1 $(DESTDIR)$(LIBDIR)/libvec.so\n\
        \tcp vec.h $(DESTDIR)$(PREFIX)/include\n\tcp vec.pc $(DESTDIR)$(LIBDIR)/pkgconfig/\n";
    let pc = "Name: vec\nDescription: x\nVersion: 1\nLibs: -lvec\n";
    let workspace = source(&[("Makefile", makefile), ("vec.pc", pc)]);
    assert_has(
        &added(&workspace),
        &[
            "BuildRequires:  gcc\nBuildRequires:  make\n",
            "%make_build PREFIX=%{_prefix} LIBDIR=%{_libdir} CFLAGS='%{build_cflags} -fPIC'\n",
            "%make_install PREFIX=%{_prefix} LIBDIR=%{_libdir}\n",
            "%check\n%make_build check PREFIX=",
        ],
    );
    assert_eq!(built(&workspace), ["/usr/bin/vec-tool /usr/lib64/libvec.so.1", DEVEL]);
}

#[test]
fn cmake_project_builds() {
    let cmake = "cmake_minimum_required(VERSION 3.20)\n\
        project(vec VERSION 1.2.3 DESCRIPTION \"Adds vectors\" LANGUAGES C)\ninclude(GNUInstallDirs)\n\
        add_library(vec vec.c)\n\
        set_target_properties(vec PROPERTIES VERSION 1.2.3 SOVERSION 1 PUBLIC_HEADER vec.h)\n\
        add_executable(vec-tool main.c)\ntarget_link_libraries(vec-tool vec)\n\
        install(TARGETS vec vec-tool EXPORT vec)\n\
        install(EXPORT vec DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/vec)\n";
    let workspace = source(&[("CMakeLists.txt", cmake)]);
    assert_has(&added(&workspace), &["-DBUILD_SHARED_LIBS=ON", "%{_libdir}/cmake/vec/\n"]);
    let devel = "/usr/include/vec.h /usr/lib64/cmake/vec /usr/lib64/cmake/vec/vec-relwithdebinfo.cmake \
                 /usr/lib64/cmake/vec/vec.cmake /usr/lib64/libvec.so";
    assert_eq!(built(&workspace), [FILES, devel]);
}

#[test]
fn build_lists_the_files_of_a_project_that_computes_them() {
    let cmake = "cmake_minimum_required(VERSION 3.20)\n\
        project(vec VERSION 1.2.3 LANGUAGES C)\ninclude(GNUInstallDirs)\nadd_library(vec vec.c)\n\
        set_target_properties(vec PROPERTIES VERSION 1.2.3 SOVERSION 1)\nadd_executable(vec-tool main.c)\n\
        target_link_libraries(vec-tool vec)\nset(ALL vec vec-tool)\n\
        foreach(one ${ALL})\ninstall(TARGETS ${one})\nendforeach()\n\
        file(GLOB HEADERS *.h)\ninstall(FILES ${HEADERS} DESTINATION include/vec)\n\
        file(WRITE ${CMAKE_BINARY_DIR}/vec.mo x)\nset(LOCALE share/locale/de_DE/LC_MESSAGES)\n\
        install(FILES ${CMAKE_BINARY_DIR}/vec.mo DESTINATION ${LOCALE})\n\
        install(FILES vec.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)\n";
    let page = ".TH VEC 1\n.SH NAME\nvec \\- add vectors of any length\n";
    let workspace = source(&[("CMakeLists.txt", cmake), ("vec.1", page)]);
    workspace.run(&["add", "vec", "--path", "src/vec", "--version", "1.2.3"]).exits(0).reports([
        "warning: vec: check `Summary:`: it is from vec.1",
        "warning: vec: review `%files`: CMakeLists.txt does not state all installed files",
    ]);
    workspace.run(&["lint", "--chroot", "host"]).exits(0);
    let [runtime, devel] = built(&workspace);
    // Only Fedora's rpm compresses manual pages.
    assert_eq!(
        runtime.trim_end_matches(".gz"),
        "/usr/bin/vec-tool /usr/lib64/libvec.so.1 /usr/lib64/libvec.so.1.2.3 \
         /usr/share/locale/de_DE/LC_MESSAGES/vec.mo /usr/share/man/man1/vec.1"
    );
    assert_eq!(devel, "/usr/include/vec /usr/include/vec/vec.h /usr/lib64/libvec.so");
}

#[test]
fn library_of_headers_is_only_for_building() {
    let workspace = Workspace::init();
    workspace.write("src/vec/vec.h", "#define VEC 1\n");
    workspace.write("src/vec/LICENSE", "MIT\n");
    let meson = "project('vec', 'c', version: '1.2.3')\ninstall_headers('vec.h', subdir: 'vec')\n";
    workspace.write("src/vec/meson.build", meson);
    assert_has(
        &added(&workspace),
        &[
            "Provides:       %{name}-static = %{version}-%{release}\n",
            "%global debug_package %{nil}\n",
        ],
    );
    assert_eq!(built(&workspace), ["", "/usr/include/vec /usr/include/vec/vec.h"]);
}

/// Adds the component `cargo` with the Rust of this machine, which is in a home folder. Builds search
/// for programs only in the folders of the distribution, and in packages of required components.
pub fn add_cargo(workspace: &Workspace) {
    let sysroot = ran(Command::new("rustc").args(["--print", "sysroot"]));
    let bin = format!("{}/bin", sysroot.exits(0).stdout.trim());
    let install = format!(
        "mkdir -p %{{buildroot}}%{{_bindir}}\n\
         printf '#!/bin/sh\\nexport RUSTC={bin}/rustc RUSTDOC={bin}/rustdoc\\nexec {bin}/cargo \"$@\"\\n' \
         > %{{buildroot}}%{{_bindir}}/cargo\nchmod 755 %{{buildroot}}%{{_bindir}}/cargo"
    );
    let preamble = "Provides: cargo-rpm-macros = 26";
    workspace.component(
        "cargo",
        &Parts { preamble, install: &install, files: "%{_bindir}/cargo", ..Parts::default() },
    );
}

#[test]
fn cargo_project_builds() {
    let workspace = source(&[
        (
            "Cargo.toml",
            "[package]\nname = \"vec\"\nversion = \"1.2.3\"\nedition = \"2021\"\nlicense = \"MIT\"\n\
             description = \"Adds vectors\"\nrepository = \"https://example.org/vec\"\n\
             [[bin]]\nname = \"vec-tool\"\npath = \"src/main.rs\"\n",
        ),
        ("Cargo.lock", "version = 3\n\n[[package]]\nname = \"vec\"\nversion = \"1.2.3\"\n"),
        ("src/main.rs", "fn main() {}\n#[test]\nfn works() {}\n"),
        (".cargo/config.toml", "[build]\ntarget = \"no-such-target\"\n"),
    ]);
    assert_has(
        &added(&workspace),
        &[
            "%global cargo_install_lib 0\n",
            "Summary:        Adds vectors\nLicense:        MIT\nURL:            https://example.org/vec\n",
            "BuildRequires:  cargo-rpm-macros >= 26\n",
            "%cargo_prep -N\n",
            "%cargo_build\n",
            "%cargo_install\n",
            "%check\n%cargo_test\n",
        ],
    );
    add_cargo(&workspace);
    let toml = workspace.read("specs-templates/vec/component.toml");
    workspace
        .write("specs-templates/vec/component.toml", format!("requires = [\"cargo\"]\n{toml}"));
    assert_eq!(built(&workspace), ["/usr/bin/vec-tool", ""]);
}

#[test]
fn rejects_sources_that_it_cannot_package() {
    let package = "[package]\nname = \"vec\"\nversion = \"1.2.3\"\n";
    for (file, text, message) in [
        ("README", "x", "found no build system in the source of `vec`"),
        ("Cargo.toml", package, "Cargo.toml of `vec` makes no program"),
        (
            "Cargo.toml",
            &format!("{package}[[bin]]\nname = \"x\"\npath = \"x.rs\"\n"),
            "the source of `vec` has no Cargo.lock",
        ),
        ("Makefile", "all:\n\tcc x.c\n", "the Makefile of `vec` has no rule that installs"),
    ] {
        let workspace = source(&[(file, text)]);
        let before = workspace.files();
        let add = ["add", "vec", "--path", "src/vec", "--version", "1.2.3"];
        workspace.run(&add).exits(2).reports([message, "help: "]);
        assert!(workspace.files() == before);
    }
}
