use super::*;

/// The files of a machine with Strix Halo, with changes: paths and their texts, or `None` to
/// remove a file or a folder. Variables are set to values.
fn strix_halo(changes: &[(&str, Option<&str>)], variables: &[(&str, &str)]) -> GpuMachine {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines/strix-halo");
    let root = tempfile::tempdir().unwrap();
    for entry in walkdir::WalkDir::new(&tree) {
        let entry = entry.unwrap();
        let path = root.path().join(entry.path().strip_prefix(&tree).unwrap());
        match entry.file_type().is_dir() {
            true => fs_err::create_dir_all(path).unwrap(),
            false => drop(fs_err::copy(entry.path(), path).unwrap()),
        }
    }
    for (path, text) in changes {
        let path = root.path().join(path);
        match text {
            Some(text) => {
                fs_err::create_dir_all(path.parent().unwrap()).unwrap();
                fs_err::write(path, text).unwrap();
            }
            None if path.is_dir() => fs_err::remove_dir_all(path).unwrap(),
            None => fs_err::remove_file(path).unwrap(),
        }
    }
    let variable = |name: &str| Some(variables.iter().find(|(set, _)| *set == name)?.1.into());
    GpuMachine::read(root.path(), variable)
}

const MANY_PAGES: (&str, Option<&str>) =
    ("sys/module/ttm/parameters/pages_limit", Some("25165824\n"));

/// Returns the findings of a machine whose GPU may use 96 GiB, as lines.
fn found(changes: &[(&str, Option<&str>)], variables: &[(&str, &str)]) -> Vec<String> {
    let machine = strix_halo(&[&[MANY_PAGES], changes].concat(), variables);
    let line = |f: Finding| format!("{:?} {:?}: {}; {}", f.topic, f.level, f.found, f.help);
    machine.findings().into_iter().map(line).collect()
}

/// Asserts that there is one finding with these parts.
fn assert_one(found: &[String], parts: &[&str]) {
    assert!(found.len() == 1 && parts.iter().all(|part| found[0].contains(part)), "{found:#?}");
}

#[test]
fn reads_strix_halo() {
    let machine = strix_halo(&[], &[("HIP_VISIBLE_DEVICES", "0"), ("HOME", "/root")]);
    let [gpu] = machine.gpus.as_slice() else { panic!("{machine:?}") };
    assert_eq!((gpu.name().as_str(), gpu.render, gpu.integrated), ("gfx1151", 128, true));
    assert_eq!((gpu.vram, gpu.gtt, gpu.mes), (Some(512 << 20), Some(67_459_072_000), Some(0x80)));
    assert_eq!(machine.devices, ["1002:1586"]);
    assert_eq!((machine.memory, machine.limit), (131_756_000 << 10, Some(16_469_500 << 12)));
    assert_eq!((machine.gttsize, machine.kernel.as_str()), (None, "6.18.9-200.fc43.x86_64"));
    let paths: Vec<&str> = machine.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["/dev/kfd", "/dev/dri/renderD128"]);
    assert_eq!(machine.environment.len(), 1);
    let findings = machine.findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!((findings[0].topic, findings[0].level), (Topic::Memory, Level::Note));
    assert_eq!(findings[0].found, "the GPU may use 62.8 GiB of 125.7 GiB, the default");
    assert_eq!(found(&[], &[]), Vec::<String>::new());
}

#[test]
fn machine_without_an_amd_gpu_has_no_findings() {
    let root = tempfile::tempdir().unwrap();
    let machine = GpuMachine::read(root.path(), |_| Some("1".into()));
    assert!(!machine.has_gpu());
    assert_eq!(machine.findings(), []);
    assert!(machine.memory_plan(8).is_err());
}

#[test]
fn finds_all_gpus_of_a_machine() {
    let dir = tempfile::tempdir().unwrap();
    for (node, version) in [("0", 0), ("1", 110_501), ("2", 90_010), ("10", 110_501)] {
        let node = dir.path().join(TOPOLOGY).join(node);
        fs_err::create_dir_all(&node).unwrap();
        let text = format!("cpu_cores_count 0\ngfx_target_version {version}\nvendor_id 4098\n");
        fs_err::write(node.join("properties"), text).unwrap();
    }
    let found: Vec<String> = targets(dir.path()).iter().map(ToString::to_string).collect();
    assert_eq!(found, ["gfx1151", "gfx90a"]);
    let machine = GpuMachine::read(dir.path(), |_| None);
    let names: Vec<String> = machine.gpus.iter().map(Gpu::name).collect();
    assert_eq!(names, ["gfx1151", "gfx90a", "gfx1151"]);
    assert!(targets(&dir.path().join("none")).is_empty());
}

#[test]
fn reports_a_gpu_without_a_driver() {
    let no_driver = ("sys/class/kfd", None);
    let parts = ["Driver Error", "1002:1586", "journalctl -k -g amdgpu"];
    assert_one(&found(&[no_driver], &[]), &parts);
    let option = ("proc/cmdline", Some("ro nomodeset quiet\n"));
    assert_one(&found(&[no_driver, option], &[]), &["--remove-args=nomodeset"]);
}

#[test]
fn reports_device_files_that_cannot_be_opened() {
    let missing = found(&[("dev/kfd", None)], &[]);
    assert_one(&missing, &["Access Error", "`/dev/kfd` does not exist", "--device /dev/kfd"]);
    let mut machine = strix_halo(&[MANY_PAGES], &[]);
    machine.user = "ada".to_owned();
    for (group, groups, help) in [
        ("render", &[][..], "usermod -aG render,video"),
        ("render", &["render"][..], "log out"),
        ("nobody", &[][..], "keep-groups"),
    ] {
        machine.files[1] = DeviceFile {
            path: "/dev/dri/renderD128".to_owned(),
            exists: true,
            accessible: false,
            group: group.to_owned(),
        };
        machine.groups = groups.iter().map(ToString::to_string).collect();
        let found = machine.findings();
        assert!(found.len() == 1 && found[0].help.contains(help), "{found:?}");
        assert!(found[0].found.contains("`ada` cannot open `/dev/dri/renderD128`"), "{found:?}");
    }
}

#[test]
fn names_the_group_of_a_file_and_the_groups_of_the_user() {
    let uid = rustix::process::geteuid().as_raw();
    let passwd = format!("ada:x:{uid}:1000::/home/ada:/bin/bash\n");
    let group = "render:x:105:bob,ada\nvideo:x:39:adam\n";
    let changes = [("etc/passwd", Some(passwd.as_str())), ("etc/group", Some(group))];
    let machine = strix_halo(&changes, &[]);
    assert_eq!((machine.user.as_str(), machine.groups), ("ada", vec!["render".to_owned()]));
    let root = tempfile::tempdir().unwrap();
    fs_err::create_dir(root.path().join("etc")).unwrap();
    fs_err::write(root.path().join("etc/group"), group).unwrap();
    assert_eq!(
        (group_name(root.path(), 105), group_name(root.path(), 1)),
        ("render".into(), "1".into())
    );
}

#[test]
fn reports_kernels_without_fixes_for_the_gpu() {
    let release = |text| [("proc/sys/kernel/osrelease", Some(text))];
    for old in ["6.17.5-300.fc43.x86_64", "6.18.3-200.fc43.x86_64", "6.9.0"] {
        let parts = ["Kernel Error", old, "gfx1151", "dnf upgrade kernel"];
        assert_one(&found(&release(old), &[]), &parts);
    }
    for new in ["6.18.4-200.fc43.x86_64", "7.0.1-300.fc44.x86_64", "6.14.0-1018-oem", ""] {
        assert_eq!(found(&release(new), &[]), Vec::<String>::new(), "{new}");
    }
    let radeon = "gfx_target_version 110000\ndrm_render_minor 128\n";
    let properties = format!("{TOPOLOGY}/1/properties");
    let changes = [(properties.as_str(), Some(radeon)), release("6.17.5-300.fc43.x86_64")[0]];
    assert_eq!(found(&changes, &[]), Vec::<String>::new());
}

#[test]
fn reports_firmware_that_hangs() {
    let mes = "sys/class/drm/renderD128/device/fw_version/mes_fw_version";
    let parts = ["Firmware Error", "MES 0x83", "dnf upgrade amd-gpu-firmware"];
    assert_one(&found(&[(mes, Some("0x00000083\n"))], &[]), &parts);
    assert_eq!(found(&[(mes, Some("0x00000086\n"))], &[]), Vec::<String>::new());
}

#[test]
fn reports_memory_limits_that_do_not_work() {
    let pages = "sys/module/ttm/parameters/pages_limit";
    let too_much = found(&[(pages, Some("32505856\n"))], &[]);
    assert_one(&too_much, &["Memory Error", "124 GiB of 125.7 GiB", "--gpu-memory 117"]);
    let gttsize = "sys/module/amdgpu/parameters/gttsize";
    let differ = found(&[(gttsize, Some("122880\n"))], &[]);
    assert_one(&differ, &["`amdgpu.gttsize` is 120 GiB", "`ttm.pages_limit` is 96 GiB"]);
    assert_eq!(found(&[(gttsize, Some("98304\n"))], &[]), Vec::<String>::new());
    for ignored in ["amdgpu.gtt_size", "amdttm.pages_limit"] {
        let option = format!("ro {ignored}=122880 quiet\n");
        let found = found(&[("proc/cmdline", Some(&option))], &[]);
        assert_one(&found, &["Memory Error", "ignores the option", ignored]);
    }
    let vram = "sys/class/drm/renderD128/device/mem_info_vram_total";
    let reserved = found(&[(vram, Some("68719476736\n"))], &[]);
    assert_one(&reserved, &["Memory Note", "reserves 64 GiB", "UMA frame buffer"]);
}

#[test]
fn reports_an_override_and_its_consequence() {
    let with = |value| found(&[], &[("HSA_OVERRIDE_GFX_VERSION", value)]);
    let parts =
        ["Override Error", "code for gfx1100 on gfx1151", "`unset HSA_OVERRIDE_GFX_VERSION`"];
    assert_one(&with("11.0.0"), &parts);
    assert_one(&with("11.5.1"), &["Override Note", "the GPU has anyway"]);
    assert_one(&with("11.5.9"), &["Override Error", "code for an unknown GPU"]);
    for bad in ["", "11.0", "11.0.0.1", "gfx1151"] {
        assert_one(&with(bad), &["Override Error", "is not a version such as 11.5.1"]);
    }
}

#[test]
fn reports_variables_that_hide_gpus() {
    let hip = |value| found(&[], &[("HIP_VISIBLE_DEVICES", value)]);
    assert_one(&hip("1"), &["Environment Error", "`HIP_VISIBLE_DEVICES=1` hides every GPU"]);
    assert_one(&hip("0,1"), &["names GPU 1, which does not exist", "numbers below 1"]);
    assert_one(&found(&[], &[("ROCR_VISIBLE_DEVICES", "")]), &["hides every GPU"]);
    assert_one(&found(&[], &[("CUDA_VISIBLE_DEVICES", "-1")]), &["`unset CUDA_VISIBLE_DEVICES`"]);
    for harmless in ["0", "", "GPU-0000000000000001"] {
        assert_eq!(hip(harmless), Vec::<String>::new(), "{harmless}");
    }
    let both = [("ROCR_VISIBLE_DEVICES", "0"), ("HIP_VISIBLE_DEVICES", "0")];
    assert_eq!(found(&[], &both), Vec::<String>::new());
}

#[test]
fn reports_variables_that_change_code_and_copies() {
    let arch = |value| found(&[], &[("PYTORCH_ROCM_ARCH", value)]);
    assert_one(&arch("gfx1100;gfx1201"), &["Environment Note", "lacks gfx1151"]);
    for harmless in ["gfx1100;gfx1151", "gfx11-generic", ""] {
        assert_eq!(arch(harmless), Vec::<String>::new(), "{harmless}");
    }
    let sdma = |value| found(&[], &[("HSA_ENABLE_SDMA", value)]);
    assert_one(&sdma("0"), &["Environment Note", "copy engines"]);
    assert_eq!(sdma("1"), Vec::<String>::new());
}

#[test]
fn computes_the_kernel_option_for_memory() {
    let machine = strix_halo(&[], &[]);
    let plan = machine.memory_plan(96).unwrap();
    assert_eq!((plan.pages, plan.option.as_str()), (25_165_824, "ttm.pages_limit=25165824"));
    assert_eq!(plan.remaining, machine.memory - (96 << 30));
    let command = "sudo grubby --update-kernel=ALL --args=ttm.pages_limit=25165824";
    assert_eq!(plan.commands, [command, "sudo reboot"]);
    assert!(machine.memory_plan(117).is_ok());
    let error = machine.memory_plan(118).unwrap_err();
    assert!(error.to_string().contains("cannot give the GPU 118 GiB"), "{error}");
    assert_eq!(error.help(), ["use `--gpu-memory 117` or less"]);
}

#[test]
fn command_for_memory_removes_contradicting_options() {
    let line = "ro amdgpu.gttsize=122880 ttm.pages_limit=1 amdgpu.ppfeaturemask=0xffffffff\n";
    let options = ("proc/cmdline", Some(line));
    let plan = strix_halo(&[options], &[]).memory_plan(64).unwrap();
    let remove = "sudo grubby --update-kernel=ALL --remove-args=\"amdgpu.gttsize\" \
                  --args=ttm.pages_limit=16777216";
    assert_eq!(plan.commands[0], remove);
    let module = ("sys/module/amdttm/parameters/pages_limit", Some("16469500\n"));
    let plan = strix_halo(&[options, module], &[]).memory_plan(64).unwrap();
    assert!(plan.commands[0].contains("\"amdgpu.gttsize ttm.pages_limit\""), "{plan:?}");
    assert_eq!(plan.option, "amdttm.pages_limit=16777216");
    let plan = strix_halo(&[("usr/bin/grubby", None)], &[]).memory_plan(64).unwrap();
    assert_eq!(plan.commands, Vec::<String>::new());
}

#[test]
fn graphics_cards_have_memory_of_their_own() {
    let radeon = "gfx_target_version 110000\ndrm_render_minor 128\n";
    let properties = format!("{TOPOLOGY}/1/properties");
    let machine = strix_halo(&[(&properties, Some(radeon))], &[]);
    assert_eq!(machine.findings(), []);
    let error = machine.memory_plan(8).unwrap_err();
    assert!(error.to_string().contains("no AMD GPU that uses the system's memory"), "{error}");
}
