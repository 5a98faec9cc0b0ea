"""Compiles a sample of AOTriton's kernels with the commands of its configured build.

AOTriton's CMake files write one line per kernel to `v3src/Bare.compile`. The sample has the same
number of kernels of each function, spread evenly over the lines.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

import results

# The fields of a line, in the order of v3src/CMakeLists.txt, foreach(RULE).
FIELDS = "environment python output source kernel warps stages waves target signature".split()
# The slowest of AOTriton's kernels take minutes if the compiler gets lost in them.
TIMEOUT_SECONDS = 900


def sample(rules, count):
    """Returns about `count` of `rules`, equally many of each kernel as far as there are enough."""
    kinds = collections.defaultdict(list)
    for rule in rules:
        kinds[rule["kernel"]].append(rule)
    chosen = []
    # Kinds with few kernels first: the others get what those leave.
    for left, (_, of_kind) in zip(
        range(len(kinds), 0, -1), sorted(kinds.items(), key=lambda kind: (len(kind[1]), kind[0]))
    ):
        share = min(len(of_kind), -(-(count - len(chosen)) // left))
        chosen += [of_kind[(2 * number + 1) * len(of_kind) // (2 * share)] for number in range(share)]
    return chosen


def compile_rule(rule, compiler, out):
    output = out / pathlib.Path(rule["output"]).name
    # The JSON beside the output has the same name: both have to end in one suffix.
    environment = {
        **os.environ,
        "TRITON_CACHE_DIR": str(out / "cache"),
        "TRITON_F32_DEFAULT": "ieee",
        "TRITON_STORE_BINARY_ONLY": "1",
    }
    command = [rule["python"], compiler, rule["source"], "--kernel_name", rule["kernel"]]
    command += ["-o", output, "-g", "1,1,1", "--num_warps", rule["warps"]]
    command += ["--num_stages", rule["stages"], "--waves_per_eu", rule["waves"]]
    command += ["--target", rule["target"], "--signature", rule["signature"], "--timeout", "0"]
    start = time.monotonic()
    row = {"key": output.name, "kernel": rule["kernel"]}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
        error = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        if done.returncode == 0:
            error = []
    except subprocess.TimeoutExpired:
        error = [f"no result after {TIMEOUT_SECONDS} seconds"]
    row["seconds"] = round(time.monotonic() - start, 2)
    if error:
        return {**row, "error": error[0][:300]}
    metadata = json.loads(output.with_suffix(".json").read_text())
    row["file"] = output.name
    return {**row, **results.describe(output.read_bytes(), metadata["shared"])}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=240)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    lines = (options.build / "v3src/Bare.compile").read_text().splitlines()
    rules = [dict(zip(FIELDS, line.split(";", len(FIELDS) - 1), strict=True)) for line in lines]
    options.out.mkdir(parents=True, exist_ok=True)
    done = results.Results(options.out / "results.jsonl")
    chosen = sample(rules, options.count)
    todo = [rule for rule in chosen if pathlib.Path(rule["output"]).name not in done.keys]
    print(f"{len(rules)} kernels in the build, {len(chosen)} in the sample, {len(todo)} to compile")
    compiler = options.source / "v3python/compile.py"
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = [pool.submit(compile_rule, rule, compiler, options.out) for rule in todo]
        for run in concurrent.futures.as_completed(runs):
            row = run.result()
            done.add(**row)
            print(row["seconds"], row["key"], row.get("error", ""), flush=True)


if __name__ == "__main__":
    sys.exit(main())
