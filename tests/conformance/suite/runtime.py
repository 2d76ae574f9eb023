"""What the suite asks of a runtime. An adapter derives from Runtime and overrides what its runtime can do.

    class Mine(Runtime):
        name = "mine"

        def __init__(self, program):
            self.program = program

        def load(self, model):
            return self.call([self.program, "--check", model])

Everything it does not override counts as "not applicable", and so does a single call that raises
NotApplicable (for a setting the runtime has no word for, say). A runtime that refuses raises Refused.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

MEASURE = Path(__file__).resolve().with_name("measure.py")


class NotApplicable(Exception):
    """The runtime has no such ability; the reason is the exception's text."""


@dataclass
class Outcome:
    """How one command ended."""
    status: int                    # exit status; 0 where a signal ended it
    signal: int = 0
    timed_out: bool = False
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    stdout: bytes = b""
    message: str = ""              # what it said to its user: stderr, or the error line of it

    def __str__(self):
        end = "no end" if self.timed_out else f"signal {self.signal}" if self.signal else f"exit status {self.status}"
        return f"{end}, message {self.message[:400]!r}"


class Refused(Exception):
    """The runtime ended without the asked-for result; `outcome` is how."""

    def __init__(self, outcome):
        super().__init__(str(outcome))
        self.outcome = outcome


@dataclass
class Generation:
    """What a generation gave; None where the runtime does not tell."""
    tokens: Optional[list] = None          # generated ids in order, end tokens included
    text: Optional[bytes] = None           # their text, without what frames it on stdout
    prompt: Optional[list] = None          # ids before them
    rounds: Optional[list] = None          # per round of the sampler: [[position in the canvas, id], ...] ascending
    forwards: Optional[int] = None         # rounds that needed the network
    extra: dict = field(default_factory=dict)


class Runtime:
    """`model` is a path, `text` and `prompt` are bytes (any bytes), ids are ints."""

    name = "unnamed"
    philox = False        # draws by Philox4x32-10 as plugin-sdk/include/dllm_sdk/philox.h says
    exact_words = False   # messages hold `says` of the tables literally
    usage_status = None   # exit status of bad usage, where it differs from other failures
    environment = None    # of every call; None: this process's own

    def version(self):
        """One line."""
        return "unknown"

    def load(self, model) -> Outcome:
        """The cheapest call that reads a model whole, as for a run."""
        raise NotApplicable("no way to load a model")

    def inspect(self, model):
        """(Outcome, names of keys and tensors that were listed)."""
        raise NotApplicable("no way to list a file")

    def tokenize(self, model, text, *, chat=False, normalize="nfc") -> list:
        """Ids of user text, bare (with the start token where the file asks for one) or in the chat format."""
        raise NotApplicable("no way to tokenise")

    def decode(self, model, ids) -> bytes:
        raise NotApplicable("no way to decode ids")

    def logits(self, model, ids, rows):
        """float array [rows, vocabulary]: the model's own rows, before any shift."""
        raise NotApplicable("no way to read logits")

    def generate(self, model, prompt, settings) -> Generation:
        """`settings`: n, steps, block_length, temperature, top_k, top_p, eps, alg_temp, cfg_scale, seed,
        threads, mask_id, exact (bool), chat (bool, default False), algorithm: low_confidence, random (LLaDA);
        origin, maskgit_plus, topk_margin, entropy (Dream); sampler, backend. Absent: the runtime's own default.
        A value may be a text, to see it refused. Generation goes on behind end tokens."""
        raise NotApplicable("no way to generate")

    def sample(self, vectors) -> list:
        """Runs the decoding rule alone on the logits of each vector (suite/vectors.py); for each the rounds."""
        raise NotApplicable("no way to run a decoding rule on given logits")

    # ---- for adapters ----

    def call(self, command, stdin=b"", timeout=60, measured=True) -> Outcome:
        """Runs a command. `measured`: with its processor time and memory, which load() and inspect() are held to."""
        command = [part if isinstance(part, bytes) else str(part) for part in command]
        return self._measured(command, stdin, timeout) if measured else self._plain(command, stdin, timeout)

    def _plain(self, command, stdin, timeout):
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, env=self.environment, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as expired:
            return Outcome(0, timed_out=True, stdout=expired.stdout or b"", message=(expired.stderr or b"").decode("utf-8", "replace"))
        return Outcome(max(done.returncode, 0), signal=max(-done.returncode, 0), stdout=done.stdout,
                       message=done.stderr.decode("utf-8", "replace"))

    def _measured(self, command, stdin, timeout):
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            report = os.path.join(folder, "report")
            done = subprocess.run([sys.executable, "-S", "-E", str(MEASURE), report, str(timeout), *command],
                                  input=stdin, capture_output=True, env=self.environment, check=False)
            if not os.path.exists(report):
                raise RuntimeError(f"{command[0]} could not be started: {done.stderr.decode(errors='replace')}")
            with open(report, encoding="ascii") as file:
                measured = json.load(file)
        return Outcome(stdout=done.stdout, message=done.stderr.decode("utf-8", "replace"), **measured)

    def need(self, command, **options) -> Outcome:
        """As call() without measuring, but anything but success is Refused."""
        outcome = self.call(command, measured=False, **options)
        if outcome.status or outcome.signal or outcome.timed_out:
            raise Refused(outcome)
        return outcome

