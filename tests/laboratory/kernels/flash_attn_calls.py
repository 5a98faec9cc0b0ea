"""Calls of flash-attn's Triton kernels that its tests do not cover, or not in the source."""

import importlib

import pytest
import torch

DTYPES = [torch.float16, torch.bfloat16]


def values(*shape, dtype=torch.float16):
    return torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [512, 1536, 4096])
@pytest.mark.parametrize("rms", [False, True])
def test_layer_norm(dtype, width, rms):
    from flash_attn.ops.triton.layer_norm import layer_norm_fn

    x, residual = values(8, width, dtype=dtype), values(8, width, dtype=dtype)
    out = layer_norm_fn(
        x, values(width), values(width), residual=residual, is_rms_norm=rms, prenorm=False
    )
    out.sum().backward()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.9])
def test_cross_entropy(dtype, smoothing):
    from flash_attn.ops.triton.cross_entropy import cross_entropy_loss

    labels = torch.randint(0, 1000, (16,), device="cuda")
    losses, _ = cross_entropy_loss(
        values(16, 1000, dtype=dtype), labels, label_smoothing=smoothing
    )
    losses.sum().backward()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ["id", "gelu", "gelu_approx", "squared_relu"])
def test_linear(dtype, activation):
    from flash_attn.ops.triton.linear import triton_dgrad_act, triton_linear_act

    x, weight = values(256, 512, dtype=dtype), values(1024, 512, dtype=dtype)
    bias = values(1024, dtype=dtype)
    out, act_input = triton_linear_act(x, weight, bias, activation, save_act_input=True)
    if activation != "id":
        triton_dgrad_act(out, weight, activation, act_input=values(256, 512, dtype=dtype))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("varlen", [False, True])
@pytest.mark.parametrize("mode", ["split", "fused", "jingning"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_backward(monkeypatch, causal, varlen, mode, dtype):
    """Each of the implementations of the backward pass; an environment variable selects one."""
    import flash_attn
    from flash_attn.flash_attn_triton_amd import interface_fa

    if not hasattr(interface_fa, "BWD_MODE"):
        pytest.skip("this version has one implementation")
    monkeypatch.setattr(interface_fa, "BWD_MODE", mode)
    if varlen:
        lengths = torch.tensor([0, 64, 256], dtype=torch.int32, device="cuda")
        q, k, v = (values(256, 4, 64, dtype=dtype) for _ in range(3))
        out = flash_attn.flash_attn_varlen_func(
            q, k, v, lengths, lengths, 192, 192, dropout_p=0.0, causal=causal
        )
    else:
        q, k, v = (values(2, 256, 4, 64, dtype=dtype) for _ in range(3))
        out = flash_attn.flash_attn_func(q, k, v, dropout_p=0.0, causal=causal)
    out.sum().backward()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_fused_module(causal, fused):
    """Functions of the module that the interface does not call, or not with these values."""
    from flash_attn.flash_attn_triton_amd import bwd_prefill_fused as module

    q, k, v, out, grad, dq, dk, dv = (values(2, 256, 4, 64).detach() for _ in range(8))
    module._flash_attn_forward(
        q, k, v, 0.0, 0.125, causal, -1, -1, None, True, False, 256, 256
    )  # fmt: skip
    lse = torch.zeros(2, 4, 256, device="cuda")
    module._flash_attn_backward(
        grad, q, k, v, out, lse, dq, dk, dv, 0.125, None, causal, None, None, 256, 256, 0.0,
        fused=fused,
    )  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
def test_first_backward(causal):
    """An implementation that the interface imports and does not call."""
    from flash_attn.flash_attn_triton_amd.bwd_prefill import attention_prefill_backward_triton_impl

    q, k, v, out, grad, dq, dk, dv = (values(2, 256, 4, 64).detach() for _ in range(8))
    lse = torch.zeros(2, 4, 256, device="cuda")
    attention_prefill_backward_triton_impl(
        grad, q, k, v, out, lse, dq, dk, dv, 0.125, None, causal, "bshd", None, None, 256, 256,
        0.0, None, None, False,
    )  # fmt: skip


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e4m3fnuz])
def test_cast_to_fp8(kind):
    from flash_attn.flash_attn_triton_amd.utils import cast_to_fp8

    lengths = torch.tensor([0, 64, 256], dtype=torch.int32, device="cuda")
    cast_to_fp8(values(256, 4, 64).detach(), kind, "thd", cu_seqlens=lengths, max_seqlen=192)


@pytest.mark.parametrize("module", ["flash_attn_triton", "flash_attn_triton_og"])
def test_older_implementations(module):
    """Modules that nothing in the package imports."""
    loaded = importlib.import_module(f"flash_attn.{module}")
    if module == "flash_attn_triton":
        q, k, v = (values(2, 256, 4, 64) for _ in range(3))
        loaded.flash_attn_func(q, k, v, None, True, 0.125).sum().backward()
    else:
        q, k, v = (values(2, 4, 256, 64) for _ in range(3))
        loaded.attention(q, k, v, 0.125).sum().backward()
