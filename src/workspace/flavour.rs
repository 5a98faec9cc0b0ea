//! Flavours of the container file: the table `[container]` of `rocmrpm.toml`. What a file of a
//! flavour says is `container`'s business.

use std::collections::BTreeMap;

use super::document::{At, Table};
use crate::names::nearest;
use crate::text::visible;

/// What an image is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flavour {
    /// The stack's RPMs, on the chroot's image.
    Fedora,
    /// The stack's wheels, on Ubuntu: a fallback.
    Ubuntu,
    /// What the components offer for Vulkan, on the chroot's image.
    Vulkan,
    /// AMD's own image, told that the GPU is another one.
    Spoof,
    /// Ollama's own image.
    Ollama,
}

impl Flavour {
    /// All flavours.
    pub const ALL: &[Self] = &[Self::Fedora, Self::Ubuntu, Self::Vulkan, Self::Spoof, Self::Ollama];

    /// Returns its name, as files and the command line have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fedora => "fedora",
            Self::Ubuntu => "ubuntu",
            Self::Vulkan => "vulkan",
            Self::Spoof => "spoof",
            Self::Ollama => "ollama",
        }
    }

    /// Returns the flavour of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|flavour| flavour.name() == name)
    }

    /// Tells whether the image holds what this workspace builds, against one of its chroots.
    pub fn is_built_here(self) -> bool {
        matches!(self, Self::Fedora | Self::Ubuntu | Self::Vulkan)
    }
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

/// What the workspace says about one flavour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Container {
    /// The image to start from, where it is not the flavour's usual one.
    pub base: Option<String>,
    /// Where packages come from.
    pub from: PackagesFrom,
    /// The chroots whose files are rendered beside that of the chosen one.
    pub chroots: Vec<At<String>>,
    /// Environment variables of the image.
    pub env: BTreeMap<String, String>,
}

/// The flavours that a workspace renders.
pub type Containers = BTreeMap<Flavour, Container>;

/// Returns the flavours of a workspace that says nothing about them.
pub(super) fn usual() -> Containers {
    Containers::from([(Flavour::Fedora, Container::default())])
}

/// Reads the table `[container]`.
pub(super) fn read(table: &mut Table<'_>) -> Containers {
    let mut unknown = Vec::new();
    let entries = table.each_table(|key, table| {
        let flavour = Flavour::parse(&key.value);
        let base = table.string("base").and_then(|at| base(table, at));
        let from = table.string("from").map(|at| packages_from(table, at)).unwrap_or_default();
        let chroots = table.strings("chroots");
        if let (Some(first), Some(flavour)) = (chroots.first(), flavour.filter(|f| !f.is_built_here())) {
            let message = format!("a container file of the flavour `{}` is for no chroot", flavour.name());
            table.problem(first.span.clone(), message, "remove `chroots`", None);
        }
        let env = table.string_map("env").into_iter().filter_map(|(name, at)| variable(table, name, at));
        let env = env.collect();
        if flavour.is_none() {
            unknown.push(key);
        }
        Some((flavour?, Container { base, from, chroots, env }))
    });
    for At { value, span } in unknown {
        let names: Vec<&str> = Flavour::ALL.iter().map(|flavour| flavour.name()).collect();
        let help = nearest(&value, names.iter().copied()).map(|name| format!("did you mean `{name}`?"));
        let message = format!("there is no flavour `{}` of the container file", visible(&value));
        table.problem(span, message, format!("expected one of {}", names.join(", ")), help);
    }
    entries.into_iter().flatten().collect()
}

/// Reads an image's name. Its parts are those of the OCI distribution specification: a name, and
/// optionally a tag, a digest, or both.
fn base(table: &mut Table<'_>, At { value, span }: At<String>) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "./:_-@".contains(c);
    let digest = value.split_once('@').map(|(_, digest)| digest);
    let hex = |digest: &str| {
        digest.strip_prefix("sha256:").is_some_and(|hex| {
            hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        })
    };
    if !value.is_empty() && value.chars().all(allowed) && digest.is_none_or(hex) {
        return Some(value);
    }
    let message = format!("`{}` is not the name of an image", visible(&value));
    let help = "such as `docker.io/library/ubuntu:26.04`, or `NAME@sha256:` and 64 digits".to_owned();
    table.problem(span, message, "expected a name, with a tag or a digest", Some(help));
    None
}

fn packages_from(table: &mut Table<'_>, At { value, span }: At<String>) -> PackagesFrom {
    if let Some((_, from)) = PackagesFrom::NAMES.iter().find(|(name, _)| *name == value) {
        return *from;
    }
    let names = PackagesFrom::NAMES.map(|(name, _)| name);
    let help = nearest(&value, names).map(|name| format!("did you mean `{name}`?"));
    let message = format!("packages cannot come from `{}`", visible(&value));
    table.problem(span, message, format!("expected one of {}", names.join(", ")), help);
    PackagesFrom::default()
}

fn variable(table: &mut Table<'_>, name: String, At { value, span }: At<String>) -> Option<(String, String)> {
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
    fn flavours_are_read_and_mistakes_named() {
        let digest = "a".repeat(64);
        let text = format!(
            "[container.fedora]\nfrom = \"copr\"\n[container.spoof]\nbase = \"d/x:1@sha256:{digest}\"\n\
             env = {{ A_1 = \"b c\" }}\n"
        );
        let (containers, problems) = read_text(&text);
        assert_eq!(problems, [""; 0]);
        assert_eq!(containers[&Flavour::Fedora].from, PackagesFrom::Copr);
        assert_eq!(containers[&Flavour::Spoof].base, Some(format!("d/x:1@sha256:{digest}")));
        assert_eq!(containers[&Flavour::Spoof].env["A_1"], "b c");
        let (_, problems) = read_text(
            "[container.fedra]\n[container.ubuntu]\nbase = \"a b\"\nfrom = \"cpor\"\nenv = { \"a-b\" = \"\" }\n\
             [container.ollama]\nbase = \"x@sha256:12\"\nbsae = 1\n",
        );
        assert_eq!(
            problems,
            [
                "`x@sha256:12` is not the name of an image",
                "unknown key `bsae`",
                "`a b` is not the name of an image",
                "packages cannot come from `cpor`",
                "`a-b` cannot be set in an image",
                "there is no flavour `fedra` of the container file",
            ]
        );
    }
}
