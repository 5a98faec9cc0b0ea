"""Writes a PyTorch for ROCm to compile against, from PyTorch's wheel for CUDA.

usage: torch_standin.py WHEEL COMPONENT ROCM OUT

WHEEL is a wheel of torch for Linux from pip's index, COMPONENT the stack's component.toml of torch,
whose edits of LoadHIP.cmake apply here, too, and ROCM the release of ROCm, such as 7.2. Into OUT,
a new folder, this script writes what a compiler, CMake and setuptools read of an installed PyTorch
for ROCm: headers that the wheel's own hipify converted, CMake files, the modules that describe
the build, and assembler sources of libraries that define the names of the real ones. Nothing in it
can run: a program that calls such a library is stopped by the processor.
"""

import importlib
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile

# What the compiler, CMake, and cpp_extension.py need, below torch/ in the wheel.
KEPT = (
    "include/", "share/cmake/", "utils/hipify/", "_vendor/", "_appdirs.py", "torch_version.py",
    "utils/cpp_extension.py", "utils/file_baton.py", "utils/_cpp_extension_versioner.py",
)
# Folders of headers that PyTorch's tools/amd_build/build_amd.py converts.
CONVERTED = ("ATen", "c10/cuda", "caffe2", "torch/csrc")
# The libraries of a build for ROCm, and those of the wheel with the same functions.
LIBRARIES = {
    "c10": "c10", "c10_hip": "c10_cuda", "shm": "shm", "torch": "torch", "torch_cpu": "torch_cpu",
    "torch_hip": "torch_cuda", "torch_python": "torch_python",
}
# CUDA's types as they occur in mangled names, and HIP's in their place. Source: hipify's
# mappings, and the typedefs in hip/hip_runtime_api.h.
TYPES = {
    "11CUstream_st": "12ihipStream_t",
    "10CUevent_st": "11ihipEvent_t",
    "9cudaError": "10hipError_t",
    "14cudaDeviceProp": "20hipDeviceProp_tR0600",
}
# The options that PyTorch's target torch_hip passes on to all that link to it. Source: PyTorch
# 2.11.0, COMMON_HIP_FLAGS and COMMON_HIPCC_FLAGS in torch/utils/cpp_extension.py.
HIP_CXX_FLAGS = ";".join([
    "-fPIC", "-D__HIP_PLATFORM_AMD__=1", "-DCUDA_HAS_FP16=1", "-DUSE_ROCM", "-D__HIP_NO_HALF_OPERATORS__=1",
    "-D__HIP_NO_HALF_CONVERSIONS__=1", "-DHIP_ENABLE_WARP_SYNC_BUILTINS", "-DHIPBLAS_V2",
])
PLAIN_MODULES = {
    "__init__.py": '"""A stand-in to compile against; see the RPM\'s description."""\n'
    "import torch.__config__, torch.backends.cuda, torch.backends.mps, torch.cuda, torch.utils\n"
    "import torch.version, torch.xpu\n"
    "__version__ = torch.version.__version__\n",
    "__config__.py": "def parallel_info():\n    return 'ATen parallel backend: OpenMP'\n",
    "backends/__init__.py": "",
    "backends/cuda/__init__.py": "def is_built():\n    return True\n",
    "backends/mps/__init__.py": "def is_built():\n    return False\n",
    "cuda/__init__.py": "def _is_compiled():\n    return True\n\n\ndef is_available():\n    return False\n",
    "xpu/__init__.py": "def _is_compiled():\n    return False\n",
    "utils/__init__.py": "import pathlib\n\n"
    'cmake_prefix_path = str(pathlib.Path(__file__).parent.parent / "share/cmake")\n',
}


def replace(path, old, new, count=1):
    """Replaces a text that must occur `count` times."""
    text = path.read_text()
    if text.count(old) != count:
        sys.exit(f"error: {path}: expected {old!r} {count} times, found it {text.count(old)} times")
    path.write_text(text.replace(old, new))


def unpack(wheel, out):
    """Unpacks what is kept of the wheel, and its libraries into OUT/lib; returns the version."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            library = re.fullmatch(r"torch/lib/lib(\w+)\.so", name)
            if name.startswith(tuple("torch/" + kept for kept in KEPT)):
                archive.extract(name, out)
            elif library and library[1] in LIBRARIES.values():
                archive.extract(name, out / "wheel")
            elif name.endswith(".dist-info/licenses/LICENSE"):
                (out / "LICENSE").write_bytes(archive.read(name))
            elif name == "torch/version.py":
                text = archive.read(name).decode()
    return re.search(r"__version__ = '([^+']*)", text)[1]


def convert_headers(out):
    """Converts CUDA's headers with the wheel's hipify, into the folders of a build for ROCm."""
    include = out / "torch/include"
    sys.path.insert(0, str(out / "torch/utils"))
    hipify = importlib.import_module("hipify.hipify_python")
    hipify.hipify(
        project_directory=str(include), output_directory=str(include),
        includes=[f"{include}/{folder}/*" for folder in CONVERTED],
        show_progress=False, hip_clang_launch=True,
    )
    config = include / "ATen/hip/HIPConfig.h"
    for name, old, new in [("CUDNN", 1, 0), ("HIPSPARSELT", 0, 1), ("ROCM", 0, 1), ("MAGMA", 1, 0)]:
        replace(config, f"#define AT_{name}_ENABLED() {old}", f"#define AT_{name}_ENABLED() {new}")


def change_cmake_files(out, component, rocm):
    """Makes the wheel's CMake files those of a build for ROCm without MKL."""
    caffe2 = out / "torch/share/cmake/Caffe2"
    config = caffe2 / "Caffe2Config.cmake"
    replace(config, 'if (OFF)\n  include("${CMAKE_CURRENT_LIST_DIR}/public/LoadHIP.cmake")',
            'if (ON)\n  include("${CMAKE_CURRENT_LIST_DIR}/public/LoadHIP.cmake")')
    replace(config, "if(ON)\n  # The file public/cuda.cmake", "if(OFF)\n  # The file public/cuda.cmake")
    replace(config, 'if(ON)\n  include("${CMAKE_CURRENT_LIST_DIR}/public/mkl.cmake")',
            'if(OFF)\n  include("${CMAKE_CURRENT_LIST_DIR}/public/mkl.cmake")')
    replace(out / "torch/share/cmake/Torch/TorchConfig.cmake",
            "if(ON)\n  if(MSVC)\n    find_library(CAFFE2_NVRTC_LIBRARY",
            "if(OFF)\n  if(MSVC)\n    find_library(CAFFE2_NVRTC_LIBRARY")
    for name in ["Caffe2Targets.cmake", "Caffe2Targets-release.cmake"]:
        path = caffe2 / name
        # A library for NVIDIA's GPUs only: its target, and the check of its file.
        text = re.sub(r"# (?:Create i|I)mport(?:ed)? target \"?torch_nvshmem\"?.*?(?=\n# )", "", path.read_text(), flags=re.S)
        text = re.sub(r"(torch|c10)_cuda", r"\1_hip", text).replace("USE_NVSHMEM;", "").replace(";caffe2::mkl", "")
        text = text.replace("torch::cudart;", "hip::amdhip64;").replace("c10;torch::cudart", "c10;hip::amdhip64")
        text = text.replace('"torch::cudart"', '"hip::amdhip64"').replace(" torch_nvshmem", "")
        text = text.replace('  IMPORTED_LINK_DEPENDENT_LIBRARIES_RELEASE "torch_nvshmem"\n', "")
        path.write_text(text)
    major, minor = rocm.split(".")[:2]
    options = f"{HIP_CXX_FLAGS};-DTORCH_HIP_VERSION={int(major) * 100 + int(minor)}"
    replace(caffe2 / "Caffe2Targets.cmake", "set_target_properties(torch_hip PROPERTIES\n",
            f'set_target_properties(torch_hip PROPERTIES\n  INTERFACE_COMPILE_OPTIONS "{options}"\n')
    for edit in tomllib.loads(component.read_text())["edit"]:
        if edit["file"] == "cmake/public/LoadHIP.cmake":
            replace(caffe2 / "public/LoadHIP.cmake", edit["find"], edit["replace"].replace("@LIBDIR@", "/usr/lib64"), edit["matches"])


def write_modules(out, version, rocm):
    for name, text in PLAIN_MODULES.items():
        path = out / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (out / "torch/version.py").write_text(
        f"__version__ = {version!r}\ncuda = None\ndebug = False\nhip = {rocm!r}\nrocm = {rocm!r}\nxpu = None\n"
    )
    info = out / f"torch-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")


def write_library(out, name, source):
    """Writes the assembler source of a library with the names that another library defines."""
    listed = subprocess.run(
        ["readelf", "--dyn-syms", "--wide", out / f"wheel/torch/lib/lib{source}.so"],
        check=True, capture_output=True, text=True,
    ).stdout
    symbols = {"FUNC": set(), "OBJECT": set(), "TLS": set()}
    for line in listed.splitlines():
        # Number, value, size, kind, binding, visibility, section, name.
        fields = line.split()
        if len(fields) != 8 or fields[3] not in symbols or fields[6] == "UND":
            continue
        symbol = fields[7].split("@")[0]
        for old, new in TYPES.items():
            symbol = symbol.replace(old, new)
        if re.fullmatch(r"[\w.$]+", symbol):
            symbols[fields[3]].add(symbol)
    with open(out / f"lib/{name}.s", "w") as file:
        file.write(".text\nud2\n")
        file.writelines(f".globl {s}\n.type {s},@function\n{s}:\n" for s in sorted(symbols["FUNC"]))
        file.write("ud2\n.data\n")
        file.writelines(f".globl {s}\n.type {s},@object\n.size {s},8\n{s}: .quad 0\n" for s in sorted(symbols["OBJECT"]))
        file.write('.section .tdata,"awT",@progbits\n')
        file.writelines(f".globl {s}\n.type {s},@tls_object\n.size {s},8\n{s}: .quad 0\n" for s in sorted(symbols["TLS"]))
        file.write('.section .note.GNU-stack,"",@progbits\n')


def main():
    wheel, component, rocm, out = sys.argv[1:]
    out = pathlib.Path(out).resolve()
    out.mkdir(parents=True)
    version = unpack(wheel, out)
    convert_headers(out)
    change_cmake_files(out, pathlib.Path(component), rocm)
    write_modules(out, version, rocm)
    (out / "lib").mkdir()
    for name, source in LIBRARIES.items():
        write_library(out, name, source)
    shutil.rmtree(out / "wheel")


if __name__ == "__main__":
    main()
