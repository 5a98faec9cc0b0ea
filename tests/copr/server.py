"""A COPR for tests: `server.py FOLDER` serves API v3 and results over TLS on a free port of 127.0.0.1.

It prints one line of JSON: `url`, and `ca`, the certificate to trust. It exits when its standard
input closes, which includes the exit of its parent process, and after `--seconds`.

FOLDER/control.json, if it exists, defines faults. The server rereads it when it changes (write it
elsewhere and rename it):
  step     seconds that a build stays in each phase (0.02)
  hold     {package: phase}: the build stays in it until this is removed or it is canceled; the
           phases are source-pending, source-starting, source-running, source-packing, importing,
           and then the chroot's pending, starting, running, signing, packing
  fail     {package: text}: the build fails, and this is its log
  define   {package: {macro: value}}: macros for the worker's rpmbuild, to build different RPMs
  key      {package: "other" or ""}: signed with a key that is not the project's, or not at all
  expired  [user]: their tokens have expired
  errors   [{match, count, status}]: this many answers to `METHOD /path`, a regular expression; 500
           like a fault of COPR itself, other codes like the proxy in front of it
  lost     [{match, count, status}]: the same after the request was processed
  drop     [{match, count, after}]: the connection closes after this many bytes of a file
  pulp     true: packages are where a COPR with Pulp stores unpublished ones
  manual   true: nothing is built; `goto` {build: [state, ...]} sets the states of builds
FOLDER/state.json has the server's state, FOLDER/requests.jsonl one line per request.
"""

import argparse
import base64
import email.message
import http.server
import json
import os
import pathlib
import re
import secrets
import ssl
import subprocess
import sys
import threading
import urllib.parse

import api
from state import ApiError, State, set_chroot, set_source
from worker import Worker

CHROOTS = ["fedora-43-aarch64", "fedora-43-x86_64", "fedora-44-x86_64", "fedora-rawhide-x86_64"]
BODY_LIMIT = 1 << 30
PROXY = "<html><head><title>{0}</title></head><body><h1>Service unavailable</h1></body></html>\n"


class Control:
    """Reads control.json, and counts how often each fault in it was used."""

    def __init__(self, path):
        self.path, self.text, self.faults, self.used = path, "", {}, {}
        self.lock = threading.Lock()

    def read(self):
        """Returns its current content."""
        with self.lock:
            try:
                text = self.path.read_text()
            except FileNotFoundError:
                text = "{}"
            if text != self.text:
                self.text, self.faults, self.used = text, json.loads(text), {}
            return self.faults

    def step(self):
        return self.read().get("step", 0.02)

    def hold(self, package):
        return self.read().get("hold", {}).get(package)

    def fails(self, package):
        return self.read().get("fail", {}).get(package)

    def fails_source(self, package):
        return self.read().get("source", {}).get(package, False)

    def backend_fails(self, package):
        return self.read().get("backend", {}).get(package)

    def define(self, package):
        return self.read().get("define", {}).get(package, {})

    def key(self, package):
        return self.read().get("key", {}).get(package, "project")

    def fault(self, kind, what):
        """Returns a fault of this kind for `METHOD /path`, and counts it as used."""
        faults = self.read()
        with self.lock:
            for number, fault in enumerate(faults.get(kind, [])):
                used = self.used.get((kind, number), 0)
                if used < fault["count"] and re.search(fault["match"], what):
                    self.used[kind, number] = used + 1
                    return fault
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120

    def handle_any(self):
        server, self.warning, self.user = self.server, None, None
        target = urllib.parse.urlsplit(self.path)
        path, self.what = urllib.parse.unquote(target.path), f"{self.command} {target.path}"
        self.query = urllib.parse.parse_qs(target.query, keep_blank_values=True)
        length = int(self.headers.get("Content-Length") or 0)
        if length > BODY_LIMIT:
            return self.send(413, "text/html", PROXY.format(413).encode())
        body = self.rfile.read(length)
        fault = server.control.fault("errors", self.what)
        if fault and fault["status"] == 500:
            return self.send_json(500, {"error": "Request wasn't successful, there is probably a bug in the Copr code."})
        if fault:
            return self.send(fault["status"], "text/html", PROXY.format(fault["status"]).encode())
        if not path.startswith("/api_3"):
            return self.send_file(path)
        self.path, self.method = path[len("/api_3"):] or "/", self.command
        with server.state.lock:
            server.apply()
            self.expired = server.control.read().get("expired", [])
            try:
                self.parse(body)
                code, value = 200, api.answer(server.state, self)
            except ApiError as error:
                code, value = error.code, error.body
        server.changed()
        lost = server.control.fault("lost", self.what)
        if lost:
            return self.send(lost["status"], "text/html", PROXY.format(lost["status"]).encode())
        return self.send_json(code, value)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

    def parse(self, body):
        """Parses credentials and body: JSON, or parts with the values in `json` (python-copr's FileRequest)."""
        self.credentials, self.json, self.files = None, {}, {}
        words = self.headers.get("Authorization", "").split()
        if len(words) == 2:
            self.credentials = tuple(base64.b64decode(words[1]).decode().split(":", 1))
        header = email.message.Message()
        header["Content-Type"] = self.headers.get("Content-Type", "")
        if header.get_content_type() == "multipart/form-data":
            mark = b"--" + header.get_boundary().encode()
            for part in body.split(mark)[1:-1]:
                head, content = part[2:].split(b"\r\n\r\n", 1)
                described = email.message_from_bytes(head + b"\r\n\r\n")
                name = described.get_param("name", header="content-disposition")
                self.files[name] = (described.get_filename() or "", content[:-2])
            body = self.files.pop("json", ("", b""))[1]
        try:
            self.json = json.loads(body or b"{}") or {}
        except ValueError:
            self.json = {}

    def keep(self, filename, content):
        """Stores an upload at its address."""
        folder = "tmp" + secrets.token_hex(4)
        place = self.server.folder / "uploads" / folder
        place.mkdir(parents=True)
        (place / pathlib.PurePath(filename).name).write_bytes(content)
        return folder

    def submitted(self, number):
        self.server.submitted.append(number)

    def createrepos(self, project, devel):
        self.server.worker.createrepos(project, devel)

    def deleted(self, build):
        self.server.worker.delete(build)

    def send_json(self, code, value):
        body = (json.dumps(value) + "\n").encode()
        self.send(code, "application/json", body)

    def send(self, code, kind, body, headers=(), cut=None):
        record = {"request": self.what, "status": code, "user": self.user and self.user["name"]}
        self.server.record(record)
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        if self.warning:
            self.send_header("Warning", self.warning)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True
            self.connection.close()

    def send_file(self, path):
        """Serves files like COPR's backend, and uploads like the frontend."""
        if self.server.control.read().get("pulp") and path.endswith(".rpm"):
            # copr-cli, action_download_build
            path = path.replace("-devel/", "/") if "-devel/" in path else "/none"
        roots = {"/backend/results/": "results", "/tmp/": "uploads"}
        for start, name in roots.items():
            root = (self.server.folder / name).resolve()
            place = (root / path[len(start):]).resolve()
            if path.startswith(start) and place.is_relative_to(root) and place.exists():
                break
        else:
            packed = place.with_name(place.name + ".gz")
            if place.name in ("builder-live.log", "backend.log") and packed.exists():
                # Like the lighttpd configuration for COPR's results (_compress_logs).
                return self.send(302, "text/html", b"", [("Location", path + ".gz")])
            return self.send(404, "text/html", PROXY.format(404).encode())
        if place.is_dir():
            names = [p.name + "/" * p.is_dir() for p in sorted(place.iterdir())]
            rows = "".join(f'<a href="{urllib.parse.quote(n)}">{n}</a>\n' for n in names)
            return self.send(200, "text/html", f"<html><body><pre>\n{rows}</pre></body></html>\n".encode())
        content, total = place.read_bytes(), place.stat().st_size
        fault = self.server.control.fault("drop", self.what)
        cut = fault and fault["after"]
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and int(asked[1]) >= total:
            return self.send(416, "text/html", b"", [("Content-Range", f"bytes */{total}")])
        if asked:
            first = int(asked[1])
            where = [("Content-Range", f"bytes {first}-{total - 1}/{total}")]
            return self.send(206, "application/octet-stream", content[first:], where, cut)
        return self.send(200, "application/octet-stream", content, [("Accept-Ranges", "bytes")], cut)

    def log_message(self, *_):
        pass


def certificate(folder):
    """Creates a certificate for a server on this machine, and the file to trust."""
    key, ca = folder / "key.pem", folder / "ca.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(
        [*make, "-days", "2", *names, "-keyout", key, "-out", ca],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca, key)
    return context, ca


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder, chroots):
        self.folder, self.submitted, self.writing, self.gone = folder, [], threading.Lock(), None
        super().__init__(("127.0.0.1", 0), Handler)
        context, self.ca = certificate(folder)
        # The request's thread performs the handshake.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server_address[1]}"
        self.control = Control(folder / "control.json")
        self.state = State(self.url, self.url + "/backend/results", chroots)
        self.worker = Worker(self.state, self.control, folder, self.changed)
        (folder / "uploads").mkdir(exist_ok=True)
        (folder / "results").mkdir(exist_ok=True)

    def apply(self):
        """Sets builds to the states in the control file, once."""
        goto = self.control.read().get("goto", {})
        done, self.gone = self.gone, goto
        for number, states in goto.items() if goto is not done else ():
            build = self.state.builds[int(number)]
            for what in states:
                place, _, state = what.rpartition(":")
                if place == "source":
                    set_source(self.state, build, state, "hello", "1.0-1")
                    continue
                packages = [
                    {"name": "hello", "epoch": None, "version": "1.0", "release": "1.fc43", "arch": arch}
                    for arch in (("src", "noarch") if state == "succeeded" else ())
                ]
                for name in build["chroots"]:
                    set_chroot(build, name, state, packages)

    def changed(self):
        """Writes the server's state and starts new builds."""
        with self.state.lock:
            numbers, self.submitted = self.submitted, []
            text = json.dumps(self.state.dump(), indent=1)
            with self.writing:
                part = self.folder / "state.json.part"
                part.write_text(text)
                part.rename(self.folder / "state.json")
        if not self.control.read().get("manual"):
            for number in numbers:
                self.worker.start(number)

    def record(self, entry):
        with self.writing, (self.folder / "requests.jsonl").open("a") as log:
            log.write(json.dumps(entry) + "\n")

    def handle_error(self, request, client_address):
        """Ignores clients that disconnect early; reports other errors."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, ssl.SSLError, TimeoutError, OSError)):
            super().handle_error(request, client_address)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--chroot", action="append", help="instead of some of Fedora's")
    options = parser.parse_args()
    server = Server(options.folder.resolve(), options.chroot or CHROOTS)

    def end():
        server.worker.stop()
        os._exit(0)

    timer = threading.Timer(options.seconds, end)
    timer.daemon = True
    timer.start()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"url": server.url, "ca": str(server.ca)}), flush=True)
    sys.stdin.buffer.read()
    end()


if __name__ == "__main__":
    main()
