//! Runs the checklist: checks of an installation beyond its packages, defined as data. It does not
//! check packages.

use serde::Deserialize;

use super::place::VerifyTarget;
use super::{Check, Outcome, Verified};
use crate::error::{Error, IoError, Kind};
use crate::gpu::GpuTarget;
use crate::process::quote;
use crate::stack::Stack;

const CHECKLIST: &str = include_str!("checklist.toml");

/// What stands for the GPU targets of the stack in a check.
const GPU: &str = "{gpu-target}";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    check: Vec<Item>,
}

/// A check; the header of checklist.toml documents the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Item {
    id: String,
    what: String,
    #[serde(default)]
    run: String,
    prints: Option<String>,
    #[serde(default)]
    any_target: bool,
    #[serde(default)]
    components: Vec<String>,
    #[serde(default)]
    rocm: bool,
    r#if: Option<String>,
    otherwise: Option<String>,
    #[serde(default)]
    needs: Vec<String>,
    by_hand: Option<String>,
}

/// Runs the checks in the list that concern components of the stack.
pub(super) fn run_all(
    stack: &Stack<'_>,
    place: &VerifyTarget,
    verified: &mut Verified,
) -> Result<(), Error> {
    let list: List = toml::from_str(CHECKLIST)
        .map_err(|error| Error::new(Kind::Internal, format!("checklist.toml: {error}")))?;
    let values = Placeholders::of(stack);
    let names: Vec<&str> = stack.order().iter().map(|component| component.name.as_str()).collect();
    let rocm = uses_rocm(stack)?;
    let concerns = |item: &Item| {
        item.rocm && rocm || item.components.iter().any(|name| names.contains(&name.as_str()))
    };
    for item in list.check.into_iter().filter(concerns) {
        let (outcome, detail) = check(place, &item, &values)?;
        let what = values.text(&item);
        verified.checks.push(Check { id: item.id, what, outcome, detail });
    }
    Ok(())
}

/// Returns whether a component is built with ROCm: its template uses the provider's variables.
pub(super) fn uses_rocm(stack: &Stack<'_>) -> Result<bool, IoError> {
    for component in stack.order() {
        let template = fs_err::read_to_string(&component.template)
            .map_err(IoError::doing("read a spec's template"))?;
        if ["{ rocm.", "gpu_targets"].iter().any(|variable| template.contains(variable)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The values of placeholders for this workspace.
struct Placeholders<'s> {
    prefix: &'s str,
    /// A word for a shell.
    device_libs: &'s str,
    gpus: Vec<&'s str>,
}

impl<'s> Placeholders<'s> {
    fn of(stack: &Stack<'s>) -> Self {
        let provider = &stack.workspace.provider;
        let targets = stack.workspace.manifest.gpu_targets.iter();
        let gpus = targets.map(GpuTarget::as_str).collect();
        Self { prefix: &provider.prefix, device_libs: &provider.device_libs, gpus }
    }

    /// Returns what an item checks.
    fn text(&self, item: &Item) -> String {
        let separator = if item.any_target { " or " } else { " and " };
        item.what.replace(GPU, &self.gpus.join(separator))
    }

    /// Returns what the output of an item's script lacks.
    fn missing(&self, item: &Item, output: &str) -> Option<String> {
        let part = item.prints.as_deref()?;
        let gpus = if part.contains(GPU) { self.gpus.as_slice() } else { &[""] };
        let parts: Vec<String> = gpus.iter().map(|gpu| part.replace(GPU, gpu)).collect();
        let lacking: Vec<&str> =
            parts.iter().map(String::as_str).filter(|part| !output.contains(part)).collect();
        match item.any_target {
            true => (lacking.len() == parts.len()).then(|| lacking.join("` or `")),
            false => (!lacking.is_empty()).then(|| lacking.join("`, `")),
        }
    }

    fn script(&self, script: &str) -> String {
        // Computing the folder can run the compiler, which prints an error if it is not installed.
        let device_libs = match script.contains("$device_libs") {
            true => format!(" device_libs={}", self.device_libs),
            false => String::new(),
        };
        let versions = self.gpus.iter().filter_map(|gpu| GpuTarget::parse(gpu)?.version());
        let versions: Vec<String> = versions
            .map(|(major, minor, stepping)| format!("{major}.{minor}.{stepping}"))
            .collect();
        let versions = versions.join(" ");
        format!("prefix={}{device_libs} versions='{versions}'\n{script}", quote(self.prefix))
    }
}

fn check(
    place: &VerifyTarget,
    item: &Item,
    values: &Placeholders<'_>,
) -> Result<(Outcome, String), Error> {
    let not_run = |reason: &str| Ok((Outcome::NotRun, reason.to_owned()));
    if let Some(reason) = &item.by_hand {
        return not_run(reason);
    }
    if item.needs.iter().any(|need| need == "gpu") && !VerifyTarget::has_gpu() {
        return not_run("this machine has no GPU that ROCm can use (/dev/kfd not found)");
    }
    if let Some(condition) = &item.r#if {
        match place.run(&values.script(condition))? {
            Err(reason) => return not_run(&reason),
            Ok(ran) if !ran.success => {
                return not_run(item.otherwise.as_deref().unwrap_or_default());
            }
            Ok(_) => {}
        }
    }
    let ran = match place.run(&values.script(&item.run))? {
        Ok(ran) => ran,
        Err(reason) => return not_run(&reason),
    };
    let missing = values.missing(item, &ran.output);
    Ok(match (ran.success, missing) {
        (true, None) => (Outcome::Pass, String::new()),
        (true, Some(part)) => (Outcome::Fail, format!("its output lacks `{part}`")),
        (false, _) => (Outcome::Fail, ran.last_line()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_values_in_scripts() {
        let values = Placeholders {
            prefix: "/usr'; touch /pwned; echo '",
            device_libs: "\"$(echo '/opt/a b')\"/c",
            gpus: Vec::new(),
        };
        let script = values.script("printf '%s\n' \"$prefix\" \"$device_libs\"");
        let printed = crate::process::Command::new("sh").args(["-c", &script]).text().unwrap();
        assert_eq!(printed, "/usr'; touch /pwned; echo '\n/opt/a b/c");
        let list: List = toml::from_str(CHECKLIST).unwrap();
        for item in &list.check {
            let scripts = [&item.run, item.r#if.as_ref().unwrap_or(&item.run)];
            assert!(scripts.iter().all(|script| !script.contains("{gpu-target}")), "{}", item.id);
        }
    }

    #[test]
    fn checks_every_gpu_target_of_the_stack() {
        let values = Placeholders { prefix: "", device_libs: "", gpus: vec!["gfx1100", "gfx1201"] };
        let list: List = toml::from_str(CHECKLIST).unwrap();
        let item = |id: &str| list.check.iter().find(|item| item.id == id).unwrap();
        let (torch, rocminfo) = (item("torch-arch-list"), item("rocminfo"));
        assert_eq!(values.text(torch), "torch has code for gfx1100 and gfx1201");
        assert_eq!(values.missing(torch, "gfx1100 gfx1151").as_deref(), Some("gfx1201"));
        assert_eq!(values.missing(torch, "gfx1100 gfx1201"), None);
        assert_eq!(values.text(rocminfo), "rocminfo lists gfx1100 or gfx1201");
        assert_eq!(values.missing(rocminfo, "Name: gfx1201"), None);
        let neither = Some("gfx1100` or `gfx1201");
        assert_eq!(values.missing(rocminfo, "Name: gfx90a").as_deref(), neither);
    }

    #[test]
    fn accepts_an_override_that_emulates_no_other_gpu() {
        let values = Placeholders { prefix: "", device_libs: "", gpus: vec!["gfx1151", "gfx90a"] };
        let list: List = toml::from_str(CHECKLIST).unwrap();
        let item = list.check.iter().find(|item| item.id == "no-spoof").unwrap();
        let expected = "HSA_OVERRIDE_GFX_VERSION is unset or the version of gfx1151 or gfx90a";
        assert_eq!(values.text(item), expected);
        for (value, passes) in
            [("", true), ("11.5.1", true), ("9.0.10", true), ("11.0.0", false), ("1.5.1", false)]
        {
            let script = values.script(&item.run);
            let command = crate::process::Command::new("sh").args(["-c", &script]);
            let ran = command.env("HSA_OVERRIDE_GFX_VERSION", value).run().unwrap();
            assert_eq!(ran.success(), passes, "{value}");
            let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
            assert_eq!(printed.contains(&format!("it is {value}")), !passes, "{printed}");
        }
    }

    #[test]
    fn every_item_has_a_script_or_a_reason() {
        let list: List = toml::from_str(CHECKLIST).unwrap();
        let mut ids = std::collections::BTreeSet::new();
        for item in &list.check {
            assert!(ids.insert(&item.id), "{} occurs twice", item.id);
            assert_ne!(item.run.is_empty(), item.by_hand.is_none(), "{}", item.id);
            assert_eq!(item.r#if.is_some(), item.otherwise.is_some(), "{}", item.id);
            assert!(item.needs.iter().all(|need| need == "gpu"), "{}", item.id);
            assert_ne!(item.components.is_empty(), !item.rocm, "{}", item.id);
        }
    }
}
