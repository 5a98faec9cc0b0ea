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
    . tests/laboratory/system/system.sh
    chroot=fedora-43 lab_option=
    if [[ -n $own ]]; then
        chroot=lab-rocm$rocm chroot_file=tests/laboratory/system/$own/chroot.toml lab_option=" ROCM=$rocm"
        provider=fedora-$rocm provider_file=mock-configs/rocm/fedora-45.toml
    fi
    work=$target/tmp/laboratory-$name${own:+-$own}
    workspace=$work/workspace
    inside=/home/builder/$name
    rm -rf "$workspace/specs-templates"
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

# pin_folder COMPONENT VERSION FOLDER: pins a component of the workspace to a copy of a folder's files.
pin_folder() {
    rm -rf "$workspace/src/$1"
    cp -r "$3" "$workspace/src/$1"
    rm -rf "$workspace/src/$1/.git"
    printf '[%s]\nversion = "%s"\npath = "src/%s"\n\n' "$1" "$2" "$1" >>"$workspace/pins/stable.toml"
}

# commit_of COMPONENT FOLDER: prints a folder's commit as an input of a record, if the folder is a clone
# without changes.
commit_of() {
    [[ ! -e $2/.git || -n $(git -C "$2" status --porcelain) ]] || echo "$1=git:$(git -C "$2" rev-parse HEAD)"
}

# leave_out_check COMPONENT: removes %check from the workspace's template, if it cannot run.
leave_out_check() {
    sed -i '/^%check$/,/^%files/{/^%files/!d}' "$workspace/specs-templates/$1"/*.tera
}

# give_to_builder: lets the laboratory's user write the workspace.
give_to_builder() {
    ((EUID != 0)) || chown -R "$(sed -n 's/^builder:[^:]*:\([0-9]*:[0-9]*\):.*/\1/p' "$lab/host/etc/passwd")" "$work"
}

# in_lab USER COMMAND...: runs a command in the workspace in the laboratory, which has the program
# as /run/rocmrpm/rocmrpm.
in_lab() {
    nice -n 5 bash tests/laboratory/system/enter --user "$1" --cd "$inside/workspace" --bind "$work:$inside" \
        --bind "$rocmrpm:/run/rocmrpm/rocmrpm" --bind "$PWD/tests/laboratory:/home/builder/laboratory" \
        --env ROCMRPM_CACHE="$inside/cache" --env ROCMRPM_TRUST="$inside/workspace" -- "${@:2}"
}

# inspect COMPONENT FILE...: inspects packages in the laboratory, and shows the build's times.
inspect() {
    in_lab builder bash -ec "/run/rocmrpm/rocmrpm inspect --deep --chroot $chroot ${*:2}
        cat build/$chroot/results/$1/times.json"
}

# record_at_exit WORKSPACE CHROOT COMPONENT COMMAND [INPUT=FILE|INPUT=git:COMMIT]...: when the script
# exits, writes a record with the last stage and, if that is `ran`, the device, which the script sets:
# `failed` until the package is built.
record_at_exit() {
    run=("$@") stage=failed device="" SECONDS=0
    trap 'python3 -B tests/laboratory/evidence.py record "${run[@]:0:4}" "$stage" $? "$SECONDS" ${device:+"$device"} "${run[@]:4}"' EXIT
}

# use_ccache: makes gcc and clang use a cache of the work folder in `in_scratch`.
use_ccache() {
    mkdir -p "$work/ccache"
    printf 'cache_dir = %s/ccache\nmax_size = 2G\nhash_dir = false\n' "$inside" >"$work/ccache-settings"
}

# in_scratch "PACKAGE..." COMMAND...: installs packages in a copy of the laboratory's system, and runs a
# command there as its user.
in_scratch() {
    in_lab root bash /home/builder/laboratory/scratch \
        "cp $inside/ccache-settings /etc/ccache.conf
         ${1:+rpm -i $1}" builder "${@:2}"
}

# pin_torch_standin: adds the component torch to the workspace: what compilers need of PyTorch, as
# package python3-torch-rocm-build-only. torch_standin.py makes it from the wheel for Python 3.14 of the
# pinned version. What is compiled against it is never offered to users. Sets torch_wheel, an input of
# the record.
pin_torch_standin() {
    local wheel=torch-2.11.0-cp314-cp314-manylinux_2_28_x86_64.whl
    local sha256=4dc8b3809469b6c30b411bb8c4cad3828efd26236153d9beb6a3ec500f211a60
    local folder=$target/tmp/laboratory-torch-standin
    [[ $wheel == torch-"$(version_of torch)"-* ]] || {
        echo "error: pins/stable.toml has torch $(version_of torch), and common.sh $wheel" >&2
        exit 3
    }
    if [[ ! -e $folder/$wheel ]]; then
        python3 -m pip --disable-pip-version-check download --quiet --no-deps --python-version 3.14 \
            --platform manylinux_2_28_x86_64 --only-binary :all: --dest "$folder" "torch==$(version_of torch)"
    fi
    echo "$sha256  $folder/$wheel" | sha256sum --check --quiet
    if [[ ! $folder/torch -nt tests/laboratory/torch_standin.py ]]; then
        rm -rf "$folder"/torch{,.part}
        python3 -B tests/laboratory/torch_standin.py "$folder/$wheel" specs-templates/torch/component.toml 7.2.4 \
            "$folder/torch.part"
        mv "$folder/torch.part" "$folder/torch"
    fi
    pin_folder torch "$(version_of torch)" "$folder/torch"
    cp -r tests/laboratory/kernels-workspace/specs-templates/torch "$workspace/specs-templates/"
    torch_wheel=$wheel=$folder/$wheel
}

# build_with_torch_standin COMPONENT COMMAND [INPUT=FILE|INPUT=git:COMMIT]...: builds a component of the
# workspace against it, inspects the package, and writes a record.
build_with_torch_standin() {
    local build="/run/rocmrpm/rocmrpm build --builder host --offline --until rpm" results=build/$chroot/results
    use_ccache
    give_to_builder
    in_lab builder $build torch
    record_at_exit "$workspace" "$chroot" "$1" "$2" "$torch_wheel" "${@:3}"
    in_scratch "$inside/workspace/$results/torch/python3-torch-rocm-build-only-*.x86_64.rpm" $build "$1"
    stage=compiled
    inspect "$1" "$results/$1/python3-$1-rocm-[0-9]*.x86_64.rpm" \
        "$results/torch/python3-torch-rocm-build-only-*.x86_64.rpm"
    stage=inspected
}
