//! What keeps programs from using the GPUs of a machine, or slows them down, each with one remedy.

use serde::Serialize;

use super::memory::{SYSTEM, gib};
use super::{Gpu, GpuMachine};
use crate::gpu::GpuTarget;

/// The first kernel with the fixes for RDNA 3.5, except in kernels of Ubuntu, which have them in
/// other releases. Sources: AMD, "AMD RDNA3.5 system optimization"; ROCm/TheRock#2991.
const RDNA35_KERNEL: [u32; 3] = [6, 18, 4];

/// The targets of RDNA 3.5.
const RDNA35: &[&str] = &["gfx1150", "gfx1151", "gfx1152", "gfx1153"];

/// Firmware that hangs: the targets and the version of MES, in linux-firmware 20251125. Source:
/// ROCm/ROCm#5724.
const BAD_MES: (&[&str], u64) = (&["gfx1150", "gfx1151"], 0x83);

/// Firmware settings reserve up to this much for an integrated GPU at their smallest, in bytes.
const SMALL_RESERVED: u64 = 4 << 30;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Programs fail, or their results are wrong.
    Error,
    /// Programs work, but slower or with less memory than possible.
    Note,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// The amdgpu driver.
    Driver,
    /// The device files.
    Access,
    /// The release of the kernel.
    Kernel,
    /// The GPU's firmware.
    Firmware,
    /// The limits on system memory.
    Memory,
    /// HSA_OVERRIDE_GFX_VERSION.
    Override,
    /// The variables that hide GPUs, and others that change how programs use them.
    Environment,
}

impl Topic {
    /// All topics, in the order in which programs meet them.
    pub const ALL: &[Self] = &[
        Self::Driver,
        Self::Access,
        Self::Kernel,
        Self::Firmware,
        Self::Memory,
        Self::Override,
        Self::Environment,
    ];

    /// Returns the short name of the check.
    pub fn id(self) -> &'static str {
        match self {
            Self::Driver => "gpu-driver",
            Self::Access => "gpu-access",
            Self::Kernel => "gpu-kernel",
            Self::Firmware => "gpu-firmware",
            Self::Memory => "gpu-memory",
            Self::Override => "gpu-override",
            Self::Environment => "gpu-environment",
        }
    }

    /// Returns the state in which there is no error.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Driver => "the amdgpu driver offers the GPU to ROCm",
            Self::Access => "this user can open the GPU's device files",
            Self::Kernel => "the kernel has the fixes that the GPU needs",
            Self::Firmware => "the GPU's firmware is not a version that hangs",
            Self::Memory => "the memory limits agree and leave enough for the system",
            Self::Override => "HSA_OVERRIDE_GFX_VERSION does not emulate another GPU",
            Self::Environment => "no environment variable hides the GPU",
        }
    }
}

/// Something that keeps programs from using a GPU, or slows them down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// What it is about.
    pub topic: Topic,
    /// How serious it is.
    pub level: Level,
    /// What was found, and its consequence.
    pub found: String,
    /// How to fix it.
    pub help: String,
}

impl Finding {
    fn error(topic: Topic, found: impl Into<String>, help: impl Into<String>) -> Self {
        Self { topic, level: Level::Error, found: found.into(), help: help.into() }
    }

    fn note(topic: Topic, found: impl Into<String>, help: impl Into<String>) -> Self {
        Self { topic, level: Level::Note, found: found.into(), help: help.into() }
    }
}

impl GpuMachine {
    /// Returns the findings, by topic. A machine without an AMD GPU has none.
    pub fn findings(&self) -> Vec<Finding> {
        if !self.has_gpu() {
            return Vec::new();
        }
        if self.gpus.is_empty() {
            return vec![self.driver()];
        }
        let mut all = Vec::new();
        all.extend(self.access());
        all.extend(self.kernel());
        all.extend(self.gpus.iter().find_map(firmware));
        if let Some(gpu) = self.gpus.iter().find(|gpu| gpu.integrated) {
            all.extend(self.limits());
            all.extend(reserved(gpu));
        }
        all.extend(self.emulation());
        all.extend(self.hidden());
        all.extend(self.code());
        all
    }

    fn driver(&self) -> Finding {
        let topic = Topic::Driver;
        if self.options.iter().any(|option| option == "nomodeset") {
            let found = "the kernel option `nomodeset` keeps the amdgpu driver from using the GPU";
            let help = "run `sudo grubby --update-kernel=ALL --remove-args=nomodeset`, then reboot";
            return Finding::error(topic, found, help);
        }
        let found = format!("the amdgpu driver does not offer {} to ROCm", self.devices.join(", "));
        let help = "run `journalctl -k -g amdgpu` for the reason; a newer kernel or `amd-gpu-firmware` \
                    may support the GPU";
        Finding::error(topic, found, help)
    }

    fn access(&self) -> Option<Finding> {
        let topic = Topic::Access;
        let file = self.files.iter().find(|file| !file.accessible)?;
        let (path, group, user) = (&file.path, &file.group, &self.user);
        if !file.exists {
            let found = format!("`{path}` does not exist, although the driver lists the GPU");
            let help = "in a container, add `--device /dev/kfd --device /dev/dri` to the command that \
                        starts it";
            return Some(Finding::error(topic, found, help));
        }
        let found = format!("`{user}` cannot open `{path}`, which belongs to the group `{group}`");
        let help = match group.as_str() {
            // What user namespaces show for a group that they do not map.
            "nobody" | "nogroup" | "65534" => {
                "start the container with `--group-add keep-groups`".to_owned()
            }
            _ if self.groups.contains(group) => {
                "log out and log in again: the session started before the user joined the group"
                    .to_owned()
            }
            _ => "run `sudo usermod -aG render,video \"$USER\"`, then log in again".to_owned(),
        };
        Some(Finding::error(topic, found, help))
    }

    fn kernel(&self) -> Option<Finding> {
        let gpu = self.gpus.iter().find(|gpu| gpu.is_one_of(RDNA35))?;
        let of_ubuntu = ["-generic", "-oem"].iter().any(|end| self.kernel.ends_with(end));
        let numbers =
            self.kernel.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
        let version: Vec<u32> = numbers.take(3).collect();
        if of_ubuntu || version.is_empty() || version.as_slice() >= RDNA35_KERNEL.as_slice() {
            return None;
        }
        let found = format!(
            "Linux {} lacks fixes for {}: programs crash or hang under load",
            self.kernel,
            gpu.name()
        );
        let help = "install Linux 6.18.4 or newer (`sudo dnf upgrade kernel`), then reboot";
        Some(Finding::error(Topic::Kernel, found, help))
    }

    /// Checks the limits on the memory of integrated GPUs.
    fn limits(&self) -> Option<Finding> {
        let topic = Topic::Memory;
        let set = "run `rocmrpm doctor --gpu-memory GIB` for the command that sets the limit";
        let ignored = self.options.iter().find_map(|option| {
            let name = option.split('=').next()?;
            let other = if self.ttm == "ttm" { "amdttm" } else { "ttm" };
            (name == "amdgpu.gtt_size" || name == format!("{other}.pages_limit")).then_some(name)
        });
        if let Some(name) = ignored {
            let found =
                format!("this kernel ignores the option `{name}`: it has no such parameter");
            return Some(Finding::error(topic, found, set));
        }
        let limit = self.limit?;
        if let Some(mib) = self.gttsize
            && mib << 20 != limit
        {
            let found = format!(
                "`amdgpu.gttsize` is {}, but `{}.pages_limit` is {}: programs that rely on the larger \
                 one run out of memory",
                gib(mib << 20),
                self.ttm,
                gib(limit)
            );
            return Some(Finding::error(topic, found, set));
        }
        let memory = self.memory;
        if limit > memory.saturating_sub(SYSTEM) && memory > 2 * SYSTEM {
            let found = format!(
                "the GPU may use {} of {}: if it does, the kernel kills programs",
                gib(limit),
                gib(memory)
            );
            let most = (memory - SYSTEM) >> 30;
            let help = format!("run `rocmrpm doctor --gpu-memory {most}` for a lower limit");
            return Some(Finding::error(topic, found, help));
        }
        let is_default = limit.abs_diff(memory / 2) < memory / 100;
        let found = format!("the GPU may use {} of {}, the default", gib(limit), gib(memory));
        let help = "to give it more, run `rocmrpm doctor --gpu-memory GIB`";
        is_default.then(|| Finding::note(topic, found, help))
    }

    /// Checks whether a variable makes programs treat a GPU as another one. libhsakmt reads three
    /// numbers, and ends with an error if there are fewer.
    fn emulation(&self) -> Option<Finding> {
        let topic = Topic::Override;
        let variable = "HSA_OVERRIDE_GFX_VERSION";
        let value = self.environment.get(variable)?;
        let unset = format!("run `unset {variable}`");
        let mut numbers = value.split('.').map(str::parse::<u32>);
        let version = match (numbers.next(), numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(stepping)), None) => {
                (major, minor, stepping)
            }
            _ => {
                let found = format!(
                    "`{variable}={value}` is not a version such as 11.5.1: programs \
                                     find no GPU"
                );
                return Some(Finding::error(topic, found, unset));
            }
        };
        let (major, minor, stepping) = version;
        let emulated = GpuTarget::from_version(major, minor, stepping);
        let is_own = |gpu: &&Gpu| emulated.is_some() && gpu.target == emulated;
        let Some(gpu) = self.gpus.iter().find(|gpu| !is_own(gpu)) else {
            let found = format!("`{variable}={value}` is the version that the GPU has anyway");
            return Some(Finding::note(topic, found, unset));
        };
        let found = format!(
            "`{variable}={value}` makes programs run code for {} on {}: wrong results, illegal \
             instructions, and crashes are possible",
            emulated.map_or_else(|| "an unknown GPU".to_owned(), |target| target.to_string()),
            gpu.name()
        );
        Some(Finding::error(topic, found, unset))
    }

    /// Checks the variables that hide GPUs. HIP numbers the GPUs that ROCR leaves visible, and reads
    /// the variable of CUDA only if its own is empty; an empty variable of ROCR hides all. Both stop
    /// at the first number that does not exist. Sources: the ROCm documentation, "GPU isolation
    /// techniques"; ROCm/rocm-systems, clr's rocdevice.cpp and rocr-runtime's amd_filter_device.cpp.
    fn hidden(&self) -> Option<Finding> {
        let set = |name: &&str| self.environment.get(*name).map(|value| (name.to_string(), value));
        let of_rocr = set(&"ROCR_VISIBLE_DEVICES");
        let of_hip = ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"];
        let of_hip = of_hip.iter().filter_map(set).find(|(_, value)| !value.is_empty());
        let mut count = self.gpus.len();
        for (name, value) in of_rocr.into_iter().chain(of_hip) {
            // GPUs can also be named by their ID, `GPU-` and 16 digits.
            let exists = |word: &&str| {
                word.starts_with("GPU-") || word.parse().is_ok_and(|number: usize| number < count)
            };
            let words: Vec<&str> = value.split(',').map(str::trim).collect();
            let visible = words.iter().take_while(|word| exists(word)).count();
            if visible == 0 {
                let found = format!("`{name}={value}` hides every GPU");
                let help = format!("run `unset {name}`");
                return Some(Finding::error(Topic::Environment, found, help));
            }
            if visible < words.len() {
                let found =
                    format!("`{name}={value}` names GPU {}, which does not exist", words[visible]);
                let help = format!("use numbers below {count}, or run `unset {name}`");
                return Some(Finding::error(Topic::Environment, found, help));
            }
            count = visible;
        }
        None
    }

    /// Checks the variables that change the code for the GPU, and how it copies memory.
    fn code(&self) -> Vec<Finding> {
        let mut all = Vec::new();
        let variable = "PYTORCH_ROCM_ARCH";
        if let Some(value) = self.environment.get(variable).filter(|value| !value.is_empty()) {
            let targets = value.split([';', ',', ' ']).filter_map(GpuTarget::parse);
            let targets: Vec<GpuTarget> = targets.collect();
            let lacks = |gpu: &&Gpu| {
                gpu.target.as_ref().is_some_and(|gpu| !targets.iter().any(|t| t.serves(gpu)))
            };
            if let Some(gpu) = self.gpus.iter().find(lacks) {
                let found = format!(
                    "`{variable}={value}` lacks {}: extensions that programs compile do not run on it",
                    gpu.name()
                );
                let help = format!("run `unset {variable}`, or add {}", gpu.name());
                all.push(Finding::note(Topic::Environment, found, help));
            }
        }
        if self.environment.get("HSA_ENABLE_SDMA").is_some_and(|value| value == "0") {
            let found =
                "`HSA_ENABLE_SDMA=0` copies memory without the GPU's copy engines, which is slower";
            let help = "run `unset HSA_ENABLE_SDMA`, unless copies hang without it";
            all.push(Finding::note(Topic::Environment, found, help));
        }
        all
    }
}

impl Gpu {
    fn is_one_of(&self, names: &[&str]) -> bool {
        self.target.as_ref().is_some_and(|target| names.contains(&target.processor()))
    }
}

fn firmware(gpu: &Gpu) -> Option<Finding> {
    let (targets, version) = BAD_MES;
    let is_bad = gpu.is_one_of(targets) && gpu.mes == Some(version);
    let found = format!("the firmware of {} (MES {version:#x}) hangs in ROCm programs", gpu.name());
    let help = "run `sudo dnf upgrade amd-gpu-firmware && sudo dracut --force`, then reboot";
    is_bad.then(|| Finding::error(Topic::Firmware, found, help))
}

/// Checks what the firmware reserves for an integrated GPU.
fn reserved(gpu: &Gpu) -> Option<Finding> {
    let reserved = gpu.vram.filter(|vram| *vram > SMALL_RESERVED)?;
    let found = format!(
        "the firmware reserves {} for the GPU, which programs on the CPU cannot use",
        gib(reserved)
    );
    let help = "set the reserved memory (UMA frame buffer) to the smallest value in the firmware setup, \
                and give the GPU memory with `rocmrpm doctor --gpu-memory GIB`";
    Some(Finding::note(Topic::Memory, found, help))
}
