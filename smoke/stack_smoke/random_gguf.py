# SPDX-License-Identifier: MIT
"""Writes a model of random weights in llama.cpp's file format, to test programs without a download.

usage: random_gguf.py FILE

Source of the format: llama.cpp, gguf-py/gguf/constants.py and gguf_writer.py; of the names of
metadata and tensors of a Llama model: src/llama-arch.cpp.
"""

import math
import pathlib
import random
import string
import struct
import sys

UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9
F32, F16 = 0, 1
ALIGNMENT = 32
# The vocabulary and its types of tokens. llama.cpp writes a blank as U+2581.
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
VOCABULARY = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL, "<0x0A>": BYTE}
VOCABULARY |= {letter: NORMAL for letter in "\u2581" + string.ascii_lowercase}
EMBEDDING, FEED_FORWARD, HEADS, LAYERS, CONTEXT = 256, 512, 4, 2, 128


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def array(kind, values):
    packed = map(text, values) if kind == STRING else (struct.pack("<f" if kind == FLOAT32 else "<i", v) for v in values)
    return struct.pack("<IIQ", ARRAY, kind, len(values)) + b"".join(packed)


def metadata():
    """Returns each field of the metadata in the file's form."""
    numbers = {
        "llama.context_length": CONTEXT,
        "llama.embedding_length": EMBEDDING,
        "llama.feed_forward_length": FEED_FORWARD,
        "llama.block_count": LAYERS,
        "llama.attention.head_count": HEADS,
        "llama.rope.dimension_count": EMBEDDING // HEADS,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
    fields = {name: struct.pack("<II", UINT32, value) for name, value in numbers.items()}
    for name, value in {"general.architecture": "llama", "general.name": "random", "tokenizer.ggml.model": "llama"}.items():
        fields[name] = struct.pack("<I", STRING) + text(value)
    fields["llama.attention.layer_norm_rms_epsilon"] = struct.pack("<If", FLOAT32, 1e-5)
    fields["tokenizer.ggml.tokens"] = array(STRING, VOCABULARY)
    fields["tokenizer.ggml.scores"] = array(FLOAT32, [0.0] * len(VOCABULARY))
    fields["tokenizer.ggml.token_type"] = array(INT32, VOCABULARY.values())
    return fields


def tensors():
    """Yields the name and the shape of each tensor; the first number is that of a row's values."""
    yield "token_embd.weight", [EMBEDDING, len(VOCABULARY)]
    yield "output_norm.weight", [EMBEDDING]
    yield "output.weight", [EMBEDDING, len(VOCABULARY)]
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", [EMBEDDING]
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{layer}.{name}.weight", [EMBEDDING, EMBEDDING]
        for name in ("ffn_gate", "ffn_up"):
            yield f"blk.{layer}.{name}.weight", [EMBEDDING, FEED_FORWARD]
        yield f"blk.{layer}.ffn_down.weight", [FEED_FORWARD, EMBEDDING]


def padded(data):
    return data + bytes(-len(data) % ALIGNMENT)


def write(path):
    """Writes the model."""
    # With this seed, the most likely next letter is never only slightly more likely than the next.
    generator = random.Random(3)
    fields = metadata()
    infos, data = [], b""
    for name, shape in tensors():
        matrix = len(shape) == 2
        infos.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, F16 if matrix else F32, len(data)))
        if matrix:
            # Values keep their size from layer to layer.
            values = [generator.gauss(0, 1 / math.sqrt(shape[0])) for _ in range(math.prod(shape))]
            data += padded(struct.pack(f"<{len(values)}e", *values))
        else:
            data += padded(struct.pack(f"<{shape[0]}f", *[1.0] * shape[0]))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(fields))
    head += b"".join(text(name) + value for name, value in fields.items()) + b"".join(infos)
    pathlib.Path(path).write_bytes(padded(head) + data)


if __name__ == "__main__":
    write(sys.argv[1])
