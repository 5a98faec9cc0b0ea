//! The user's defaults: environment variables, then the configuration file. Options of the command
//! line override both; both override rocmrpm.toml.

use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::Deserialize;

use super::args::{Choice, ColorChoice};
use crate::error::{Error, IoError, Kind};
use crate::workspace::Selection;

/// The environment variables that choose a chroot and a pin set.
const CHROOT: &str = "ROCMRPM_CHROOT";
const PINS: &str = "ROCMRPM_PINS";

/// The user's configuration file.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UserConfig {
    /// The chroot of commands without `--chroot`.
    chroot: Option<String>,
    /// The maximum number of jobs.
    pub jobs: Option<NonZeroUsize>,
    /// When to use colors.
    #[serde(default)]
    color: Option<Color>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Color {
    Auto,
    Always,
    Never,
}

impl UserConfig {
    /// Reads `$XDG_CONFIG_HOME/rocmrpm/config.toml`, or the file below `~/.config`.
    pub fn read() -> Result<Self, Error> {
        let var = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        // The XDG base directory specification requires relative values to be ignored.
        let folder = var("XDG_CONFIG_HOME").or_else(|| Some(var("HOME")?.join(".config")));
        let Some(folder) = folder else { return Ok(Self::default()) };
        let file = folder.join("rocmrpm/config.toml");
        let text = match fs_err::read_to_string(&file) {
            // After `sudo -u`, HOME may still be that of another user, who allows no access to it.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) =>
            {
                return Ok(Self::default());
            }
            other => other.map_err(IoError::doing("read your configuration"))?,
        };
        Self::parse(&text).map_err(|reason| {
            let message = format!("cannot read `{}`: {reason}", file.display());
            Error::new(Kind::Config, message).with_help(
                "its keys are `chroot`, `jobs`, and `color`; correct it, or remove the file",
            )
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    /// Returns when to use colors; the command line wins unless it is `auto`.
    pub fn color(&self, chosen: ColorChoice) -> ColorChoice {
        match (chosen, self.color) {
            (ColorChoice::Auto, Some(Color::Always)) => ColorChoice::Always,
            (ColorChoice::Auto, Some(Color::Never)) => ColorChoice::Never,
            _ => chosen,
        }
    }
}

/// Returns the selection of a command with these options.
pub(super) fn selection(choice: &Choice) -> Result<Selection, Error> {
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let chroot = match choice.chroot.clone().or_else(|| var(CHROOT)) {
        Some(chroot) => Some(chroot),
        None => UserConfig::read()?.chroot,
    };
    let pins = choice.pins.clone().or_else(|| var(PINS));
    Ok(Selection { chroot, pins, ..Selection::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_overrides_configured_color() {
        let config = UserConfig::parse("chroot = \"host\"\njobs = 2\ncolor = \"never\"\n").unwrap();
        assert_eq!((config.chroot.as_deref(), config.jobs.unwrap().get()), (Some("host"), 2));
        assert!(matches!(config.color(ColorChoice::Auto), ColorChoice::Never));
        assert!(matches!(config.color(ColorChoice::Always), ColorChoice::Always));
        assert_eq!(UserConfig::parse("").unwrap(), UserConfig::default());
    }

    #[test]
    fn rejects_unknown_keys_and_values() {
        for text in ["chrot = \"host\"", "jobs = 0", "color = \"green\"", "chroot = 1"] {
            assert!(UserConfig::parse(text).is_err(), "{text}");
        }
    }
}
