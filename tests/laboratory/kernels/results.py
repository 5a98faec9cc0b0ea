"""Results of compiled kernels: one JSON line each."""

import hashlib
import json

# A workgroup of RDNA 3.5 has 64 KiB of LDS. Triton refuses to launch a kernel that needs more.
LDS_BYTES = 64 * 1024


class Results:
    """Appends results to a file, and knows those of earlier runs."""

    def __init__(self, path):
        self.path = path
        self.rows = []
        if path.exists():
            self.rows = [json.loads(line) for line in path.read_text().splitlines()]
        self.keys = {row["key"] for row in self.rows}

    def add(self, **row):
        self.rows.append(row)
        self.keys.add(row["key"])
        with self.path.open("a") as file:
            file.write(json.dumps(row, sort_keys=True) + "\n")


def metadata_number(code, key):
    """Returns a number of the kernel's metadata, which is MessagePack in an ELF note.

    Source: LLVM, AMDGPUUsage, "Code Object V3 Metadata".
    """
    key = bytes([0xA0 | len(key)]) + key.encode()
    at = code.find(key)
    if at < 0:
        return None
    at += len(key)
    if code[at] < 0x80:
        return code[at]
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4}[code[at]]
    return int.from_bytes(code[at + 1 : at + 1 + size], "big")


def describe(code, shared):
    """Returns what the code object needs; `shared` is its LDS in bytes, as Triton asks for it."""
    return {
        "size": len(code),
        "vgprs": metadata_number(code, ".vgpr_count"),
        "spilled": metadata_number(code, ".vgpr_spill_count"),
        "scratch": metadata_number(code, ".private_segment_fixed_size"),
        "lds": shared,
        "sha256": hashlib.sha256(code).hexdigest(),
    }


def first_line(kind, text, messages):
    """Returns the kind of an error and one line: of the compiler's messages, or of its text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # An error in the source ends with its reason, after the place. Others start with it.
    line = lines[-1] if lines and ":\n" in text else (lines or [""])[0]
    for message in messages.splitlines() if kind != "Timeout" else ():
        # `Failures ... pass pipeline` follows any reason.
        starts = [message.find(word) for word in ("error: ", "Assertion `", "LLVM ERROR: ")]
        starts = [start for start in starts if start >= 0]
        if starts and "pass pipeline" not in message:
            line = message[min(starts) :]
            break
    return f"{kind}: {line}"[:300]


def tree_digest(folder, suffix):
    """Returns a digest of the names and contents of files."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*" + suffix)):
        digest.update(f"{path.relative_to(folder)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def digest(value):
    """Returns a short digest of what `value` shows as text."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


def file_name(key):
    """Returns `key` short enough for a file system, with its digest at the end."""
    return key if len(key) < 150 else f"{key[:130]}-{digest(key)}"
