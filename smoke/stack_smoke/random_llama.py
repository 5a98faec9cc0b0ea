# SPDX-License-Identifier: MIT
"""Writes a Llama model of random weights as a folder that Hugging Face's transformers reads.

Sources of the formats: huggingface/safetensors, README.md, "Format"; transformers, configuration_llama.py
and modeling_llama.py, for the names; huggingface/tokenizers, for tokenizer.json.
"""

import json
import math
import random
import string
import struct

HIDDEN, FEED_FORWARD, HEADS, LAYERS, CONTEXT = 128, 256, 2, 2, 128
VOCABULARY = ["<unk>", "<s>", "</s>", *string.ascii_lowercase]

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": FEED_FORWARD,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "max_position_embeddings": CONTEXT,
    "vocab_size": len(VOCABULARY),
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}

# Each letter is a token.
TOKENIZER = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
        {
            "id": number,
            "content": VOCABULARY[number],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number in range(3)
    ],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {
        "type": "WordLevel",
        "vocab": {token: number for number, token in enumerate(VOCABULARY)},
        "unk_token": "<unk>",
    },
}

SETTINGS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "model_max_length": CONTEXT,
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": "</s>",
}


def shapes():
    """Yields the name and the shape of each tensor."""
    yield "model.embed_tokens.weight", (len(VOCABULARY), HIDDEN)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (len(VOCABULARY), HIDDEN)
    for layer in range(LAYERS):
        start = f"model.layers.{layer}"
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{start}.{name}.weight", (HIDDEN,)
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            yield f"{start}.self_attn.{name}.weight", (HIDDEN, HIDDEN)
        for name in ("gate_proj", "up_proj"):
            yield f"{start}.mlp.{name}.weight", (FEED_FORWARD, HIDDEN)
        yield f"{start}.mlp.down_proj.weight", (HIDDEN, FEED_FORWARD)


def weights():
    """Returns the file of the weights, in safetensors' format."""
    generator = random.Random(3)
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, shape in shapes():
        if len(shape) == 1:
            values = [1.0] * shape[0]
        else:
            values = [generator.gauss(0, 1 / math.sqrt(shape[1])) for _ in range(math.prod(shape))]
        packed = struct.pack(f"<{len(values)}e", *values)
        place = [len(data), len(data) + len(packed)]
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": place}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def write(folder):
    """Writes the model to a folder."""
    folder.mkdir(parents=True)
    for name, value in (("config", CONFIG), ("tokenizer", TOKENIZER), ("tokenizer_config", SETTINGS)):
        (folder / f"{name}.json").write_text(json.dumps(value, indent=1))
    (folder / "model.safetensors").write_bytes(weights())
