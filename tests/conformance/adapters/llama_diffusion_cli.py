"""An example of another adapter: llama.cpp's llama-diffusion-cli, which prints text and nothing else.

It has no way to list a file, tokenise or give logits, so those cases are "not applicable"; README.md says what it
answered when it was tried. Its canvas is its -ub, prompt included; the text goes to stderr among its log lines.
"""

from reference_forward import GgufContents
from runtime import Generation, NotApplicable, Runtime

RULES = {"origin": 0, "entropy": 1, "topk_margin": 2, "random": 3, "low_confidence": 4, "maskgit_plus": 4}
OPTIONS = {"temperature": "--temp", "top_k": "--top-k", "top_p": "--top-p", "seed": "--seed", "threads": "-t",
           "steps": "--diffusion-steps", "alg_temp": "--diffusion-alg-temp", "cfg_scale": "--diffusion-cfg-scale",
           "algorithm": "--diffusion-algorithm"}


class LlamaDiffusionCli(Runtime):
    name = "llama-diffusion-cli"

    def __init__(self, program):
        self.program = program

    def version(self):
        outcome = self.call([self.program, "--version"])
        return (outcome.message + outcome.stdout.decode("utf-8", "replace")).strip().splitlines()[0]

    def load(self, model):
        return self.call([self.program, "-m", model, "-p", "x", "-no-cnv", "-ub", "8", "--diffusion-steps", "1",
                          "--diffusion-block-length", "8", "--diffusion-eps", "0"])

    def command(self, model, metadata, prompt, settings):
        """The command line; `metadata` of the model say its schedule and how long the prompt is in ids."""
        known = dict(settings)
        arch = metadata["general.architecture"]
        length = len(prompt) + metadata.get("tokenizer.ggml.add_bos_token", False)
        arguments = [self.program, "-m", model, "-p", prompt.decode("ascii"), "-no-cnv"]
        if known.pop("chat", False):
            raise NotApplicable("ids of a chat prompt are not known beforehand, and -ub needs their number")
        n = known.pop("n")
        if not isinstance(n, int) or n < 1:
            raise NotApplicable("it has no option for the number of tokens")
        arguments += ["-ub", str(length + n), "-b", str(length + n)]
        if arch == "llada":
            block = known.pop("block_length", n)
            if length % block or n % block:
                # Its blocks begin at position 0 and the prompt's stay empty; steps are shared out over all of them.
                block = length + n
            arguments += ["--diffusion-block-length", str(block), "--diffusion-eps", "0"]
        else:
            arguments += ["--diffusion-eps", str(known.pop("eps", 0.001)), "--diffusion-block-length", "0"]
        known.setdefault("steps", n)
        known.setdefault("algorithm", "low_confidence" if arch == "llada" else "entropy")
        for name, value in known.items():
            if name not in OPTIONS:
                raise NotApplicable(f"it has no option for {name}")
            value = RULES.get(value) if name == "algorithm" else value
            if value is None:
                raise NotApplicable(f"it has no rule {known['algorithm']}")
            arguments += [OPTIONS[name], str(value)]
        return arguments

    def generate(self, model, prompt, settings):
        try:
            metadata = GgufContents(model).metadata
        except FileNotFoundError:
            metadata = {"general.architecture": "llada"}
        outcome = self.need(self.command(model, metadata, prompt, settings))
        return Generation(text=self.text_of(outcome.stdout + outcome.message.encode()))

    @staticmethod
    def text_of(shown):
        """What stands behind the last progress bar, without the newlines that frame it."""
        return shown.rpartition(b"100%")[2].strip()


Adapter = LlamaDiffusionCli
