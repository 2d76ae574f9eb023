"""Samplers of the first released SDK, as binaries of that time and built anew from its headers, still work.

usage: abi_test.py SOURCE_BUILT_FOLDER MODEL
"""

import json
import os
import pathlib
import platform
import subprocess
import sys
import unittest

BUILT, MODEL = pathlib.Path(sys.argv[1]), sys.argv[2]
RELEASED = pathlib.Path(__file__).resolve().parent / "v1.0"
OLD = RELEASED / platform.machine()
NAMES = ("sampler_fixture_c", "sampler_fixture_cpp")


def dllm(*arguments):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("DLLM_") or k == "DLLM_BINARY"}
    result = subprocess.run([os.environ["DLLM_BINARY"], *map(str, arguments)], capture_output=True, text=True,
                            check=False, env={**clean, "HOME": "/"})
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(result.stdout)


def folders():
    return [BUILT, *([OLD] if OLD.is_dir() else [])]


class FirstRelease(unittest.TestCase):
    def test_there_are_binaries_for_this_machine(self):
        if platform.machine() != "x86_64":
            self.skipTest(f"none were kept for {platform.machine()}")
        self.assertEqual(sorted(p.stem for p in OLD.glob("*.so")), sorted(NAMES))

    def test_they_are_accepted_with_their_options(self):
        for folder in folders():
            found = {p["id"]: p for p in dllm("plugins", "--json", "--plugin-dir", folder)["plugins"]}
            self.assertEqual((found["fixture_c"]["status"], found["fixture_cpp"]["status"]), ("ok", "ok"))
            self.assertEqual([o["name"] for o in found["fixture_cpp"]["options"]],
                             ["threshold", "window", "temperature"])

    def test_they_keep_every_rule_that_was_known_then(self):
        for folder in folders():
            for name in NAMES:
                report = dllm("check-plugin", folder / f"{name}.so", "--json",
                              *(word for rule in ("calls", "plans", "edits", "fills", "plan_twice", "batch", "holes",
                                                  "newer_host", "frees_all") for word in ("--rule", rule)))
                self.assertEqual(report["broken"], 0)
                self.assertEqual(len(report["rules"]), 10)

    def test_old_binary_and_new_build_give_the_same_run(self):
        for name, options in (("fixture_c", ()), ("fixture_cpp", ("--set", "threshold=0.7", "--set", "window=6"))):
            runs = [dllm("run", "-m", MODEL, "-p", "What is 2 + 3?", "-n", 12, "--seed", 1, "--json", "--plugin-dir",
                         folder, "--sampler", name, *options) for folder in folders()]
            self.assertTrue(all(run["tokens"] for run in runs))
            self.assertEqual([run["tokens"] for run in runs], [runs[0]["tokens"]] * len(runs))
            self.assertEqual([run["forwards"] for run in runs], [runs[0]["forwards"]] * len(runs))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
