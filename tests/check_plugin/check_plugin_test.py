"""dllm check-plugin: every rule is broken by one fault and only by it; good samplers keep all.

usage: check_plugin_test.py BROKEN_SAMPLER PLUGIN_FOLDER EXAMPLE_FOLDER
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from cli_case import SANITIZED

BROKEN, PLUGINS, EXAMPLES = sys.argv[1:4]

# Fault -> what the report says of it.
FAULTS = {
    "loads": "its start failed: not today",
    "loads_crashes": "it crashed (SIGABRT)",
    "options": "per_step = 50: fifty is beyond me",
    "options_silent": "per_step = 50: create() failed with status 2 and no message",
    "calls": "I do not feel like it",
    "calls_throws": "plan() let an exception escape: over the wall",
    "calls_crashes": "it crashed (SIGABRT)",
    "calls_exits": "it ended the process (exit status 0)",
    "plans": "position 30 is outside the canvas of 30",
    "edits_mask": "token 999 is the mask",
    "edits_vocabulary": "token 1000 is outside the vocabulary of 1000",
    "edits_fixed": "the position is fixed",
    "many_edits": "apply() named 4294967295 edits, the canvas has 30 positions",
    "reads_only_ids": "plan() wrote into the canvas",
    "reads_only_state": "plan() wrote into the canvas",
    "reads_only_editable": "plan() wrote into the canvas",
    "reads_only_blocks": "plan() wrote into the canvas",
    "reads_only_number": "apply() wrote into 'entropy' of the statistics",
    "reads_only_list": "apply() wrote into 'top_probs' of the statistics",
    "reads_only_tokens": "apply() wrote into 'top_ids' of the statistics",
    "reads_only_logits": "take() wrote into the logits it was given",
    "progress": "no end after 2944 rounds, 24 of 30 positions still masked",
    "fills": "21 of 30 positions are masked at the end of 3 rounds",
    "repeatable": "played again: round 0: the edits differ (1 and 2 of them)",
    "plan_twice": "round 0: two plans in a row differ",
    "own_buffers": "plan() on another run changed what the first returned",
    "batch": "sequence",
    "threads": "one at a time",
    "no_globals": "beside another sampler: round 1: the edits differ",
    "holes": "the position is fixed",
    "small_canvas": "two is a crowd",
    "long_canvas": "too long for me",
    "nothing_to_do": "it asked for 0 positions, made 0 edits and did not end",
    "filled_by_others": "who filled it?",
    "remasked_by_others": "who masked it?",
    "step_budget": "steps 1: 24 forwards",
    "huge_vocabulary": "MiB more for a vocabulary of 268435456 ids",
    "no_special_ids": "where is the end token?",
    "no_candidate": "token -1 is outside the vocabulary",
    "not_a_number": "token 1048576 is outside the vocabulary",
    "wide_answers": "no candidate",
    "newer_host": "start(): what canvas is this?",
    "newer_host_writes": "bytes behind the dllm_plan it knows were written",
    "older_host": "it crashed (SIGABRT)",
    "frees_all": "200 runs leave",
    "shared_process_locale": "a play changed the locale, from C",
    "shared_process_folder": "a play changed the working folder, from ",
    "shared_process_handler": "a play changed what happens on SIGINT, from the default to ignored",
    "shared_process_signals": "a play changed the blocked signals, from none to ",
    "shared_process_thread": "a play changed the number of threads, from 1 to ",
    "shared_process_prints": "a play wrote to standard output: I was here",
    "shared_process_loading": "loading it changed the umask, from ",
}


def rule_of(fault):
    """A fault is named as its rule, with what tells variants apart behind it."""
    if fault == "many_edits":
        return "calls"
    return max((rule for rule in RULES if fault.startswith(rule)), key=len)


def check(path, *arguments, fault=""):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DLLM_")}
    result = subprocess.run([os.environ["DLLM_BINARY"], "check-plugin", path, "--json", *arguments],
                            capture_output=True, text=True, timeout=300, check=False,
                            env={**environment, "HOME": "/", "DLLM_TEST_FAULT": fault})
    report = json.loads(result.stdout) if result.stdout else None
    return result, report


RULES = [r["rule"] for r in check(BROKEN)[1]["rules"]]


def rules(report, verdict):
    return [r["rule"] for r in report["rules"] if r["verdict"] == verdict]


class CheckPlugin(unittest.TestCase):
    def test_every_fault_breaks_its_rule_and_no_other(self):
        seen = set()
        for fault, says in FAULTS.items():
            if SANITIZED and fault == "frees_all":
                continue  # the allocator is the sanitizer's: it finds leaks by itself
            with self.subTest(fault=fault):
                # A sanitizer makes it slow: there only the rule itself is asked.
                only = ("--rule", rule_of(fault)) if SANITIZED and rule_of(fault) != "loads" else ()
                result, report = check(BROKEN, *only, fault=fault)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertEqual(rules(report, "broken"), [rule_of(fault)], result.stdout)
                detail = next(r["detail"] for r in report["rules"] if r["verdict"] == "broken")
                self.assertIn(says, detail)
                self.assertIn("1 rule is broken", result.stderr)
                seen.add(rule_of(fault))
        self.assertEqual(set(RULES) - seen, {"frees_all"} if SANITIZED else set())

    def test_the_same_sampler_without_a_fault_keeps_all(self):
        result, report = check(BROKEN)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        self.assertEqual(rules(report, "not asked"), ["step_budget", "older_host"])

    def test_our_samplers_and_the_examples_keep_all(self):
        files = sorted(pathlib.Path(PLUGINS).glob("sampler_*.so")) + \
            sorted(pathlib.Path(EXAMPLES).glob("sampler_*.so"))
        self.assertGreaterEqual(len(files), 6)
        for file in files:
            result, report = check(str(file))
            self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
            self.assertEqual(rules(report, "broken"), [])

    def test_our_samplers_keep_all_with_their_options(self):
        for name, values in (("llada", ("remasking=random", "temperature=0.7", "block_length=5", "steps=9")),
                             ("llada", ("cfg_scale=2", "logits_eos_inf=true", "confidence_eos_eot_inf=true")),
                             ("dream", ("algorithm=origin", "temperature=1")),
                             ("dream", ("algorithm=maskgit_plus", "alg_temp=0.5", "top_p=0.9", "temperature=0.4")),
                             ("dream", ("algorithm=topk_margin", "top_k=3", "steps=7"))):
            settings = [word for value in values for word in ("--set", value)]
            result, _ = check(f"{PLUGINS}/sampler_{name}.so", *settings)
            self.assertEqual(result.returncode, 0, result.stderr + result.stdout)

    def test_what_is_no_plugin_is_refused_with_its_reason(self):
        result, report = check(__file__)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(rules(report, "broken"), ["loads"])
        self.assertIn("not an ELF file", report["rules"][0]["detail"])
        text = subprocess.run([os.environ["DLLM_BINARY"], "check-plugin", __file__], capture_output=True, text=True,
                              check=False).stdout
        self.assertEqual(text.splitlines()[0], f"{__file__}: no plugin")

    def test_rules_and_options_of_samplers_are_refused_for_other_kinds(self):
        for kind, file in (("backend", f"{PLUGINS}/backend_cpu.so"), ("model", f"{PLUGINS}/model_llada.so")):
            for arguments, says in ((("--set", "steps=4"), "steps is an option of samplers"),
                                    (("--rule", "calls"), "rule calls is for samplers")):
                result, report = check(file, *arguments)
                self.assertEqual((result.returncode, report), (2, None), result.stderr)
                self.assertIn(f"{says}, and {file} is a {kind}", result.stderr)
            result, report = check(file, "--rule", "loads")
            self.assertEqual((result.returncode, rules(report, "kept")), (0, ["loads"]), result.stderr)

    def test_without_a_file_it_is_bad_usage(self):
        result = subprocess.run([os.environ["DLLM_BINARY"], "check-plugin"], capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("dllm check-plugin FILE", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
