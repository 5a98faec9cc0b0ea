# SPDX-License-Identifier: MIT
"""The checks. Each is a function that raises an exception if something is wrong.

A check returns what it measured, as {name: (number, unit, better)}, where better is "more" or "less";
or nothing. It raises NotRun if it cannot run here.
"""

import contextlib
import importlib
import importlib.util
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from . import random_gguf, random_llama

# Seconds that a check may take, and those with a longer limit.
LIMIT = 600
LIMITS = {"vllm-serve": 1800}


class NotRun(Exception):
    """The check cannot run here."""


class Check:
    def __init__(self, function, what, bench, computed):
        self.id = function.__name__.replace("_", "-")
        self.what, self.bench, self.run = what, bench, function
        # The Python modules and programs that computed on a GPU if it passes.
        self.computed = computed


CHECKS = {}


def check(what, bench=False, computed=()):
    def add(function):
        one = Check(function, what, bench, computed)
        CHECKS[one.id] = one
        return function

    return add


def module(name):
    """Imports a module. It is not run if it is not installed; another error of the import fails."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.split(".")[0]:
            raise
        raise NotRun(f"the Python module {error.name} is not installed") from None


def require_gpu():
    if not os.path.exists("/dev/kfd"):
        raise NotRun("this machine has no GPU that ROCm can use (/dev/kfd not found)")


def torch_on_gpu():
    require_gpu()
    torch = module("torch")
    if not torch.cuda.is_available():
        raise AssertionError("/dev/kfd exists, but torch finds no GPU")
    return torch


def program(name):
    path = shutil.which(name)
    if path is None:
        raise NotRun(f"the program {name} is not installed")
    return path


def close(found, expected, tolerance):
    """Compares tensors: the largest difference, relative to the largest value."""
    found, expected = found.double().cpu(), expected.double().cpu()
    if not bool(found.isfinite().all()):
        raise AssertionError("the result has values that are not finite")
    difference = float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30))
    if difference > tolerance:
        raise AssertionError(f"the result differs from the CPU's by {difference:.3g}, more than {tolerance}")


def seconds_of(torch, work, repeat=20):
    """Returns the shortest time of a computation on the GPU."""
    work()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


@check("torch was built for ROCm and has code for the GPU")
def torch_gpu():
    torch = torch_on_gpu()
    assert torch.version.hip, f"torch {torch.__version__} was not built for ROCm"
    name = torch.cuda.get_device_properties(0).gcnArchName.split(":")[0]
    built = torch.cuda.get_arch_list()
    assert name in built, f"the GPU is {name}, torch has code for {', '.join(built)}"


@check("torch multiplies matrices on the CPU")
def cpu_matmul():
    torch = module("torch")
    torch.manual_seed(1)
    a, b = torch.randn(64, 96), torch.randn(96, 32)
    rows, columns = a.double().tolist(), b.double().t().tolist()
    expected = [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in rows]
    close(a @ b, torch.tensor(expected), 1e-5)


@check("torch solves linear equations on the CPU (LAPACK)")
def cpu_lapack():
    torch = module("torch")
    torch.manual_seed(1)
    a, x = torch.randn(48, 48, dtype=torch.float64), torch.randn(48, 3, dtype=torch.float64)
    close(torch.linalg.solve(a, a @ x), x, 1e-8)
    values = torch.linalg.eigvalsh(a @ a.T)
    close(values.sum(), (a * a).sum(), 1e-10)


@check("torch convolves on the CPU")
def cpu_convolution():
    torch = module("torch")
    torch.manual_seed(1)
    image, kernel = torch.randn(1, 2, 9, 9), torch.randn(3, 2, 3, 3)
    patches = torch.nn.functional.unfold(image, 3)
    expected = (kernel.reshape(3, -1) @ patches).reshape(1, 3, 7, 7)
    close(torch.nn.functional.conv2d(image, kernel), expected, 1e-5)


@check("torch multiplies matrices on the GPU, in fp32, fp16 and bf16", computed=["torch"])
def matmul():
    torch = torch_on_gpu()
    torch.manual_seed(1)
    a, b = torch.randn(513, 1027), torch.randn(1027, 255)
    for kind, tolerance in ((torch.float32, 1e-4), (torch.float16, 1e-2), (torch.bfloat16, 5e-2)):
        close(a.to("cuda", kind) @ b.to("cuda", kind), a.double() @ b.double(), tolerance)


@check("torch convolves on the GPU (MIOpen)", computed=["torch"])
def convolution():
    torch = torch_on_gpu()
    torch.manual_seed(1)
    image, kernel = torch.randn(4, 16, 37, 41), torch.randn(24, 16, 3, 3)
    expected = torch.nn.functional.conv2d(image, kernel, padding=1)
    close(torch.nn.functional.conv2d(image.cuda(), kernel.cuda(), padding=1), expected, 1e-3)


@check("torch solves linear equations on the GPU (LAPACK)", computed=["torch"])
def lapack():
    torch = torch_on_gpu()
    torch.manual_seed(1)
    a, x = torch.randn(96, 96), torch.randn(96, 3)
    a += 96 * torch.eye(96)
    close(torch.linalg.solve(a.cuda(), (a @ x).cuda()), x, 1e-3)


@check("torch's backends for attention agree", computed=["torch"])
def attention():
    torch = torch_on_gpu()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(1)
    query, key, value = (torch.randn(2, 4, 130, 64, dtype=torch.float32) for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention
    expected = attend(query.double(), key.double(), value.double(), is_causal=True)
    inputs = [one.to("cuda", torch.float16) for one in (query, key, value)]
    refused = []
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        try:
            with sdpa_kernel(backend):
                found = attend(*inputs, is_causal=True)
        except RuntimeError as error:
            if "No available kernel" not in str(error):
                raise
            refused.append(backend.name)
            continue
        close(found, expected, 2e-2)
    assert not refused, f"torch has no kernel for {', '.join(refused)}"


@check("Triton compiles a kernel for the GPU", computed=["torch", "triton"])
def triton_kernel():
    torch = torch_on_gpu()
    module("triton")
    from . import triton_add

    a, b = torch.randn(10_001, device="cuda"), torch.randn(10_001, device="cuda")
    close(triton_add.add(a, b), a + b, 1e-6)


@check("flash-attn computes what torch computes", computed=["torch", "flash_attn"])
def flash_attention():
    torch = torch_on_gpu()
    os.environ.setdefault("FLASH_ATTENTION_TRITON_AMD_ENABLE", "TRUE")
    flash = module("flash_attn")
    torch.manual_seed(1)
    inputs = [torch.randn(2, 96, 4, 64, device="cuda", dtype=torch.float16) for _ in range(3)]
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(one.double().cpu().transpose(1, 2) for one in inputs), is_causal=True
    )
    close(flash.flash_attn_func(*inputs, causal=True), expected.transpose(1, 2), 2e-2)


def in_one_process(*modules):
    """Imports modules in a new process, which must end normally and load each library once."""
    for name in modules:
        if importlib.util.find_spec(name) is None:
            raise NotRun(f"the Python module {name} is not installed")
    code = (
        f"import {', '.join(modules)}, re\n"
        "maps = open('/proc/self/maps').read()\n"
        "found = set(re.findall(r'/\\S*/libamd_smi\\.so[^\\s]*', maps))\n"
        "assert len(found) < 2, f'two copies of libamd_smi: {sorted(found)}'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise AssertionError(f"{how}: {last}")


@check("torch, then amdsmi, in one process")
def torch_amdsmi():
    in_one_process("torch", "amdsmi")


@check("amdsmi, then torch, in one process")
def amdsmi_torch():
    in_one_process("amdsmi", "torch")


@contextlib.contextmanager
def server(command, log):
    with open(log, "wb") as out:
        running = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield running
        finally:
            running.terminate()
            try:
                running.wait(30)
            except subprocess.TimeoutExpired:
                running.kill()


@check("vllm serve completes a text, with a model of random weights", computed=["torch", "vllm"])
def vllm_serve():
    vllm = program("vllm")
    torch_on_gpu()
    with tempfile.TemporaryDirectory() as folder:
        random_llama.write(pathlib.Path(folder, "model"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        log = pathlib.Path(folder, "log")
        options = ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", "64", "--enforce-eager"]
        command = [vllm, "serve", f"{folder}/model", *options, "--gpu-memory-utilization", "0.3"]
        with server(command, log) as running:
            body = {"model": f"{folder}/model", "prompt": "a b c", "max_tokens": 4, "temperature": 0}
            answer = complete(f"http://127.0.0.1:{port}/v1/completions", body, running, log)
    assert answer["choices"][0]["text"] != "", answer
    assert answer["usage"]["completion_tokens"] == 4, answer


def complete(url, body, running, log):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        if running.poll() is not None:
            last = log.read_text(errors="replace").strip().splitlines() or ["no message"]
            raise AssertionError(f"the server ended with {running.returncode}: {last[-1]}")
        try:
            return json.load(opener.open(request, timeout=300))
        except ConnectionError:
            pass
        except urllib.error.URLError as error:
            if isinstance(error, urllib.error.HTTPError):
                raise AssertionError(f"{error}: {error.read().decode(errors='replace')}") from None
        time.sleep(1)


def llama_bench(*more):
    bench = program("llama-bench")
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder, "random.gguf")
        random_gguf.write(model)
        command = [bench, "-m", str(model), "-p", "64", "-n", "32", "-r", "3", "-o", "json", *more]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise AssertionError(f"llama-bench ended with {done.returncode}: {last}")
    return json.loads(done.stdout)


@check("llama.cpp computes with a model of random weights on the CPU")
def llama_cpu():
    llama_bench("-ngl", "0")


@check("llama.cpp computes with a model of random weights on the GPU", computed=["llama-bench"])
def llama_gpu():
    program("llama-bench")
    require_gpu()
    used = {run["backends"] for run in llama_bench("-ngl", "99")}
    assert used == {"ROCm"}, f"llama.cpp computed with {', '.join(sorted(used))}"


@check("speed of llama.cpp with a small model of random weights", bench=True)
def bench_llama():
    names = {True: "prompt", False: "generation"}
    return {names[run["n_prompt"] > 0]: (run["avg_ts"], "tokens/s", "more") for run in llama_bench()}


@check("speed of matrix multiplication on the GPU", bench=True)
def bench_matmul():
    torch = torch_on_gpu()
    size = 4096
    found = {}
    for kind in (torch.float32, torch.float16, torch.bfloat16):
        a, b = (torch.randn(size, size, device="cuda").to(kind) for _ in range(2))
        rate = 2 * size**3 / seconds_of(torch, lambda: a @ b) / 1e12
        found[str(kind).removeprefix("torch.")] = (rate, "TFLOP/s", "more")
    return found


@check("speed of memory on the GPU", bench=True)
def bench_memory():
    torch = torch_on_gpu()
    a = torch.zeros(1 << 26, device="cuda")
    b = torch.empty_like(a)
    rate = 2 * a.nbytes / seconds_of(torch, lambda: b.copy_(a)) / 1e9
    return {"copy": (rate, "GB/s", "more")}


@check("speed of attention on the GPU", bench=True)
def bench_attention():
    torch = torch_on_gpu()
    inputs = [torch.randn(1, 32, 2048, 128, device="cuda", dtype=torch.float16) for _ in range(3)]
    attend = torch.nn.functional.scaled_dot_product_attention
    taken = seconds_of(torch, lambda: attend(*inputs, is_causal=True))
    return {"causal": (taken * 1e3, "ms", "less")}


@check("speed of matrix multiplication on the CPU", bench=True)
def bench_cpu_matmul():
    torch = module("torch")
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    times = []
    for _ in range(10):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return {"float32": (2 * 512**3 / min(times) / 1e9, "GFLOP/s", "more")}
