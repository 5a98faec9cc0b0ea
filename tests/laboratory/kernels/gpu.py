"""Presents a GPU that is not there, so that a package's own code launches its Triton kernels.

Triton compiles each kernel for gfx1151 with the types, constants, and alignments of the call, as
it would on the GPU, and launches nothing. Tensors are on the CPU and show the GPU as their device.
"""

import contextlib
import math
import multiprocessing
import os
import signal
import time
import types

import torch
import torch._dynamo  # registers operators, which install() must not redirect
import triton
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only
from triton.backends.compiler import GPUTarget
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import OutOfResources
from triton.runtime.jit import JITFunction

import results

ARCH = "gfx1151"
TARGET = GPUTarget("hip", ARCH, 32)
DEVICE = torch.device("cuda", 0)
CPU = torch.device("cpu")
COMPILE_SECONDS = int(os.environ.get("KERNELS_COMPILE_SECONDS", 600))
# The autotuner ignores configurations that a kernel refuses so.
ASSERTION = CompileTimeAssertionFailure.__name__
# What HIP reports for a Ryzen AI Max with 40 compute units: it counts pairs of them.
PAIRS = 20
PROPERTIES = types.SimpleNamespace(
    name="AMD Radeon Graphics",
    gcnArchName=ARCH,
    major=11,
    minor=5,
    multi_processor_count=PAIRS,
    warp_size=32,
    total_memory=64 << 30,
    shared_memory_per_block=results.LDS_BYTES,
)


class Driver:
    """What Triton asks of a driver before it launches a kernel."""

    utils = types.SimpleNamespace(
        get_device_properties=lambda device: {
            "max_shared_mem": results.LDS_BYTES,
            "multiprocessor_count": PAIRS,
            "warpSize": 32,
        }
    )

    def get_current_target(self):
        return TARGET

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def set_current_device(self, device):
        pass

    def get_device_interface(self):
        return torch.cuda

    def get_active_torch_device(self):
        return DEVICE

    def get_benchmarker(self):
        return benchmark

    def get_empty_cache_for_benchmark(self):
        return torch.empty(1)

    def clear_cache(self, cache):
        pass


def benchmark(call, quantiles=None, **_):
    """Calls the function once, which compiles it. All configurations are equally fast."""
    call()
    return [1.0] * len(quantiles) if quantiles else 1.0


def name_of(function):
    """Returns the full name of a kernel; triton_kernels makes some from text, in one function."""
    function = function.fn
    local = "<locals>" in function.__qualname__
    return f"{function.__module__}.{function.__name__ if local else function.__qualname__}"


def compile_apart(log, compile):
    """Compiles in another process, because some kernels abort the compiler.

    Returns the code and its LDS in bytes, or the kind of the error and its text. What LLVM and MLIR
    print is in the file `log`.
    """
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)

    def work():
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        try:
            kernel = compile()
            writer.send((kernel.kernel, kernel.metadata.shared, None))
        except Exception as error:
            writer.send((type(error).__name__, str(error), True))

    process = context.Process(target=work)
    process.start()
    writer.close()
    # The time limit of a test does not count compiling.
    left = signal.alarm(0)
    try:
        if not reader.poll(COMPILE_SECONDS):
            process.kill()
            return "Timeout", f"not compiled after {COMPILE_SECONDS} seconds", True
        return reader.recv()
    except EOFError:
        process.join()
        return "Crash", f"the compiler ended with {signal.Signals(-process.exitcode).name}", True
    finally:
        process.join()
        signal.alarm(left)


def on_cpu(value):
    if isinstance(value, torch.device) and value.type == "cuda":
        return CPU
    if isinstance(value, str) and value.split(":")[0] in ("cuda", "hip"):
        return CPU
    return value


# Tests make their inputs with these, and compute what they expect, for minutes on a CPU. Numbers
# do not matter here.
LIKE = {torch.randn_like, torch.rand_like, torch.randint_like}
RANDOM = {torch.randn, torch.rand, torch.randint, *LIKE}
FILLED = {torch.Tensor.normal_, torch.Tensor.uniform_, torch.Tensor.random_}
PRODUCTS = {
    torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.mm, torch.Tensor.mm,
    torch.bmm, torch.Tensor.bmm, torch.einsum, torch.nn.functional.linear,
}  # fmt: skip
LARGE = 1 << 20


def random(function, args, kwargs):
    """Returns zeros instead of many random numbers, and None instead of a few."""
    if function in LIKE:
        size, dtype = args[0].shape, args[0].dtype
    else:
        size = kwargs.get("size", args[-1] if args else ())
        size = args if isinstance(size, int) else size
        dtype = torch.int64 if function is torch.randint else torch.get_default_dtype()
    if math.prod(size) < LARGE:
        return None
    kept = {key: kwargs[key] for key in ("dtype", "requires_grad") if kwargs.get(key)}
    return torch.zeros(size, **{"dtype": dtype, **kept})


def product(function, args, kwargs):
    """Returns zeros instead of the product of large tensors, and None for small ones."""
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    if any(value.requires_grad for value in tensors):
        return None
    if max((value.numel() for value in tensors), default=0) < LARGE:
        return None
    args, kwargs = tree_map_only(torch.Tensor, lambda value: value.to("meta"), (args, kwargs))
    result = function(*args, **kwargs)
    return torch.zeros(result.shape, dtype=result.dtype)


class OnCpu(TorchFunctionMode):
    """Creates on the CPU what would be on the GPU, and shows the GPU as the device."""

    def __torch_function__(self, function, _types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function in (torch.Tensor.is_cuda.__get__, torch.Tensor.device.__get__):
            return DEVICE if function == torch.Tensor.device.__get__ else True
        if function is torch.Tensor.cuda:
            return args[0]
        if "device" in kwargs:
            kwargs["device"] = CPU if isinstance(kwargs["device"], int) else on_cpu(kwargs["device"])
        if function is torch.Tensor.to:
            args = tuple(on_cpu(value) for value in args)
        if function in FILLED and args[0].numel() >= LARGE:
            return args[0]
        replaced = product if function in PRODUCTS else random if function in RANDOM else None
        if replaced and (result := replaced(function, args, kwargs)) is not None:
            return result
        return function(*args, **kwargs)


class Compiler:
    """Compiles each launched kernel, at most `limit` variants of each, and records the result."""

    def __init__(self, out, limit, **label):
        self.out = out
        self.limit = limit
        self.label = label
        self.done = results.Results(out / "results.jsonl")
        # Keys of the variants of each kernel, those of earlier runs included.
        self.launched = {}
        for row in self.done.rows:
            self.launched.setdefault(row["kernel"], []).append(row["key"])
        self.errors = {}
        self.place = None

    def run(self, original):
        compiler = self

        def run(self, *args, grid, warmup, **kwargs):
            name = name_of(self)
            keys = compiler.launched.setdefault(name, [])
            if len(keys) >= compiler.limit:
                return None
            return original(self, *args, grid=grid, warmup=True, **kwargs)

        return run

    def compile(self, original):
        def compile(source, target=None, options=None, **kwargs):
            name = name_of(source.fn)
            keys = self.launched.setdefault(name, [])
            shown = {source.fn.arg_names[path[0]]: str(value) for path, value in source.constants.items()}
            identity = [name, source.signature, shown, source.attrs, str(options)]
            key = f"{name}-{results.digest(identity)}"
            if key not in keys:
                keys.append(key)
            if key in self.errors:
                raise self.errors[key]
            start = time.monotonic()
            row = {"key": key, "kernel": name, "place": self.place, **self.label}
            row["constants"] = shown
            file = results.file_name(key)
            log = self.out / f"{file}.log"
            first, second, failed = compile_apart(
                log, lambda: original(source, target=target, options=options, **kwargs)
            )
            row["seconds"] = round(time.monotonic() - start, 2)
            if failed:
                messages = log.read_text(errors="replace")
                row["error"] = results.first_line(first, second, messages)
                self.errors[key] = (
                    CompileTimeAssertionFailure(None, None, second)
                    if first == ASSERTION
                    else RuntimeError(row["error"])
                )
            else:
                log.unlink()
                row["file"] = f"{file}.hsaco"
                (self.out / row["file"]).write_bytes(first)
                row.update(results.describe(first, second))
                if second > results.LDS_BYTES:
                    self.errors[key] = OutOfResources(second, results.LDS_BYTES, "shared memory")
            if key not in self.done.keys:
                self.done.add(**row)
                print(row["seconds"], key, row.get("error", ""), flush=True)
            if key in self.errors:
                raise self.errors[key]
            return types.SimpleNamespace(n_regs=row["vgprs"], n_spills=row["spilled"])

        return compile


def install(compiler):
    """Replaces the driver, the compiler, and PyTorch's functions that need a GPU."""
    triton.runtime.driver.set_active(Driver())
    JITFunction.run = compiler.run(JITFunction.run)
    triton.compiler.compile = compiler.compile(triton.compiler.compile)
    torch.version.hip = "7.1"
    torch.version.cuda = None
    cuda = torch.cuda
    cuda.is_available = lambda: True
    cuda.device_count = lambda: 1
    cuda.current_device = lambda: 0
    cuda.get_device_properties = lambda device=None: PROPERTIES
    cuda.get_device_capability = lambda device=None: (PROPERTIES.major, PROPERTIES.minor)
    cuda.get_device_name = lambda device=None: PROPERTIES.name
    cuda.mem_get_info = lambda device=None: (PROPERTIES.total_memory, PROPERTIES.total_memory)
    cuda.synchronize = cuda.empty_cache = cuda.set_device = lambda *_, **__: None
    cuda.manual_seed = cuda.manual_seed_all = lambda seed: None
    cuda.device = lambda *_: contextlib.nullcontext()
    cuda.stream = lambda *_: contextlib.nullcontext()
    cuda.current_stream = lambda *_: types.SimpleNamespace(
        cuda_stream=0, synchronize=lambda: None, wait_stream=lambda other: None
    )
    # Would add the GPU as the device after OnCpu.
    torch.set_default_device = lambda device: None
    # Operators that a package registers for GPUs.
    library = torch.library
    custom_op, implement = library.custom_op, library.Library.impl
    library.custom_op = lambda *args, device_types=None, **kwargs: custom_op(*args, **kwargs)
    library.Library.impl = lambda self, name, function, key="", **kwargs: implement(
        self, name, function, "CPU" if key == "CUDA" else key, **kwargs
    )
    OnCpu().__enter__()
