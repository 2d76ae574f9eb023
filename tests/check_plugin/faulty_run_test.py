"""A sampler that breaks the contract in a real run: a named error, exit status 1, nothing on stdout, no crash.

usage: faulty_run_test.py BROKEN_SAMPLER     (in the sanitizer build: and no leak)
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from make_tiny_gguf import TinyModel, write_tiny_model

FOLDER = str(pathlib.Path(sys.argv[1]).parent)

FAULTS = {
    "calls": "I do not feel like it (sampler broken)",
    "calls_throws": "plan() let an exception escape: over the wall (sampler broken)",
    "plans": "is outside the canvas of",
    "edits_mask": "is the mask; only a remask may write it (sampler broken)",
    "edits_vocabulary": "is outside the vocabulary of",
    "edits_fixed": "edit of position 0: the position is fixed (sampler broken)",
    "progress": "no end after",
    "nan_plan": "temperature nan is not a number of at least 0 (sampler broken)",
    "bad_status": "status 7",
    "unknown_run_status": "run status 9",
    "null_edits": "and gave no list (sampler broken)",
    "many_edits": "apply() named 4294967295 edits, the canvas has ",
    "fills": "it ended the run with 1 of ",
    "calls_quick_exits": "a plugin ended the process in the middle of its work (exit)",
    "calls_exits": "a plugin ended the process in the middle of its work (exit)",
}


class FaultyRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = os.path.join(cls.folder.name, "tiny.gguf")
        write_tiny_model(cls.model, TinyModel("llada", layers=1, ffn=256))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_with(self, fault, *arguments):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("DLLM_")}
        return subprocess.run(
            [os.environ["DLLM_BINARY"], "run", "-m", self.model, "-p", "x", "--no-chat", "-n", "4", "--plugin-dir",
             FOLDER, "--sampler", "broken", *arguments], capture_output=True, text=True, timeout=300, check=False,
            env={**clean, "HOME": "/", "DLLM_TEST_FAULT": fault})

    def test_whole_it_runs(self):
        result = self.run_with("", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(json.loads(result.stdout)["tokens"]), 4)

    def test_each_fault_is_a_named_error(self):
        for fault, says in FAULTS.items():
            with self.subTest(fault=fault):
                result = self.run_with(fault)
                self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
                errors = [line for line in result.stderr.splitlines() if line.startswith("dllm: error: ")]
                self.assertEqual(len(errors), 1, result.stderr)
                self.assertIn(says, errors[0])
                self.assertNotIn("Sanitizer", result.stderr)

    def test_what_it_prints_does_not_mix_with_the_answer(self):
        result = self.run_with("shared_process_prints", "--json")
        self.assertEqual((result.returncode, len(json.loads(result.stdout)["tokens"])), (0, 4), result.stderr)
        self.assertEqual(result.stderr.count("I was here"), 4)

    def test_its_floating_point_mode_changes_no_number_of_the_model(self):
        traces = []
        with tempfile.TemporaryDirectory() as folder:
            for fault in ("", "floating_point"):
                trace = os.path.join(folder, "trace.jsonl")
                result = self.run_with(fault, "--record", trace, "-t", "1", "--seed", "1")
                self.assertEqual(result.returncode, 0, result.stderr)
                with open(trace, encoding="utf-8") as file:
                    traces.append(file.read())
        self.assertEqual(traces[0], traces[1])

    def test_a_refused_option_is_bad_usage(self):
        result = self.run_with("options_says_why", "--set", "per_step=50")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("fifty is beyond me", result.stderr)

    def test_a_confidence_that_is_no_number_is_for_display_only(self):
        with tempfile.TemporaryDirectory() as folder:
            stats = os.path.join(folder, "stats.jsonl")
            result = self.run_with("nan_confidence", "--json", "--dump-step-stats", stats)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(stats, encoding="utf-8") as file:
                edits = [edit for line in file for edit in json.loads(line)["edits"]]
        self.assertEqual([edit["confidence"] for edit in edits], [None] * 4)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
