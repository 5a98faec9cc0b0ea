//! Runs the checks of an installation beyond its packages: those of checklist.toml if the stack uses ROCm,
//! and those of the components.

use super::place::VerifyTarget;
use super::{Check, Outcome, Verified};
use crate::error::{Error, IoError};
use crate::gpu::GpuTarget;
use crate::process::quote;
use crate::stack::Stack;
use crate::workspace::InstallationCheck;

/// The variable with the folder of device libraries, which a provider states as a word for a shell.
const DEVICE_LIBS: &str = "device_libs";

/// What stands for the GPU targets of the stack in a check.
const GPU: &str = "{gpu-target}";

/// Runs the checks that concern a stack.
pub(super) fn run_all(
    stack: &Stack<'_>,
    place: &VerifyTarget,
    verified: &mut Verified,
) -> Result<(), Error> {
    let general = if uses_rocm(stack)? { InstallationCheck::general() } else { &[] };
    let of_components = stack.order().iter().flat_map(|component| &component.checks);
    let general = general.iter().map(|item| (item, true));
    let values = Placeholders::of(stack);
    for (item, is_general) in general.chain(of_components.map(|item| (item, false))) {
        let (outcome, detail) = check(stack, place, item, is_general, &values)?;
        let what = values.text(item);
        verified.checks.push(Check { id: item.id.clone(), what, outcome, detail });
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
    fn text(&self, item: &InstallationCheck) -> String {
        let separator = if item.any_target { " or " } else { " and " };
        item.what.replace(GPU, &self.gpus.join(separator))
    }

    /// Returns what the output of an item's script lacks.
    fn missing(&self, item: &InstallationCheck, output: &str) -> Option<String> {
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
        let device_libs = match script.contains(DEVICE_LIBS) {
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
    stack: &Stack<'_>,
    place: &VerifyTarget,
    item: &InstallationCheck,
    is_general: bool,
    values: &Placeholders<'_>,
) -> Result<(Outcome, String), Error> {
    let not_run = |reason: &str| Ok((Outcome::NotRun, reason.to_owned()));
    if let Some(reason) = &item.by_hand {
        return not_run(reason);
    }
    if item.needs_gpu && !VerifyTarget::has_gpu() {
        return not_run("this machine has no GPU that ROCm can use (/dev/kfd not found)");
    }
    let root = &stack.workspace.root;
    let run = |script: &str| match is_general && !script.contains(DEVICE_LIBS) {
        true => place.run(&values.script(script)),
        false => place.run_of_workspace(&values.script(script), &item.env, root),
    };
    if let Some((condition, otherwise)) = &item.condition {
        match run(condition)? {
            Err(reason) => return not_run(&reason),
            Ok(ran) if !ran.success => return not_run(otherwise),
            Ok(_) => {}
        }
    }
    let ran = match run(&item.run)? {
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
        for item in InstallationCheck::general() {
            let condition = item.condition.as_ref().map_or(&item.run, |(condition, _)| condition);
            let scripts = [&item.run, condition];
            assert!(scripts.iter().all(|script| !script.contains("{gpu-target}")), "{}", item.id);
        }
    }

    #[test]
    fn checks_every_gpu_target_of_the_stack() {
        let values = Placeholders { prefix: "", device_libs: "", gpus: vec!["gfx1100", "gfx1201"] };
        let text = "[[check]]\nid = \"code\"\nwhat = \"torch has code for {gpu-target}\"\nrun = \"x\"\n\
                    prints = \"{gpu-target}\"\n";
        let mut problems = Vec::new();
        let checks = InstallationCheck::list("x", text, &mut problems);
        assert_eq!(problems.len(), 0);
        let list = InstallationCheck::general();
        let rocminfo = list.iter().find(|item| item.id == "rocminfo").unwrap();
        let torch = &checks[0];
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
        let list = InstallationCheck::general();
        let item = list.iter().find(|item| item.id == "no-spoof").unwrap();
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
}
