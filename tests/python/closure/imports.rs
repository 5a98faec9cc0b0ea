//! Tests that `closure --check` and `--write` compare the component's imports with the definitions
//! in locked files.

use super::ClosureFixture;
use super::index::Index;
use crate::support::server::TestServer;
use crate::support::{Transcript, ran};

/// Returns a workspace whose `app` depends on `lib`, which contains these files.
fn fixture(files: &[(&str, &[u8])]) -> (ClosureFixture, TestServer) {
    let server = Index::default().wheel_of("lib", files).serve();
    (ClosureFixture::new(&["lib"], &[]), server)
}

impl ClosureFixture {
    /// Sets the only module of `app`.
    fn imports(&self, text: &str) {
        self.workspace.write("src/app/app/__init__.py", text);
    }
}

const LIB: &[(&str, &[u8])] = &[
    ("lib/__init__.py", b"from .a import *\nfrom .b import thing as other\n__version__ = '1'\n"),
    (
        "lib/a.py",
        b"__all__ = ['x']\n__all__ += ['y']\nx = 1\ntry:\n    y = 2\nfinally:\n    hidden = 3\n",
    ),
    (
        "lib/b.py",
        b"import os.path\nwith open('f') as thing:\n    for number in (1, 2):\n        pass\n",
    ),
    ("lib/data/table.csv", b""),
];

#[test]
fn reports_missing_names_and_modules_with_file_and_line() {
    let (fixture, server) = fixture(LIB);
    let good = "import os, annotationlib\nimport lib.a, lib.data\n\
                from lib import x, y, other, __version__, b\nfrom lib.b import thing, number, os\n\
                from lib.a import hidden\nfrom lib import *\nfrom . import sub\nimport app.sub\n";
    fixture.imports(&format!(
        "{good}import lib.gone\nfrom lib import (\n    x,\n    hidden,\n)\nfrom lib.b import a, x\nimport cgi\n"
    ));
    // Python 3.13 removed cgi.
    let page = Transcript::block("docs/concepts/closure.md", "rocmrpm closure app --write");
    let refused = page
        .run_with(&fixture.workspace, |shell| fixture.settle(Some(&server.url("/simple")), shell));
    refused.exits(1);
    assert!(!refused.stdout.contains("Wrote"), "{refused}");
    assert!(!fixture.workspace.path("pins/p.requirements.lock").exists());
    assert!(!fixture.workspace.path("specs-templates/generated").exists());
    fixture.imports(good);
    fixture.run(&server, &["app", "--write"]).exits(0).reports(["Checked 12 imports of 4 modules"]);
    fixture.run(&server, &["app", "--check"]).exits(0);
    fixture.imports("import lib.gone\n");
    let document = fixture.run(&server, &["app", "--check", "--json"]);
    let missing = &document.exits(1).json()["imports"]["missing"][0];
    assert_eq!(missing["file"], "app/__init__.py");
    assert_eq!(
        (missing["line"].as_u64(), missing["distribution"].as_str()),
        (Some(1), Some("lib"))
    );
    assert!(fixture.run(&server, &["app", "--json"]).exits(0).json()["imports"].is_null());
}

#[test]
fn ignores_optional_imports() {
    let (fixture, server) = fixture(LIB);
    fixture.imports(
        "import contextlib, sys\nfrom typing import TYPE_CHECKING\n\
         try:\n    import stranger\n    from lib import gone1\nexcept (KeyError, ImportError):\n    from lib import gone2\n\
         with contextlib.suppress(ImportError):\n    import lib.gone3\n\
         if TYPE_CHECKING:\n    from lib import gone4\n\
         if sys.platform == 'win32':\n    import stranger\n    from lib import gone5\n\
         def f():\n    import stranger\n    from lib import gone6\n\
         if __name__ == '__main__':\n    from lib import gone7\n",
    );
    let ran = fixture.run(&server, &["app", "--write"]);
    ran.exits(0).reports([
        "warning: app/__init__.py:14: lib 1.0 does not have `lib.gone5`",
        "warning: app/__init__.py:17: lib 1.0 does not have `lib.gone6`",
        "warning: app/__init__.py:19: lib 1.0 does not have `lib.gone7`",
        "7 optional",
    ]);
    ran.never_reports("stranger");
    for caught in ["gone1", "gone2", "gone3", "gone4"] {
        ran.never_reports(caught);
    }
    // These cannot work without the missing name.
    for text in [
        "try:\n    from lib import gone\nexcept ImportError as error:\n    raise RuntimeError('install lib') from error\n",
        "try:\n    from lib import gone\nexcept KeyError:\n    pass\n",
        "class A:\n    from lib import gone\n",
        "from typing import TYPE_CHECKING\nif not TYPE_CHECKING:\n    from lib import gone\n",
    ] {
        fixture.imports(text);
        fixture.run(&server, &["app", "--check"]).exits(1).reports(["does not have `lib.gone`"]);
    }
}

#[test]
fn counts_dynamic_names() {
    let lazy = b"import sys\nfrom typing import TYPE_CHECKING\nfrom .utils import _LazyModule\n\
        _import_structure = {'a': ['FromTable']}\nif TYPE_CHECKING:\n    from .impl import *\n    from .impl import One as One\n\
        else:\n    sys.modules[__name__] = _LazyModule(__name__, globals()['__file__'], _import_structure)\n";
    let (fixture, server) = fixture(&[
        ("lib/__init__.py", b"def __getattr__(name):\n    return {'known': 1}[name]\n"),
        ("lib/lazy/__init__.py", lazy),
        ("lib/lazy/impl.py", b"__all__ = ['Star']\nclass Star: ...\nclass One: ...\nclass Hidden: ...\n"),
        (
            "lib/scan/__init__.py",
            b"import sys\nfrom .utils import _LazyModule, define_import_structure\n\
                sys.modules[__name__] = _LazyModule(__name__, __file__, define_import_structure(__file__))\n",
        ),
        ("lib/scan/found.py", b"__all__ = ['Found']\nclass Found: ...\nclass Hidden: ...\n"),
        (
            "lib/plain.py",
            b"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .lazy.impl import One\n",
        ),
        ("lib/made.py", b"import sys\nglobals().update(x=1)\nsys.modules[__name__ + '.inner'] = sys\n"),
        ("lib/native.cpython-314-x86_64-linux-gnu.so", b"\x7fELF"),
        ("lib/outer.py", b"from .native import *\n"),
    ]);
    fixture.imports(
        "from lib.scan import Found\nfrom lib import known, guess\nfrom lib.lazy import FromTable, Star, One, ANamedFast\n\
         from lib.made import x\nimport lib.made.inner\nfrom lib.native import anything\nfrom lib.outer import some\n",
    );
    let ran = fixture.run(&server, &["app", "--write", "--json"]);
    let document = ran.exits(0).json();
    let dynamic = document["imports"]["dynamic"].as_array().unwrap();
    let names: Vec<&str> = dynamic.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["lib.guess", "lib.lazy.ANamedFast", "lib.made.x", "lib.made.inner"]);
    assert_eq!(document["imports"]["compiled"], 2);
    ran.reports(["4 dynamic, 2 of compiled modules"]);
    fixture.imports(
        "from lib.lazy import Hidden\nfrom lib.scan import Hidden\nfrom lib.plain import One\n",
    );
    let refused = fixture.run(&server, &["app", "--check"]);
    refused.exits(1).reports(["`lib.lazy.Hidden`", "`lib.scan.Hidden`", "`lib.plain.One`"]);
}

#[test]
fn names_unparsable_files() {
    let deep = "x = ".to_owned() + &"(".repeat(100_000) + &")".repeat(100_000);
    let chain = "x = ".to_owned() + &"-".repeat(200_000) + "1";
    let (fixture, server) = fixture(&[
        ("lib/__init__.py", b""),
        ("lib/broken.py", b"def f(:\n"),
        ("lib/latin.py", b"name = '\xe9'\n"),
        ("lib/declared.py", b"# -*- coding: latin-1 -*-\nname = '\xe9'\n"),
        ("lib/zero.py", b"x = 1\0\n"),
        ("lib/deep.py", deep.as_bytes()),
        ("lib/chain.py", chain.as_bytes()),
        ("lib/loop.py", b"from .loop import *\nfrom .pool import *\n"),
        ("lib/pool.py", b"from .loop import *\nwater = 1\n"),
    ]);
    let broken = ["broken", "latin", "zero", "deep", "chain"];
    let text: String =
        broken.iter().map(|module| format!("from lib.{module} import name\n")).collect();
    fixture.imports(&(text + "from lib.declared import name\nfrom lib.loop import water\n"));
    let ran = fixture.run(&server, &["app", "--write"]);
    ran.exits(0).reports(["5 of files that cannot be parsed", "2 imports of 2 modules"]);
    for module in broken {
        ran.reports([format!("lib: lib/{module}.py: ").as_str()]);
    }
    fixture.imports("def f(:\n");
    fixture.run(&server, &["app", "--check"]).reports(["warning: app/__init__.py: invalid syntax"]);
}

#[test]
fn accepts_imports_with_a_reason() {
    let (fixture, server) = fixture(LIB);
    let rules = |rules: &str| {
        fixture
            .workspace
            .write("specs-templates/app/component.toml", format!("[closure]\n{rules}"));
    };
    let rule = |name: &str| format!("[[closure.import]]\nname = \"{name}\"\nreason = \"r\"\n");
    fixture.imports("import stranger.inner\nfrom lib import gone\n");
    rules(&rule("strange"));
    let refused = fixture.run(&server, &["app", "--write"]);
    refused.exits(1).reports([
        "no member of the closure has `stranger.inner`",
        "warning: every import of `strange` works: remove its `[[closure.import]]`",
    ]);
    rules(&(rule("stranger") + &rule("lib.gone")));
    fixture
        .run(&server, &["app", "--write"])
        .exits(0)
        .reports(["2 accepted"])
        .never_reports("works: remove");
    let old = "[[closure.import]]\nname = \"lib.other\"\nversions = \"<1\"\nreason = \"r\"\n";
    rules(&(rule("stranger") + &rule("lib.gone") + old));
    fixture.run(&server, &["app", "--check"]).exits(0).never_reports("works: remove");
    rules("[[closure.import]]\nname = \"lib gone\"\nreason = \" \"\n");
    let wrong = fixture.run(&server, &["app", "--check"]);
    wrong
        .exits(3)
        .reports(["`lib gone` is not the name of a module", "`reason` must not be empty"]);
}

#[test]
fn names_the_package_of_a_missing_python() {
    let (fixture, server) = fixture(LIB);
    fixture.run(&server, &["app", "--write"]).exits(0).reports(["imports are not checked"]);
    fixture.imports("import lib\n");
    let tools = fixture.workspace.holder().join("no-python");
    fs_err::create_dir_all(&tools).unwrap();
    for tool in ["tar", "gzip"] {
        let path = rocmrpm::process::find_program(tool)
            .unwrap_or_else(|| panic!("{tool} is not installed"));
        fs_err::os::unix::fs::symlink(path, tools.join(tool)).unwrap();
    }
    let mut command =
        fixture.command(Some(&server.url("/simple")), &["app", "--check", "--offline"]);
    ran(command.env("PATH", &tools))
        .exits(40)
        .reports(["`python3` is not installed", "apt-get install python3"]);
}
