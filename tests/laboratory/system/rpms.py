"""Writes the input of rpmbuild to pack the target tree into RPMs with Fedora's names.

usage: rpms.py PACKAGES LAB FILES FALLBACK-MACROS WORK

PACKAGES is the table. LAB/lists has the files that each of its lines added, and
FILES/<RPM> files to add or replace. Into WORK, a folder of the target tree, this script
writes the spec file, the file lists, and the script `build`, which builds WORK/repository.

One spec builds all RPMs. Their Provides and Requires are those that rpm generates from
the files (SONAMEs, Python modules, pkg-config files), and those in the table.
"""

import pathlib
import re
import shutil
import sys

# Packages that only serve Debian's package management.
LEFT_OUT_PACKAGES = ["apt", "debconf", "debian-archive-keyring", "dpkg", "init-system-helpers", "libapt-pkg7.0", "sqv"]
LEFT_OUT_FOLDERS = [
    "boot", "dev", "lab", "proc", "run", "sys", "tmp",
    "etc/apt", "etc/dpkg", "etc/init.d", "etc/ld.so.cache", "etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/rpm/macros",
    "usr/lib/python3/dist-packages", "usr/local/lib/python3.14", "usr/share/debconf", "usr/share/python3",
    "var/cache", "var/lib/apt", "var/lib/dpkg", "var/log",
]
# Mount points, and folders that programs expect.
EMPTY_FOLDERS = ["boot", "dev", "proc", "run", "sys", "tmp", "usr/lib/sysimage/rpm", "var/cache", "var/log"]
# In a line's last column: each Python distribution of the line becomes a separate RPM with the name
# of its Debian package, so that dnf can replace it.
EACH = "each"
# Collections, whose names do not exist in Fedora.
NOT_FEDORAS = [
    "fedora-base", "lab-tools", "llama-cpp-needs", "mock-needs", "survey-build-needs", "survey-needs",
    "vllm-build-needs", "vllm-needs",
]
GROUP = "buildsys-build"
GROUP_PACKAGES = ["fedora-base", "rpm-build"]

HEAD = """\
Name: lab
Version: 43
Release: 1.fc43
Summary: Debian's packages under Fedora's names
License: Various
%global debug_package %{nil}
%global __os_install_post %{nil}
%global _build_id_links none
%global _binary_payload w3T0.zstdio
# Scripts and pkg-config files require things that only Debian's dependencies cover.
%global __script_requires %{nil}
%global __script_magic ^$
%global __pkgconfig_requires %{nil}
# Requirements that Debian's packages drop or relax in their dependencies but not in the metadata:
# nothing in the laboratory provides these versions.
%global __requires_exclude ^\\\\(*python3\\\\.[0-9]+dist\\\\((click|docutils|grpcio|hf-xet|jiter|mpmath|protobuf|triton)\\\\)
# Root owns everything: the names of other owners would become requirements.
%global _use_weak_usergroup_deps 1

%description
Debian's packages under Fedora's names.
"""

BUILD = """\
#!/bin/bash
set -euo pipefail
cd /lab/rpms
rpmbuild --quiet -bb --define '_topdir /lab/rpms/top' --define '_rpmdir /lab/rpms/repository' lab.spec
createrepo_c --quiet --general-compress-type=zstd --groupfile=/lab/rpms/comps.xml repository
"""


def rpm_version(debian):
    """Returns upstream's part of a Debian version."""
    upstream = re.sub(r"^[0-9]+:", "", debian).rsplit("-", 1)[0]
    upstream = re.sub(r"[+~.](dfsg|ds|really|git|repack).*", "", upstream)
    return re.sub(r"[^A-Za-z0-9.+~^_]", ".", upstream)


def listed(path):
    """Quotes a path for %files -f, so that blanks and glob characters are literal."""
    return '"/' + path.replace("%", "%%") + '"'


def owners_of(tree):
    """Returns the Debian package of each path that only one package has, and the packages with a distribution."""
    owners, distributions, shared = {}, set(), set()
    for listing in (tree / "var/lib/dpkg/info").glob("*.list"):
        package = listing.stem.split(":")[0]
        for line in listing.read_text().splitlines():
            path = line[1:].replace("usr/lib/x86_64-linux-gnu", "usr/lib64")
            path = path.replace("usr/lib/python3/dist-packages", "usr/lib/python3.14/site-packages")
            if owners.setdefault(path, package) != package:
                shared.add(path)
            if re.search(r"site-packages/[^/]+\.(dist|egg)-info$", path):
                distributions.add(package)
    return {path: owner for path, owner in owners.items() if path not in shared}, distributions


def depends_of(tree):
    """Returns the names that each Debian package depends on."""
    depends, package = {}, None
    for line in (tree / "var/lib/dpkg/status").read_text().splitlines():
        key, _, value = line.partition(": ")
        if key == "Package":
            package = value
        elif key == "Depends":
            depends[package] = set(re.findall(r"(?:^|[,|] )([a-z0-9.+-]+)", value))
    return depends


def parts(paths, own, owners, distributions):
    """Divides a line's paths by their RPM: `own`, or the Debian package of their distribution."""
    divided = {own: []}
    for path in paths:
        place = pathlib.PurePath(path)
        # Debian's packages do not list compiled modules.
        if place.parent.name == "__pycache__":
            place = place.parent.parent / (place.name.split(".")[0] + ".py")
        while str(place) not in owners and len(place.parts) > 5:
            place = place.parent
        package = owners.get(str(place))
        divided.setdefault(package if package in distributions else own, []).append(path)
    return divided


def provided(names, versions, version):
    """Returns the Provides lines for the other names of a line, with their versions."""
    lines = []
    for token in names.split():
        name, _, of = token.partition("=")
        of = rpm_version(versions[of]) if of in versions else of or version
        lines.append(f"Provides: {name}" if name.startswith("/") else f"Provides: {name} = {of}")
        if not re.search(r"[/()]", name):
            lines.append(f"Provides: {name}(x86-64) = {of}")
    return lines


def macros_of(fallback):
    """Returns the macros of each RPM, which one file has for hosts that lack them, with a file name."""
    python, rest = fallback.read_text().split("# Of cargo-rpm-macros and rust-srpm-macros.\n")
    cargo, meson = rest.split("# Of meson.\n")
    # macros.pyproject-requires of the overlay is read after macros.pyproject.
    return {
        "python3-devel": ("macros.pyproject", python),
        "cargo": ("macros.cargo", cargo),
        "meson": ("macros.meson", meson),
    }


def main():
    table, lab, files, fallback, work = map(pathlib.Path, sys.argv[1:])
    tree = lab / "target"
    versions = dict(line.split(" ", 1) for line in (lab / "lists/.versions").read_text().splitlines())
    left_out = set()
    for package in LEFT_OUT_PACKAGES:
        for name in [package, package + ":amd64"]:
            listing = tree / f"var/lib/dpkg/info/{name}.list"
            if listing.exists():
                left_out.update(line[1:].replace("usr/lib/x86_64-linux-gnu", "usr/lib64") for line in listing.read_text().splitlines())

    owners, distributions = owners_of(tree)
    depends = depends_of(tree)
    macros = macros_of(fallback)
    # The preamble and the rest of each RPM, and the RPMs that contain a single distribution.
    preambles, rest, install, apart = {}, {}, ["%install"], []
    for line in table.read_text().splitlines():
        if line.startswith("#"):
            continue
        name, debian, provides, requires = (column.strip() for column in line.split("|"))
        requires = requires.split()
        overlay = files / name
        over = set()
        if name in macros:
            folder = work / "overlay" / name / "usr/lib/rpm/macros.d"
            folder.mkdir(parents=True)
            file, text = macros[name]
            (folder / file).write_text(text)
        if overlay.is_dir():
            shutil.copytree(overlay, work / "overlay" / name, symlinks=True, dirs_exist_ok=True)
        if (work / "overlay" / name).is_dir():
            root = work / "overlay" / name
            over = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_symlink() or not p.is_dir()}

        packed = []
        for path in (lab / "lists" / name).read_text().splitlines():
            full = tree / path
            if not path or any(path == f or path.startswith(f + "/") for f in LEFT_OUT_FOLDERS) or path in over:
                continue
            if full.is_dir() and not full.is_symlink() or (full.is_symlink() or full.is_file()) and path not in left_out:
                packed.append(path)
        each = EACH in requires
        requires = [required for required in requires if required != EACH]
        divided = parts(packed, name, owners, distributions) if each else {name: packed}
        for rpm, paths in divided.items():
            # A line's RPM has the version of its first Debian package, unless Fedora has no such name.
            source = rpm if rpm != name else None if rpm in NOT_FEDORAS else debian.split()[0]
            version = rpm_version(versions[source]) if source else "43"
            lines = [("" if (tree / path).is_symlink() or not (tree / path).is_dir() else "%dir ") + listed(path) for path in paths]
            (work / f"{rpm}.paths").write_text("".join(path + "\n" for path in paths))
            # Hard links instead of copies: nothing changes the files before they are packed.
            install.append(f"(cd / && cpio --quiet -pdlm %{{buildroot}} </lab/rpms/{rpm}.paths)")
            preamble = [f"%package -n {rpm}\nVersion: {version}\nSummary: {rpm}, from Debian"]
            preamble += [f"Requires: {required}" for required in requires + ([name] if rpm != name else [])]
            if each:
                apart.append(rpm)
            if rpm == name:
                preamble += provided(provides, versions, version)
                lines += [listed(path) for path in sorted(over)]
            if rpm == "fedora-base":
                lines += ["%dir " + listed(path) for path in EMPTY_FOLDERS]
                install.append("mkdir -p " + " ".join("%{buildroot}/" + path for path in EMPTY_FOLDERS))
                install.append("chmod 1777 %{buildroot}/tmp; chmod 555 %{buildroot}/proc %{buildroot}/sys")
            (work / f"{rpm}.files").write_text("%defattr(-,root,root,-)\n" + "".join(f"{line}\n" for line in lines))
            preambles[rpm] = preamble
            rest[rpm] = f"%description -n {rpm}\nFrom Debian's {debian}.\n%files -n {rpm} -f /lab/rpms/{rpm}.files\n"
        if over:
            install.append(f"cp -a --remove-destination /lab/rpms/overlay/{name}/. %{{buildroot}}/")
    # METADATA limit versions in ways that Debian does not meet, and do not list the requirements of
    # extras. Use the dependencies of Debian's packages, with which they work.
    for rpm in apart:
        preambles[rpm] += [f"Requires: {other}" for other in apart if other != rpm and other in depends.get(rpm, ())]
    spec = [HEAD]
    for rpm, preamble in preambles.items():
        spec += preamble + [rest[rpm]]
    spec.append("%transfiletriggerin -n fedora-base -- /usr/lib64\n/usr/sbin/ldconfig\n")
    (work / "lab.spec").write_text("\n".join(spec + install) + "\n")
    (work / "build").write_text(BUILD)
    packages = "".join(f'<packagereq type="mandatory">{name}</packagereq>' for name in GROUP_PACKAGES)
    (work / "comps.xml").write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n<comps><group>'
        f"<id>{GROUP}</id><name>{GROUP}</name><default>false</default><uservisible>true</uservisible>"
        f"<packagelist>{packages}</packagelist></group></comps>\n"
    )


if __name__ == "__main__":
    main()
