//! Flavors of the container file: the table `[container]` of `rocmrpm.toml`. `container` writes the
//! files.

use std::collections::BTreeMap;

use super::document::{At, Table};
use crate::names::nearest;
use crate::text::visible;

/// What an image is made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flavor {
    /// The stack's RPMs, on the chroot's image.
    Fedora,
    /// The stack's wheels, on Ubuntu: a fallback.
    Ubuntu,
    /// The Vulkan packages of the components, on the chroot's image.
    Vulkan,
    /// The tools for builds, on the chroot's image for toolbox.
    Toolbox,
    /// An image that others built, named by the workspace.
    Other(String),
}

impl Flavor {
    /// The flavors that rocmrpm defines.
    pub const OWN: &[Self] = &[Self::Fedora, Self::Ubuntu, Self::Vulkan, Self::Toolbox];

    /// Returns the name in files and on the command line.
    pub fn name(&self) -> &str {
        match self {
            Self::Fedora => "fedora",
            Self::Ubuntu => "ubuntu",
            Self::Vulkan => "vulkan",
            Self::Toolbox => "toolbox",
            Self::Other(name) => name,
        }
    }

    /// Returns the flavor of this name.
    pub fn parse(name: &str) -> Self {
        let own = Self::OWN.iter().find(|flavor| flavor.name() == name).cloned();
        own.unwrap_or_else(|| Self::Other(name.to_owned()))
    }

    /// Returns whether the image contains builds of this workspace.
    pub fn has_builds(&self) -> bool {
        matches!(self, Self::Fedora | Self::Ubuntu | Self::Vulkan)
    }

    /// Returns whether the image depends on a chroot.
    pub fn is_for_chroot(&self) -> bool {
        !matches!(self, Self::Other(_))
    }
}

/// What is known about an image that others built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignImage {
    /// Who built it.
    pub built_by: String,
    /// What they state about its contents.
    pub contents: Option<String>,
    /// The options of `podman run` in the instructions of the container file. [default: `-it`]
    pub run: Vec<String>,
}

/// Where an image's packages come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PackagesFrom {
    /// The build folder of this workspace.
    #[default]
    Local,
    /// The repository that the workspace publishes: `[repository] url`.
    Published,
    /// The project on COPR: `copr/project.toml`.
    Copr,
}

impl PackagesFrom {
    const NAMES: [(&str, Self); 3] =
        [("local", Self::Local), ("published", Self::Published), ("copr", Self::Copr)];
}

/// The settings of one flavor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// The image to start from, if not the flavor's usual one.
    pub base: Option<String>,
    /// Where the packages come from.
    pub from: PackagesFrom,
    /// The chroots whose files are rendered in addition to that of the chosen one.
    pub chroots: Vec<At<String>>,
    /// Environment variables of the image.
    pub env: BTreeMap<String, String>,
    /// What is known about the image if others built it.
    pub foreign: Option<ForeignImage>,
}

/// The flavors that a workspace renders.
pub type Containers = BTreeMap<Flavor, Container>;

/// Returns the flavors of a workspace without a `[container]` table.
pub(super) fn usual() -> Containers {
    Containers::from([(Flavor::Fedora, Container::default())])
}

/// Reads the table `[container]`.
pub(super) fn read(table: &mut Table<'_>) -> Containers {
    let entries = table.each_table(|key, table| {
        let flavor = Flavor::parse(&key.value);
        let foreign = foreign(&flavor, &key, table);
        let base = table.string("base").and_then(|at| image(table, at));
        let from = table.string("from").map(|at| packages_from(table, at)).unwrap_or_default();
        let chroots = table.strings("chroots");
        if let (Some(first), Flavor::Other(name)) = (chroots.first(), &flavor) {
            let message = format!(
                "a container file of the flavor `{}` does not depend on a chroot",
                visible(name)
            );
            table.problem(first.span.clone(), message, "remove `chroots`", None);
        }
        let env =
            table.string_map("env").into_iter().filter_map(|(name, at)| variable(table, name, at));
        let env = env.collect();
        (flavor, Container { base, from, chroots, env, foreign })
    });
    entries.into_iter().collect()
}

/// Reads what the workspace states about an image that others built, if the flavor is not one of
/// rocmrpm's own.
fn foreign(flavor: &Flavor, key: &At<String>, table: &mut Table<'_>) -> Option<ForeignImage> {
    let stated = ["built-by", "contents", "run"].map(|key| table.has(key)).contains(&true);
    let built_by = table.string("built-by").map(|at| at.value);
    let contents = table.string("contents").map(|at| at.value);
    let run = table.strings("run");
    if let Some(at) = run.iter().find(|at| at.value.chars().any(char::is_control)) {
        let message = format!("`{}` cannot be an option of `podman run`", visible(&at.value));
        table.problem(at.span.clone(), message, "remove the control characters", None);
    }
    let run = run.into_iter().map(|at| at.value).collect();
    let name = visible(&key.value);
    match flavor {
        Flavor::Other(_) if !stated && !table.has("base") => {
            let own = Flavor::OWN.iter().map(Flavor::name);
            let help = match nearest(&key.value, own.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "add `base` and `built-by` of an image that others built".to_owned(),
            };
            let expected = format!("expected one of {}", own.collect::<Vec<_>>().join(", "));
            let message = format!("unknown flavor `{name}`");
            table.problem(key.span.clone(), message, expected, Some(help));
        }
        Flavor::Other(value) if !is_component(value) => {
            let message =
                format!("`{name}` cannot be a flavor, which is a part of an image's name");
            let label = "expected lower-case letters, digits and `-`";
            table.problem(key.span.clone(), message, label, None);
        }
        Flavor::Other(_) if built_by.is_none() || !table.has("base") => {
            let missing = if built_by.is_none() { "built-by" } else { "base" };
            let message = format!("`{missing}` is missing in `[container.{name}]`");
            let label = "expected `base`, the image, and `built-by`, who built it";
            table.problem(key.span.clone(), message, label, None);
        }
        Flavor::Other(_) => {
            return built_by.map(|built_by| ForeignImage { built_by, contents, run });
        }
        _ if stated => {
            let message = format!("`{name}` is an image that rocmrpm builds");
            let label = "remove `built-by`, `contents` and `run`";
            table.problem(key.span.clone(), message, label, None);
        }
        _ => {}
    }
    None
}

/// Reads the image that a container file starts from.
pub(super) fn image(table: &mut Table<'_>, At { value, span }: At<String>) -> Option<String> {
    if is_image(&value) {
        return Some(value);
    }
    let message = format!("`{}` is not the name of an image", visible(&value));
    let help =
        "use a name such as `docker.io/library/ubuntu:26.04`, or `NAME@sha256:` with 64 digits"
            .to_owned();
    table.problem(span, message, "expected a name, with a tag or a digest", Some(help));
    None
}

/// Returns whether this is an image reference: `[HOST[:PORT]/]PATH[:TAG][@DIGEST]`. Source:
/// github.com/distribution/reference, `reference.go`, and the OCI distribution specification for
/// its parts. The only digest is SHA-256.
fn is_image(value: &str) -> bool {
    let (rest, digest) = match value.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (value, None),
    };
    let last = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match rest[last..].find(':') {
        Some(colon) => (&rest[..last + colon], Some(&rest[last + colon + 1..])),
        None => (rest, None),
    };
    let path = match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => {
            if !is_host(host) {
                return false;
            }
            path
        }
        _ => name,
    };
    path.split('/').all(is_component) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

fn is_host(host: &str) -> bool {
    let (name, port) = host.split_once(':').unwrap_or((host, "0"));
    let label = |label: &str| {
        let plain = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        plain && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    name.split('.').all(label) && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
}

/// Lower-case words, with one `.`, one or two `_`, or any number of `-` between them.
fn is_component(component: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut separators = component.split(|c: char| c.is_ascii() && word(c as u8));
    let (first, last) = (component.bytes().next(), component.bytes().next_back());
    first.is_some_and(word)
        && last.is_some_and(word)
        && separators.all(|s| matches!(s, "" | "." | "_" | "__") || s.bytes().all(|b| b == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let plain = tag.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    (1..=128).contains(&tag.len()) && plain && !tag.starts_with(['.', '-'])
}

/// Returns the host of the registry that an image comes from; `None` if its name has none, so that
/// each engine chooses one.
pub fn registry(image: &str) -> Option<&str> {
    let (host, _) = image.split_once('/')?;
    (host.contains(['.', ':']) || host == "localhost").then_some(host)
}

fn is_digest(digest: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    digest
        .strip_prefix("sha256:")
        .is_some_and(|digits| digits.len() == 64 && digits.bytes().all(hex))
}

fn packages_from(table: &mut Table<'_>, At { value, span }: At<String>) -> PackagesFrom {
    if let Some((_, from)) = PackagesFrom::NAMES.iter().find(|(name, _)| *name == value) {
        return *from;
    }
    let names = PackagesFrom::NAMES.map(|(name, _)| name);
    let help = nearest(&value, names).map(|name| format!("did you mean `{name}`?"));
    let message = format!("unknown source of packages `{}`", visible(&value));
    table.problem(span, message, format!("expected one of {}", names.join(", ")), help);
    PackagesFrom::default()
}

fn variable(
    table: &mut Table<'_>,
    name: String,
    At { value, span }: At<String>,
) -> Option<(String, String)> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.is_empty() && name.chars().all(plain) && !value.chars().any(char::is_control) {
        return Some((name, value));
    }
    let message = format!("`{}` cannot be set in an image", visible(&name));
    table.problem(span, message, "expected letters, digits and `_`, and a value of one line", None);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::document::File;

    fn read_text(text: &str) -> (Containers, Vec<String>) {
        let file = File { name: "rocmrpm.toml".into(), text: text.into() };
        let mut problems = Vec::new();
        let read = file.parse(&mut problems, |root| root.table("container", read));
        (read.unwrap_or_default(), problems.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn validates_image_references() {
        let digest = format!("ubuntu@sha256:{}", "0a".repeat(32));
        for good in [
            "fedora",
            "fedora:43",
            "docker.io/library/ubuntu:26.04",
            "registry.fedoraproject.org/fedora:43",
            "localhost/rocm",
            "localhost:5000/a/b-c_d__e.f:Tag-1.0_x",
            digest.as_str(),
        ] {
            assert!(is_image(good), "{good}");
        }
        let (short, long) = (format!("ubuntu@sha256:{}", "0a".repeat(31)), "x".repeat(129));
        let long = format!("fedora:{long}");
        for bad in [
            "",
            "fedora:43 AS x --EVIL $(id)",
            "--platform",
            "-fedora",
            "Fedora",
            "fedora:",
            "fedora:-x",
            "fedora:4:3",
            "fedora/",
            "/fedora",
            "a//b",
            "a/../b",
            "a___b",
            "a.-b",
            "host.example:/fedora",
            "host.example:5x/fedora",
            "-host.example/fedora",
            "fedora\n43",
            "ubuntu@sha512:00",
            &short,
            &long,
        ] {
            assert!(!is_image(bad), "{bad}");
        }
    }

    #[test]
    fn reads_flavors_and_reports_mistakes() {
        let digest = "a".repeat(64);
        let text = format!(
            "[container.fedora]\nfrom = \"copr\"\n[container.spoof]\nbase = \"d/x:1@sha256:{digest}\"\n\
             built-by = \"X\"\nenv = {{ A_1 = \"b c\" }}\n"
        );
        let (containers, problems) = read_text(&text);
        assert_eq!(problems, [""; 0]);
        assert_eq!(containers[&Flavor::Fedora].from, PackagesFrom::Copr);
        assert_eq!(
            containers[&Flavor::Other("spoof".into())].base,
            Some(format!("d/x:1@sha256:{digest}"))
        );
        assert_eq!(containers[&Flavor::Other("spoof".into())].env["A_1"], "b c");
        let (_, problems) = read_text(
            "[container.fedra]\n[container.ubuntu]\nbase = \"a b\"\nfrom = \"cpor\"\nenv = { \"a-b\" = \"\" }\n\
             [container.other]\nbase = \"x@sha256:12\"\nbsae = 1\nbuilt-by = \"X\"\n\
             [container.spoof]\nbase = \"x\"\n[container.run]\nbase = \"x\"\nbuilt-by = \"X\"\n\
             run = [\"-it\\nFROM evil\"]\n[container.Up]\nbase = \"x\"\nbuilt-by = \"X\"\n[container.vulkan]\ncontents = \"x\"\n",
        );
        assert_eq!(
            problems,
            [
                "`Up` cannot be a flavor, which is a part of an image's name",
                "unknown flavor `fedra`",
                "`x@sha256:12` is not the name of an image",
                "unknown key `bsae`",
                "`-it\\nFROM evil` cannot be an option of `podman run`",
                "`built-by` is missing in `[container.spoof]`",
                "`a b` is not the name of an image",
                "unknown source of packages `cpor`",
                "`a-b` cannot be set in an image",
                "`vulkan` is an image that rocmrpm builds",
            ]
        );
    }
}
