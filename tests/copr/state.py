"""The server's state (projects, builds, batches, users), and its form in COPR's answers.

The names, the order of states and the defaults are those of COPR's frontend: its models.py and
views/apiv3_ns/*.py (to_dict), as of August 2026. It handles neither HTTP nor builds.
"""

import threading
import time

# common/copr_common/enums.py, StatusEnum
STATUS = {
    "failed": 0, "succeeded": 1, "canceled": 2, "running": 3, "pending": 4, "skipped": 5,
    "starting": 6, "importing": 7, "forked": 8, "waiting": 9, "unknown": 1000,
}
FINISHED = ("succeeded", "skipped", "failed", "canceled")

# Frontend's config.py: BUILD_TIMEOUT in seconds, BUILD_MEMORY in MB.
DEFAULT_TIMEOUT, MIN_TIMEOUT, MAX_TIMEOUT = 3600 * 5, 0, 108000
DEFAULT_MEMORY = 2048
# The number of days that a disabled chroot's results remain, as counted by the frontend.
DELETE_AFTER_DAYS = 6


class ApiError(Exception):
    """An error that COPR answers as {"error": message} with a status."""

    def __init__(self, code, message, **more):
        super().__init__(message)
        self.code, self.body = code, dict(more, error=message)


class State:
    """The whole state, guarded by one lock."""

    def __init__(self, url, results_url, chroots):
        self.lock = threading.RLock()
        self.url, self.results_url = url, results_url
        self.chroots = sorted(chroots)
        self.users = {
            name: {"id": n, "name": name, "login": name + "-login", "token": name + "-token-of-30-characters"}
            for n, name in enumerate(("alice", "bob"), 1)
        }
        self.projects, self.builds, self.packages = {}, {}, {}
        self.batches = {}
        self.counts = {"project": 0, "build": 0, "package": 0, "batch": 0}

    def next(self, what):
        """Returns the next number of this kind, like a database sequence."""
        self.counts[what] += 1
        return self.counts[what]

    # -- projects -------------------------------------------------------------------------------

    def project(self, owner, name):
        """ComplexLogic.get_copr_by_owner"""
        if owner.startswith("@"):
            raise ApiError(404, f"Group {owner[1:]} does not exist.")
        if (owner, name) not in self.projects:
            raise ApiError(404, f"Project {owner}/{name} does not exist.")
        return self.projects[owner, name]

    def repo_url(self, project):
        return f"{self.results_url}/{project['ownername']}/{project['name']}"

    def project_dict(self, project):
        """apiv3_projects.to_dict, as the marshalling leaves it"""
        shown = (
            "id", "name", "ownername", "full_name", "homepage", "contact", "description", "instructions",
            "devel_mode", "persistent", "unlisted_on_hp", "auto_prune", "additional_repos", "enable_net",
            "bootstrap", "isolation", "module_hotfixes", "appstream", "packit_forge_projects_allowed",
            "follow_fedora_branching", "repo_priority", "storage",
        )
        answer = {key: project[key] for key in shown}
        answer["chroot_repos"] = {c: f"{self.repo_url(project)}/{c}/" for c in active_chroots(project)}
        return answer

    def chroot(self, project, name):
        """ComplexLogic.get_copr_chroot"""
        if name.count("-") < 2:
            raise ApiError(404, "Chroot identification is not valid")
        if name not in project["chroots"]:
            raise ApiError(404, f"Chroot name {name} does not exist in Copr {project['full_name']}.")
        return project["chroots"][name]

    def build_repos(self, project, name):
        """BuildConfigLogic.generate_build_config, the repositories"""
        chroot = project["chroots"][name]
        common = {"priority": project["repo_priority"], "repo_gpgcheck": False}
        common["module_hotfixes"] = True if project["module_hotfixes"] else None
        base = f"{self.repo_url(project)}/{name}"
        repos = [dict(common, id="copr_base", name="Copr repository", baseurl=base + "/")]
        if project["devel_mode"]:
            devel = {"id": "copr_base_devel", "name": "Copr buildroot", "baseurl": base + "/devel/"}
            repos.append(dict(common, module_hotfixes=None, **devel))
        for url in project["additional_repos"] + chroot["additional_repos"]:
            ident = repo_id(url)
            baseurl = url.replace("copr://", self.results_url + "/") + f"/{name}/" if url.startswith("copr:") else url
            repos.append({
                "id": ident, "name": "Additional repo " + ident, "baseurl": baseurl, "priority": None,
                "module_hotfixes": None, "repo_gpgcheck": False if url.startswith("copr:") else None,
            })
        return repos

    # -- builds ---------------------------------------------------------------------------------

    def build(self, number):
        """ComplexLogic.get_build"""
        if number not in self.builds:
            raise ApiError(404, f"Build {number} does not exist.")
        return self.builds[number]

    def builds_of(self, project):
        """Newest last."""
        return [b for b in self.builds.values() if b["project"] == project["full_name"]]

    def build_dict(self, build):
        """apiv3_builds.to_dict"""
        started = [c["started_on"] for c in build["chroots"].values() if c["started_on"]]
        ended = [c["ended_on"] for c in build["chroots"].values()]
        owner, project = build["project"].split("/")
        return {
            "id": build["id"],
            "state": build_state(build),
            "projectname": project,
            "ownername": owner,
            "repo_url": f"{self.results_url}/{build['project']}",
            "source_package": {
                "name": build["package"], "version": build["version"], "url": build["srpm_url"],
            },
            "submitted_on": build["submitted_on"],
            "started_on": min(started, default=None),
            "ended_on": max(ended) if ended and None not in ended else None,
            "submitter": build["submitter"],
            "chroots": list(build["chroots"]),
            "project_dirname": build["dirname"],
            "is_background": build["background"],
        }

    def build_chroot(self, build, name):
        """ComplexLogic.get_build_chroot"""
        if name not in build["chroots"]:
            if name not in self.chroots:
                raise ApiError(404, f"Chroot {name} does not exist")
            raise ApiError(404, f"Build {build['id']} was not submitted to {name} chroot.")
        return build["chroots"][name]

    def build_chroot_dict(self, build, name):
        """apiv3_build_chroots.to_dict"""
        chroot = self.build_chroot(build, name)
        return {
            "name": name,
            "started_on": chroot["started_on"],
            "ended_on": chroot["ended_on"],
            "result_url": self.result_url(build, name),
            "state": chroot["state"],
        }

    def result_url(self, build, name):
        """Returns the URL of a chroot's results with a trailing slash, once the folder exists."""
        folder = build["chroots"][name]["result_dir"]
        owner = build["project"].split("/")[0]
        return folder and f"{self.results_url}/{owner}/{build['dirname']}/{name}/{folder}/"

    def source_url(self, build):
        """Returns the URL of the source build's results."""
        owner = build["project"].split("/")[0]
        return f"{self.results_url}/{owner}/{build['dirname']}/srpm-builds/{build['source_dir']}"

    def package(self, build):
        """Assigns a build to its package, creating it if needed (BuildsLogic.update_state_from_dict)."""
        key = (build["project"], build["package"])
        if key not in self.packages:
            self.packages[key] = {"id": self.next("package"), "source": build["source"]}

    # -- batches: models.Batch ------------------------------------------------------------------

    def batch_finished(self, number):
        builds = [b for b in self.builds.values() if b["batch"] == number]
        return bool(builds) and all(finished(b) for b in builds)

    def blocked(self, build):
        """Returns whether the batch before the build's own is still unfinished; success does not matter."""
        before = build["batch"] and self.batches[build["batch"]]
        while before:
            if not self.batch_finished(before):
                return True
            before = self.batches[before]
        return False

    def dump(self):
        """Returns the state for tests."""
        return {
            "projects": {p["full_name"]: p for p in self.projects.values()},
            "builds": [dict(b, state=build_state(b)) for b in self.builds.values()],
        }


def new_project_chroot():
    return {
        "additional_repos": [], "additional_packages": [], "additional_modules": [], "with_opts": [],
        "without_opts": [], "comps_name": None, "delete_after_days": None, "isolation": "unchanged",
        "bootstrap": "unchanged", "bootstrap_image": None,
    }


def active_chroots(project):
    return sorted(name for name, chroot in project["chroots"].items() if not chroot["delete_after_days"])


def repo_id(url):
    """helpers.generate_repo_name"""
    for sign in "/:.-$?=&":
        url = url.replace(sign, "_")
    return url.rstrip("_").replace("__", "_").replace("__", "_")


def new_build_chroot():
    return {"state": "waiting", "started_on": None, "ended_on": None, "result_dir": None, "packages": []}


def build_state(build):
    """models.Build.status"""
    if build["canceled"]:
        return "canceled"
    if build["source_state"] in ("starting", "pending", "running", "importing", "failed"):
        return build["source_state"]
    states = [c["state"] for c in build["chroots"].values()]
    for state in ("running", "starting", "pending", "failed", "succeeded", "skipped", "forked"):
        if state in states:
            return state
    return "pending"


def finished(build):
    """models.Build.finished"""
    if build["canceled"] or build["source_state"] in ("failed", "canceled"):
        return True
    if not build["chroots"]:
        return build["source_state"] in FINISHED
    return all(c["state"] in FINISHED for c in build["chroots"].values())


def set_source(state, build, what, package=None, version=None):
    """Applies the backend's report about the source build (update_state_from_dict)."""
    now = int(time.time())
    build["source_state"] = what
    build["source_dir"] = f"{build['id']:08}"
    if what == "importing":
        build["package"], build["version"] = package, version
        state.package(build)
        project = state.projects[tuple(build["project"].split("/"))]
        for name in [] if build["chroots"] else active_chroots(project):
            build["chroots"][name] = new_build_chroot()
    for chroot in build["chroots"].values():
        if what == "failed":
            chroot.update(state="failed", started_on=now, ended_on=now)
        elif what == "succeeded":
            chroot["state"] = "pending"


def set_chroot(build, name, what, packages=()):
    """Applies the backend's report about a chroot of a build."""
    now = int(time.time())
    chroot = build["chroots"][name]
    # Later reports do not change a canceled build.
    chroot["state"] = "canceled" if build["canceled"] else what
    chroot["result_dir"] = f"{build['id']:08}-{build['package']}"
    if what == "starting":
        chroot["started_on"] = now
    if what in FINISHED:
        chroot["ended_on"], chroot["packages"] = now, list(packages)
