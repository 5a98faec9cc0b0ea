# Sets which system of the laboratory is meant; sourced by `make`, `enter`, and other scripts.
# ROCMRPM_LAB_ROCM selects its ROCm, 6.4 [default] or 7.2.
rocm=${ROCMRPM_LAB_ROCM:-6.4}
lab_base=${ROCMRPM_LAB:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rocmrpm/lab}
lab=$lab_base own="" # the folder of the system's own tables and files, in tests/laboratory/system
if [[ $rocm != 6.4 ]]; then
    lab=$lab_base-rocm-$rocm own=rocm-$rocm
fi
