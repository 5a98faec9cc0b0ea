"""Calls of triton_kernels' kernels that its tests launch only on more than one GPU, or not at all."""

import types

import pytest
import torch

RANKS, TOKENS, EXPERTS, WIDTH, CHOSEN = 2, 64, 64, 512, 4


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_topk_backward(softmax, dtype):
    from triton_kernels.topk import topk_backward

    x = torch.randn(TOKENS, EXPERTS, device="cuda", dtype=dtype)
    chosen = torch.zeros(TOKENS, CHOSEN, device="cuda", dtype=torch.int16)
    topk_backward(x, chosen, torch.randn(TOKENS, CHOSEN, device="cuda"), CHOSEN, None, softmax)


@pytest.mark.parametrize("direction", ["dp_to_ep", "ep_to_dp"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_exchange(monkeypatch, direction, dtype):
    from triton_kernels import distributed

    memory = types.SimpleNamespace(
        make_empty=lambda region, shape, dtype: [torch.empty(shape, dtype=dtype)] * RANKS,
        hdl=types.SimpleNamespace(barrier=lambda channel: None),
    )
    monkeypatch.setattr(distributed, "symm_mem_pool", memory)
    monkeypatch.setattr(distributed.dist, "get_rank", lambda: 0)
    monkeypatch.setattr(distributed.dist, "get_world_size", lambda: RANKS)
    words = torch.zeros(RANKS, EXPERTS // 32, dtype=torch.int32, device="cuda")
    experts = types.SimpleNamespace(expt_bitmask=words)
    chosen = torch.zeros(RANKS * TOKENS, CHOSEN, dtype=torch.int32, device="cuda")
    if direction == "dp_to_ep":
        source = torch.randn(TOKENS, WIDTH, dtype=dtype, device="cuda")
        distributed.convert_dp_to_ep(source, experts, chosen, chosen)
    else:
        source = torch.randn(RANKS * TOKENS * CHOSEN, WIDTH, dtype=dtype, device="cuda")
        distributed.convert_ep_to_dp(source, experts, chosen.flatten(), chosen.flatten())
