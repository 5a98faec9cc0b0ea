"""Sphinx's configuration of the book. `make book` builds it and checks every link."""

import re
import tomllib
from pathlib import Path

from sphinx.util import logging

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PACKAGE = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
# Without it, links to files of the repository are plain text.
FORGE = PACKAGE.get("repository")

project = "rocmrpm"
release = PACKAGE["version"]
copyright = "the rocmrpm contributors"
extensions = ["myst_parser"]
exclude_patterns = ["schemas"]
myst_heading_anchors = 4
highlight_language = "text"
# The output of a command can have a single quote.
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_title = "rocmrpm"
html_show_sphinx = False
html_copy_source = False
templates_path = []

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\]|\[\[[^\[\]]*\]\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
log = logging.getLogger(__name__)


def anchors(page):
    """Returns the anchors that a forge gives to the headings of a Markdown file."""
    titles = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def find(page, link):
    """Returns the file that a relative link of a page names; warns if there is none."""
    path, _, anchor = link.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists() or ROOT not in (file, *file.parents):
        log.warning("no such file: %s", link, location=str(page))
    elif anchor and file.suffix == ".md" and anchor not in anchors(file):
        log.warning("no such heading: %s", link, location=str(page))
    return file


def is_external(link):
    return re.match(r"[a-z]+:", link) is not None


def link_to_forge(app, docname, source):
    """Turns a page's links to files of the repository into links to the forge."""
    page = Path(app.env.doc2path(docname))

    def replace(match):
        image, text, link = match.groups()
        if is_external(link) or image:
            return match[0]
        file = find(page, link)
        if file.suffix == ".md" and DOCS in file.parents:
            return match[0]
        if FORGE is None:
            return text
        kind = "tree" if file.is_dir() else "blob"
        anchor = "".join(link.partition("#")[1:])
        return f"[{text}]({FORGE}/{kind}/main/{file.relative_to(ROOT)}{anchor})"

    # Blocks of code keep their text.
    source[0] = "".join(
        part if part.startswith("```") else LINK.sub(replace, part)
        for part in re.split(r"(^```.*?^```)", source[0], flags=re.MULTILINE | re.DOTALL)
    )


def check_other_pages(app):
    """Checks the links of the repository's pages that are not part of the book."""
    for page in [*ROOT.glob("*.md"), *ROOT.glob("crates/*/**/*.md"), *ROOT.glob("tests/*/*.md")]:
        for _, _, link in LINK.findall(FENCE.sub("", page.read_text())):
            if not is_external(link):
                find(page, link)


def setup(app):
    app.connect("builder-inited", check_other_pages)
    app.connect("source-read", link_to_forge)
    return {"parallel_read_safe": True}
