"""Whole logits (dllm.raw_logits/1) in real runs: the logits of the rows that were asked for, as the statistics have them.

usage: raw_logits_run_test.py WITNESS_FOLDER EXAMPLE_FOLDER [BACKEND]

Skipped, with the reason, where BACKEND cannot run.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from make_tiny_gguf import TinyModel, write_tiny_model

WITNESS, EXAMPLES = sys.argv[1:3]
BACKEND = sys.argv[3] if len(sys.argv) > 3 else "cpu"


class RawLogits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        devices = cls.dllm("run", "--list-devices").stdout.splitlines()
        usable = [line for line in devices if line.startswith(BACKEND) and "not usable" not in line]
        if not usable:
            raise unittest.SkipTest(f"no device of backend {BACKEND}: " + "; ".join(devices))
        cls.folder = tempfile.TemporaryDirectory()
        cls.models = {}
        for arch in ("llada", "dream"):
            cls.models[arch] = os.path.join(cls.folder.name, f"{arch}.gguf")
            write_tiny_model(cls.models[arch], TinyModel(arch, layers=2, ffn=256))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @staticmethod
    def dllm(*arguments):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("DLLM_")}
        return subprocess.run([os.environ["DLLM_BINARY"], *arguments], capture_output=True, text=True, timeout=300,
                              check=False, env={**clean, "HOME": "/", "DLLM_BACKEND": BACKEND})

    def run_json(self, arch, folder, sampler, *arguments):
        result = self.dllm("run", "-m", self.models[arch], "-p", "Hi", "-n", "11", "--seed", "3", "--json",
                           "--plugin-dir", folder, "--sampler", sampler, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_they_are_the_logits_the_statistics_are_of(self):
        trace = os.path.join(self.folder.name, "trace.jsonl")
        for arch in self.models:
            for guidance in ("0", "1.5"):
                for more in ((), ("--record", trace), ("--full-logits",)):
                    with self.subTest(arch=arch, guidance=guidance, more=more):
                        answer = self.run_json(arch, WITNESS, "witness", "--set", f"guidance={guidance}", *more)
                        self.assertEqual(answer["forwards"], 4)  # 11 open: 6, 3, 1, 1 of them

    def test_the_example_runs_and_repeats(self):
        for arch in self.models:
            one, again = (self.run_json(arch, EXAMPLES, "nsigma", "--set", "temperature=0.8", "--set", "n=2")
                          for _ in range(2))
            self.assertEqual((one["tokens"], one["forwards"]), (again["tokens"], 6))
            greedy = self.run_json(arch, EXAMPLES, "nsigma", "--set", "n=0")
            self.assertEqual(greedy["forwards"], 6)

    def test_a_trace_holds_no_logits(self):
        trace = os.path.join(self.folder.name, "replayed.jsonl")
        self.run_json("llada", EXAMPLES, "nsigma", "--record", trace)
        result = self.dllm("replay", trace, "--plugin-dir", EXAMPLES)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("a trace holds statistics, no whole logits (replay). Fix: run the model itself", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
