"""COPR's checks of a request's values, in the order and with the messages of its forms.py."""

import fnmatch
import re
from urllib.parse import urlparse

from state import MAX_TIMEOUT, MIN_TIMEOUT, ApiError, finished

BOOTSTRAP = ("default", "off", "on", "image")
ISOLATION = ("default", "nspawn", "simple")
FALSE = (False, "false", "")


class Form:
    """The values of a request and their errors: messages by field, in the order of the checks."""

    def __init__(self, state, data):
        self.state, self.errors = state, {}
        # Fields without a value count as not sent (json2form.py).
        self.data = {key: value for key, value in data.items() if value is not None}

    def error(self, field, message):
        self.errors.setdefault(field, []).append(message)

    def choice(self, field, choices):
        if field in self.data and self.data[field] not in choices:
            self.error(field, "Not a valid choice.")

    def boolean(self, field):
        return self.data[field] not in FALSE

    def number(self, field, least, most=None):
        if self.data.get(field, "") == "":
            return
        limits = f"at least {least}." if most is None else f"between {least} and {most}."
        try:
            value = int(self.data[field])
        except ValueError:
            self.error(field, "Not a valid integer value.")
            value = least - 1
        if value < least or (most is not None and value > most):
            self.error(field, "Number must be " + limits)

    def repos(self, field):
        for url in words(self.data.get(field, "")):
            parsed = urlparse(url)
            if parsed.scheme == "copr" and parsed.netloc and parsed.path.strip("/"):
                if (parsed.netloc, parsed.path.split("/")[1]) not in self.state.projects:
                    return self.error(field, f"{url} does not exist.")
            elif parsed.scheme not in ("http", "https") or not parsed.netloc:
                return self.error(
                    field,
                    "A list of http[s] URLs separated by whitespace characters is needed "
                    f"('{url}' doesn't seem to be a valid URL).",
                )
        return None

    def chroots(self, field, allowed, patterns=False):
        for value in self.data.get(field) or []:
            if value not in allowed and not (patterns and fnmatch.filter(allowed, value)):
                return self.error(field, f"'{value}' is not a valid choice for this field.")
        return None

    def invalid(self):
        """exceptions.InvalidForm"""
        if self.errors:
            lines = [f"{field}: {text}" for field, texts in self.errors.items() for text in texts]
            raise ApiError(400, "\n".join(lines))

    def bad_parameters(self):
        if self.errors:
            raise ApiError(400, f"Bad request parameters: {self.errors}")


def words(value):
    """Splits a list, or text with spaces between the items, into the nonempty items."""
    return (" ".join(map(str, value)) if isinstance(value, list) else str(value)).split()


def modules(value):
    """CommaSeparatedListField: a list, or text with commas between the items"""
    text = ", ".join(value) if isinstance(value, list) else value
    return [name.strip() for name in text.split(",") if name.strip()]


def web_address(text):
    return re.match(r"https?://[^/\s.]+\.[^/\s]+", text) is not None


def check_project(form, owner=None, exist_ok=False):
    """CoprForm; with an owner also CoprFormFactory, for a new project. Returns whether it already exists."""
    data, exists = form.data, False
    if not owner:
        form.chroots("chroots", form.state.chroots)
    if data.get("homepage") and not web_address(data["homepage"]):
        form.error("homepage", "Invalid URL.")
    contact = data.get("contact")
    if contact and not web_address(contact) and not re.fullmatch(r"[^@\s]+@[^@\s.]+\.[^@\s]+", contact):
        form.error("contact", "Contact must be email address or URL")
    if not owner:
        form.number("delete_after_days", -1, 720)
    form.repos("repos")
    form.repos("runtime_dependencies")
    form.choice("bootstrap", BOOTSTRAP)
    form.choice("isolation", ISOLATION)
    form.number("repo_priority", 1)
    form.choice("storage", ("backend", "pulp"))
    if owner:
        name = data.get("name", "")
        if not name:
            form.error("name", "This field is required.")
        elif not re.fullmatch(r"[\w.-]+", name):
            form.error("name", "Name must contain only letters, digits, underscores, dashes and dots.")
        elif (owner, name) in form.state.projects:
            exists = exist_ok
            form.error("name", f"You already have a project named '{name}'.")
        elif name.isdigit():
            form.error("name", "Project's name can not be just number.")
        form.number("delete_after_days", -1, 720)
        if data.get("chroots"):
            form.chroots("chroots", form.state.chroots)
        else:
            form.error("chroots", "'[]' is not a valid choice for this field.")
    return exists


def check_chroot(form):
    """ModifyChrootForm"""
    form.choice("isolation", ("unchanged",) + ISOLATION)
    form.choice("bootstrap", ("unchanged",) + BOOTSTRAP + ("custom_image",))
    form.repos("repos")
    seen = set()
    for module in modules(form.data.get("additional_modules", "")):
        name, colon, stream = module.partition(":")
        if not colon or ":" in stream:
            form.error(
                "module_toggle",
                f"Module name '{module}' must consist of two parts separated with colon, e.g. module:stream",
            )
            break
        if name in seen:
            form.error("module_toggle", f"Module name '{name}' specified multiple times")
            break
        seen.add(name)
    if form.data.get("bootstrap") == "custom_image" and not form.data.get("bootstrap_image"):
        form.error("bootstrap_image", "Custom image is selected, but not specified")
    form.invalid()


def check_build(form, user, allowed):
    """_get_build_form, without the uploaded file"""
    form.number("timeout", MIN_TIMEOUT, MAX_TIMEOUT)
    form.choice("bootstrap", ("unchanged",) + BOOTSTRAP)
    form.choice("isolation", ("unchanged",) + ISOLATION)
    form.chroots("chroots", allowed, patterns=True)
    form.chroots("exclude_chroots", allowed, patterns=True)
    for field, other in (("after_build_id", "with_build_id"), ("with_build_id", "after_build_id")):
        if field not in form.data:
            continue
        try:
            number = int(form.data[field])
        except ValueError:
            form.error(field, "Not a valid integer value.")
            continue
        if other in form.data:
            form.error(field, "Only one batch option can be specified")
        elif number not in form.state.builds:
            form.error(field, f"Build {number} not found")
        else:
            problem = batch_problem(form.state, form.state.builds[number], user, field == "with_build_id")
            if problem:
                form.error(field, problem)


def batch_problem(state, build, user, modify):
    """models.Build.batching_user_error"""
    if build["batch"]:
        if modify and state.batch_finished(build["batch"]):
            return f"Batch {build['batch']} is already finished"
        return None
    start = f"Build {build['id']} is not yet in any batch, and "
    if build["project"].split("/")[0] != user["name"]:
        return start + (
            f"user '{user['name']}' doesn't have the build permissions in project '{build['project']}' "
            "to create a new one"
        )
    if finished(build):
        return start + "new batch can not be created because the build has already finished"
    return None


def selected_chroots(form, allowed):
    """Returns the requested chroots of a build; empty if the request names none."""
    def expand(field):
        patterns = form.data.get(field) or []
        return {name for pattern in patterns for name in fnmatch.filter(allowed, pattern)}

    chosen = expand("chroots")
    if form.data.get("exclude_chroots"):
        chosen = (chosen or set(allowed)) - expand("exclude_chroots")
    return sorted(chosen)
