"""The suite held to account: every case fails on a runtime that answers wrongly; adapters build the right commands.

usage: suite_test.py
"""

import importlib.machinery
import importlib.util
import json
import os
import stat
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent


def load_run():
    """The program `run` as a module."""
    loader = importlib.machinery.SourceFileLoader("conformance_run", str(HERE / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


run = load_run()
import case as cases  # noqa: E402
from models import Files  # noqa: E402
from runtime import Generation, NotApplicable, Outcome, Refused, Runtime  # noqa: E402


class Contrary(Runtime):
    """Accepts what is broken, with a word to that effect, and answers everything else wrongly and differently."""
    name, philox, usage_status = "contrary", True, 2

    def __init__(self):
        self.calls = 0

    def load(self, model):
        return Outcome(0, stdout=b"fine")

    def inspect(self, model):
        return Outcome(0), []

    def tokenize(self, model, text, *, chat=False, normalize="nfc"):
        self.calls += 1
        steering = list(range(2240, 2280)) if text else []
        return [len(text) * 0 + self.calls % 7 + 3, *steering]

    def decode(self, model, ids):
        return b"?"

    def logits(self, model, ids, rows):
        return np.random.default_rng(1).standard_normal((len(list(rows)), 320)) * 9

    def generate(self, model, prompt, settings):
        self.calls += 1
        n = settings["n"] if isinstance(settings["n"], int) and 0 < settings["n"] < 1000 else 1
        tokens = [(200 + self.calls) % 310] * n
        return Generation(tokens=tokens, text=bytes(tokens[0] % 256 for _ in tokens), prompt=[316], rounds=[[[0, 1]]], forwards=99)

    def sample(self, vectors):
        return [[[[0, -1]]]] * len(vectors)


class Grumpy(Runtime):
    """Refuses everything, and well: without a word about what is wrong."""
    name, usage_status = "grumpy", 1

    def load(self, model):
        return Outcome(1, message="no")

    def inspect(self, model):
        return Outcome(1, message="no"), []

    def generate(self, model, prompt, settings):
        raise Refused(Outcome(1, message="no"))


def results_of(runtime):
    with tempfile.TemporaryDirectory() as folder:
        trial = cases.Trial(runtime, Files(folder), cases.Limits())
        return [cases.run_case(each, trial) for each in run.registry().cases]


class TheSuite(unittest.TestCase):
    def test_no_case_passes_on_a_runtime_that_is_wrong(self):
        passed = [result.name for result in results_of(Contrary()) if result.status == cases.PASS]
        self.assertEqual(passed, [])

    def test_a_refusal_without_a_word_passes_only_where_refusing_is_allowed(self):
        passed = {result.name for result in results_of(Grumpy()) if result.status == cases.PASS}
        allowed = {"option.top_k_acts_at_every_position", "option.top_k_1_equals_greedy",
                   "option.top_p_acts_on_the_tempered_distribution", "option.cfg_scale_acts_or_is_refused"}
        self.assertLessEqual(passed, allowed)

    def test_what_a_runtime_cannot_do_is_not_applicable(self):
        statuses = {result.status for result in results_of(Runtime())}
        self.assertEqual(statuses, {cases.NOT_APPLICABLE})

    def test_at_least_sixty_broken_files_and_every_name_once(self):
        names = [each.name for each in run.registry().cases]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreaterEqual(sum(name.startswith("broken_file.") for name in names), 60)
        for page in (HERE / "README.md", HERE.parent / "README.md"):
            self.assertIn(f"{len(names)} small cases", page.read_text(encoding="utf-8"))

    def test_files_are_the_same_bytes_every_time(self):
        written = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                Files(folder).write_all()
                written.append({path.name: path.read_bytes() for path in Path(folder).iterdir()})
        self.assertGreater(len(written[0]), 90)
        self.assertEqual(written[0], written[1])

    def test_written_vectors_carry_their_logits_and_rounds(self):
        import vectors
        vector = vectors.written(vectors.make("dream", 3, False)[2])
        self.assertEqual(len(vector["steps"][0]["logits"]), len(vector["ids"]))
        self.assertTrue(vector["rounds"])


class LimitsOfRefusals(unittest.TestCase):
    def refusal(self, **changes):
        trial = cases.Trial(Runtime(), None, cases.Limits())
        trial.refused(Outcome(**{"status": 1, "message": "key x.y is wrong", **changes}), ("x.y|z",), limits=True)

    def test_what_a_refusal_must_be(self):
        self.refusal()
        for changes in ({"status": 0}, {"signal": 6, "status": 0}, {"timed_out": True}, {"message": "wrong"}, {"stdout": b"text"},
                        {"cpu_seconds": 1.5}, {"peak_bytes": 101e6}):
            with self.subTest(changes=changes), self.assertRaises(cases.Failure):
                self.refusal(**changes)

    def test_a_command_is_measured(self):
        outcome = Runtime().call([sys.executable, "-c", "import sys; x = bytearray(150 << 20); print('a'); sys.exit(3)"])
        self.assertEqual((outcome.status, outcome.signal, outcome.stdout), (3, 0, b"a\n"))
        self.assertGreater(outcome.peak_bytes, 150e6)
        small = Runtime().call(["/bin/true"])
        self.assertLess(small.peak_bytes, 40e6, "the caller's own memory is not the command's")
        for measured in (True, False):
            self.assertEqual(Runtime().call(["/bin/sh", "-c", "kill -SEGV $$"], measured=measured).signal, 11)
            self.assertTrue(Runtime().call(["/bin/sleep", "60"], timeout=0.2, measured=measured).timed_out)


class LlamaDiffusionCli(unittest.TestCase):
    def command(self, arch, **settings):
        adapter = run.load_class(HERE / "adapters/llama_diffusion_cli.py")("cli")
        metadata = {"general.architecture": arch, "tokenizer.ggml.add_bos_token": arch == "llada"}
        return adapter.command("m.gguf", metadata, b"qj", settings)

    def test_commands_are_as_its_help_has_them(self):
        self.assertEqual(self.command("llada", n=13, steps=4, block_length=13, temperature=0.0, algorithm="low_confidence"),
                         ["cli", "-m", "m.gguf", "-p", "qj", "--no-log-prefix", "--no-log-timestamps", "-ub", "16", "-b", "16", "--diffusion-block-length", "16",
                          "--diffusion-eps", "0", "--diffusion-steps", "4", "--temp", "0.0", "--diffusion-algorithm", "4"])
        self.assertEqual(self.command("dream", n=6, eps=0.1, algorithm="entropy", seed=3),
                         ["cli", "-m", "m.gguf", "-p", "qj", "--no-log-prefix", "--no-log-timestamps", "-ub", "8", "-b", "8", "--diffusion-eps", "0.1",
                          "--diffusion-block-length", "0", "--diffusion-algorithm", "1", "--seed", "3", "--diffusion-steps", "6"])

    def test_what_it_has_no_option_for_is_not_applicable(self):
        for settings in ({"mask_id": 5}, {"chat": True}, {"algorithm": "best"}, {"n": 0}):
            with self.subTest(settings=settings), self.assertRaises(NotApplicable):
                self.command("dream", **{"n": 4, **settings})

    def test_its_text_is_found_behind_the_line_of_times(self):
        adapter = run.load_class(HERE / "adapters/llama_diffusion_cli.py")
        self.assertEqual(adapter.text_of(b"\rdiffusion step: 1/2 [=  ] 50%\n"
                                         b"total time: 3ms, time per step: 1ms, sampling time per step: 0.1ms\n\nabc d\n"), b"abc d")
        self.assertEqual(adapter.text_of(b"\rdiffusion step: 1/2 [=  ] 50%\n"), b"")


class Templates(unittest.TestCase):
    def test_a_template_runs_a_program_and_reads_its_answers(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "runtime.sh")
            Path(program).write_text('#!/bin/sh\ncase "$1" in\n'
                                     'ids) printf "[1, 2, 3]";;\n'
                                     'write) shift; printf \'{"args": "%s", "tokens": [7, 8]}\' "$*";;\n'
                                     '*) echo "no: $2" >&2; exit 1;;\nesac\n')
            os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
            template = {"name": "mine", "load": ["{program}", "load", "{model}"],
                        "tokenize": {"command": ["{program}", "ids", "{file}"], "ids": "json"},
                        "generate": {"command": ["{program}", "write", "-n", "{n}"], "settings": {"algorithm": ["--rule", "{algorithm}"]},
                                     "values": {"algorithm": {"random": "r"}}, "tokens": "json:tokens"}}
            path = os.path.join(folder, "mine.json")
            Path(path).write_text(json.dumps(template))
            runtime = run.make_runtime(f"template:{path}={program}")
            self.assertEqual(runtime.load("m.gguf").message.strip(), "no: m.gguf")
            self.assertEqual(runtime.tokenize("m", b"x", normalize="none"), [1, 2, 3])
            self.assertEqual(runtime.generate_command("m", b"x", {"n": 4, "algorithm": "random"}),
                             [program, "write", "-n", "4", "--rule", "r"])
            self.assertEqual(runtime.generate("m", b"x", {"n": 4}).tokens, [7, 8])
            for call in (lambda: runtime.tokenize("m", b"x"), lambda: runtime.logits("m", [1], [0]),
                         lambda: runtime.generate("m", b"x", {"n": 4, "top_k": 3}),
                         lambda: runtime.generate("m", b"x", {"n": 4, "algorithm": "best"})):
                self.assertRaises(NotApplicable, call)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
