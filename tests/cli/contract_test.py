#!/usr/bin/env python3
"""What holds for every command and every option: one JSON value, plain pipes, near matches, statuses.

The commands and their options are read from the help itself, so that a new one is held to this too.
"""

import os
import re

from cli_case import FAILURE, USAGE, CliCase, main, model, parse_one_json, path

ABSENT = "no-such-model.gguf"  # reading it would be exit status 1


class Contract(CliCase):
    def commands(self):
        listed = self.dllm("--help").stdout.decode().split("Commands:\n")[1].split("\n\n")[0]
        names = re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE)
        self.assertGreaterEqual(len(names), 9)
        return names

    def options(self, command):
        """(long name, whether it takes a value) of every option in the command's help."""
        found = []
        for line in self.dllm(command, "--help").stdout.decode().splitlines():
            if not re.match(r"  -", line):
                continue
            names = re.match(r"  ((?:-[^ ,]+(?:, )?)+)(?: ([A-Z=]+))?(?:  |$)", line)
            self.assertTrue(names, line)
            for name in names.group(1).split(", "):
                if name.startswith("--"):
                    found.append((name.replace("[no-]", ""), names.group(2) is not None))
        return found

    def good_calls(self):
        """Of every command, a call that succeeds."""
        trace = path("contract.jsonl")
        if not os.path.exists(trace):
            self.assert_ok(self.dllm("run", "-m", model(), "-p", "Hi", "-n", 4, "--record", trace))
        sampler = os.path.join(os.environ["DLLM_BUILD"], "lib/dllm/plugins/sampler_llada.so")
        return {
            "run": ["-m", model(), "-p", "Hi", "-n", 4, "-v"],
            "tokenize": ["-m", model(), "-p", "Hi"],
            "inspect": [model()],
            "logits": ["-m", model(), "--tokens", "1,2", "--out", path("contract.npy")],
            "bench": ["-m", model(), "--canvas", 8, "--repeat", 1, "--no-peak"],
            "plugins": [],
            "replay": [trace],
            "check-plugin": [sampler],
            "new-sampler": ["mine", "--folder", path("contract_sampler")],
        }

    def test_every_command_answers_with_one_json_value(self):
        calls = self.good_calls()
        self.assertEqual(sorted(calls), sorted(self.commands()), "a command without a call here")
        for command, arguments in calls.items():
            with self.subTest(command=command):
                result = self.dllm(command, *arguments, "--json")
                self.assert_ok(result)
                parse_one_json(result.stdout)
                self.assertNotIn(b"{", result.stderr, "JSON belongs on standard output")

    def test_pipes_see_no_escapes_whatever_the_command(self):
        for command, arguments in self.good_calls().items():
            with self.subTest(command=command):
                if command == "new-sampler":
                    arguments = ["mine", "--folder", path("contract_plain")]
                result = self.dllm(command, *arguments)
                self.assert_ok(result)
                for code in (b"\x1b", b"\r"):
                    self.assertNotIn(code, result.stdout + result.stderr)
                if command != "logits":  # whose answer is a file
                    self.assertTrue(result.stdout.endswith(b"\n"))

    def test_an_absent_input_fails_with_one_line(self):
        for command in ("run", "tokenize", "logits", "bench"):
            extra = ["--out", path("absent.npy"), "--tokens", "1"] if command == "logits" else ["-p", "x"]
            with self.subTest(command=command):
                self.assert_fails(self.dllm(command, "-m", ABSENT, *extra), FAILURE, ABSENT)
        self.assert_fails(self.dllm("inspect", ABSENT), FAILURE, ABSENT)
        self.assert_fails(self.dllm("replay", ABSENT), USAGE, ABSENT)
        report = self.dllm("check-plugin", ABSENT)  # whose answer is the report on it
        self.assertEqual(report.returncode, FAILURE)
        self.assertIn(ABSENT.encode(), report.stderr)

    def test_every_option_one_letter_off_names_the_right_one(self):
        for command in self.commands():
            names = [name for name, _ in self.options(command)]
            self.assertGreaterEqual(len(names), 4, command)
            for name in names:
                wrong = name[:-2] + name[-1] + name[-2]
                if wrong in names or wrong == name:
                    continue
                with self.subTest(command=command, option=wrong):
                    result = self.dllm(command, wrong)
                    line = self.assert_fails(result, USAGE, f"'{wrong}'")
                    self.assertRegex(line, r"did you mean '--")

    def test_every_option_that_takes_a_value_says_so_without_one(self):
        for command in self.commands():
            for name, takes_value in self.options(command):
                with self.subTest(command=command, option=name):
                    if takes_value:
                        self.assert_fails(self.dllm(command, name), USAGE, name, "lacks its value")
                    else:
                        self.assert_fails(self.dllm(command, name + "=maybe"), USAGE, name)

    def test_every_option_takes_underscores_too(self):
        for command in self.commands():
            for name, takes_value in self.options(command):
                if "-" not in name[2:] or not takes_value:
                    continue
                written = "--" + name[2:].replace("-", "_")
                with self.subTest(command=command, option=written):
                    self.assert_fails(self.dllm(command, written), USAGE, "lacks its value")


if __name__ == "__main__":
    main()
