//! What decides whether programs can use the AMD GPUs of a machine: the driver and its GPUs, the
//! kernel, the firmware, the device files, the memory limits, and the environment. It reads files
//! below a root folder and starts no program. What it means is up to `findings`, and how much
//! memory the GPU can get to `memory`.

mod findings;
mod memory;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD};
use serde::Serialize;

pub use findings::{Finding, Level, Topic};
pub use memory::{MemoryPlan, gib};

use crate::gpu::GpuTarget;
use crate::gpu_families;
use crate::text::visible;

/// The folder in which the amdgpu driver lists CPUs and GPUs, below the root.
pub const TOPOLOGY: &str = "sys/class/kfd/kfd/topology/nodes";

/// The family of the GPUs that use the system's memory.
const INTEGRATED: &str = "igpu-all";

/// The PCI vendor ID of AMD's GPUs.
const AMD: u64 = 0x1002;

/// The size of a page of memory on x86_64, in bytes.
const PAGE: u64 = 4096;

/// The variables that change how ROCm's runtime and PyTorch see the GPU. Sources: the ROCm
/// documentation, "GPU isolation techniques"; ROCm/rocm-systems, libhsakmt's topology.c, for
/// HSA_OVERRIDE_GFX_VERSION; PyTorch, torch/utils/cpp_extension.py, for PYTORCH_ROCM_ARCH.
pub const VARIABLES: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "HSA_ENABLE_SDMA",
    "HSA_OVERRIDE_GFX_VERSION",
    "PYTORCH_ROCM_ARCH",
    "ROCR_VISIBLE_DEVICES",
];

/// The AMD GPUs of a machine, and what decides whether programs can use them.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpuMachine {
    /// The GPUs that the driver offers to ROCm, in the order in which ROCm numbers them.
    pub gpus: Vec<Gpu>,
    /// The PCI IDs of AMD's GPUs, such as `1002:1586`, with and without a driver.
    pub devices: Vec<String>,
    /// The device files that ROCm opens.
    pub files: Vec<DeviceFile>,
    /// The release of the kernel.
    pub kernel: String,
    /// The memory that the kernel manages, in bytes. It excludes what the firmware reserves for the
    /// GPU.
    pub memory: u64,
    /// The limit on system memory that GPUs use (`ttm.pages_limit`), in bytes.
    pub limit: Option<u64>,
    /// The older limit (`amdgpu.gttsize`), in MiB; null if it is not set.
    pub gttsize: Option<u64>,
    /// The kernel's options that concern GPUs and their memory.
    pub options: Vec<String>,
    /// The variables of the environment that change how ROCm sees the GPU.
    pub environment: BTreeMap<String, String>,
    /// The module that has the limit: `ttm`, or `amdttm` of AMD's separate driver.
    #[serde(skip)]
    ttm: &'static str,
    /// The name of the user who runs the command.
    #[serde(skip)]
    user: String,
    /// The groups that list the user. The user's session may have started before.
    #[serde(skip)]
    groups: Vec<String>,
    /// Whether `grubby` changes the kernel's options.
    #[serde(skip)]
    grubby: bool,
}

/// A GPU that the driver offers to ROCm.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gpu {
    /// The target of its code; null if rocmrpm does not know it.
    pub target: Option<GpuTarget>,
    /// The version of the target as the driver writes it: 110501 is gfx1151.
    pub version: u32,
    /// The number of its render device, as in `/dev/dri/renderD128`.
    pub render: u32,
    /// Whether it uses the system's memory.
    pub integrated: bool,
    /// The memory of a graphics card, or what the firmware reserves for an integrated GPU, in bytes.
    pub vram: Option<u64>,
    /// The system memory that it may use, in bytes.
    pub gtt: Option<u64>,
    /// The version of the firmware that schedules its work (MES).
    pub mes: Option<u64>,
}

/// A device file that ROCm opens.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceFile {
    /// Its path.
    pub path: String,
    /// Whether it exists.
    pub exists: bool,
    /// Whether this user can read and write it.
    pub accessible: bool,
    /// Its group, by name if it has one.
    pub group: String,
}

impl GpuMachine {
    /// Reads the machine with this root folder. `variable` returns the value of an environment
    /// variable.
    pub fn read(root: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let gpus = gpus(root);
        let ttm = if root.join("sys/module/amdttm").exists() { "amdttm" } else { "ttm" };
        let limit = number(&root.join(format!("sys/module/{ttm}/parameters/pages_limit")));
        let (user, groups) = user(root);
        let environment = VARIABLES.iter().filter_map(|name| {
            Some(((*name).to_owned(), visible(&variable(name)?.to_string_lossy())))
        });
        let is_grubby = |path: &&str| root.join(path).exists();
        Self {
            devices: devices(root),
            files: files(root, &gpus),
            gpus,
            kernel: line(&root.join("proc/sys/kernel/osrelease"))
                .map_or_else(String::new, |line| visible(&line)),
            memory: memory(root),
            limit: limit.and_then(|pages| pages.checked_mul(PAGE)),
            // The default is -1.
            gttsize: number(&root.join("sys/module/amdgpu/parameters/gttsize")),
            options: options(root),
            environment: environment.collect(),
            ttm,
            user,
            groups,
            grubby: ["usr/bin/grubby", "usr/sbin/grubby"].iter().any(is_grubby),
        }
    }

    /// Reads this machine, with the environment of this process.
    pub fn of_this() -> Self {
        Self::read(Path::new("/"), |name| std::env::var_os(name))
    }

    /// Returns whether the machine has an AMD GPU, with or without a driver.
    pub fn has_gpu(&self) -> bool {
        !self.gpus.is_empty() || !self.devices.is_empty()
    }
}

impl Gpu {
    /// Returns the name of its target.
    pub fn name(&self) -> String {
        let unknown = || format!("an unknown GPU ({})", self.version);
        self.target.as_ref().map_or_else(unknown, ToString::to_string)
    }
}

/// Returns the targets of all GPUs that the driver lists below this root, sorted.
pub fn targets(root: &Path) -> Vec<GpuTarget> {
    let mut found: Vec<GpuTarget> = gpus(root).into_iter().filter_map(|gpu| gpu.target).collect();
    found.sort();
    found.dedup();
    found
}

/// Reads the GPUs that the driver lists, in the order of its nodes. CPUs are nodes, too.
///
/// Sources: Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c, `node_show`: lines of a name and a
/// decimal number. kfd_device.c writes `gfx_target_version` as major * 10000 + minor * 100 +
/// stepping; CPUs have 0. amdgpu_vram_mgr.c and amdgpu_gtt_mgr.c: `mem_info_vram_total` and
/// `mem_info_gtt_total`, in bytes. amdgpu_ucode.c: `fw_version/mes_fw_version`, as `0x` and 8 digits.
fn gpus(root: &Path) -> Vec<Gpu> {
    let integrated = gpu_families::targets_of(INTEGRATED).unwrap_or_default();
    let mut nodes: Vec<(u32, Gpu)> = children(&root.join(TOPOLOGY))
        .into_iter()
        .filter_map(|name| {
            let text = text(&root.join(TOPOLOGY).join(&name).join("properties"))?;
            let property = |wanted: &str| {
                let mut lines = text.lines().filter_map(|line| line.split_once(' '));
                lines.find(|(name, _)| *name == wanted)?.1.trim().parse::<u32>().ok()
            };
            let version = property("gfx_target_version").filter(|version| *version > 0)?;
            let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
            let target = GpuTarget::from_version(major, minor, stepping);
            let render = property("drm_render_minor").unwrap_or_default();
            let device = root.join(format!("sys/class/drm/renderD{render}/device"));
            let gpu = Gpu {
                integrated: target.as_ref().is_some_and(|target| integrated.contains(target)),
                target,
                version,
                render,
                vram: number(&device.join("mem_info_vram_total")),
                gtt: number(&device.join("mem_info_gtt_total")),
                mes: number(&device.join("fw_version/mes_fw_version")),
            };
            Some((name.parse().ok()?, gpu))
        })
        .collect();
    nodes.sort_by_key(|(node, _)| *node);
    nodes.into_iter().map(|(_, gpu)| gpu).collect()
}

/// Returns the PCI IDs of AMD's display controllers (class 03) and accelerators (class 12). Source:
/// Linux, Documentation/ABI/testing/sysfs-bus-pci; the classes are in pci_ids.h.
fn devices(root: &Path) -> Vec<String> {
    let dir = root.join("sys/bus/pci/devices");
    let ids = children(&dir).into_iter().filter_map(|name| {
        let value = |file: &str| number(&dir.join(&name).join(file));
        let is_gpu = matches!(value("class")? >> 16, 0x03 | 0x12) && value("vendor")? == AMD;
        is_gpu.then(|| Some(format!("{AMD:04x}:{:04x}", value("device")?)))?
    });
    ids.collect()
}

/// Returns the device files of these GPUs.
fn files(root: &Path, gpus: &[Gpu]) -> Vec<DeviceFile> {
    if gpus.is_empty() {
        return Vec::new();
    }
    let render = gpus.iter().map(|gpu| format!("dev/dri/renderD{}", gpu.render));
    let paths = std::iter::once("dev/kfd".to_owned()).chain(render);
    let file = |path: String| {
        let below = root.join(&path);
        let access = Access::READ_OK | Access::WRITE_OK;
        let gid = fs_err::metadata(&below).map(|metadata| metadata.gid()).ok();
        DeviceFile {
            path: format!("/{path}"),
            exists: gid.is_some(),
            accessible: rustix::fs::accessat(CWD, &below, access, AtFlags::EACCESS).is_ok(),
            group: gid.map(|gid| group_name(root, gid)).unwrap_or_default(),
        }
    };
    paths.map(file).collect()
}

/// Returns the name of a group, or its number if it has no name.
fn group_name(root: &Path, gid: u32) -> String {
    let groups = text(&root.join("etc/group")).unwrap_or_default();
    let name = groups.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2)?.parse() == Ok(gid)).then(|| fields[0].to_owned())
    });
    name.unwrap_or_else(|| gid.to_string())
}

/// Returns the name of the user who runs the command, and the groups that list it. Sources: man 5
/// passwd, man 5 group.
fn user(root: &Path) -> (String, Vec<String>) {
    let uid = rustix::process::geteuid().as_raw();
    let users = text(&root.join("etc/passwd")).unwrap_or_default();
    let user = users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2)?.parse() == Ok(uid)).then(|| fields[0].to_owned())
    });
    let user = user.unwrap_or_else(|| uid.to_string());
    let groups = text(&root.join("etc/group")).unwrap_or_default();
    let groups = groups.lines().filter_map(|line| {
        let (fields, members) = line.rsplit_once(':')?;
        let is_member = members.split(',').any(|member| member == user);
        is_member.then(|| fields.split(':').next().unwrap_or_default().to_owned())
    });
    let groups = groups.collect();
    (user, groups)
}

/// Returns the memory that the kernel manages, in bytes: `MemTotal` (man 5 proc_meminfo).
fn memory(root: &Path) -> u64 {
    let text = text(&root.join("proc/meminfo")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// Returns the kernel's options that concern GPUs and their memory. Source: Linux,
/// Documentation/admin-guide/kernel-parameters.rst: `MODULE.PARAMETER=VALUE`.
fn options(root: &Path) -> Vec<String> {
    let text = text(&root.join("proc/cmdline")).unwrap_or_default();
    let concerns = |word: &&str| {
        *word == "nomodeset"
            || ["amdgpu.", "amdttm.", "ttm."].iter().any(|module| word.starts_with(module))
    };
    text.split_whitespace().filter(concerns).map(visible).collect()
}

/// Returns the names in a folder, sorted; none if it cannot be read.
fn children(dir: &Path) -> Vec<String> {
    let entries = fs_err::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn text(path: &Path) -> Option<String> {
    fs_err::read_to_string(path).ok()
}

fn line(path: &Path) -> Option<String> {
    text(path).map(|text| text.trim().to_owned())
}

/// Reads a number of sysfs: decimal, or hexadecimal after `0x`.
fn number(path: &Path) -> Option<u64> {
    let text = line(path)?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
