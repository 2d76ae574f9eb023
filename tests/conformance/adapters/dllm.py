"""The adapter of dllm: DLLM is the path of the program. Written for its command line alone (docs/cli.md)."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from runtime import Generation, NotApplicable, Outcome, Refused, Runtime

OPTIONS = {"n": "-n", "steps": "--steps", "block_length": "--block-length", "temperature": "--temp", "top_k": "--top-k",
           "top_p": "--top-p", "eps": "--eps", "alg_temp": "--alg-temp", "cfg_scale": "--cfg-scale", "seed": "--seed",
           "threads": "-t", "mask_id": "--mask-id", "sampler": "--sampler", "backend": "--backend"}
LLADA_RULES = ("low_confidence", "random")
NORMALIZE = {"nfc": [], "none": ["--normalize", "none"]}


class Dllm(Runtime):
    name = "dllm"
    philox = True
    exact_words = True
    usage_status = 2

    def __init__(self, program):
        self.program = program
        self.folder = tempfile.TemporaryDirectory(prefix="conformance-dllm-")
        clean = {key: value for key, value in os.environ.items() if not key.startswith("DLLM_")}
        self.environment = {**clean, "HOME": self.folder.name, "XDG_CONFIG_HOME": self.folder.name}

    def version(self):
        return self.call([self.program, "--version"]).stdout.decode().strip()

    def place(self, name):
        return os.path.join(self.folder.name, name)

    def call(self, command, **options):
        """Its message is its one line of error; several, or none beside a failure, are no message."""
        outcome = super().call(command, **options)
        errors = [line for line in outcome.message.splitlines() if line.startswith("dllm: error: ")]
        if outcome.status:
            outcome.message = errors[0] if len(errors) == 1 else f"not one line of error: {outcome.message}"
        return outcome

    def load(self, model):
        return self.call([self.program, "run", "-m", model, "-p", "x", "--no-chat", "-n", "1"])

    def inspect(self, model):
        outcome = self.call([self.program, "inspect", model, "--json"])
        report = json.loads(outcome.stdout)
        outcome.stdout = b""          # of a broken file it is what could be listed, and the error
        return outcome, [*report.get("metadata", {}), *(tensor["name"] for tensor in report.get("tensors", []))]

    def prompt_file(self, text):
        """A file of exactly this text: of a file one final newline (CR LF too) and one byte order mark are dropped."""
        mark = b"\xef\xbb\xbf"
        path = self.place("prompt")
        Path(path).write_bytes((mark if text.startswith(mark) else b"") + text + b"\r\n")
        return path

    def tokenize(self, model, text, *, chat=False, normalize="nfc"):
        outcome = self.need([self.program, "tokenize", "-m", model, "-f", self.prompt_file(text), "--json",
                             *([] if chat else ["--no-chat"]), *NORMALIZE[normalize]])
        return json.loads(outcome.stdout)["ids"]

    def decode(self, model, ids):
        parts = [ids[at:at + 8000] for at in range(0, len(ids), 8000)]
        return b"".join(self.need([self.program, "tokenize", "-m", model, "--decode", ",".join(map(str, part)),
                                   "--parse-special"]).stdout for part in parts)

    def logits(self, model, ids, rows):
        out = self.place("logits.npy")
        self.need([self.program, "logits", "-m", model, "--tokens", ",".join(map(str, ids)), "--rows",
                   ",".join(map(str, rows)), "--out", out])
        return np.load(out)

    def command(self, model, prompt, settings, stats):
        known = dict(settings)
        arguments = [self.program, "run", "-m", model, "-f", self.prompt_file(prompt), "--json", "--ignore-eos",
                     "--dump-step-stats", stats]
        if not known.pop("chat", False):
            arguments.append("--no-chat")
        if known.pop("exact", False):
            arguments += ["--set", "exact=true"]
        rule = known.pop("algorithm", None)
        if rule is not None:
            arguments += ["--remasking" if rule in LLADA_RULES else "--algorithm", rule]
        for name, value in known.items():
            arguments.append(f"{OPTIONS[name]}={value}" if OPTIONS[name].startswith("--") else OPTIONS[name])
            if not OPTIONS[name].startswith("--"):
                arguments.append(value)
        return arguments

    def generate(self, model, prompt, settings):
        stats = self.place("steps.jsonl")
        outcome = self.need(self.command(model, prompt, settings, stats))
        answer = json.loads(outcome.stdout)
        with open(stats, encoding="utf-8") as file:
            steps = [json.loads(line) for line in file]
        rounds = [sorted([edit["position"], edit["token"]] for edit in step["edits"]) for step in steps]
        return Generation(tokens=answer["tokens"], text=answer["text"].encode(), prompt=answer["prompt_tokens"],
                          rounds=rounds, forwards=answer["forwards"], extra=answer)

    def sample(self, vectors):
        driver = Path(self.program).resolve().parents[1] / "tests" / "sampler_driver"
        plugins = Path(self.program).resolve().parents[1] / "lib" / "dllm" / "plugins"
        if not driver.exists():
            raise NotApplicable(f"{driver} is not built")
        lines = "".join(json.dumps({k: v for k, v in vector.items() if k != "rounds"}) + "\n" for vector in vectors)
        done = subprocess.run([driver, plugins], input=lines.encode(), capture_output=True, env=self.environment, check=False)
        if done.returncode:
            raise Refused(Outcome(done.returncode, message=done.stderr.decode()))
        results = [json.loads(line) for line in done.stdout.splitlines()]
        return [result.get("rounds", result.get("error")) for result in results]


Adapter = Dllm
