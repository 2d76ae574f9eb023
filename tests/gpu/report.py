#!/usr/bin/env python3
"""Tests and measurements on a machine with a GPU, as one JSON file.

  tests/gpu/report.py --build build/release --model llada-8b.gguf --out result.json [--compile]

Figures of docs/cuda-performance.md and docs/cuda-backend.md that name such a file (tests/gpu/results) come from it. It holds the
commit, the driver, the GPU, what each test did, load and step times by canvas with their stages
(gpu_steps), and what `dllm run -n 128 --steps 32` reports. On request:

  --sanitizer NAME   (repeatable) the tests under compute-sanitizer, --shards of them at once
  --raw-logits       whole logits against the statistics of the same rows (tests/samplers/raw_logits_run_test.py)
  --set OPTION=VALUE (repeatable) steps, runs and accuracy once more with that option of the backend
  --peer NAME=COMMAND  another runtime's times beside ours: COMMAND, with {model}, writes JSON lines
  --greedy           greedy texts of the demo models against the CPU's (greedy.py)
  --accuracy         errors of the logits against float64 (tests/peers/accuracy.py); another runtime beside
                     ours with --runtime 'NAME=COMMAND'

--no-tests leaves the tests and times out. `--compile` configures and builds first; without it the
build folder may come from another machine.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from greedy import compare_texts

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ["dllm", "backend_cuda_test", "gpu_steps", "backend_cuda", "backend_cpu", "model_llada",
           "model_dream", "sampler_llada", "sampler_dream", "sampler_nsigma", "raw_logits_witness"]


def run(command, timeout, **options):
    """stdout of a command; None and a line on standard error where it fails."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              timeout=timeout, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"report: {error}", file=sys.stderr)
        return None
    if done.returncode != 0:
        print(f"report: {command[0]} ended with {done.returncode}: {done.stderr.strip()[-500:]}",
              file=sys.stderr)
        return None
    return done.stdout


def machine():
    names = ["name", "driver_version", "memory.total"]
    text = run(["nvidia-smi", "--query-gpu=" + ",".join(names), "--format=csv,noheader"], 30) or ""
    gpus = [dict(zip(names, (field.strip() for field in line.split(","))))
            for line in text.splitlines()]
    return {"gpus": gpus, "visible": os.environ.get("CUDA_VISIBLE_DEVICES", "all")}


def commit():
    head = run(["git", "-C", ROOT, "rev-parse", "HEAD"], 30)
    changed = run(["git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no"], 30)
    return {"commit": head.strip() if head else None, "modified": bool(changed)}


def why_not(error):
    """A sentence without the command line: result files say nothing of the machine's folders."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"timed out after {error.timeout:g} s"
    return f"could not start: {error.strerror}"


def shard(build, sanitizer, timeout, gtest_filter, index, count, tool):
    """One of `count` parts of the tests: its exit status, the sanitizer's summary, gtest's report."""
    out = Path("/tmp") / f"report-tests-{os.getpid()}-{sanitizer or 'plain'}-{index}.json"
    out.unlink(missing_ok=True)
    command = [build / "tests" / "backend_cuda_test", f"--gtest_output=json:{out}",
               f"--gtest_filter={gtest_filter}"]
    if sanitizer:
        command = [tool, f"--tool={sanitizer}", "--error-exitcode=99", *command]
    environment = os.environ | {"GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(index)}
    begin = time.monotonic()
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              timeout=timeout, env=environment)
        code, text = done.returncode, done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        code, text = why_not(error), (getattr(error, "stdout", None) or b"").decode(errors="replace")
    lines = [line.strip("= \n") for line in text.splitlines() if line.startswith("=====")]
    summary = [line for line in lines if "SUMMARY" in line]
    findings = [line for line in lines if line.startswith(("Error:", "Warning:", "Invalid"))]
    return {"exit": code, "summary": summary[-1] if summary else None,
            "findings": list(dict.fromkeys(findings))[:20], "seconds": round(time.monotonic() - begin, 1),
            "suites": json.loads(out.read_text())["testsuites"] if out.exists() else []}


def tests(build, sanitizer, timeout, gtest_filter, count=1, tool="compute-sanitizer"):
    """Counts, and the names of what failed or was skipped."""
    with ThreadPoolExecutor(count) as pool:
        shards = list(pool.map(lambda index: shard(build, sanitizer, timeout, gtest_filter, index, count, tool),
                               range(count)))
    cases = [(f"{suite['name']}.{case['name']}", case) for each in shards for suite in each["suites"]
             for case in suite["testsuite"]]
    result = {"filter": gtest_filter,
              "exit": next((each["exit"] for each in shards if each["exit"] != 0), 0),
              "seconds": [each["seconds"] for each in shards],
              "run": sum(case["status"] == "RUN" for _, case in cases),
              "failed": [name for name, case in cases if case.get("failures")],
              "skipped": [name for name, case in cases if case.get("result") == "SKIPPED"]}
    if sanitizer:
        result["summaries"] = [each["summary"] for each in shards]
        version = run([tool, "--version"], 30)
        result["tool"] = version.strip().splitlines()[-1] if version else None
        result["findings"] = list(dict.fromkeys(line for each in shards for line in each["findings"]))
    return result


def accuracy(build, runtimes, jobs, models=(), types="", settings=(), seeds=1):
    """Model -> runtime -> error of the logits, relative to their deviation; accuracy.py's own models without any."""
    command = [sys.executable, ROOT / "tests" / "peers" / "accuracy.py", "--backend", "cuda", "--json",
               "--jobs", str(jobs), "--types", types, "--seeds", str(seeds)]
    for each in runtimes:
        command += ["--runtime", each]
    for each in models:
        command += ["--model", each]
    for each in settings:
        command += ["--backend-set", each]
    text = run(command, 400, env=os.environ | {"DLLM_BINARY": str(build / "bin" / "dllm"),
                                               "OPENBLAS_NUM_THREADS": "1"})
    return None if text is None else json.loads(text)


def generation(build, model, settings):
    options = [part for each in settings for part in ("--backend-set", each)]
    text = run([build / "bin" / "dllm", "run", "-m", model, "--backend", "cuda", *options, "-n", "128",
                "--steps", "32", "-p", "Why is the sky blue?", "-s", "1", "--json"], 120)
    if text is None:
        return None
    answer = json.loads(text)
    return {key: answer.get(key) for key in ("timings_ms", "tokens_per_second", "steps", "forwards", "device")}


def steps(build, model, settings):
    text = run([build / "tests" / "gpu_steps", model, build / "lib" / "dllm" / "plugins", "cuda", *settings], 180)
    return None if text is None else json.loads(text)


def peer(command, model):
    """What another runtime writes of its own times, a JSON object a line."""
    text = run(["sh", "-c", command.format(model=model)], 180)
    return None if text is None else [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def measure(build, model, settings, peers):
    """Times of one model: ours, others' right after them, ours with other settings."""
    result = {"steps": steps(build, model, []), "run": generation(build, model, [])}
    for name, _, command in (each.partition("=") for each in peers):
        result.setdefault("peers", {})[name] = peer(command, model)
    for each in settings:
        result.setdefault("with", {})[each] = {"steps": steps(build, model, [each]),
                                               "run": generation(build, model, [each])}
    return result


def raw_logits(build):
    """The last line of the test's own report: OK, or what failed."""
    folders = build / "tests" / "raw_logits_plugins", build / "tests" / "example_plugins"
    done = subprocess.run([sys.executable, ROOT / "tests" / "samplers" / "raw_logits_run_test.py", *folders, "cuda"],
                          capture_output=True, text=True, timeout=300,
                          env=os.environ | {"DLLM_BINARY": str(build / "bin" / "dllm"),
                                            "PYTHONPATH": str(ROOT / "tests" / "support")})
    return {"exit": done.returncode, "says": done.stderr.strip().splitlines()[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--model", type=Path, action="append", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--commit", help="where the build comes from, if not from this checkout")
    parser.add_argument("--sanitizer", action="append", default=[],
                        choices=["memcheck", "racecheck", "synccheck", "initcheck"])
    parser.add_argument("--sanitizer-program", default="compute-sanitizer", metavar="FILE")
    parser.add_argument("--shards", type=int, default=4, help="parts of a sanitizer's run, side by side")
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--raw-logits", action="store_true")
    parser.add_argument("--greedy", action="store_true")
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--types", default="", help="of --accuracy: Q4_K,F16; all without it")
    parser.add_argument("--seeds", type=int, default=1, help="of --accuracy: made-up models of each kind")
    parser.add_argument("--accuracy-of", action="append", default=[], metavar="FILE", help="of this model, too")
    parser.add_argument("--runtime", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--filter", default="*", help="tests, as --gtest_filter")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a run of the tests")
    args = parser.parse_args()
    if args.compile:
        subprocess.run(["cmake", "--preset", "release", "-DDLLM_CUDA=ON"], cwd=ROOT, check=True)
        subprocess.run(["cmake", "--build", args.build, "--target", *TARGETS], cwd=ROOT, check=True)
    result = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              **({"commit": args.commit} if args.commit else commit()), **machine()}
    if not args.no_tests:
        result["tests"] = tests(args.build, None, args.timeout, args.filter)
        result["models"] = [measure(args.build, model, args.set, args.peer) for model in args.model]
    if args.raw_logits:
        result["raw_logits"] = raw_logits(args.build)
    if args.greedy:
        result["greedy"] = compare_texts(str(args.build / "bin" / "dllm"))
    if args.accuracy:
        result["accuracy"] = accuracy(args.build, args.runtime, args.jobs, types=args.types, settings=args.set, seeds=args.seeds)
    if args.accuracy_of:
        result["accuracy_of"] = accuracy(args.build, args.runtime, 2, args.accuracy_of, settings=args.set)
    for tool in args.sanitizer:
        # The tools allocate device memory, which this test would count.
        apart = "-CudaFaults.RoomIsWhatUploadingTakes" if "-" not in args.filter else ""
        result[tool] = tests(args.build, tool, args.timeout, args.filter + apart, args.shards,
                             args.sanitizer_program)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    bad = [name for name in ("tests", "raw_logits", *args.sanitizer)
           if name in result and result[name]["exit"] != 0]
    print(f"{args.out}: " + (f"failed: {', '.join(bad)}" if bad else "all passed"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
