//! Builds components that need each other's packages, on a machine that cannot install them. Offline;
//! needs rpmbuild, gcc, and pkg-config.

use crate::support::{Parts, Workspace};

const CODE: &str = "[inspect]\ndevice-code = false\n";

/// A library with its header and its file for pkg-config, a program that links to it and runs it in
/// `%check`, an extension module that links to it, and a module that imports the extension module.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.component(
        "saxpy",
        &Parts {
            toml: CODE,
            preamble: "# arch\nBuildRequires: gcc\n%package devel\nSummary: Its header\n\
                       Requires: %{name}%{?_isa} = %{version}-%{release}\n\
                       %description devel\nIts header.\n",
            build: "printf 'int saxpy(int a) { return 2 * a; }\\n' > saxpy.c\n\
                    printf 'int saxpy(int a);\\n' > saxpy.h\n\
                    printf 'prefix=/usr\\nName: saxpy\\nDescription: x\\nVersion: 1\\n\
                    Cflags: -I${prefix}/include/saxpy\\nLibs: -L%{_libdir} -lsaxpy\\n' > saxpy.pc\n\
                    gcc %{optflags} -shared -fPIC -Wl,-soname,libsaxpy.so.1 -o libsaxpy.so.1 saxpy.c\n",
            install: "install -D libsaxpy.so.1 -t %{buildroot}%{_libdir}\n\
                      ln -s libsaxpy.so.1 %{buildroot}%{_libdir}/libsaxpy.so\n\
                      install -Dm 644 saxpy.h -t %{buildroot}%{_includedir}/saxpy\n\
                      install -Dm 644 saxpy.pc -t %{buildroot}%{_libdir}/pkgconfig\n",
            files: "%{_libdir}/libsaxpy.so.1\n%files devel\n%{_includedir}/saxpy\n\
                    %{_libdir}/libsaxpy.so\n%{_libdir}/pkgconfig/saxpy.pc",
            ..Parts::default()
        },
    );
    workspace.component(
        "app",
        &Parts {
            toml: &format!("requires = [\"saxpy\"]\n{CODE}"),
            preamble: "# arch\nBuildRequires: gcc\nBuildRequires: saxpy-devel >= 1",
            build: "printf '#include <saxpy.h>\\nint main(void) { return saxpy(2) != 4; }\\n' > app.c\n\
                    gcc %{optflags} -o app app.c $(pkg-config --cflags --libs saxpy)\n",
            install: "install -D app -t %{buildroot}%{_bindir}\n",
            check: "./app\n",
            files: "%{_bindir}/app",
            ..Parts::default()
        },
    );
    workspace.component(
        "pysaxpy",
        &Parts {
            toml: &format!("requires = [\"saxpy\"]\n{CODE}"),
            preamble: "# arch\nBuildRequires: gcc, python3-devel, pkgconfig(saxpy)",
            build: "printf '#include <Python.h>\\n#include <saxpy.h>\\n\
                    static PyObject *f(PyObject *m, PyObject *a) { return PyLong_FromLong(saxpy(21)); }\\n\
                    static PyMethodDef d[] = {{\"answer\", f, METH_NOARGS, 0}, {0}};\\n\
                    static struct PyModuleDef p = {PyModuleDef_HEAD_INIT, \"pysaxpy\", 0, -1, d};\\n\
                    PyMODINIT_FUNC PyInit_pysaxpy(void) { return PyModule_Create(&p); }\\n' > m.c\n\
                    gcc %{optflags} -shared -fPIC -o pysaxpy.so m.c $(python3-config --includes) \
                    $(pkg-config --cflags --libs saxpy)\n",
            install: "install -D pysaxpy.so -t %{buildroot}%{python3_sitearch}\n",
            check: "%{py3_test_envvars} %{python3} -c 'import pysaxpy; assert pysaxpy.answer() == 42'\n",
            files: "%{python3_sitearch}/pysaxpy.so",
            ..Parts::default()
        },
    );
    workspace.component(
        "report",
        &Parts {
            toml: &format!("requires = [\"pysaxpy\"]\n{CODE}"),
            preamble: "BuildRequires: python3-devel, pysaxpy",
            build: "echo 'from pysaxpy import answer' > report.py\n",
            install: "install -Dm 644 report.py -t %{buildroot}%{python3_sitelib}\n",
            check: "%{py3_test_envvars} %{python3} -c 'import report; assert report.answer() == 42'\n",
            files: "%{python3_sitelib}/report.py",
            ..Parts::default()
        },
    );
    workspace
}

#[test]
fn builds_find_the_packages_of_required_components() {
    let workspace = workspace();
    workspace
        .run(&["build", "--until", "rpm", "app", "report"])
        .exits(0)
        .reports(["Built app", "Built report"]);
    let record = workspace.assert_whole("report");
    let roots = record["buildroot"].to_string();
    assert!(roots.contains("pysaxpy-1") && roots.contains("saxpy-devel-1"), "{roots}");
    // The files of a build root are not in the packages.
    workspace
        .run(&["inspect", "build/host/results/app", "build/host/results/saxpy"])
        .never_reports("/root/usr");
}

#[test]
fn names_what_no_package_of_required_components_provides() {
    let workspace = workspace();
    workspace.replace("specs-templates/app/app.spec.tera", "saxpy-devel >= 1", "saxpy-devel >= 99");
    workspace
        .run(&["build", "--until", "rpm", "app"])
        .exits(0)
        .reports(["warning", "saxpy-devel >= 99"]);
    workspace.replace("specs-templates/app/component.toml", "requires = [\"saxpy\"]\n", "");
    workspace.run(&["build", "--until", "rpm", "app"]).exits(10).reports(["saxpy.h"]);
}
