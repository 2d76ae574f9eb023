#!/usr/bin/python3
"""Whole denoising steps of dllm and of llama.cpp on the same file, one after the other: a table with ratios.

    tests/peers/speed.py --model MODEL.gguf --lengths 64,160,256 --threads 2
    tests/peers/speed.py --model MODEL.gguf --isa avx2 --llama-cpp BUILD SOURCE
    tests/peers/speed.py --model MODEL.gguf --isa avx2 --timer PROGRAM        # llamacpp_step, built before

A step of dllm is what `dllm run --full-logits` reports: the forward with every row of the canvas scored, the statistics
and the decoding rule. A step of llama.cpp is its forward with every row's logits, nothing more. Both
are medians after a first step that is not counted. Build llama.cpp for the same instructions (for avx2:
GGML_NATIVE=OFF with GGML_AVX2, GGML_FMA and GGML_F16C on) and have the file in the page cache.
Uses build/release/bin/dllm, or what DLLM_BINARY names.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from llamacpp import build_program                    # noqa: E402

DLLM = os.environ.get("DLLM_BINARY", str(HERE.parents[1] / "build" / "release" / "bin" / "dllm"))
MIB = 2**20


def run(command):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{Path(str(command[0])).name} ended with status {done.returncode}:\n"
                 f"{done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout.decode()


def prompt_length(model):
    """Tokens that an empty, bare prompt has: none, or the begin token."""
    return len(json.loads(run([DLLM, "tokenize", "-m", model, "-p", "", "--no-chat", "--json"]))["ids"])


def dllm_steps(model, length, threads, repeats, backend_options):
    """Median, least and largest milliseconds of a step; the report of the run."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as stats:
        command = [DLLM, "run", "-m", model, "-p", "", "--no-chat", "-n", length - prompt_length(model),
                   "--steps", repeats + 1, "--ignore-eos", "--full-logits", "--seed", 1, "--json",
                   "--threads", threads, "--backend", "cpu", "--dump-step-stats", stats.name]
        for option in backend_options:
            command += ["--backend-set", option]
        report = json.loads(run(command + block_option(model, length)))
        lines = Path(stats.name).read_text().splitlines()
    times = [step["ms"] for step in map(json.loads, lines) if step["forward"]][1:]
    return (statistics.median(times), min(times), max(times)), report


def block_option(model, length):
    """LLaDA's rule wants the generated part in one block, or it takes a step for each."""
    architecture = json.loads(run([DLLM, "inspect", model, "--json"]))["metadata"]["general.architecture"]
    return ["--block-length", length - prompt_length(model)] if architecture == "llada" else []


def peer_steps(program, model, lengths, threads, repeats):
    """The JSON lines of llamacpp_step: the load, then one for each length."""
    output = run([program, model, threads, ",".join(map(str, lengths)), repeats])
    load, *steps = map(json.loads, output.splitlines())
    return load, {step["length"]: step for step in steps}


def spread(median, least, most):
    return f"{median:,.0f} ({least:,.0f}-{most:,.0f})"


def compare(arguments, program):
    rows, loads = [], []
    peer_load, peer = peer_steps(program, arguments.model, arguments.lengths, arguments.threads,
                                 arguments.repeats) if program else (None, {})
    for length in arguments.lengths:
        options = [f"isa={arguments.isa}", *arguments.set]
        times, report = dllm_steps(arguments.model, length, arguments.threads, arguments.repeats, options)
        loads.append((report["timings_ms"]["load"], report["peak_memory_bytes"] / MIB))
        step = peer.get(length)
        theirs = spread(step["median_ms"], step["min_ms"], step["max_ms"]) if step else ""
        ratio = f"{step['median_ms'] / times[0]:.2f}" if step else ""
        rows.append(f"| {length} | {spread(*times)} | {theirs} | {ratio} |")
    print(f"{report['model']}, {report['device']}, {arguments.threads} threads, ms a step\n")
    print("\n".join(["| canvas | dllm | llama.cpp | ratio |", "|---|---|---|---|", *rows]), "\n")
    print(f"dllm: load {min(ms for ms, _ in loads):,.0f} ms, peak {max(mib for _, mib in loads):,.0f} MiB")
    if peer_load:
        peak = max(step["peak_mib"] for step in peer.values())
        print(f"llama.cpp ({peer_load['isa']}): load {peer_load['load_ms']:,.0f} ms, peak {peak:,.0f} MiB")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")], default=[160])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--isa", default="auto", help="of dllm's CPU backend; auto: the best")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="backend option")
    parser.add_argument("--llama-cpp", nargs=2, metavar=("BUILD", "SOURCE"))
    parser.add_argument("--timer", help="llamacpp_step as compiled before")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        program = arguments.timer
        if arguments.llama_cpp:
            program = build_program("llamacpp_step.cpp", *arguments.llama_cpp, folder)
        compare(arguments, program)


if __name__ == "__main__":
    main()
