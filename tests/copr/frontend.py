"""COPR's own frontend for the scenario tests: `frontend.py FOLDER CHECKOUT`.

Serves the frontend of a checkout of fedora-copr/copr with the interface of server.py: the same line
on standard output, the same control.json (errors, lost, and everything that the worker supports),
state.json and requests.jsonl. worker.py makes the builds and the metadata; it gets its tasks from
the frontend's /backend/, as COPR's backend does.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time
import types

from server import CHROOTS, PROXY, Control, certificate
from state import STATUS
from worker import Over, Worker

PASSWORD = "password-of-the-backend"
USERS = ("alice", "bob")


def configure(folder, checkout, redis):
    """Prepares everything that the frontend reads when it is imported."""
    (folder / "copr.conf").write_text(f"""
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/copr.db"
SQLALCHEMY_ENGINE_OPTIONS = {{"connect_args": {{"timeout": 30}}}}
SECRET_KEY = "key"
BACKEND_PASSWORD = {PASSWORD!r}
STORAGE_DIR = "{folder}/storage"
WHOOSHEE_DIR = "{folder}/whooshee"
ENFORCE_PROTOCOL_FOR_BACKEND_URL = ENFORCE_PROTOCOL_FOR_FRONTEND_URL = "https"
DIST_GIT_URL = DIST_GIT_CLONE_URL = "https://127.0.0.1/git"
REDIS_HOST, REDIS_PORT = "127.0.0.1", {redis}
LOG_DIR, LOG_FILENAME = "{folder}", "{folder}/frontend.log"
SEND_LOGS_TO = []
FAS_LOGIN = True
""")
    os.environ.update(COPRS_ENVIRON_UNITTEST="1", COPR_CONFIG=str(folder / "copr.conf"))
    for name in ("storage", "whooshee", "results", "uploads"):
        (folder / name).mkdir(exist_ok=True)
    # The frontend imports these, but needs them only for modules and LDAP.
    for name in ("ldap", "modulemd_tools", "modulemd_tools.yaml"):
        stub = types.ModuleType(name)
        stub.__getattr__ = lambda _: None
        sys.modules[name] = stub
    # The distribution's lxml, html5-parser and rpm, after the packages of the virtual environment.
    ask = [sys._base_executable, "-c", "import json, sys; print(json.dumps(sys.path))"]
    sys.path += json.loads(subprocess.run(ask, stdout=subprocess.PIPE, check=True).stdout)
    path = checkout / "frontend/coprs_frontend"
    sys.path[:0] = [str(path), str(checkout / "common")]
    os.chdir(path)


def initialize(db, models):
    """Users with tokens, and chroots."""
    db.create_all()
    for name in USERS:
        user = models.User(
            username=name, mail=name + "@example.com", timezone="UTC", api_login=name + "-login",
            api_token=name + "-token-of-30-characters",
            api_token_expiration=datetime.date.today() + datetime.timedelta(days=100),
        )
        user.proven = user.admin = False
        db.session.add(user)
    for release, version, arch in (name.split("-") for name in CHROOTS):
        chroot = models.MockChroot(os_release=release, os_version=version, arch=arch, is_active=True)
        branch = "f" + version
        found = models.DistGitBranch.query.filter_by(name=branch).first()
        chroot.distgit_branch = found or models.DistGitBranch(name=branch)
        db.session.add(chroot)
        db.session.flush()
    db.session.add(models.DistGitInstance(
        name="git", clone_url="https://127.0.0.1/git", clone_package_uri="{namespace}/{pkgname}",
    ))
    db.session.commit()


class Front:
    """Serves the application with its faults, and the results, which have a separate server on COPR."""

    def __init__(self, app, control, folder):
        self.app, self.control, self.folder = app, control, folder
        self.lock = threading.Lock()

    def __call__(self, environ, start_response):
        from werkzeug.wrappers import Response
        what = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        # The frontend omits `/backend` from result addresses; server.py and the tests include it.
        place = environ["PATH_INFO"].removeprefix("/backend")
        if place.startswith("/results/"):
            return self.results(place)(environ, start_response)
        fault = self.control.fault("errors", what)
        response = None if fault else Response.from_app(self.app, environ, buffered=True)
        fault = fault or self.control.fault("lost", what)
        if fault:
            response = Response(PROXY.format(fault["status"]), fault["status"], content_type="text/html")
        if environ["PATH_INFO"].startswith("/api_3"):
            with self.lock, (self.folder / "requests.jsonl").open("a") as log:
                log.write(json.dumps({"request": what, "status": response.status_code, "user": None}) + "\n")
        return response(environ, start_response)

    def results(self, path):
        from werkzeug.wrappers import Response
        root = (self.folder / "results").resolve()
        place = (root / path.removeprefix("/results/")).resolve()
        packed = place.with_name(place.name + ".gz")
        if not place.is_relative_to(root) or not place.exists():
            if place.name in ("builder-live.log", "backend.log") and packed.exists():
                return Response("", 302, {"Location": path + ".gz"})
            return Response(PROXY.format(404), 404, content_type="text/html")
        if place.is_dir():
            names = [p.name + "/" * p.is_dir() for p in sorted(place.iterdir())]
            rows = "".join(f'<a href="{name}">{name}</a>\n' for name in names)
            return Response(f"<pre>{rows}</pre>", content_type="text/html")
        encoding = {"Content-Encoding": "gzip"} if place.name.endswith(".log.gz") else {}
        return Response(place.read_bytes(), headers=encoding, content_type="application/octet-stream")


class Backend(Worker):
    """The worker with the frontend's tasks; requests and reports them as copr_backend does."""

    def __init__(self, app, url, control, folder):
        state = types.SimpleNamespace(
            lock=threading.RLock(), projects={}, results_url=url + "/results",
            blocked=lambda build: False, source_url=self.source_url,
        )
        super().__init__(state, control, folder, lambda: None)
        self.app, self.builds, self.storage = app, {}, folder / "storage"

    def call(self, path, data=None):
        """Sends one request as the backend."""
        method = "GET" if data is None else "POST"
        with self.app.test_client() as client:
            answer = client.open(f"/backend/{path}/", method=method, json=data, auth=("user", PASSWORD))
            return json.loads(answer.get_data())

    def poll(self):
        while True:
            for task in self.call("build-tasks/cancel-requests"):
                build = self.builds.get(int(str(task).split("-")[0]))
                if build:
                    build["canceled"] = True
                self.call(f"build-tasks/canceled/{task}", {})
            for task in self.call("pending-jobs"):
                if task["build_id"] not in self.builds:
                    self.begin(task["build_id"])
            for task in self.call("pending-actions"):
                action = self.call(f"action/{task['id']}")
                self.act(action["action_type"], action["object_type"], json.loads(action["data"] or "{}"))
                self.call("update", {"actions": [{"id": task["id"], "result": 1, "ended_on": int(time.time())}]})
            time.sleep(0.3)

    def begin(self, number):
        task = self.call(f"get-srpm-build-task/{number}")
        source, owner = json.loads(task["source_json"]), task["project_owner"]
        # The frontend deletes it after the import.
        shutil.copytree(self.storage / source["tmp"], self.uploads / source["tmp"])
        self.builds[number] = {
            "id": number, "project": f"{owner}/{task['project_name']}", "dirname": task["project_dirname"],
            "canceled": False, "package": None, "version": None, "source": source,
            "source_dir": f"{number:08}", "chroots": {}, "timeout": 3600,
        }
        self.start(number)

    def run(self, number):
        build = self.builds[number]
        try:
            self.stay(build, "source-pending")
            self.source(build)
            for chroot in list(build["chroots"]):
                task = self.call(f"get-build-task/{number}-{chroot}")
                build["timeout"] = task["timeout"]
                project = tuple(build["project"].split("/"))
                self.state.projects[project] = {"devel_mode": task["uses_devel_repo"]}
                self.chroot(build, chroot)
        except Over:
            pass

    def report(self, build, status, chroot=None, **more):
        number, now = build["id"], int(time.time())
        task = f"{number}-{chroot}" if chroot else str(number)
        folder = f"{number:08}-{build['package']}" if chroot else build["source_dir"]
        data = {
            "id": number, "build_id": number, "task_id": task, "chroot": chroot or "srpm-builds",
            "status": STATUS[status], "result_dir": folder, "started_on": now, **more,
        }
        if status == "starting":
            if not self.call("starting_build", data)["can_start"]:
                raise Over
            return
        if status in ("succeeded", "failed"):
            data["ended_on"] = now
        self.call("update", {"builds": [data]})

    def set_source(self, build, what, package=None, version=None):
        number = build["id"]
        if what == "importing":
            build.update(package=package, version=version)
            url = build["srpm_url"]
            self.report(build, "succeeded", pkg_name=package, pkg_version=version, srpm_url=url)
        elif what == "succeeded":
            task = self.call_unslashed(f"get-import-task/{number}")
            commits = {branch: f"{number:040x}" for branch in task["branches"]}
            name = f"{build['project']}/{build['package']}"
            done = {"build_id": number, "branch_commits": commits, "reponame": name, "pkg_name": build["package"]}
            self.call("import-completed", done)
            build["chroots"] = {
                task["chroot"]: {} for task in self.call("pending-jobs") if task["build_id"] == number
            }
        else:
            self.report(build, what)

    def call_unslashed(self, path):
        with self.app.test_client() as client:
            return json.loads(client.get(f"/backend/{path}").get_data())

    def set_chroot(self, build, name, what, packages=()):
        results = {"results": {"packages": list(packages)}} if what == "succeeded" else {}
        self.report(build, what, name, **results)

    def source_url(self, build):
        owner = build["project"].split("/")[0]
        return f"{self.state.results_url}/{owner}/{build['dirname']}/srpm-builds/{build['source_dir']}"

    def act(self, kind, what, data):
        """Runs the actions of actions.py for builds and metadata."""
        folder = self.results / data.get("ownername", "")
        deleted = kind == 0 and what in ("build", "builds")
        if deleted:
            for dirname, chroots in data["project_dirnames"].items():
                for chroot, names in chroots.items():
                    for name in names:
                        shutil.rmtree(folder / dirname / chroot / name, ignore_errors=True)
                    if chroot != "srpm-builds":
                        self.createrepo(folder / dirname / chroot, data["devel"])
        elif kind == 3:
            for dirname in data["project_dirnames"]:
                for chroot in data["chroots"]:
                    (folder / dirname / chroot).mkdir(parents=True, exist_ok=True)
                    self.createrepo(folder / dirname / chroot, data["devel"])


def watch(app, models, path):
    """Writes the frontend's builds to state.json, as server.py does."""
    last = None
    while True:
        with app.app_context():
            builds = [
                {"id": b.id, "package": b.package_name, "state": b.state, "project": b.copr.full_name}
                for b in models.Build.query.order_by(models.Build.id)
            ]
        text = json.dumps({"builds": builds})
        if text != last:
            part, last = path.with_suffix(".part"), text
            part.write_text(text)
            part.rename(path)
        time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=900)
    options = parser.parse_args()
    folder = options.folder.resolve()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    redis = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
        stdout=subprocess.DEVNULL,
    )

    def end():
        redis.kill()
        os._exit(0)

    threading.Timer(options.seconds, end).start()
    configure(folder, options.checkout.resolve(), port)
    from coprs import app, db, models
    from sqlalchemy import event
    from werkzeug.serving import make_server
    with app.app_context():
        @event.listens_for(db.engine, "connect")
        def _(connection, _):
            connection.execute("pragma journal_mode=wal")
            connection.execute("pragma busy_timeout=30000")
        initialize(db, models)
    context, ca = certificate(folder)
    control = Control(folder / "control.json")
    listener = make_server("127.0.0.1", 0, Front(app, control, folder), threaded=True, ssl_context=context)
    url = f"https://127.0.0.1:{listener.port}"
    app.config.update(
        PUBLIC_COPR_BASE_URL=url, PUBLIC_COPR_HOSTNAME=url.removeprefix("https://"),
        BACKEND_BASE_URL=url,
    )
    backend = Backend(app, url, control, folder)
    for work in (listener.serve_forever, backend.poll, lambda: watch(app, models, folder / "state.json")):
        threading.Thread(target=work, daemon=True).start()
    print(json.dumps({"url": url, "ca": str(ca)}), flush=True)
    sys.stdin.buffer.read()
    backend.stop()
    end()


if __name__ == "__main__":
    main()
