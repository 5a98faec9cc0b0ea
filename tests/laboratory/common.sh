# Functions of the scripts that build components of the stack for a record; sourced in the
# repository's root.

target=$(realpath "${CARGO_TARGET_DIR:-target}")
rocmrpm=$target/debug/rocmrpm

# pinned COMPONENT: prints its table in the pin set `stable`.
pinned() { sed -n "/^\[$1\]/,/^\$/p" pins/stable.toml; }

# version_of COMPONENT: prints its version in the pin set `stable`.
version_of() { pinned "$1" | sed -n 's/^version = "\([^"]*\)".*/\1/p'; }

# lab_workspace NAME TEMPLATE...: makes a workspace for the laboratory's system that ROCMRPM_LAB_ROCM
# selects, with these folders as templates. Keeps the results of an earlier run to avoid rebuilding.
# Sets work, workspace, chroot, and lab_option, which repeats the selection on make's command line.
lab_workspace() {
    local name=$1 chroot_file=tests/laboratory/workspace/mock-configs/fedora-43.toml
    local provider=fedora provider_file=mock-configs/rocm/fedora-43.toml
    . tests/lab/system.sh
    chroot=fedora-43 lab_option=
    if [[ -n $own ]]; then
        chroot=lab-rocm$rocm chroot_file=tests/lab/$own/chroot.toml lab_option=" ROCM=$rocm"
        provider=fedora-$rocm provider_file=mock-configs/rocm/fedora-45.toml
    fi
    work=$target/tmp/laboratory-$name${own:+-$own}
    workspace=$work/workspace
    inside=/home/builder/$name
    mkdir -p "$work/cache" "$workspace"/{pins,src,mock-configs/rocm,specs-templates}
    # An earlier run gave them to the laboratory's user.
    ((EUID != 0)) || chown -R 0:0 "$work"
    cp -r specs-templates/_shared "${@:2}" "$workspace/specs-templates/"
    cp mock-configs/mock.cfg.tera "$workspace/mock-configs/"
    sed "s/^default-chroot = .*/default-chroot = \"$chroot\"/" tests/laboratory/workspace/rocmrpm.toml >"$workspace/rocmrpm.toml"
    cp "$chroot_file" "$workspace/mock-configs/$chroot.toml"
    # `brings` names components that this workspace does not have.
    sed '/^brings = /d' "$provider_file" >"$workspace/mock-configs/rocm/$provider.toml"
}

# fetch_sources [ARGUMENT]...: fetches sources before the build in the laboratory, which has no network.
fetch_sources() {
    ROCMRPM_CACHE=$work/cache ROCMRPM_TRUST=$workspace "$rocmrpm" -C "$workspace" build --until sources "$@"
}

# give_to_builder: lets the laboratory's user write the workspace.
give_to_builder() {
    ((EUID != 0)) || chown -R "$(sed -n 's/^builder:[^:]*:\([0-9]*:[0-9]*\):.*/\1/p' "$lab/host/etc/passwd")" "$work"
}

# in_lab USER COMMAND...: runs a command in the workspace in the laboratory, which has the program
# as /run/rocmrpm/rocmrpm.
in_lab() {
    nice -n 5 bash tests/lab/enter --user "$1" --cd "$inside/workspace" --bind "$work:$inside" \
        --bind "$rocmrpm:/run/rocmrpm/rocmrpm" --bind "$PWD/tests/laboratory:/home/builder/laboratory" \
        --env ROCMRPM_CACHE="$inside/cache" --env ROCMRPM_TRUST="$inside/workspace" -- "${@:2}"
}

# inspect COMPONENT FILE...: inspects packages in the laboratory, and shows the build's times.
inspect() {
    in_lab builder bash -ec "/run/rocmrpm/rocmrpm inspect --deep --chroot $chroot ${*:2}
        cat build/$chroot/results/$1/times.json"
}

# record_at_exit WORKSPACE CHROOT COMPONENT COMMAND [INPUT=FILE]...: when the script exits, writes a
# record with the last stage and, if that is `ran`, the device, which the script sets: `failed` until
# the package is built.
record_at_exit() {
    run=("$@") stage=failed device="" SECONDS=0
    trap 'python3 -B tests/laboratory/evidence.py record "${run[@]:0:4}" "$stage" $? "$SECONDS" ${device:+"$device"} "${run[@]:4}"' EXIT
}
