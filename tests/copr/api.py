"""COPR's API v3: one function per endpoint, which maps a request to an answer.

The routes, the order of the checks and the messages are those of the frontend's
views/apiv3_ns/*.py. It only implements what copr-cli needs to manage a project and to build an
uploaded source package; other endpoints answer 501, so that a client's need for one is noticed.
"""

import re
import secrets
import time

import forms
from forms import Form, words
from state import (
    DEFAULT_MEMORY, DEFAULT_TIMEOUT, DELETE_AFTER_DAYS, STATUS, ApiError, active_chroots, build_state, finished,
    new_build_chroot, new_project_chroot,
)

ROUTES = []


def route(methods, path, login=False):
    """Registers a function: `<x>` in the path is text, `<x:int>` a number."""
    pattern = re.sub(r"<(\w+?)(:int)?>", lambda m: f"(?P<{m[1]}>{r'[0-9]+' if m[2] else '[^/]+'})", path)

    def register(function):
        ROUTES.append((re.compile(pattern + "/?"), methods.split(), login, function))
        return function

    return register


def answer(state, request):
    """Returns the value for a request, or raises an ApiError; adds deprecation warnings."""
    known = False
    for pattern, methods, login, function in ROUTES:
        match = pattern.fullmatch(request.path)
        if not match:
            continue
        known = True
        # The first method is current; others still work (deprecated_route_method_type).
        if request.method not in methods:
            continue
        if login:
            request.user = authenticate(state, request)
        values = match.groupdict()
        if "number" in values:
            values["number"] = int(values["number"])
        value = function(state, request, **values)
        if request.method != methods[0]:
            request.warning = f"This method is deprecated: Use {methods[0]} method instead of {request.method}"
        return value
    if known:
        raise ApiError(405, "The method is not allowed for the requested URL.")
    raise ApiError(404, "Such API endpoint doesn't exist")


def authenticate(state, request):
    """views/misc.py, _check_api_login"""
    for user in state.users.values():
        given = (user["login"], user["token"])
        if request.credentials == given and user["name"] not in request.expired:
            return user
    message = f"Login invalid/expired. Please visit {state.url}/api to get or renew your API token."
    raise ApiError(401, message, output="notok")


def argument(request, name):
    if name not in request.query:
        raise ApiError(400, f"Missing argument {name}")
    return request.query[name][0]


def page(request, items, order="id"):
    """Returns one page of items in the dictionary of a paginated answer."""
    meta = {"limit": None, "offset": 0, "order": order, "order_type": "ASC"}
    for key in ("limit", "offset"):
        text = request.query.get(key, [""])[0]
        if text and not text.isdigit():
            raise ApiError(500, str({key: ["Not a valid integer value."]}))
        meta[key] = int(text) if text else meta[key]
    if "order" in request.query:
        meta["order"] = request.query["order"][0]
        if meta["order"] not in ("id", "name"):
            raise ApiError(500, f"Cannot order by {meta['order']}, copr doesn't have such property")
    end = meta["offset"] + meta["limit"] if meta["limit"] else None
    return {"items": items[meta["offset"]:end], "meta": meta}


def named_project(state, request):
    return state.project(argument(request, "ownername"), argument(request, "projectname"))


def only_owner(project, user):
    if project["ownername"] != user["name"]:
        raise ApiError(403, "Only owners and admins may update their projects.")


# -- from here on in the order of the frontend's files ----------------------------------------------


@route("GET", "/")
def home(state, request):
    return {"version": 3}


@route("GET", "/auth-check", login=True)
def auth_check(state, request):
    return {"id": request.user["id"], "name": request.user["name"]}


@route("POST", "/api-token", login=True)
def api_token(state, request):
    request.user.update(login=secrets.token_hex(10), token=secrets.token_hex(15))
    expiration = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 180 * 86400))
    return {"api_login": request.user["login"], "api_token": request.user["token"], "expiration": expiration}


@route("GET", "/mock-chroots/list")
def mock_chroots(state, request):
    return {name: "" for name in state.chroots}


@route("GET", "/project")
def project_get(state, request):
    return state.project_dict(named_project(state, request))


@route("GET", "/project/list")
def project_list(state, request):
    owner = request.query.get("ownername", [None])[0]
    found = [p for p in state.projects.values() if owner in (None, p["ownername"])]
    return page(request, [state.project_dict(p) for p in found])


DEFAULTS = {
    "description": "", "instructions": "", "homepage": None, "contact": None, "devel_mode": False,
    "unlisted_on_hp": False, "auto_prune": True, "enable_net": False, "bootstrap": "default",
    "isolation": "default", "module_hotfixes": False, "appstream": False, "follow_fedora_branching": True,
    "repo_priority": None, "multilib": False, "delete_after_days": None, "runtime_dependencies": "",
    "packit_forge_projects_allowed": [], "fedora_review": False,
}


def renamed(data):
    """apiv3_projects.rename_fields; devel_mode keeps its name in answers."""
    return {"repos" if key == "additional_repos" else key: value for key, value in data.items()}


def set_project(project, form):
    for key in DEFAULTS:
        if key not in form.data:
            continue
        value = form.data[key]
        if isinstance(DEFAULTS[key], bool):
            value = form.boolean(key)
        elif key in ("homepage", "contact"):
            value = value.strip() or None
        elif key in ("repo_priority", "delete_after_days"):
            value = int(value)
        elif key == "packit_forge_projects_allowed":
            value = words(value)
        project[key] = value
    if "repos" in form.data:
        project["additional_repos"] = words(form.data["repos"])


@route("POST", "/project/add/<owner>", login=True)
def project_add(state, request, owner):
    if owner.startswith("@"):
        raise ApiError(404, f"Group {owner[1:]} does not exist.")
    if owner not in state.users:
        raise ApiError(404, f"No such user `{owner}'")
    form = Form(state, renamed(request.json))
    if forms.check_project(form, owner, request.query.get("exist_ok") == ["True"]):
        return state.project_dict(state.projects[owner, form.data["name"]])
    form.invalid()
    user = request.user["name"]
    if user != owner:
        raise ApiError(
            403,
            f"You were authorized as '{user}' user without permissions to access projects of user '{owner}'",
        )
    if "persistent" in form.data and form.boolean("persistent"):
        raise ApiError(403, "Non-admin cannot create persistent project.")
    if "auto_prune" in form.data and not form.boolean("auto_prune"):
        raise ApiError(403, "Non-admin cannot disable auto-prunning.")
    if form.data.get("storage"):
        raise ApiError(403, "Non-admin cannot set storage")
    name = form.data["name"].strip()
    project = dict(
        DEFAULTS, id=state.next("project"), name=name, ownername=owner, full_name=f"{owner}/{name}",
        persistent=False, storage="backend", additional_repos=[],
        chroots={c: new_project_chroot() for c in form.data["chroots"]},
    )
    set_project(project, form)
    state.projects[owner, name] = project
    return state.project_dict(project)


@route("PUT POST", "/project/edit/<owner>/<name>", login=True)
def project_edit(state, request, owner, name):
    project = state.project(owner, name)
    form = Form(state, renamed(request.json))
    forms.check_project(form)
    form.invalid()
    only_owner(project, request.user)
    if "auto_prune" in form.data and not form.boolean("auto_prune"):
        raise ApiError(403, "Non-admin cannot disable auto-prunning.")
    dropped = set(active_chroots(project)) - set(form.data.get("chroots") or project["chroots"])
    unfinished = [
        b["id"] for b in state.builds_of(project) if not finished(b) and dropped & set(b["chroots"])
    ]
    if unfinished:
        several = f"builds {', '.join(map(str, unfinished[:-1]))} and {unfinished[-1]} are"
        which = several if unfinished[1:] else f"build {unfinished[0]} is"
        raise ApiError(409, f"Can't drop chroot from project, related {which} still in progress")
    devel = project["devel_mode"]
    set_project(project, form)
    if project["devel_mode"] != devel:
        # coprs_logic.py, on_auto_createrepo_change
        request.createrepos(project, project["devel_mode"])
    wanted = form.data.get("chroots")
    if wanted:
        for chroot in wanted:
            project["chroots"].setdefault(chroot, new_project_chroot())["delete_after_days"] = None
        for chroot in set(project["chroots"]) - set(wanted):
            project["chroots"][chroot]["delete_after_days"] = DELETE_AFTER_DAYS
    return state.project_dict(project)


@route("DELETE POST", "/project/delete/<owner>/<name>", login=True)
def project_delete(state, request, owner, name):
    project = state.project(owner, name)
    if project["ownername"] != request.user["name"]:
        raise ApiError(403, "Only owners may delete their projects.")
    deletable(state, request, [build["id"] for build in state.builds_of(project)])
    shown = state.project_dict(project)
    for build in state.builds_of(project):
        del state.builds[build["id"]]
    del state.projects[owner, name]
    return shown


def editable(state, request, owner, name):
    """apiv3_ns/__init__.py, editable_copr"""
    project = state.project(owner, name)
    user = request.user["name"]
    if project["ownername"] != user:
        raise ApiError(
            403,
            f"User '{user}' can not see permissions for project '{project['full_name']}' (missing admin rights)",
        )
    return project


@route("PUT POST", "/project/regenerate-repos/<owner>/<name>", login=True)
def regenerate_repos(state, request, owner, name):
    project = editable(state, request, owner, name)
    # The repository that users see, regardless of the project's mode (devel=False).
    request.createrepos(project, False)
    return state.project_dict(project)


@route("GET", "/project/permissions/can_build_in/<who>/<owner>/<name>")
def can_build_in(state, request, who, owner, name):
    project = state.project(owner, name)
    return {"who": who, "ownername": owner, "projectname": name, "can_build_in": who == project["ownername"]}


@route("GET", "/project/permissions/get/<owner>/<name>", login=True)
def permissions(state, request, owner, name):
    editable(state, request, owner, name)
    raise ApiError(404, f"No permissions set on {owner}/{name} project")


# -- project chroots --------------------------------------------------------------------------------


def project_chroot_dict(project, name):
    chroot = {k: v for k, v in project["chroots"][name].items() if not k.startswith("bootstrap")}
    return dict(chroot, mock_chroot=name, projectname=project["name"], ownername=project["ownername"])


@route("GET", "/project-chroot")
def chroot_get(state, request):
    name, project = argument(request, "chrootname"), named_project(state, request)
    state.chroot(project, name)
    return project_chroot_dict(project, name)


def config_repos(project, name):
    """BuildConfigLogic.generate_additional_repos"""
    base = "copr://" + project["full_name"]
    own = project["chroots"][name]["additional_repos"] + project["additional_repos"]
    return [base, *own] + ([base + "/devel"] if project["devel_mode"] else [])


@route("GET", "/project-chroot/build-config")
def chroot_config(state, request):
    name, project = argument(request, "chrootname"), named_project(state, request)
    chroot = state.chroot(project, name)
    keys = ("additional_packages", "additional_modules", "with_opts", "without_opts", "isolation")
    shown = {key: chroot[key] for key in keys}
    # Split at spaces although they are joined with commas (to_build_config_dict).
    shown["additional_modules"] = ", ".join(chroot["additional_modules"]).split()
    return dict(
        shown, chroot=name, enable_net=project["enable_net"],
        repos=state.build_repos(project, name), additional_repos=config_repos(project, name),
    )


@route("PUT POST", "/project-chroot/edit/<owner>/<name>/<chroot>", login=True)
def chroot_edit(state, request, owner, name, chroot):
    project = state.project(owner, name)
    settings = state.chroot(project, chroot)
    form = Form(state, renamed(request.json))
    forms.check_chroot(form)
    resettable = new_project_chroot()
    for field in words(form.data.get("reset_fields", "")):
        if field not in resettable:
            raise ApiError(
                400,
                f"Trying to reset an invalid attribute: {field}\n"
                f"See `copr-cli get-chroot {project['full_name']}/{chroot}' for all the possible attributes",
            )
        settings[field] = resettable[field]
    only_owner(project, request.user)
    for key in ("additional_packages", "with_opts", "without_opts"):
        if key in form.data:
            settings[key] = words(form.data[key])
    if "repos" in form.data:
        settings["additional_repos"] = words(form.data["repos"])
    if "additional_modules" in form.data:
        settings["additional_modules"] = forms.modules(form.data["additional_modules"])
    if "upload_comps" in request.files:
        settings["comps_name"] = request.files["upload_comps"][0]
    elif "delete_comps" in form.data and form.boolean("delete_comps"):
        settings["comps_name"] = None
    for key in ("bootstrap", "bootstrap_image", "isolation"):
        settings[key] = form.data.get(key, settings[key])
    return project_chroot_dict(project, chroot)


# -- builds -----------------------------------------------------------------------------------------


def check_dirname(project, dirname):
    """CoprDirsLogic.get_or_validate"""
    name = project["name"]
    if not dirname or dirname == name:
        return
    if not dirname.startswith(name + ":"):
        raise ApiError(400, f"Copr dirname must start with '{name}:' prefix")
    if not re.fullmatch(re.escape(name) + r":(custom:.*|pr:(.*-)?\d+)", dirname):
        raise ApiError(
            400,
            f"Please use directory format {name}:custom:<SUFFIX_OF_CHOICE> or {name}:pr:<ID> "
            "(for automatically removed directories)",
        )


@route("POST", "/build/check-before-build", login=True)
def check_before_build(state, request):
    project = state.project(request.json["ownername"], request.json["projectname"])
    check_dirname(project, request.json.get("project_dirname"))
    user = request.user["name"]
    if user != project["ownername"]:
        raise ApiError(403, f"User '{user}' is not allowed to build in '{project['full_name']}'")
    form = Form(state, request.json)
    forms.check_build(form, request.user, active_chroots(project))
    form.bad_parameters()
    return {"message": "It should be safe to submit a build like this"}


@route("POST", "/build/create/upload", login=True)
def create_upload(state, request):
    project = state.project(request.json["ownername"], request.json["projectname"])
    allowed, form = active_chroots(project), Form(state, request.json)
    filename, content = request.files.get("pkgs", (None, None))
    forms.check_build(form, request.user, allowed)
    if not filename:
        form.error("pkgs", "This field is required.")
    elif not filename.lower().endswith((".src.rpm", ".nosrc.rpm", ".spec")):
        form.error("pkgs", "You can upload only .src.rpm, .nosrc.rpm, and .spec files")
    form.bad_parameters()
    user = request.user["name"]
    if user != project["ownername"]:
        raise ApiError(403, f"User {user} is not allowed to build in the copr: {project['full_name']}")
    dirname = form.data.get("project_dirname") or project["name"]
    check_dirname(project, dirname)
    if not allowed:
        raise ApiError(400, f"Can't create build - project {project['full_name']} has no active chroots")

    batch = None
    if "with_build_id" in form.data:
        batch = batch_of(state, form.data["with_build_id"])
    elif "after_build_id" in form.data:
        before, batch = batch_of(state, form.data["after_build_id"]), state.next("batch")
        state.batches[batch] = before
    number, folder = state.next("build"), request.keep(filename, content)
    url = f"{state.url}/tmp/{folder}/{filename}"
    state.builds[number] = {
        "id": number, "project": project["full_name"], "dirname": dirname, "submitter": user,
        "submitted_on": int(time.time()), "source_state": "pending", "source_dir": None, "canceled": False,
        "package": None, "version": None, "batch": batch,
        "source": {"url": url, "pkg": filename, "tmp": folder}, "srpm_url": url,
        "chroots": {name: new_build_chroot() for name in forms.selected_chroots(form, allowed)},
        "timeout": int(form.data["timeout"]) if "timeout" in form.data else DEFAULT_TIMEOUT,
        "background": form.data.get("background", False) not in forms.FALSE,
        "enable_net": form.data.get("enable_net", project["enable_net"]) not in forms.FALSE,
        "isolation": form.data.get("isolation", "unchanged"),
        "bootstrap": form.data.get("bootstrap", "unchanged"),
    }
    request.submitted(number)
    return state.build_dict(state.builds[number])


def batch_of(state, number):
    build = state.builds[int(number)]
    if not build["batch"]:
        build["batch"] = state.next("batch")
        state.batches[build["batch"]] = None
    return build["batch"]


@route("POST", "/build/create/(url|scm|distgit|pypi|rubygems|custom)|/package/(build|add/.*|edit/.*)", login=True)
def not_here(state, request):
    raise ApiError(501, "the test server only builds uploaded source packages")


@route("GET", "/build/<number:int>")
def build_get(state, request, number):
    return state.build_dict(state.build(number))


@route("GET", "/build/list")
def build_list(state, request):
    project = named_project(state, request)
    package = request.query.get("packagename", [None])[0]
    status = request.query.get("status", [None])[0]
    found = [b for b in reversed(state.builds_of(project)) if package in (None, b["package"])]
    found = [state.build_dict(b) for b in found]
    return page(request, [b for b in found if status in (None, b["state"])])


@route("GET", "/build/source-chroot/<number:int>")
def source_chroot(state, request, number):
    build = state.build(number)
    # The frontend uses the folder of a log that may not have an address yet. A starting build has
    # none either (_compressed_log_variant).
    if not build["source_dir"] or build["source_state"] == "starting":
        raise ApiError(500, "Request wasn't successful, there is probably a bug in the Copr code.")
    return {"state": build["source_state"], "result_url": state.source_url(build)}


@route("GET", "/build/source-build-config/<number:int>")
def source_config(state, request, number):
    build = state.build(number)
    return {
        "source_type": "upload", "source_dict": build["source"], "memory_limit": DEFAULT_MEMORY,
        "timeout": build["timeout"], "is_background": build["background"],
    }


@route("GET", "/build/built-packages/<number:int>")
def built_packages(state, request, number):
    return {name: {"packages": chroot["packages"]} for name, chroot in state.build(number)["chroots"].items()}


@route("PUT POST", "/build/cancel/<number:int>", login=True)
def build_cancel(state, request, number):
    build = state.build(number)
    if build["project"].split("/")[0] != request.user["name"]:
        raise ApiError(403, "You are not allowed to cancel this build.")
    if finished(build):
        raise ApiError(409, f"Cannot cancel build {number}")
    build["canceled"] = True
    return state.build_dict(build)


def delete_build(state, request, number):
    build, user = state.build(number), request.user
    if build["project"].split("/")[0] != user["name"]:
        raise ApiError(403, f"User '{user['name']}' doesn't have permissions to delete build {number}")
    if not finished(build):
        raise ApiError(500, f"User '{user['name']}' can not delete build {number}")
    shown = state.build_dict(build)
    del state.builds[number]
    request.deleted(build)
    return shown


@route("DELETE POST", "/build/delete/<number:int>", login=True)
def build_delete(state, request, number):
    return delete_build(state, request, number)


def deletable(state, request, numbers):
    """builds_logic.py, delete_builds"""
    there = [state.builds[n] for n in numbers if n in state.builds]
    others = [b for b in there if b["project"].split("/")[0] != request.user["name"]]
    running = [b for b in there if b not in others and not finished(b)]
    listed = lambda builds: ", ".join(str(b["id"]) for b in builds)
    missing = ", ".join(str(n) for n in numbers if n not in state.builds)
    message = f"You don't have permissions to delete build(s) {listed(others)}.\n" if others else ""
    message += f"Build(s) {listed(running)} are still running.\n" if running else ""
    message += f"Build(s) {missing} don't exist.\n" if missing else ""
    if message:
        raise ApiError(400, message)


@route("DELETE POST", "/build/delete/list", login=True)
def build_delete_list(state, request):
    numbers = request.json["builds"]
    deletable(state, request, numbers)
    for number in numbers:
        delete_build(state, request, number)
    return {"builds": numbers}


# -- chroots of a build -----------------------------------------------------------------------------


@route("GET", "/build-chroot/list")
def build_chroot_list(state, request):
    return build_chroot_list_of(state, request, int(argument(request, "build_id")))


@route("GET", "/build-chroot/list/<number:int>")
def build_chroot_list_of(state, request, number):
    build = state.builds.get(number)
    names = build["chroots"] if build else ()
    return page(request, [state.build_chroot_dict(build, name) for name in names])


@route("GET", "/build-chroot")
def build_chroot_get(state, request):
    chroot, number = argument(request, "chrootname"), argument(request, "build_id")
    return state.build_chroot_dict(state.build(int(number)), chroot)


@route("GET", "/build-chroot/<number:int>/<chroot>")
def build_chroot_get_old(state, request, number, chroot):
    return state.build_chroot_dict(state.build(number), chroot)


@route("GET", "/build-chroot/built-packages")
def build_chroot_packages(state, request):
    build = state.build(int(argument(request, "build_id")))
    return {"packages": state.build_chroot(build, argument(request, "chrootname"))["packages"]}


@route("GET", "/build-chroot/build-config")
def build_chroot_config(state, request):
    build, name = state.build(int(argument(request, "build_id"))), argument(request, "chrootname")
    state.build_chroot(build, name)
    project = state.projects[tuple(build["project"].split("/"))]
    chroot = project["chroots"][name]
    # build_bootstrap_setup: the build's own, else the chroot's, else the project's
    chosen = [of["bootstrap"] for of in (build, chroot) if of["bootstrap"] != "unchanged"]
    bootstrap = [*chosen, project["bootstrap"]][0]
    image = chroot["bootstrap_image"] if bootstrap == "custom_image" else None
    return {
        "bootstrap": None if bootstrap == "default" else bootstrap, "bootstrap_image": image,
        "repos": state.build_repos(project, name), "additional_repos": config_repos(project, name),
        "additional_packages": chroot["additional_packages"], "with_opts": chroot["with_opts"],
        "without_opts": chroot["without_opts"], "memory_limit": DEFAULT_MEMORY, "timeout": build["timeout"],
        "enable_net": build["enable_net"], "is_background": build["background"],
    }


# -- packages, monitor, requests by dnf -------------------------------------------------------------


def package_dict(state, request, project, name):
    package = state.packages[project["full_name"], name]
    builds = [b for b in state.builds_of(project) if b["package"] == name]

    def newest(key, wanted):
        asked = request.query.get(key, ["False"])[0] in ("True", "true", "1")
        return state.build_dict(wanted[-1]) if asked and wanted else None

    succeeded = [b for b in builds if build_state(b) == "succeeded"]
    return {
        "id": package["id"], "name": name, "projectname": project["name"], "ownername": project["ownername"],
        "source_type": "upload", "source_dict": package["source"], "auto_rebuild": False,
        "builds": {
            "latest": newest("with_latest_build", builds),
            "latest_succeeded": newest("with_latest_succeeded_build", succeeded),
        },
    }


@route("GET", "/package/list")
def package_list(state, request):
    project = named_project(state, request)
    names = [name for full, name in state.packages if full == project["full_name"]]
    return page(request, [package_dict(state, request, project, name) for name in names])


@route("GET", "/package")
def package_get(state, request):
    name, project = argument(request, "packagename"), named_project(state, request)
    if (project["full_name"], name) not in state.packages:
        raise ApiError(404, f"No package with name {name} in copr {project['name']}")
    return package_dict(state, request, project, name)


@route("GET", "/monitor")
def monitor(state, request):
    project = named_project(state, request)
    fields = request.query.get("additional_fields[]", [])
    logs = {"url_build_log": "builder-live.log", "url_backend_log": "backend.log"}
    wrong = sorted(set(fields) - {*logs, "url_build"})
    if wrong:
        raise ApiError(400, "Wrong additional_fields argument(s): " + ", ".join(wrong))
    packages = {}
    for build in reversed(state.builds_of(project)):
        for name, chroot in build["chroots"].items():
            if not build["package"] or name not in active_chroots(project):
                continue
            of_package = packages.setdefault(build["package"], {})
            if name in of_package:
                continue
            of_package[name] = {
                "state": chroot["state"], "status": STATUS[chroot["state"]], "build_id": build["id"],
                "pkg_version": build["version"],
            }
            for field in set(fields) & set(logs):
                # A log has its own name while it is being written, and is compressed afterwards.
                suffix = "" if chroot["state"] in ("starting", "running") else ".gz"
                url = state.result_url(build, name)
                of_package[name][field] = url and url + logs[field] + suffix
    found = [{"name": name, "chroots": packages[name]} for name in sorted(packages)]
    return {"output": "ok", "message": "Project monitor request successful", "packages": found}


@route("GET", "/rpmrepo/<owner>/<dirname>/<release>")
def rpmrepo(state, request, owner, dirname, release):
    if (owner, dirname) not in state.projects:
        raise ApiError(404, f"{owner}/{dirname} copr doesn't exist")
    project, repos = state.projects[owner, dirname], {}
    opts = {"module_hotfixes": "1"} if project["module_hotfixes"] else {}
    if project["repo_priority"]:
        opts["priority"] = project["repo_priority"]
    for name in active_chroots(project):
        name_release, arch = name.rsplit("-", 1)
        repos.setdefault(name_release, {"arch": {}})["arch"][arch] = {"opts": opts}
    return {
        "results_url": state.results_url, "repos": repos, "directories": {dirname: {}},
        "dependencies": dependencies(state, project),
    }


def dependencies(state, project):
    """get_transitive_runtime_dependencies, as get_project_rpmrepo_metadata shows them. Never cached,
    unlike COPR, which caches it for two minutes."""
    internal, external, todo = [], [], [project]
    while todo:
        for url in words(todo.pop()["runtime_dependencies"]):
            if not url.startswith("copr://"):
                if url not in external:
                    external.append(url)
                continue
            found = state.projects.get(tuple(url.removeprefix("copr://").split("/")[:2]))
            # Nonexistent projects are omitted.
            if found and found is not project and found not in internal:
                internal.append(found)
                todo.append(found)
    host, shown = state.results_url.split("/")[2].split(":")[0], []
    of = f"Copr {host}/{project['full_name']}"
    for number, found in enumerate(internal, 1):
        owner = found["ownername"].replace("@", "group_")
        shown.append({
            "opts": {
                "id": f"coprdep:{host}:{owner}:{found['name']}",
                "name": f"{of} runtime dependency #{number} - {found['full_name']}",
            },
            "type": "copr",
            "data": {"owner": found["ownername"], "projectname": found["name"]},
        })
    for number, url in enumerate(external, len(internal) + 1):
        ident = re.sub("[^a-zA-Z0-9]+", "_", url).strip("_")
        shown.append({
            "opts": {"id": "coprdep:" + ident, "name": f"{of} external runtime dependency #{number} - {ident}"},
            "type": "external_baseurl",
            "data": {"pattern": url},
        })
    return shown
