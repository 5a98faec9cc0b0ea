"""Builds uploaded source packages: they go through COPR's states, and rpmbuild makes their RPMs.

The folders have the layout of copr-backend: <owner>/<project>/<chroot>/, with repodata, and in it
<build, 8 digits>-<package>/ with the RPMs, results.json, the marker `success`, and the logs of mock
and of the backend. The backend's own logs are compressed after the frontend knows that the build has
finished. The worker does not install BuildRequires; it uses this machine's tools.

As in COPR's background_worker_build.py, packages are in the folder before the build's state is known,
and cancel requests are ignored once they are signed, so failed and canceled builds can have
packages.
"""

import gzip
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tarfile
import tempfile
import threading
import time

from state import set_chroot, set_source


class Over(Exception):
    """The build was canceled while this worker was running it, or has no source."""


class Failed(Exception):
    """The backend or the build failed; the text is its log message."""


NO_SUCCESS = "No success file => build failure"


class Worker:
    def __init__(self, state, control, folder, changed):
        self.state, self.control, self.changed = state, control, changed
        self.uploads, self.results = folder / "uploads", folder / "results"
        self.running = set()
        # Runs only one createrepo_c at a time, like the backend.
        self.repodata = threading.Lock()
        self.keys, self.keyring = threading.Lock(), folder / "gnupg"

    def start(self, number):
        threading.Thread(target=self.run, args=(number,), daemon=True).start()

    def stop(self):
        """Kills the children of this server, which have their own sessions."""
        for child in list(self.running):
            kill(child)
        # From here on, nothing writes metadata.
        self.repodata.acquire(timeout=10)
        if self.keyring.exists():
            subprocess.run(["gpgconf", "--kill", "all"], env=self.keyring_environment(), check=False)

    def run(self, number):
        build = self.state.builds[number]
        try:
            self.stay(build, "source-pending")
            while self.blocked(build):
                time.sleep(0.02)
            self.source(build)
            for name in list(build["chroots"]):
                self.chroot(build, name)
        except Over:
            pass
        self.changed()

    def blocked(self, build):
        with self.state.lock:
            if build["canceled"]:
                raise Over
            return self.state.blocked(build)

    def stay(self, build, phase, cancelable=True):
        """Stays in a phase while the control file holds it, or until the build is canceled."""
        self.changed()
        end = time.monotonic() + self.control.step()
        while time.monotonic() < end or self.control.hold(name_of(build)) == phase:
            if build["canceled"] and cancelable:
                raise Over
            time.sleep(0.01)
        if build["canceled"] and cancelable:
            raise Over

    def source(self, build):
        """Runs the source build and the import into COPR's dist-git."""
        srpm = self.uploads / build["source"]["tmp"] / build["source"]["pkg"]
        for what in ("starting", "running"):
            self.set_source(build, what)
            self.stay(build, "source-" + what)
        folder = self.results / build["project"].split("/")[0] / build["dirname"] / "srpm-builds" / build["source_dir"]
        folder.mkdir(parents=True, exist_ok=True)
        live = folder / "builder-live.log"
        live.write_text("Running: copr-rpmbuild --srpm\n")
        described = None if self.control.fails_source(name_of(build)) else description(srpm)
        if described is None:
            live.write_text(live.read_text() + "Copr build error: can not read the source package\n")
            backend_log(folder, NO_SUCCESS)
            self.set_source(build, "failed")
            self.pack(build, folder, "source-packing")
            raise Over
        package, version = described
        shutil.copy(srpm, folder)
        backend_log(folder)
        with self.state.lock:
            build["srpm_url"] = f"{self.state.source_url(build)}/{srpm.name}"
        self.set_source(build, "importing", package, version)
        self.pack(build, folder, "source-packing")
        self.stay(build, "importing")
        self.set_source(build, "succeeded")
        self.stay(build, "pending")

    def set_source(self, build, *values):
        with self.state.lock:
            set_source(self.state, build, *values)
        self.changed()

    def set_chroot(self, build, *values):
        with self.state.lock:
            set_chroot(build, *values)
        self.changed()

    def chroot(self, build, name):
        owner = build["project"].split("/")[0]
        repository = self.results / owner / build["dirname"] / name
        folder = repository / f"{build['id']:08}-{build['package']}"
        folder.mkdir(parents=True, exist_ok=True)
        backend_log(folder)
        packages, failure = None, None
        try:
            self.set_chroot(build, name, "starting")
            self.stay(build, "starting")
            (folder / "builder-live.log").touch()
            (folder / "build.info").write_text(f"build_id={build['id']}\n")
            self.set_chroot(build, name, "running")
            self.stay(build, "running")
            packages = self.backend(build, name, folder)
        except (Failed, Over) as failed:
            # The backend reports and packs canceled builds, too (handle_task).
            failure = str(failed) or "Build was canceled"
        self.finish(folder, packages)
        backend_log(folder, failure)
        self.set_chroot(build, name, "failed" if packages is None else "succeeded", packages or ())
        self.pack(build, folder, "packing")
        if build["canceled"]:
            raise Over

    def pack(self, build, folder, phase):
        """_compress_logs, which runs after the report to the frontend."""
        self.stay(build, phase, cancelable=False)
        for name in ("builder-live.log", "backend.log"):
            log = folder / name
            if log.exists():
                with log.open("rb") as plain, gzip.open(f"{log}.gz", "wb") as packed:
                    shutil.copyfileobj(plain, packed)
                log.unlink()

    def backend(self, build, name, folder):
        """Runs a build, and processes its packages like the backend."""
        words = self.control.backend_fails(build["package"])
        if words == "Build timeouted":
            raise Failed(words)
        packages = self.rpmbuild(build, name, folder)
        (folder / "success").write_text("done")
        self.stay(build, "signing", cancelable=False)
        self.sign(build, folder)
        if words is not None:
            raise Failed(words)
        devel = self.state.projects[tuple(build["project"].split("/"))]["devel_mode"]
        if not self.createrepo(folder.parent, devel):
            raise Failed("createrepo failed")
        return packages

    def createrepo(self, repository, devel):
        """Creates metadata for all packages, in devel/ if users do not get them (backend/run/copr-repo)."""
        command = ["createrepo_c", "--quiet", "--general-compress-type=gz", repository]
        if devel:
            (repository / "devel").mkdir(exist_ok=True)
            url = f"{self.state.results_url}/{repository.relative_to(self.results)}"
            command += ["--outputdir", repository / "devel", "--baseurl", url]
        with self.repodata:
            return subprocess.run(command, check=False).returncode == 0

    def createrepos(self, project, devel):
        """Schedules new metadata for all chroots."""
        folder = self.results / project["full_name"]
        repositories = [folder / name for name in project["chroots"] if (folder / name).exists()]
        threading.Thread(target=lambda: [self.createrepo(r, devel) for r in repositories], daemon=True).start()

    def delete(self, build):
        """Deletes the results of a build. If users get metadata only on request, theirs does not
        change (actions.py, `"devel": true`)."""
        owner, project = build["project"].split("/")
        for name, chroot in build["chroots"].items():
            repository = self.results / owner / build["dirname"] / name
            if chroot["result_dir"]:
                shutil.rmtree(repository / chroot["result_dir"], ignore_errors=True)
                self.createrepo(repository, self.state.projects[owner, project]["devel_mode"])

    def rpmbuild(self, build, chroot, folder):
        """Builds the packages and returns their names."""
        live = folder / "builder-live.log"
        words = self.control.fails(build["package"])
        if words is not None:
            live.write_text(words + "\n")
            raise Failed(NO_SUCCESS)
        srpm = self.uploads / build["source"]["tmp"] / build["source"]["pkg"]
        with tempfile.TemporaryDirectory(prefix="worker-") as top, live.open("w") as log:
            owner, project = build["project"].split("/")
            # The macros that copr-rpmbuild defines (helpers.py, macros_for_task), and the chroot's
            # %dist.
            define = {"_topdir": top, "dist": dist_of(chroot), "buildtag": f".copr{build['id']}"}
            define.update(copr_username=owner, copr_projectname=project, **self.control.define(build["package"]))
            definitions = [part for key, value in define.items() for part in ("--define", f"{key} {value}")]
            # COPR builds from its dist-git, so the source package in the results is rebuilt too.
            subprocess.run(["rpm", "-i", "--dbpath", top, *definitions, srpm], stdout=log, stderr=log, check=False)
            command = ["rpmbuild", "-ba", "--nodeps", *definitions, *pathlib.Path(top, "SPECS").iterdir()]
            child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
            self.running.add(child)
            try:
                end = time.monotonic() + build["timeout"]
                while child.poll() is None:
                    if build["canceled"]:
                        raise Over
                    if time.monotonic() > end:
                        log.write("\n !! Copr timeout => sending INT\n")
                        raise Failed(NO_SUCCESS)
                    time.sleep(0.02)
            finally:
                kill(child)
                self.running.discard(child)
            if child.returncode != 0:
                log.write("\nCopr build error: Build failed\n")
                raise Failed(NO_SUCCESS)
            for made in [*pathlib.Path(top).rglob("*RPMS/**/*.rpm"), *pathlib.Path(top, "SPECS").iterdir()]:
                shutil.copy(made, folder)
        return nevras(sorted(folder.glob("*.rpm")))

    def sign(self, build, folder):
        """Signs the packages with the project's key, whose public part is next to its chroots."""
        environment, quiet = self.keyring_environment(), {"stdout": subprocess.DEVNULL, "check": True}
        with self.keys:
            if not self.keyring.exists():
                self.keyring.mkdir(mode=0o700)
                for user in ("project@copr", "other@copr"):
                    make = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", user, "rsa2048", "sign"]
                    subprocess.run(make, env=environment, stderr=subprocess.DEVNULL, **quiet)
        public = folder.parent.parent / "pubkey.gpg"
        if not public.exists():
            export = ["gpg", "--batch", "--armor", "--export", "project@copr"]
            armor = subprocess.run(export, env=environment, stdout=subprocess.PIPE, check=True).stdout
            part = public.with_name(f"pubkey.{build['id']}")
            part.write_bytes(armor)
            part.rename(public)
        key = self.control.key(build["package"])
        if key:
            sign = ["rpmsign", "--define", f"__gpg {shutil.which('gpg')}", "--define", f"_gpg_name {key}@copr"]
            sign += ["--define", f"_openpgp_sign_id {key}@copr", "--define", "_openpgp_sign gpg", "--addsign"]
            subprocess.run([*sign, *folder.glob("*.rpm")], env=environment, stderr=subprocess.DEVNULL, **quiet)

    def keyring_environment(self):
        return {**os.environ, "GNUPGHOME": str(self.keyring)}

    def finish(self, folder, packages):
        """Writes what a builder leaves: mock's own logs, compressed."""
        live = folder / "builder-live.log"
        # mock's build.log is the part of the live log written by rpmbuild.
        text = live.read_text() if live.exists() else ""
        logs = {"build.log": text, "root.log": "", "state.log": "", "hw_info.log": "CPU info\n"}
        for name, content in logs.items():
            with gzip.open(folder / f"{name}.gz", "wt") as packed:
                packed.write(content)
        with tarfile.open(folder / "configs.tar.gz", "w:gz"):
            pass
        if packages is not None:
            (folder / "results.json").write_text(json.dumps({"packages": packages}))


def backend_log(folder, error=None):
    """Writes the log of COPR's backend in its build_log_format."""
    line = "[2026-08-07 18:10:06,001][{:>6}][PID:1] {}\n".format
    with (folder / "backend.log").open("a") as log:
        log.write(line("INFO", "Marking build as starting"))
        for words in (f"Build failed: {error}", error) if error else ():
            log.write(line("ERROR", words))


def dist_of(chroot):
    """fedora-43-x86_64 has .fc43"""
    return ".fc" + chroot.split("-")[1]


def name_of(build):
    """Returns the package's name, which COPR knows after the import; before that, the file's name."""
    return build["package"] or build["source"]["pkg"].rsplit("-", 2)[0]


def description(srpm):
    """Name and version of a source package. COPR reads the spec, for all chroots at once, so with
    an empty %dist (copr-rpmbuild's helpers.py, macros_for_task), else the header."""
    form = "%{NAME}\n%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\n"
    with tempfile.TemporaryDirectory(prefix="worker-") as top:
        quiet = {"stderr": subprocess.DEVNULL, "check": False}
        if subprocess.run(["rpm", "-i", "--dbpath", top, "--define", f"_topdir {top}", srpm], **quiet).returncode != 0:
            return None
        quiet.update(stdout=subprocess.PIPE, text=True)
        specs = list(pathlib.Path(top, "SPECS").iterdir())
        spec = ["rpmspec", "-q", "--srpm", "--define", f"_topdir {top}", "--define", "dist %{nil}", "--qf", form]
        asked = subprocess.run([*spec, *specs], **quiet)
        if asked.returncode != 0:
            asked = subprocess.run(["rpm", "-qp", "--nosignature", "--qf", form, srpm], **quiet)
    return asked.stdout.split() if asked.returncode == 0 else None


def nevras(rpms):
    form = "%{NAME}\t%{EPOCH}\t%{VERSION}\t%{RELEASE}\t%{ARCH}\t%{SOURCERPM}\n"
    asked = subprocess.run(
        ["rpm", "-qp", "--nosignature", "--qf", form, *rpms], stdout=subprocess.PIPE, text=True, check=True,
    )
    found = []
    for line in asked.stdout.splitlines():
        name, epoch, version, release, arch, source = line.split("\t")
        arch = "src" if source == "(none)" else arch
        epoch = None if epoch == "(none)" else int(epoch)
        found.append({"name": name, "epoch": epoch, "version": version, "release": release, "arch": arch})
    return found


def kill(child):
    """Kills a child and its descendants."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
