"""An example of another adapter: llama.cpp's llama-diffusion-cli, which prints text and nothing else.

It has no way to list a file, tokenise or give logits, so those cases are "not applicable"; README.md says what it
answered when it was tried. Its canvas is its -ub, prompt included. It always applies the file's chat format, which in
the suite's files adds nothing. The text stands among its log lines, which a second thread writes and which are often
lost when the program ends: such a call is made again, so that the other cases say something.
"""

from reference_forward import GgufContents
from runtime import Generation, NotApplicable, Refused, Runtime

RULES = {"origin": 0, "entropy": 1, "topk_margin": 2, "random": 3, "low_confidence": 4, "maskgit_plus": 4}
OPTIONS = {"temperature": "--temp", "top_k": "--top-k", "top_p": "--top-p", "seed": "--seed", "threads": "-t",
           "steps": "--diffusion-steps", "alg_temp": "--diffusion-alg-temp", "cfg_scale": "--diffusion-cfg-scale",
           "algorithm": "--diffusion-algorithm"}
ATTEMPTS = 30
TIMES = b"sampling time per step:"       # stands in the last line before the text


class LlamaDiffusionCli(Runtime):
    name = "llama-diffusion-cli"

    def __init__(self, program):
        self.program = program

    def version(self):
        outcome = self.call([self.program, "--version"])
        return (outcome.message + outcome.stdout.decode("utf-8", "replace")).strip().splitlines()[0]

    def load(self, model):
        return self.call_until_it_speaks([self.program, "-m", model, "-p", "x", "--no-log-prefix", "-ub", "8", "--diffusion-steps", "1",
                                          "--diffusion-block-length", "8", "--diffusion-eps", "0"])

    def call_until_it_speaks(self, command):
        """The first outcome that is not cut short: a failure with its last word, or a text."""
        for _ in range(ATTEMPTS):
            outcome = self.call(command)
            shown = outcome.stdout + outcome.message.encode()
            if outcome.signal or outcome.timed_out or (b"error: " in shown if outcome.status else self.text_of(shown)):
                return outcome
        return outcome

    def command(self, model, metadata, prompt, settings):
        """The command line; `metadata` of the model say its schedule and how long the prompt is in ids."""
        known = dict(settings)
        arch = metadata["general.architecture"]
        length = len(prompt) + metadata.get("tokenizer.ggml.add_bos_token", False)
        arguments = [self.program, "-m", model, "-p", prompt.decode("ascii"), "--no-log-prefix", "--no-log-timestamps"]
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
            metadata = GgufContents.metadata_of(model)
        except FileNotFoundError:
            metadata = {"general.architecture": "llada"}
        outcome = self.call_until_it_speaks(self.command(model, metadata, prompt, settings))
        if outcome.status or outcome.signal or outcome.timed_out:
            raise Refused(outcome)
        return Generation(text=self.text_of(outcome.stdout + outcome.message.encode()))

    @staticmethod
    def text_of(shown):
        """What stands behind the line of times, without the newlines that frame it; nothing where that line was lost."""
        if TIMES not in shown:
            return b""
        return shown.rpartition(TIMES)[2].partition(b"\n")[2].strip()


Adapter = LlamaDiffusionCli
