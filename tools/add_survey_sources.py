"""Gets the sources of the survey's projects that are not on the pip index: crates through cargo, and
upstream's archives of C and C++ projects through apt, from Debian's source packages."""

import os
import pathlib
import re
import shutil
import subprocess
import tomllib


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise SystemExit(f"error: {command[0]} failed\n{done.stderr}")
    return done.stdout


def crate(name, folder):
    """Returns the archive of a crate's newest release, and its version."""
    project = folder / "cargo" / name
    (project / "src").mkdir(parents=True, exist_ok=True)
    (project / "src/lib.rs").touch()
    manifest = f'[package]\nname = "survey"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n{name} = "*"\n'
    (project / "Cargo.toml").write_text(manifest)
    run("cargo", "generate-lockfile", "--quiet", cwd=project)
    run("cargo", "fetch", "--quiet", "--locked", cwd=project)
    packages = tomllib.loads((project / "Cargo.lock").read_text())["package"]
    version = next(package["version"] for package in packages if package["name"] == name)
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    archive = next((home / "registry/cache").glob(f"*/{name}-{version}.crate"))
    return archive, version


class Debian:
    """The source packages of this machine's Debian, with lists of its own: those of the system stay."""

    def __init__(self, folder):
        self.folder = folder / "debian"
        (self.folder / "lists/partial").mkdir(parents=True, exist_ok=True)
        format = "$(REPO_URI) $(CODENAME)"
        lines = run("apt-get", "indextargets", "--format", format, "Created-By: Packages").splitlines()
        lines = [line.split() for line in lines if not re.search(r"security|updates|backports", line)]
        uri, release = lines[0]
        (self.folder / "sources.list").write_text(f"deb-src {uri} {release} main\n")
        self.options = [
            option
            for name, value in {
                "Dir::Etc::sourcelist": self.folder / "sources.list",
                "Dir::Etc::sourceparts": "-",
                "Dir::State::lists": self.folder / "lists",
                "Dir::Cache::srcpkgcache": "",
                "Dir::Cache::pkgcache": "",
                "APT::Sandbox::User": "root",
            }.items()
            for option in ("-o", f"{name}={value}")
        ]
        run("apt-get", *self.options, "-q", "update")

    def archive(self, name):
        """Returns upstream's archive in a source package, and its version."""
        downloads = self.folder / name
        shutil.rmtree(downloads, ignore_errors=True)
        downloads.mkdir()
        run("apt-get", *self.options, "-q", "source", "--download-only", "--only-source", name, cwd=downloads)
        found = [path for path in downloads.iterdir() if re.search(r"\.orig\.tar\.(gz|xz|bz2)$", path.name)]
        if not found:
            raise SystemExit(f"error: the source package {name} has no upstream archive")
        version = re.fullmatch(r".+?_(.+)\.orig\.tar\..+", found[0].name).group(1)
        # Debian marks archives that it changed, such as 1.0+dfsg.
        return found[0], re.split(r"[+~]", version)[0]
