//! Transcripts in the documentation: the `console` blocks of a page. A test runs the blocks of a
//! page in one shell, or compares one block with output that it has anyway. A block of the second
//! kind names its test in the line before, `<!-- test: tests/FILE.rs -->`.
//!
//! In the output, `[..]` stands for any text in a line, and `...` for any lines. Durations, sizes,
//! dates, digests, and ports of this machine are equal to those of the page, and the test's folders
//! to [`HOME`] and [`ROOT`].

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use regex::Regex;

use super::{REPOSITORY, Ran, Workspace};

/// The home folder of a page's reader.
const HOME: &str = "/home/me";
/// The workspace of a page's reader.
const ROOT: &str = "/home/me/my-stack";

/// git's settings for a page's reader.
const AUTHOR: [(&str, &str); 7] = [
    ("GIT_AUTHOR_NAME", "Me"),
    ("GIT_AUTHOR_EMAIL", "me@example.org"),
    ("GIT_COMMITTER_NAME", "Me"),
    ("GIT_COMMITTER_EMAIL", "me@example.org"),
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "init.defaultBranch"),
    ("GIT_CONFIG_VALUE_0", "main"),
];

/// Starts the output of each command. Programs do not print it.
const SEPARATOR: char = '\u{1e}';

/// What differs between runs, and what replaces it in the page and in the output.
static VARIES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let varies = [
        // Only printed while a build takes more than a minute.
        (r"(?m)^ +Building \S+, .* so far\n", ""),
        (r"\b(\d+h )?(\d+m )?\d+(\.\d+)? ?s\b", "[TIME]"),
        (r"\b\d+(\.\d+)? [kMG]?B\b", "[SIZE]"),
        (r"\b20\d\d-\d\d-\d\d\b", "[DATE]"),
        (r"\b([0-9a-f]{64}|[0-9a-f]{40})\b", "[DIGEST]"),
        (r"\b[0-9a-f]{7,12}\.\.", "[DIGEST].."),
        (r"\.\.[0-9a-f]{7,12}\b", "..[DIGEST]"),
        (r"\b127\.0\.0\.1:\d+", "[SERVER]"),
    ];
    varies.map(|(pattern, instead)| (Regex::new(pattern).unwrap(), instead)).into()
});

/// Replaces what differs between runs.
pub fn constant(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, instead) in &*VARIES {
        text = pattern.replace_all(&text, *instead).into_owned();
    }
    text
}

/// A fenced block of a page.
pub struct Block {
    /// The line of its fence, counted from 1.
    pub line: usize,
    /// The word after the fence: `console`, `text`, `toml`.
    pub language: String,
    /// The test that the line before the fence names.
    pub test: Option<String>,
    pub text: String,
}

impl Block {
    /// Returns the first command of a `console` block.
    pub fn command(&self) -> Option<&str> {
        self.text.lines().next()?.strip_prefix("$ ")
    }
}

/// Returns the fenced blocks of a page, which can be indented.
pub fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut lines) = (Vec::new(), page.lines().enumerate());
    let mut before = "";
    while let Some((at, line)) = lines.next() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            let indent = line.len() - line.trim_start().len();
            let inside = lines.by_ref().map(|(_, line)| line);
            let inside = inside.take_while(|line| line.trim() != "```");
            let inside = inside.map(|line| format!("{}\n", line.get(indent..).unwrap_or_default()));
            let test =
                before.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->"));
            blocks.push(Block {
                line: at + 1,
                language: language.to_owned(),
                test: test.map(str::to_owned),
                text: inside.collect(),
            });
        }
        before = line;
    }
    blocks
}

/// Commands of a page with their output.
pub struct Transcript {
    text: String,
}

impl Transcript {
    fn blocks(page: &str) -> impl Iterator<Item = Block> {
        let text = std::fs::read_to_string(Path::new(REPOSITORY).join(page)).unwrap();
        blocks(&text).into_iter().filter(|block| block.language == "console")
    }

    /// Returns all blocks of a page that do not name their test, joined.
    pub fn page(page: &str) -> Self {
        let blocks = Self::blocks(page).filter(|block| block.test.is_none());
        Self { text: blocks.map(|block| block.text).collect() }
    }

    /// Returns the block of a page that names its test and starts with this command.
    #[track_caller]
    pub fn block(page: &str, command: &str) -> Self {
        let mut blocks = Self::blocks(page)
            .filter(|block| block.test.is_some() && block.command() == Some(command));
        let block = blocks.next().unwrap_or_else(|| panic!("{page} does not run `{command}`"));
        assert!(blocks.next().is_none(), "{page} runs `{command}` several times");
        Self { text: block.text }
    }

    /// Returns the commands and their output, without what differs between runs.
    pub fn text(&self) -> String {
        constant(&self.text)
    }

    /// Returns the commands. Lines that start with `> ` directly after a command continue it.
    fn commands(&self) -> Vec<String> {
        let (mut commands, mut continues) = (Vec::<String>::new(), false);
        for line in self.text.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                commands.push(command.to_owned());
                continues = true;
            } else if let Some(more) = line.strip_prefix('>').filter(|_| continues) {
                let command = commands.last_mut().unwrap();
                command.push('\n');
                command.push_str(more.strip_prefix(' ').unwrap_or(more));
            } else {
                continues = false;
            }
        }
        commands
    }

    /// Returns a script for bash that runs the commands, for [`Transcript::assert_output`].
    pub fn script(&self) -> String {
        let commands = self.commands();
        let commands = commands.iter().map(|line| format!("printf '{SEPARATOR}'\n{line}\n"));
        "exec 2>&1\n".to_owned() + &commands.collect::<String>()
    }

    /// Fails unless the page shows this output of its script.
    #[track_caller]
    pub fn assert_output(&self, output: &str) {
        let shown = output.split(SEPARATOR).skip(1);
        let mut actual = String::new();
        for (command, output) in self.commands().iter().zip(shown) {
            actual += &format!("$ {}\n", command.replace('\n', "\n> ").replace("> \n", ">\n"));
            actual += output;
            if !output.is_empty() && !output.ends_with('\n') {
                actual.push('\n');
            }
        }
        // Commands have backslashes.
        snapbox::Assert::new().normalize_paths(false).eq(constant(&actual), self.text());
    }

    /// Fails unless the page shows this output of its only command.
    #[track_caller]
    pub fn assert_prints(&self, output: &str) {
        self.assert_output(&format!("{SEPARATOR}{output}"));
    }

    /// Returns the shell that runs the commands, with this rocmrpm first in its path.
    pub fn shell(&self) -> Command {
        let bin = Path::new(env!("CARGO_BIN_EXE_rocmrpm")).parent().unwrap();
        let script = format!("PATH='{}':$PATH\n{}", bin.display(), self.script());
        let mut shell = Command::new("bash");
        shell.args(["-c", &script]).stdin(Stdio::null());
        shell
    }

    /// Runs the commands in the home folder of a workspace's user, and compares the output.
    #[track_caller]
    pub fn run_at_home(&self, workspace: &Workspace) {
        let keys = workspace.holder().join("keys");
        std::fs::create_dir(&keys).unwrap();
        std::fs::set_permissions(&keys, PermissionsExt::from_mode(0o700)).unwrap();
        // The agents of all folders named .gnupg in home folders have one socket.
        let home = |command: &mut Command| {
            command.current_dir(workspace.home()).env("GNUPGHOME", &keys).envs(AUTHOR);
        };
        self.run_with(workspace, home);
        // gpg's agent serves the keys until it is killed.
        let _ = Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", &keys).output();
    }

    /// Runs the commands in a workspace, and compares the output.
    #[track_caller]
    pub fn run(&self, workspace: &Workspace) -> Ran {
        self.run_with(workspace, |_| ())
    }

    /// Runs the commands in a workspace with further settings, and compares the output.
    #[track_caller]
    pub fn run_with(&self, workspace: &Workspace, settle: impl FnOnce(&mut Command)) -> Ran {
        let mut shell = self.shell();
        workspace.settle(&mut shell);
        settle(&mut shell);
        let ran = super::ran(&mut shell);
        self.assert_output(&in_pages(workspace, &ran.stdout));
        ran
    }
}

/// Replaces the folders of a workspace and of its user by those of pages.
pub fn in_pages(workspace: &Workspace, output: &str) -> String {
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let output = output.replace("[HOLDER]", &path(workspace.holder()));
    output.replace(&path(&workspace.root()), ROOT).replace(&path(&workspace.home()), HOME)
}
