"""Builds the survey's components with mock in the laboratory, and installs each with dnf5 into an empty
root there. Needs ROCMRPM_LAB_MOCK; see docs/contributing/laboratory.md."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).parent.parent
INSIDE = "/home/builder/survey"
# The date of all changelogs: an unchanged component is not built again.
DATE = "1767225600"

INSTALL = r"""
set -uo pipefail
for project in "$@"; do
    name=${project%%=*} modules=${project#*=}
    root=/mnt/root log=$PWD/build/install/$name.log
    rm -rf --one-file-system "$root"
    mkdir -p "$root" "${log%/*}"
    files=$(find build/fedora-43/results/"$name" -name '*.rpm' ! -name '*.src.rpm' ! -name '*-debug*')
    packages=$(rpm -qp --nosignature --qf '%{name} ' $files)
    code=0
    dnf5 -y --installroot="$root" --releasever=43 --use-host-config --setopt=reposdir=/nonexistent \
        --setopt=install_weak_deps=0 --setopt=cachedir=/mnt/cache \
        --repofrompath=fedora,file:///lab/fedora --setopt=fedora.gpgcheck=0 \
        install $files >"$log" 2>&1 && rpm --root "$root" -V $packages >>"$log" 2>&1 || code=$?
    if ((code == 0)) && [[ -n $modules ]]; then
        chroot "$root" python3 -c "import $modules" >>"$log" 2>&1 || code=$?
    fi
    echo "$name $code"
done
"""


def environment(variables):
    return os.environ | {name: str(value) for name, value in variables.items()}


def lab():
    home = os.environ.get("XDG_CACHE_HOME") or str(pathlib.Path.home() / ".cache")
    return pathlib.Path(os.environ.get("ROCMRPM_LAB") or f"{home}/rocmrpm/lab")


def own(folder, owner):
    if os.geteuid() == 0 and folder.exists():
        subprocess.run(["chown", "-R", owner, folder], check=True)


def take_back(folder):
    """Undoes what an earlier run did for the laboratory's user."""
    own(folder, "0:0")


def enter(survey, user, *command):
    """Runs a command in the workspace in the laboratory."""
    binds = [f"{survey.folder}:{INSIDE}", f"{survey.program}:/run/rocmrpm/rocmrpm"]
    variables = [f"ROCMRPM_CACHE={INSIDE}/cache", f"ROCMRPM_TRUST={INSIDE}/workspace", f"SOURCE_DATE_EPOCH={DATE}"]
    options = [f"--bind={bind}" for bind in binds] + [f"--env={variable}" for variable in variables]
    options = [word for option in options for word in option.split("=", 1)]
    script = ["bash", REPOSITORY / "tests/laboratory/system/enter", "--user", user, "--cd", f"{INSIDE}/workspace", *options]
    return subprocess.run(["nice", "-n", "5", *script, "--", *command], stdout=subprocess.PIPE, text=True, check=False)


def failure(workspace, component):
    """Returns why the build of a component failed."""
    path = workspace / "build/fedora-43/work" / component / "failure.json"
    if not path.exists():
        return "not tried"
    record = json.loads(path.read_text())
    return record["error"].split("failed in ", 1)[-1]


def modules(project):
    """Returns the modules that the template names."""
    saved = re.search(r"^%pyproject_save_files (.*)$", project.template.read_text(), re.M)
    names = saved.group(1).split() if saved else []
    return [name for name in names if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]


def build(survey, projects):
    # The laboratory does not reach AMD's repository, which is part of a new workspace's chroot.
    chroot = "mock-configs/fedora-43.toml"
    shutil.copy(REPOSITORY / "tests/laboratory/workspace" / chroot, survey.workspace / chroot)
    names = [project.component for project in projects if project.component]
    fetched = survey.rocmrpm("build", "--until", "sources", "--keep-going", *names)
    if fetched.returncode:
        print(fetched.stderr, file=sys.stderr)
    users = (lab() / "host/etc/passwd").read_text()
    own(survey.folder, ":".join(re.search(r"^builder:[^:]*:(\d+):(\d+)", users, re.M).groups()))
    command = ["build", "--chroot", "fedora-43", "--until", "rpm", "--keep-going", "--offline", *names]
    enter(survey, "builder", "/run/rocmrpm/rocmrpm", *command)
    for project in projects:
        if not project.component:
            continue
        times = survey.workspace / "build/fedora-43/results" / project.component / "times.json"
        work = survey.workspace / "build/fedora-43/work" / project.component
        if times.exists() and not work.exists():
            seconds = json.loads(times.read_text())["seconds"]
            project.built, project.seconds = "yes", round(seconds["srpm"] + seconds["build"])
        else:
            project.built = project.fail("build", failure(survey.workspace, project.component))


def install(survey, projects):
    built = [project for project in projects if project.built == "yes"]
    names = [f"{project.component}={','.join(modules(project))}" for project in built]
    done = enter(survey, "root", "bash", "-c", INSTALL, "install", *names)
    codes = dict(line.split(" ") for line in done.stdout.splitlines())
    for project in built:
        log = survey.workspace / "build/install" / f"{project.component}.log"
        if codes.get(project.component) == "0":
            project.installed = "imported" if modules(project) else "yes"
            continue
        lines = log.read_text().splitlines() if log.exists() else []
        reasons = [line.strip(" -") for line in lines if "nothing provides" in line or "Error:" in line]
        project.installed = project.fail("install", (reasons or lines[-1:] or ["the laboratory failed"])[0])


def build_and_install(survey, projects):
    build(survey, projects)
    install(survey, projects)
