//! Tests what users run in CI: the GitHub Action, the example workflow that uses it, and the hooks
//! for pre-commit. Runs each step of the workflow with bash as GitHub's runner does, in a local
//! workspace, with this rocmrpm in place of the installed one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Parts, REPOSITORY, Ran, Workspace, ran};
use crate::tools;
use rocmrpm::digest::Sha256;
use serde_json::Value;

const WORKFLOW: &str = "examples/ci/rocmrpm.yml";

/// pre-commit, and the parser of YAML that it requires; `pip freeze` of pre-commit 4.7.0.
const TOOLS: &str = "cfgv==3.5.0\ndistlib==0.4.4\nfilelock==4.2.12\nidentify==2.6.20\nnodeenv==1.12.0\n\
                     packaging==26.3\nplatformdirs==4.14.7\npre_commit==4.7.0\npython-discovery==1.9.5\n\
                     PyYAML==6.0.3\nvirtualenv==21.15.8\n";

/// Writes a wheel with one module into a folder.
const WHEEL: &str = r#"
import base64, hashlib, sys, zipfile
info = "hello-1.0.dist-info/"
files = {
    "hello.py": "",
    info + "METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
    info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
def line(name, text):
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(text)}\n"
record = "".join(line(name, text) for name, text in files.items()) + info + "RECORD,,\n"
with zipfile.ZipFile(sys.argv[1] + "/hello-1.0-py3-none-any.whl", "w") as wheel:
    for name, text in (files | {info + "RECORD": record}).items():
        wheel.writestr(name, text)
"#;

fn tool(name: &str) -> PathBuf {
    tools::environment("ci-tools", TOOLS).join("bin").join(name)
}

fn own(path: &str) -> PathBuf {
    Path::new(REPOSITORY).join(path)
}

/// Reads a YAML file of the repository.
fn yaml(path: &str) -> Value {
    let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let mut python = Command::new(tool("python"));
    ran(python.args(["-I", "-c", script]).arg(own(path))).exits(0).json()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A workspace in git that passes every check, and a job of GitHub's runner in it.
struct Job {
    workspace: Workspace,
    action: Value,
}

impl Job {
    fn new() -> Self {
        let workspace = Workspace::new();
        workspace.component("hello", &Parts::default());
        workspace.write(".gitignore", "/build/\n");
        workspace.run(&["lock"]).exits(0);
        workspace.write("dist/with space/hello.so", std::fs::read("/bin/true").unwrap());
        let mut python = Command::new(tool("python"));
        ran(python.args(["-I", "-c", WHEEL]).arg(workspace.path("dist"))).exits(0);
        workspace.commit("Begin");
        Self { workspace, action: yaml("action.yml") }
    }

    fn temporary(&self) -> PathBuf {
        self.workspace.holder().join("runner")
    }

    /// Runs a script as the runner runs a step with `shell: bash`.
    fn bash(&self, script: &str, folder: &str, env: &BTreeMap<String, String>) -> Ran {
        let temporary = self.temporary();
        fs_err::create_dir_all(&temporary).unwrap();
        let file = temporary.join("step.sh");
        fs_err::write(&file, script).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_rocmrpm")).parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap();
        let path =
            std::env::join_paths(std::iter::once(program).chain(std::env::split_paths(&path)));
        let mut command = Command::new("bash");
        self.workspace.settle(&mut command);
        command
            .args(["--noprofile", "--norc", "-eo", "pipefail"])
            .arg(file)
            .current_dir(self.workspace.path(folder))
            .env("PATH", path.unwrap())
            // The job must trust the workspace itself.
            .env_remove("ROCMRPM_TRUST")
            .env("RUNNER_TEMP", &temporary)
            .env("GITHUB_PATH", temporary.join("path"))
            .env("GITHUB_STEP_SUMMARY", temporary.join("summary"))
            .env("GITHUB_ACTION_PATH", REPOSITORY)
            .envs(env);
        self.workspace.outcome(command)
    }

    /// Runs the steps of the action with these inputs, up to the first that fails.
    fn action(&self, with: &BTreeMap<String, String>) -> Vec<Ran> {
        let declared = self.action["inputs"].as_object().unwrap();
        for name in with.keys() {
            assert!(declared.contains_key(name), "action.yml has no input `{name}`");
        }
        let default = |(name, input): (&String, &Value)| (name.clone(), text(&input["default"]));
        let mut inputs: BTreeMap<String, String> = declared.iter().map(default).collect();
        inputs.extend(with.clone());
        let mut all = Vec::new();
        for step in self.action["runs"]["steps"].as_array().unwrap() {
            assert_eq!(step["shell"], "bash", "{step}");
            if step["name"] == "Install rocmrpm"
                || !step["if"].as_str().is_none_or(|c| holds(c, &inputs))
            {
                continue;
            }
            let env = step["env"].as_object().into_iter().flatten();
            let env =
                env.map(|(name, value)| (name.clone(), expand(&text(value), &inputs))).collect();
            let folder = step["working-directory"].as_str().unwrap_or(".");
            let script = step["run"].as_str().unwrap();
            assert!(!script.contains("${{"), "an input becomes code: {script}");
            all.push(self.bash(script, &expand(folder, &inputs), &env));
            if all.iter().any(|ran| ran.code != Some(0)) {
                break;
            }
        }
        all
    }

    /// Runs a step of the workflow.
    fn step(&self, step: &Value) -> Vec<Ran> {
        if let Some(script) = step["run"].as_str() {
            return vec![self.bash(script, ".", &BTreeMap::new())];
        }
        let uses = step["uses"].as_str().unwrap_or_else(|| panic!("neither run nor uses: {step}"));
        let version = env!("CARGO_PKG_VERSION");
        match uses.split_once('@') {
            Some(("actions/checkout", _)) => Vec::new(),
            Some(("OWNER/rocmrpm", tag)) => {
                assert_eq!(tag, format!("v{version}"), "{WORKFLOW} uses this version");
                let with = step["with"].as_object().into_iter().flatten();
                self.action(&with.map(|(name, value)| (name.clone(), text(value))).collect())
            }
            _ => panic!("an action that this test does not know: {uses}"),
        }
    }
}

/// Replaces `${{ inputs.NAME }}`.
fn expand(value: &str, inputs: &BTreeMap<String, String>) -> String {
    let Some((before, rest)) = value.split_once("${{") else { return value.to_owned() };
    let (expression, after) = rest.split_once("}}").unwrap();
    let name = expression.trim().strip_prefix("inputs.");
    let name =
        name.unwrap_or_else(|| panic!("an expression that this test does not know: {value}"));
    format!("{before}{}{}", inputs[name], expand(after, inputs))
}

/// Evaluates `inputs.NAME == 'VALUE'` and the same with `!=`.
fn holds(condition: &str, inputs: &BTreeMap<String, String>) -> bool {
    let words: Vec<&str> = condition.split(' ').collect();
    let [name, operator, value] = words[..] else { panic!("a condition not known: {condition}") };
    let equal = inputs[name.strip_prefix("inputs.").unwrap()] == value.trim_matches('\'');
    if operator == "!=" { !equal } else { equal }
}

/// Returns inputs for the action.
fn with(inputs: &[(&str, &str)]) -> BTreeMap<String, String> {
    inputs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn example_workflow_runs_step_by_step() {
    let job = Job::new();
    let workflow = yaml(WORKFLOW);
    assert_eq!(workflow["permissions"], serde_json::json!({ "contents": "read" }));
    let steps = workflow["jobs"]["check"]["steps"].as_array().unwrap();
    let mut log = String::new();
    for ran in steps.iter().flat_map(|step| job.step(step)) {
        log += &format!("{}{}", ran.exits(0).stdout, ran.stderr);
    }
    for part in
        ["Checked pins/stable.lock", "Checked pins/stable.toml", "hello-1.0-py3-none-any.whl"]
    {
        assert!(log.contains(part), "{part}: {log}");
    }
    let summary = fs_err::read_to_string(job.temporary().join("summary")).unwrap();
    assert!(summary.contains("hello") && summary.contains("it was never built"), "{summary}");
}

#[test]
fn pipeline_workflow_runs_one_command_without_permissions() {
    let job = Job::new();
    let workflow = yaml("examples/ci/rocmrpm-pipeline.yml");
    assert_eq!(workflow["permissions"], serde_json::json!({}));
    // YAML 1.1 reads the key `on` as true.
    assert!(workflow["true"]["workflow_call"].is_object(), "other workflows can call it");
    let pipeline = &workflow["jobs"]["pipeline"];
    assert!(pipeline["permissions"].is_null() && pipeline["secrets"].is_null(), "{pipeline}");
    let [step] = &pipeline["steps"].as_array().unwrap()[..] else { panic!("{pipeline}") };
    let script = step["run"].as_str().unwrap();
    assert!(!script.contains("${{") && step["uses"].is_null(), "an input becomes code: {step}");
    let names: Vec<&String> = step["env"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["ROCMRPM_TRUST"]);
    let folder = job.workspace.root().display().to_string();
    let mut env = with(&[("ROCMRPM_TRUST", &folder)]);
    for role in ["AUTHOR", "COMMITTER"] {
        env.insert(format!("GIT_{role}_NAME"), "Runner".into());
        env.insert(format!("GIT_{role}_EMAIL"), "runner@example.org".into());
    }
    // GitHub's runner starts in a folder of its own.
    let ran = job.bash(&format!("cd \"$RUNNER_TEMP\"\n{script}"), ".", &env);
    ran.exits(0).reports(["Finished all stages passed"]);
    let elsewhere = job.temporary().display().to_string();
    let ran = job.bash(script, ".", &with(&[("ROCMRPM_TRUST", &elsewhere)]));
    assert_ne!(ran.code, Some(0), "{ran}");
}

#[test]
fn each_check_of_the_action_fails_on_a_mistake() {
    let job = Job::new();
    let fails = |inputs: &[(&str, &str)], code: i32| {
        let all = job.action(&with(inputs));
        let ran = all.last().unwrap().exits(code);
        format!("{}{}", ran.stdout, ran.stderr)
    };
    let none = fails(&[("inspect", "dist/**/*.rpm")], 2);
    assert!(
        none.contains("::error title=rocmrpm inspect::no file matches dist/**/*.rpm"),
        "{none}"
    );
    job.workspace.write("dist/a b.so", "\u{7f}ELF");
    let damaged = fails(&[("inspect", "dist/a b.so\ndist/**/hello.so")], 1);
    assert!(damaged.contains("::error ") && damaged.contains("a b.so"), "{damaged}");

    job.workspace.write("pins/stable.lock", "[hello]\nversion = \"2\"\norigin = \"x\"\n");
    fails(&[("lock-check", "true")], 1);
    job.workspace.replace("pins/stable.toml", "path = ", "paht = ");
    for check in ["lock-check", "pins-check", "lint"] {
        let mistake = fails(&[(check, "true")], 3);
        assert!(mistake.contains("did you mean `path`?"), "{check}: {mistake}");
    }
    // The action trusts the folder that the input names, and no folder above it.
    let elsewhere = fails(&[("lint", "true"), ("workspace", "dist")], 3);
    assert!(elsewhere.contains("is not trusted"), "{elsewhere}");
}

#[test]
fn action_passes_pin_set_and_chroot_and_never_as_code() {
    let job = Job::new();
    let evil = "x; touch evil; $(touch evil)";
    for input in ["pin-set", "chroot"] {
        let all = job.action(&with(&[("lint", "true"), (input, evil)]));
        let ran = all.last().unwrap();
        assert!(ran.code != Some(0) && ran.stderr.contains(evil), "{ran}");
    }
    assert!(!job.workspace.path("evil").exists());
}

/// Runs tools/install.sh with a release in a folder. Returns its outcome and the job.
fn install(job: &Job, env: &[(&str, &str)]) -> Ran {
    let releases = format!("file://{}", job.workspace.holder().join("releases").display());
    let mut all = with(&[("ROCMRPM_FROM", "release"), ("ROCMRPM_RELEASES", &releases)]);
    all.extend(with(env));
    job.bash("bash \"$GITHUB_ACTION_PATH/tools/install.sh\"", ".", &all)
}

/// Writes a release whose program is a script, with its checksum. Returns the digest.
fn release(job: &Job) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let folder = job.workspace.holder().join(format!("releases/v{version}"));
    let program = folder.join(format!("rocmrpm-{version}/bin/rocmrpm"));
    fs_err::create_dir_all(program.parent().unwrap()).unwrap();
    fs_err::write(&program, "#!/bin/sh\necho a release\n").unwrap();
    let archive = format!("rocmrpm-{version}-x86_64-linux.tar.gz");
    let script = format!(
        "chmod +x {}; tar -C {folder} -czf {folder}/{archive} rocmrpm-{version}",
        program.display(),
        folder = folder.display()
    );
    job.bash(&script, ".", &BTreeMap::new()).exits(0);
    let (digest, _) = Sha256::of_file(&folder.join(&archive)).unwrap();
    fs_err::write(folder.join("SHA256SUMS"), format!("{digest}  {archive}\n")).unwrap();
    digest.to_string()
}

#[test]
fn installs_a_release_whose_checksum_is_right() {
    let job = Job::new();
    let digest = release(&job);
    install(&job, &[]).exits(0).prints(["a release\n"]);
    let added = fs_err::read_to_string(job.temporary().join("path")).unwrap();
    assert!(Path::new(added.trim()).join("rocmrpm").is_file(), "{added}");
    install(&job, &[("ROCMRPM_SHA256", &digest)]).exits(0);
}

#[test]
fn refuses_a_release_with_another_checksum() {
    let job = Job::new();
    let digest = release(&job);
    let other = "0".repeat(64);
    install(&job, &[("ROCMRPM_SHA256", &other)])
        .exits(30)
        .reports([&format!("has sha256 {digest}, not {other}")]);
    let sums = format!("releases/v{}/SHA256SUMS", env!("CARGO_PKG_VERSION"));
    fs_err::write(job.workspace.holder().join(sums), "").unwrap();
    install(&job, &[]).exits(30).reports(["not in SHA256SUMS"]);
    assert!(!job.temporary().join("path").exists(), "nothing was installed");
}

#[test]
fn installation_names_a_wrong_version_or_origin() {
    let job = Job::new();
    install(&job, &[("ROCMRPM_VERSION", "9.9.9")]).exits(30).reports(["cannot fetch", "v9.9.9"]);
    install(&job, &[("ROCMRPM_VERSION", "../x")]).exits(2).reports(["`../x` is not a version"]);
    install(&job, &[("ROCMRPM_FROM", "pip")]).exits(2).reports(["the input `from` is `pip`"]);
}

/// Runs pre-commit with the hooks of this repository on all files of a job's workspace.
fn pre_commit(job: &Job, hooks: &[&str]) -> Ran {
    let repository = job.workspace.holder().join("hooks");
    fs_err::create_dir_all(&repository).unwrap();
    fs_err::copy(own(".pre-commit-hooks.yaml"), repository.join(".pre-commit-hooks.yaml")).unwrap();
    let git = "git init -q 2>/dev/null; git add .; git -c user.name=a -c user.email=a@b commit -qm x >/dev/null || true\n\
               git rev-parse HEAD";
    let revision = job.bash(&format!("cd {}; {git}", repository.display()), ".", &BTreeMap::new());
    let mut config = format!(
        "repos:\n  - repo: file://{}\n    rev: {}\n    hooks:\n",
        repository.display(),
        revision.exits(0).stdout.trim()
    );
    hooks.iter().for_each(|hook| config += &format!("      - id: {hook}\n"));
    job.workspace.write(".pre-commit-config.yaml", config);
    let script = format!(
        "git add --all; unset GIT_CONFIG_GLOBAL; ROCMRPM_TRUST=$PWD {} run --all-files --verbose",
        tool("pre-commit").display()
    );
    let home = job.workspace.holder().join("home").display().to_string();
    let cache = job.workspace.holder().join("pre-commit").display().to_string();
    job.bash(&script, ".", &with(&[("HOME", &home), ("PRE_COMMIT_HOME", &cache)]))
}

const HOOKS: [&str; 4] = ["rocmrpm-lint", "rocmrpm-lock", "rocmrpm-pins", "rocmrpm-inspect"];

#[test]
fn every_hook_passes_on_a_good_workspace_and_fails_on_a_mistake() {
    let ids: Vec<String> = yaml(".pre-commit-hooks.yaml")
        .as_array()
        .unwrap()
        .iter()
        .map(|hook| text(&hook["id"]))
        .collect();
    assert_eq!(ids, HOOKS);
    let job = Job::new();
    let passed = pre_commit(&job, &HOOKS);
    assert_eq!(passed.exits(0).stdout.matches("Passed").count(), HOOKS.len(), "{passed}");

    job.workspace.write("dist/damaged.so", "\u{7f}ELF");
    job.workspace.replace("pins/stable.toml", "path = ", "paht = ");
    let failed = pre_commit(&job, &HOOKS);
    assert_eq!(failed.exits(1).stdout.matches("Failed").count(), HOOKS.len(), "{failed}");
}
