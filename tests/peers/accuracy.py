#!/usr/bin/python3
"""Relative error of logits against a float64 forward, by weight type: dllm's modes and other runtimes.

    tests/peers/accuracy.py                               # dllm alone
    tests/peers/accuracy.py --llama-cpp BUILD SOURCE      # with llama.cpp (target llama built in BUILD)
    tests/peers/accuracy.py --runtime 'NAME=COMMAND'      # with anything that can write logits
    tests/peers/accuracy.py --llama-cpp BUILD SOURCE --record   # renew llamacpp_accuracy.json
    tests/peers/accuracy.py --backend cuda --jobs 12 --runtime 'llama.cpp=COMMAND'   # on a GPU
    tests/peers/accuracy.py --backend cuda --backend-set products=mixed              # and with that option

COMMAND is a shell line with {model}, {ids} (comma-separated) and {out}; it leaves raw little-endian f32 or
a NumPy file [tokens, vocabulary] there, one row per token, before any shift. The error of a model is
the root mean square of (logits - float64 logits) over the deviation of the float64 logits; a
cell of the table is the root mean square over LLaDA and Dream. Models: accuracy_models.py. Without --llama-cpp the table shows
llama.cpp's recorded figures. Uses build/release/bin/dllm, or what DLLM_BINARY names.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from accuracy_models import ROWS, FileCase, cases     # noqa: E402
from llamacpp import build_program                    # noqa: E402
from reference_forward import ReferenceModel          # noqa: E402

DLLM = os.environ.get("DLLM_BINARY", str(HERE.parents[1] / "build" / "release" / "bin" / "dllm"))
RECORD = HERE / "llamacpp_accuracy.json"
PEER = "llama.cpp"


def relative_error(got, want):
    return float(np.sqrt(np.mean((got - want) ** 2)) / want.std())


def read_logits(path, n_rows):
    if Path(path).read_bytes()[:6] == b"\x93NUMPY":
        return np.load(path).astype(np.float64)
    return np.fromfile(path, "<f4").reshape(n_rows, -1).astype(np.float64)


def dllm_command(backend, *settings):
    """The shell line of dllm with this backend and its options, OPTION=VALUE each."""
    line = f"'{DLLM}' logits -m {{model}} --tokens {{ids}} --out {{out}} --backend {backend}"
    return " ".join([line, *(f"--backend-set {each}" for each in settings)])


def dllm_modes():
    """The choices of the CPU backend's option `products`, the default first."""
    listing = json.loads(subprocess.run([DLLM, "plugins", "--json"], check=True,
                                        stdout=subprocess.PIPE).stdout)
    for plugin in listing["plugins"]:
        for option in plugin.get("options", []):
            if (plugin["kind"], plugin["id"], option["name"]) == ("backend", "cpu", "products"):
                default = option["default"]
                return [default] + [mode for mode in option["range"].split(" | ") if mode != default]
    sys.exit(f"{DLLM} has no CPU backend with an option `products`")


def measure(case, runtimes, folder):
    """runtime -> error of this model."""
    model, out = (f"{folder}/{case.name.replace('/', '-')}.{kind}" for kind in ("gguf", "npy"))
    model = case.write(model)
    reference = ReferenceModel(model)
    ids = case.ids(len(reference.tensors["token_embd.weight"]))
    want, errors = reference.logits(ids), {}
    for name, command in runtimes.items():
        Path(out).unlink(missing_ok=True)
        line = command.format(model=model, ids=",".join(map(str, ids)), out=out)
        done = subprocess.run(line, shell=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            sys.exit(f"{name} ended with status {done.returncode} on {case.name}:\n"
                     f"{done.stderr.decode(errors='replace')[-2000:]}")
        errors[name] = relative_error(read_logits(out, len(ids)), want)
    case.discard(model)
    return errors


def measure_all(runtimes, chosen=None, jobs=1):
    """case name -> runtime -> error."""
    chosen = chosen or cases()
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(jobs) as pool:
        pending = [pool.submit(measure, case, runtimes, folder) for case in chosen]
        return {case.name: each.result() for case, each in zip(chosen, pending)}


def root_mean_square(values):
    return float(np.sqrt(np.mean(np.square(values))))


def by_group_and_kind(results):
    """(group, type) -> runtime -> error over both families."""
    cells = {}
    for name, errors in results.items():
        group, _, kind = name.split("/")
        for runtime, error in errors.items():
            cells.setdefault((group, kind), {}).setdefault(runtime, []).append(error)
    return {key: {runtime: root_mean_square(errors) for runtime, errors in cell.items()}
            for key, cell in cells.items()}


def percent(value):
    return "" if value is None else f"{100 * value:.2f}" if value >= 1e-4 else f"{100 * value:.5f}"


def table(results):
    cells = by_group_and_kind(results)
    runtimes = list(dict.fromkeys(runtime for cell in cells.values() for runtime in cell))
    kinds = list(dict.fromkeys(kind for _, kind in cells))
    groups = list(dict.fromkeys(group for group, _ in cells))
    lines = ["| type | " + " | ".join(f"{group}: {name}" for group in groups for name in runtimes) + " |",
             "|---|" + "---|" * (len(groups) * len(runtimes))]
    for kind in kinds:
        row = [percent(cells.get((group, kind), {}).get(name)) for group in groups for name in runtimes]
        lines.append(f"| {kind} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--llama-cpp", nargs=2, metavar=("BUILD", "SOURCE"))
    parser.add_argument("--runtime", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--backend", default="cpu", help="dllm's; one column where it is not cpu")
    parser.add_argument("--backend-set", action="append", default=[], metavar="OPTION=VALUE",
                        help="another column: that backend with this option")
    parser.add_argument("--jobs", type=int, default=1, help="models measured at once")
    parser.add_argument("--only", default="", help="models whose name starts so: outliers, trained/llada")
    parser.add_argument("--types", default="", help="of models, comma-separated: Q4_K,F16, or Q4_K_M; all but mixes")
    parser.add_argument("--seeds", type=int, default=1, help="made-up models of each set, type and family")
    parser.add_argument("--model", action="append", default=[], help="a GGUF file instead of the table's models")
    parser.add_argument("--modes", help="comma-separated; all that the backend has")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    parser.add_argument("--json", action="store_true", help="errors of every model instead of the table")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        runtimes = {}
        if arguments.llama_cpp:
            program = build_program("llamacpp_logits.cpp", *arguments.llama_cpp, folder)
            runtimes[PEER] = f"'{program}' {{model}} {{ids}} > {{out}}"
        runtimes.update(each.split("=", 1) for each in arguments.runtime)
        if arguments.backend == "cpu":
            modes = arguments.modes.split(",") if arguments.modes else dllm_modes()
            runtimes.update({mode: dllm_command("cpu", f"products={mode}") for mode in modes})
        else:
            runtimes[arguments.backend] = dllm_command(arguments.backend)
        runtimes.update({f"{arguments.backend} {each}": dllm_command(arguments.backend, each)
                         for each in arguments.backend_set})
        chosen = [FileCase(path) for path in arguments.model] or \
            [case for case in cases(arguments.types.split(",") if arguments.types else ROWS, arguments.seeds)
             if case.name.startswith(arguments.only)]
        results = measure_all(runtimes, chosen, arguments.jobs)
    if arguments.record:
        figures = {name: float(f"{errors[PEER]:.4g}") for name, errors in results.items()}
        RECORD.write_text(json.dumps(figures, indent=1) + "\n")
    if arguments.backend == "cpu" and not arguments.llama_cpp and RECORD.exists():
        record = json.loads(RECORD.read_text())
        results = {name: ({PEER: record[name]} if name in record else {}) | errors
                   for name, errors in results.items()}
    print(json.dumps(results, indent=1) if arguments.json or arguments.model else table(results))


if __name__ == "__main__":
    main()
