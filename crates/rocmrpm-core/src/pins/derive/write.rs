//! Writes a derived set: tables sorted by component, with the origin of each value in a comment above
//! it. `decide` and `source` chose the values.

use toml_edit::{DocumentMut, Item, Table};

use super::{Decision, Followed, Work};
use crate::error::{Error, Kind, Problems};
use crate::names::ComponentName;
use crate::workspace::document::File;
use crate::workspace::pin::shown_folder;
use crate::workspace::{Lock, Pin, PinSet, Source};

/// The base set as written.
pub(super) struct Base {
    name: String,
    document: DocumentMut,
}

impl Base {
    pub fn read(set: &PinSet) -> Result<Self, Error> {
        let document = set.file.text.parse().map_err(|error: toml_edit::TomlError| {
            Error::new(Kind::Config, format!("{}: {error}", set.file.name))
        })?;
        Ok(Self { name: set.name.clone(), document })
    }

    pub fn has(&self, component: &str) -> bool {
        self.document.get(component).is_some_and(Item::is_table)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.document.iter().map(|(name, _)| name)
    }

    fn table(&self, component: &str) -> Option<&Table> {
        self.document.get(component)?.as_table()
    }

    /// Returns the raw text of a key in a component's table, with `{version}` not replaced.
    fn text(&self, component: &str, key: &str) -> Option<&str> {
        self.table(component)?.get(key)?.as_str()
    }

    /// Returns a component's table as written, with its comments.
    fn carried(&self, component: &str) -> String {
        let mut document = DocumentMut::new();
        let Some(table) = self.table(component) else { return String::new() };
        let mut table = table.clone();
        own_comments(&mut table);
        document.insert(component, Item::Table(table));
        document.to_string().trim_start_matches('\n').to_owned()
    }

    /// Returns a further source of a component as written.
    fn carried_source(&self, component: &str, source: &str) -> Option<String> {
        let mut table =
            self.table(component)?.get("sources")?.as_table()?.get(source)?.as_table()?.clone();
        own_comments(&mut table);
        let mut sources = Table::new();
        sources.set_implicit(true);
        sources.insert(source, Item::Table(table));
        let mut outer = Table::new();
        outer.set_implicit(true);
        outer.insert("sources", Item::Table(sources));
        let mut document = DocumentMut::new();
        document.insert(component, Item::Table(outer));
        Some(document.to_string().trim_start_matches('\n').to_owned())
    }
}

/// Keeps only the comments directly above a table: those above an empty line belong to the
/// file.
fn own_comments(table: &mut Table) {
    let prefix = table.decor().prefix().and_then(|raw| raw.as_str()).unwrap_or_default();
    let own = prefix.rsplit("\n\n").next().unwrap_or_default().trim_start_matches('\n').to_owned();
    table.decor_mut().set_prefix(own);
}

fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

/// Writes comment lines, one per note.
fn comments(text: &mut String, notes: &[String]) {
    for note in notes {
        text.push_str(&format!("# {}\n", crate::text::visible(note)));
    }
}

impl Work<'_> {
    /// Returns the whole text of the pin set.
    pub(super) fn text(&mut self) -> Result<String, Error> {
        let (from, version) = self.request.from;
        let choices: String = self
            .request
            .choices
            .iter()
            .map(|(name, version)| format!(" --choose {name}={version}"))
            .collect();
        let mut text = format!(
            "# Derived from {from} {version}: `rocmrpm pins derive --from {from}={version} --base {}{choices}`.\n\
             # The comment above a value names the upstream file and line that states it.\n",
            self.base.name
        );
        let mut names: Vec<String> = self.base.names().map(str::to_owned).collect();
        names.extend(self.decisions.keys().cloned());
        names.sort();
        names.dedup();
        for name in names {
            text.push('\n');
            match self.decisions.get(&name) {
                Some(decision) => text.push_str(&self.component(&name, decision)?),
                None => {
                    let note = format!(
                        "copied from pins/{}.toml: no file that was read states it",
                        self.base.name
                    );
                    comments(&mut text, std::slice::from_ref(&note));
                    text.push_str(&self.base.carried(&name));
                    let version = self.base.text(&name, "version").unwrap_or_default();
                    let decision = Decision::new(version, Followed::Base, vec![note]);
                    self.decisions.insert(name, decision);
                }
            }
        }
        self.reads(text)
    }

    /// Checks that the text is a pin set with the decided values.
    fn reads(&self, text: String) -> Result<String, Error> {
        let file = File { name: "the derived set".into(), text };
        let mut problems = Vec::new();
        let set =
            PinSet::read("derived", file, &Lock::default(), &Default::default(), &mut problems);
        if !problems.is_empty() {
            return Err(Problems(problems).into());
        }
        for (name, decision) in &self.decisions {
            let pin = ComponentName::parse(name).and_then(|name| set.pins.get(&name));
            if pin.is_none_or(|at| at.value.version != decision.version) {
                return Err(Error::new(Kind::Internal, format!("the derived set lacks {name}")));
            }
        }
        Ok(set.file.text)
    }

    fn component(&self, name: &str, decision: &Decision) -> Result<String, Error> {
        let pin = decision.pin.as_ref();
        let pin = pin.ok_or_else(|| {
            Error::new(Kind::Internal, format!("the source of {name} is unknown"))
        })?;
        let base = self.base_pin(name).filter(|base| base.source == pin.source);
        let mut text = format!("[{}]\n", toml_edit::Key::new(name));
        comments(&mut text, &decision.notes);
        text += &format!("version = {}\n", quoted(&decision.version));
        let mut notes = decision.origin_notes.clone();
        if base.is_some() && notes.is_empty() {
            notes.push(format!("as in pins/{}.toml, which has this version", self.base.name));
        }
        text += &self.origin(name, pin, &notes);
        match &decision.python {
            Some((range, notes)) => {
                comments(&mut text, notes);
                text += &format!("python = {}\n", quoted(range));
            }
            None => {
                if let Some(range) = self.base.text(name, "python") {
                    comments(&mut text, &[format!("as in pins/{}.toml", self.base.name)]);
                    text += &format!("python = {}\n", quoted(range));
                }
            }
        }
        text += &self.sources(name, decision);
        Ok(text)
    }

    /// Writes the source of a pin.
    fn origin(&self, name: &str, pin: &Pin, notes: &[String]) -> String {
        let mut text = String::new();
        match &pin.source {
            Source::Url { url, sha256 } => {
                text += &format!("url = {}\n", quoted(self.base.text(name, "url").unwrap_or(url)));
                comments(&mut text, notes);
                if let Some(sha256) = sha256 {
                    text += &format!("sha256 = \"{sha256}\"\n");
                }
            }
            Source::Sdist { project, sha256 } => {
                text += &format!("sdist = {}\n", quoted(project));
                comments(&mut text, notes);
                if let Some(sha256) = sha256 {
                    text += &format!("sha256 = \"{sha256}\"\n");
                }
            }
            Source::Wheel { file, sha256 } => {
                text +=
                    &format!("wheel = {}\n", quoted(self.base.text(name, "wheel").unwrap_or(file)));
                comments(&mut text, notes);
                if let Some(sha256) = sha256 {
                    text += &format!("sha256 = \"{sha256}\"\n");
                }
            }
            Source::Git { url, commit, submodules, paths } => {
                text += &format!("git = {}\n", quoted(url));
                comments(&mut text, notes);
                if let Some(commit) = commit {
                    text += &format!("commit = {}\n", quoted(commit));
                }
                if *submodules {
                    text += "submodules = true\n";
                }
                if !paths.is_empty() {
                    text += &format!("paths = {}\n", list(paths));
                }
            }
            Source::Folder { path, paths } => {
                text += &format!("path = {}\n", quoted(&shown_folder(path)));
                if !paths.is_empty() {
                    text += &format!("paths = {}\n", list(paths));
                }
            }
            Source::Crates { .. } => {}
        }
        if let Some(folder) = &pin.top_folder {
            text += &format!("top-folder = {}\n", quoted(folder));
        }
        text
    }

    /// Writes the further sources: the decided ones, and those of the base set that upstream's files do
    /// not mention.
    fn sources(&self, name: &str, decision: &Decision) -> String {
        let mut tables: Vec<(String, String)> = Vec::new();
        for source in &decision.sources {
            let mut text = format!("[{}.sources.{}]\n", toml_edit::Key::new(name), source.name);
            comments(&mut text, &source.notes);
            if let Some(version) = &source.version {
                text += &format!("version = {}\n", quoted(version));
            }
            if let Some(lock_file) = &source.cargo_vendor {
                text += &format!("cargo-vendor = {}\n", quoted(lock_file));
            }
            if let Some((git, commit)) = &source.git {
                text += &format!("git = {}\ncommit = {}\n", quoted(git), quoted(commit));
                let known = self.base_pin(name).and_then(|pin| pin.sources.get(&source.name));
                let paths = match known.map(|pin| &pin.source) {
                    Some(Source::Git { paths, .. }) => paths,
                    _ => &source.paths,
                };
                if !paths.is_empty() {
                    text += &format!("paths = {}\n", list(paths));
                }
            }
            tables.push((source.name.clone(), text));
        }
        let there = self.base.table(name).and_then(|table| table.get("sources")?.as_table());
        for (source, _) in there.into_iter().flat_map(Table::iter) {
            if !decision.spoken.iter().any(|name| name == source)
                && let Some(table) = self.base.carried_source(name, source)
            {
                let note = format!(
                    "copied from pins/{}.toml: no file that was read states it",
                    self.base.name
                );
                tables.push((source.to_owned(), format!("# {note}\n{table}")));
            }
        }
        tables.sort();
        tables.into_iter().map(|(_, text)| format!("\n{text}")).collect()
    }
}

fn list(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", items.join(", "))
}
