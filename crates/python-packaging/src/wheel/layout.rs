//! Maps each file of an RPM to a member of a wheel, by its path only. The scheme folders are those
//! of the binary distribution format, ".data directory".

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WheelDestination<'a> {
    /// A file in a site-packages folder.
    Library(Library<'a>),
    /// The name of a command in `/usr/bin`.
    Command(&'a str),
    /// A path below the wheel's `.data` folder.
    Data(String),
    /// A file that a wheel omits, because it has no use in a virtual environment.
    Dropped,
    /// A file that the package needs but a wheel cannot hold: the reason and the help.
    Refused(&'static str, &'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Library<'a> {
    /// The path below site-packages.
    pub path: &'a str,
    /// The Python version in the folder's name.
    pub python: Option<(u32, u32)>,
}

/// Folders below `/usr` that a wheel omits.
const DROPPED: [&str; 9] = [
    "lib/.build-id/",
    "lib/debug/",
    "src/debug/",
    "share/doc/",
    "share/info/",
    "share/licenses/",
    "share/man/",
    "share/applications/",
    "share/metainfo/",
];

/// Returns the place of the file with this absolute path.
pub(super) fn place(path: &str) -> WheelDestination<'_> {
    if path.ends_with(".pyc") || path.contains("/__pycache__/") {
        return WheelDestination::Dropped;
    }
    if let Some(library) = library(path) {
        return WheelDestination::Library(library);
    }
    if let Some(rest) = path.strip_prefix("/etc/") {
        return WheelDestination::Data(format!("data/etc/{rest}"));
    }
    let below = path.strip_prefix("/usr/local/").or_else(|| path.strip_prefix("/usr/"));
    let Some(rest) = below else { return elsewhere(path) };
    if DROPPED.iter().any(|folder| rest.starts_with(folder)) {
        return WheelDestination::Dropped;
    }
    if let Some(rest) = rest.strip_prefix("bin/") {
        return if rest.contains('/') { elsewhere(path) } else { WheelDestination::Command(rest) };
    }
    if let Some(header) = rest.strip_prefix("include/") {
        // Installers put the headers scheme in `include/python3.14/<distribution>/`.
        let own = header.split_once('/').filter(|(folder, _)| python_folder(folder).is_some());
        return match own.and_then(|(_, rest)| rest.split_once('/')) {
            Some((_, rest)) => WheelDestination::Data(format!("headers/{rest}")),
            None => WheelDestination::Data(format!("data/include/{header}")),
        };
    }
    if rest.starts_with("share/") || rest.starts_with("etc/") {
        return WheelDestination::Data(format!("data/{rest}"));
    }
    elsewhere(path)
}

fn elsewhere(path: &str) -> WheelDestination<'_> {
    let name = path.rsplit('/').next().unwrap_or_default();
    if name.ends_with(".so") || name.contains(".so.") {
        return WheelDestination::Refused(
            "a shared library outside site-packages, which the wheel's modules would not find",
            "install it inside the Python package and link the modules with a RUNPATH of $ORIGIN, \
             or list it in `leave-out` under `[wheel]` in component.toml",
        );
    }
    WheelDestination::Refused(
        "this folder has no counterpart in a virtual environment",
        "install the file inside the Python package or below /usr/share, or list it in `leave-out` \
         under `[wheel]` in component.toml",
    )
}

/// Recognizes `.../pythonX.Y/site-packages/...`, and Debian's `dist-packages`.
fn library(path: &str) -> Option<Library<'_>> {
    let (folder, rest) = ["/site-packages/", "/dist-packages/"]
        .iter()
        .filter_map(|name| path.split_once(name))
        .min_by_key(|(folder, _)| folder.len())?;
    let python = python_folder(folder.rsplit('/').next()?)?;
    Some(Library { path: rest, python })
}

/// Returns the version of a folder named `python3.14`; `Some(None)` for `python3`.
fn python_folder(name: &str) -> Option<Option<(u32, u32)>> {
    let version = name.strip_prefix("python")?;
    let (major, minor) = match version.split_once('.') {
        Some((major, minor)) => (major, Some(minor.trim_end_matches('t').parse().ok()?)),
        None => (version, None),
    };
    let major = major.parse().ok()?;
    Some(minor.map(|minor| (major, minor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(path: &str) -> WheelDestination<'static> {
        WheelDestination::Data(path.to_owned())
    }

    #[test]
    fn maps_every_kind_of_path() {
        let module = Library { path: "a/b.py", python: Some((3, 14)) };
        for root in ["/usr/lib", "/usr/lib64", "/usr/local/lib64", "/opt/x/lib"] {
            let path = format!("{root}/python3.14/site-packages/a/b.py");
            assert_eq!(place(&path), WheelDestination::Library(module.clone()));
        }
        for (path, expected) in [
            (
                "/usr/lib/python3/dist-packages/a.py",
                WheelDestination::Library(Library { path: "a.py", python: None }),
            ),
            (
                "/usr/lib/python3.9/site-packages/x/site-packages/y",
                WheelDestination::Library(Library {
                    path: "x/site-packages/y",
                    python: Some((3, 9)),
                }),
            ),
            (
                "/usr/lib/python3.14/site-packages/__pycache__/a.cpython-314.pyc",
                WheelDestination::Dropped,
            ),
            ("/usr/bin/demo", WheelDestination::Command("demo")),
            ("/usr/include/python3.14/demo/x/a.h", data("headers/x/a.h")),
            ("/usr/include/demo/a.h", data("data/include/demo/a.h")),
            ("/usr/share/demo/t.txt", data("data/share/demo/t.txt")),
            ("/usr/etc/demo.conf", data("data/etc/demo.conf")),
            ("/etc/demo.conf", data("data/etc/demo.conf")),
            ("/usr/share/doc/demo/README", WheelDestination::Dropped),
            ("/usr/share/licenses/demo/COPYING", WheelDestination::Dropped),
            ("/usr/share/man/man1/demo.1.gz", WheelDestination::Dropped),
            ("/usr/lib/.build-id/ab/cdef", WheelDestination::Dropped),
        ] {
            assert_eq!(place(path), expected, "{path}");
        }
    }

    #[test]
    fn rejects_paths_outside_wheels() {
        for (path, expected) in [
            ("/usr/lib64/libdemo.so.1", "shared library"),
            ("/opt/rocm/lib/libdemo.so", "shared library"),
            ("/usr/libexec/demo", "no counterpart"),
            ("/usr/bin/a/b", "no counterpart"),
            ("/usr/lib64/pkgconfig/demo.pc", "no counterpart"),
            ("/usr/lib64/perl5/site-packages/a", "no counterpart"),
        ] {
            match place(path) {
                WheelDestination::Refused(reason, _) => {
                    assert!(reason.contains(expected), "{path}: {reason}")
                }
                other => panic!("{path}: {other:?}"),
            }
        }
    }
}
