//! The third-party closure of the pins, by the real `uv pip compile`: what it is given,
//! and what it says. Not what is written of it.

use std::path::Path;

use fs_err as fs;

use super::{Pinned, RequirementsError};
use crate::error::IoError;
use crate::files;
use crate::index::environment::Environment;
use crate::index::listing::{Listed, Listing};
use crate::index::outside::Outside;
use crate::process::{self, Command};
use crate::sources;
use crate::text::{escaped, file_url, percent_encoded};

/// The C library's versions for which uv knows a platform (uv 0.11 to 0.13, `uv pip compile
/// --help`): `x86_64-manylinux_2_28` and so on.
const PLATFORMS: [(u32, u32); 11] =
    [(2, 28), (2, 31), (2, 32), (2, 33), (2, 34), (2, 35), (2, 36), (2, 37), (2, 38), (2, 39), (2, 40)];

/// How many of uv's last lines an error shows.
const LINES: usize = 20;

/// Returns the pins together with everything that they require from outside, sorted.
pub fn resolve(
    view: &Listing,
    environment: &Environment,
    outside: &[Outside],
    own: &[Pinned],
) -> Result<Vec<Pinned>, RequirementsError> {
    let scratch = tempfile::tempdir().map_err(IoError::doing("make a folder for uv"))?;
    let simple =
        stand_in(view, environment, own, scratch.path()).map_err(IoError::doing("write an index for uv"))?;
    let (others, last) = match outside.split_last() {
        Some((last, others)) => (others, last.url.clone()),
        None => (&[][..], simple.clone()),
    };
    let mut first = if outside.is_empty() { Vec::new() } else { vec![simple] };
    first.extend(others.iter().map(|index| index.url.clone()));
    let input: String = own.iter().map(|pin| format!("{}=={}\n", pin.name, pin.version)).collect();
    // URLs go by the environment, which only this user can read; arguments everybody can.
    let mut uv = Command::new("uv")
        .args(["--no-config", "--color", "never", "pip", "compile", "-", "--quiet"])
        .args(["--generate-hashes", "--no-header", "--no-annotate", "--index-strategy", "first-index"])
        .args(["--python-version", &environment.python(), "--python-platform", &platform(environment)])
        .cwd(scratch.path())
        .env("UV_INDEX", first.join(" "))
        .env("UV_DEFAULT_INDEX", last)
        .env("UV_PYTHON_DOWNLOADS", "never")
        .stdin(input);
    // Whatever else would bring other indexes or versions: UV_TORCH_BACKEND names builds for CUDA.
    for name in [
        "UV_INDEX_URL",
        "UV_EXTRA_INDEX_URL",
        "UV_FIND_LINKS",
        "UV_NO_INDEX",
        "UV_CONSTRAINT",
        "UV_OVERRIDE",
        "UV_TORCH_BACKEND",
    ] {
        uv = uv.env_remove(name);
    }
    let finished = uv.run()?;
    if !finished.success() {
        let passwords: Vec<String> = outside.iter().flat_map(|index| sources::password(&index.url)).collect();
        let mut said = process::last_lines(&finished.stderr, LINES);
        for line in &mut said {
            for password in &passwords {
                *line = line.replace(password, "***");
            }
        }
        let told = String::from_utf8_lossy(&finished.stderr);
        let network = ["Failed to fetch", "error sending request", "Could not connect", "Request failed"]
            .iter()
            .any(|words| told.contains(words));
        return Err(RequirementsError::Resolve { said, network });
    }
    merge(&String::from_utf8_lossy(&finished.stdout), own)
}

/// Writes an index of exactly the pinned wheels for uv. Their platform is written as plain
/// `linux`: they are built for the environment, and uv does not know every C library's
/// version. The files are links, and nobody but uv sees them.
fn stand_in(
    view: &Listing,
    environment: &Environment,
    own: &[Pinned],
    dir: &Path,
) -> std::io::Result<String> {
    let simple = dir.join("simple");
    for pin in own {
        let folder = simple.join(&pin.name);
        fs::create_dir_all(&folder)?;
        let mut page = "<!DOCTYPE html>\n".to_owned();
        let wheels = view.wheels.get(&pin.name).into_iter().flatten().filter(|wheel| {
            !wheel.said.yanked && pin.version == wheel.name.version.to_string() && takes(wheel, environment)
        });
        for wheel in wheels {
            let (Some(path), Some(digest)) = (&wheel.path, wheel.said.sha256) else { continue };
            let name = plain_platform(&wheel.file, environment);
            fs::os::unix::fs::symlink(path, folder.join(&name)).or_else(|error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => Ok(()),
                _ => Err(error),
            })?;
            let url = percent_encoded(name.as_bytes(), b"");
            page += &format!("<a href=\"{url}#sha256={digest}\">{}</a>\n", escaped(&name));
        }
        files::write_atomically(&folder.join("index.html"), page)?;
    }
    Ok(file_url(&simple))
}

fn takes(wheel: &Listed, environment: &Environment) -> bool {
    wheel.name.tags.iter().any(|tag| environment.takes(tag))
}

fn plain_platform(file: &str, environment: &Environment) -> String {
    match file.trim_end_matches(".whl").rsplit_once('-') {
        Some((rest, platform)) if platform != "any" => format!("{rest}-linux_{}.whl", environment.arch()),
        _ => file.to_owned(),
    }
}

/// Returns uv's name of the platform: the newest C library that is not newer than ours.
fn platform(environment: &Environment) -> String {
    let glibc = environment.glibc().unwrap_or((2, 28));
    let known = PLATFORMS.iter().rev().find(|known| **known <= glibc).unwrap_or(&PLATFORMS[0]);
    format!("{}-manylinux_{}_{}", environment.arch(), known.0, known.1)
}

/// Reads what uv says, and puts the stack's own pins in the place of uv's: those have the
/// digests of all files.
fn merge(said: &str, own: &[Pinned]) -> Result<Vec<Pinned>, RequirementsError> {
    let mut pins: Vec<Pinned> = Vec::new();
    for line in said.lines().map(|line| line.trim().trim_end_matches('\\').trim()) {
        if let Some(hash) = line.strip_prefix("--hash=") {
            let Some(pin) = pins.last_mut() else {
                return Err(RequirementsError::Answer(format!("`{line}` belongs to nothing")));
            };
            pin.hashes.push(hash.to_owned());
        } else if let Some((name, version)) = line.split_once("==") {
            pins.push(Pinned { name: name.into(), version: version.into(), hashes: Vec::new(), own: false });
        } else if !line.is_empty() && !line.starts_with('#') {
            return Err(RequirementsError::Answer(format!("`{line}` is no `name==version`")));
        }
    }
    for pin in own {
        if !pins.iter().any(|found| found.name == pin.name && found.version == pin.version) {
            let message = format!("it leaves out {}=={}", pin.name, pin.version);
            return Err(RequirementsError::Answer(message));
        }
    }
    pins.retain(|pin| own.iter().all(|own| own.name != pin.name));
    if let Some(bare) = pins.iter().find(|pin| pin.hashes.is_empty()) {
        let message = format!("it has no digest of {}=={}", bare.name, bare.version);
        return Err(RequirementsError::Answer(message));
    }
    pins.extend(own.iter().cloned());
    pins.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(pins)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(name: &str, version: &str) -> Pinned {
        Pinned { name: name.into(), version: version.into(), hashes: vec!["sha256:00".into()], own: true }
    }

    #[test]
    fn own_pins_stay_and_others_join_them() {
        let own = [pin("torch", "2.11.0+rocm7.14.gfx1151")];
        let said = "numpy==2.0 \\\n    --hash=sha256:11 \\\n    --hash=sha256:22\n\
                    torch==2.11.0+rocm7.14.gfx1151 \\\n    --hash=sha256:33\n";
        let pins = merge(said, &own).unwrap();
        assert_eq!(pins[0].hashes, ["sha256:11", "sha256:22"]);
        assert_eq!(pins[1], own[0]);
        for (wrong, expected) in [
            ("torch==2.12.0 \\\n --hash=sha256:3\n", "leaves out torch"),
            ("--hash=sha256:1\n", "belongs to nothing"),
            ("torch @ http://h/x.whl\n", "is no `name==version`"),
            ("a==1\ntorch==2.11.0+rocm7.14.gfx1151 \\\n --hash=sha256:3\n", "no digest of a"),
        ] {
            let error = merge(wrong, &own).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn platforms_are_those_that_uv_knows() {
        let named = |glibc| platform(&Environment::new("3.14", "x86_64", glibc).unwrap());
        assert_eq!(named(Some((2, 42))), "x86_64-manylinux_2_40");
        assert_eq!(named(Some((2, 30))), "x86_64-manylinux_2_28");
        let here = Environment::new("3.14", "x86_64", None).unwrap();
        assert_eq!(
            plain_platform("a-1-cp314-cp314-manylinux_2_42_x86_64.whl", &here),
            "a-1-cp314-cp314-linux_x86_64.whl"
        );
        assert_eq!(plain_platform("a-1-py3-none-any.whl", &here), "a-1-py3-none-any.whl");
    }
}
