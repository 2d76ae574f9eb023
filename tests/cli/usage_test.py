#!/usr/bin/env python3
"""Bad usage is refused with exit status 2 before the model is read (cases 9 and 8)."""

import resource
import unittest

from cli_case import FAILURE, SANITIZED, USAGE, CliCase, main, model, parse_one_json, path, write

ABSENT = "no-such-model.gguf"  # reading it would be exit status 1


class BadUsage(CliCase):
    def refused(self, arguments, *parts):
        result = self.dllm("run", "-m", ABSENT, "-p", "x", *arguments)
        return self.assert_fails(result, USAGE, *parts)

    def test_an_absent_model_alone_is_a_failure_at_run_time(self):
        self.assert_fails(self.dllm("run", "-m", ABSENT, "-p", "x"), FAILURE, ABSENT)

    def test_misspelt_and_malformed_options(self):
        for arguments, parts in [
                (["--stesp", 4], ["'--stesp'", "'--steps'"]),
                (["--temperatur=1"], ["'--temperatur'", "'--temperature'"]),
                (["-n"], ["-n lacks its value"]),
                (["-n", "8x"], ["-n", "'8x'", "1 to 2147483647"]),
                (["-n", "abc"], ["'abc'"]),
                (["-n", 0], ["'0'", "1 to 2147483647"]),
                (["-n", -1], ["'-1'"]),
                (["-n", 2**31], [f"'{2**31}'"]),
                (["--temp", "nan"], ["--temp", "'nan'"]),
                (["--temp", "inf"], ["--temp", "'inf'"]),
                (["-t", 0], ["-t", "'0'", "an integer of at least 1"]),
                (["-t", 2000], ["'2000'", "-t, command line", "an integer from 1 to 1024"]),
                (["--steps", 0], ["--steps", "'0'", "an integer of at least 1"]),
                (["--steps", 2000000], ["'2000000'", "--steps, command line", "from 1 to 1000000"]),
                (["--set", "steps=-1"], ["'-1'", "--set steps", "from 0 to 1000000"]),
                (["--top-p", 0], ["--top-p", "'0'", "above 0 to 1"]),
                (["--top-p", 1.5], ["--top-p", "'1.5'"]),
                (["-n", 4, "-n", 5], ["option -n is given twice: '4' and '5' (command line)"]),
                (["-n", 4, "--predict", 5], ["-n and --predict are one option, given twice: '4' and '5'"]),
                (["--visual", "--visual"], ["option --visual is given twice (command line)"]),
                (["--visual", "--no-visual"], ["--visual and --no-visual are one option, given twice (command line)"]),
                (["--mask-id", -3], ["--mask-id", "'-3'"]),
                (["-f", "x"], ["-f and -p exclude each other"]),
                (["-sys", "x", "--no-chat"], ["-sys", "--no-chat"]),
                (["--dump-step-stats", "-"], ["--dump-step-stats", "standard output"]),
                (["stray"], ["'stray'", "-p"])]:
            with self.subTest(arguments=arguments):
                self.refused(arguments, *parts)

    def test_messages_show_the_number_that_was_given_and_the_one_to_give(self):
        self.refused(["--seed", -2], "'-2'", "an integer from -1 to 9007199254740991")
        self.assert_fails(self.dllm("run", "-m", model(), "-p", "x", "--temp", "1e-7"), USAGE,
                          "1e-07", "0.000001")

    def test_unknown_plugins_and_their_options(self):
        for arguments, parts in [
                (["--sampler", "llda"], ["'llda'", "'llada'", "dream"]),
                (["--backend", "cpuu"], ["'cpuu'", "'cpu'"]),
                (["--remasking", "lowconfidence"], ["'lowconfidence'", "low_confidence | random"]),
                (["--set", "stpes=4"], ["'stpes'", "'steps'"]),
                (["--set", "steps=4x"], ["'4x'", "--set steps"]),
                (["--backend-set", "thread=4"], ["'thread'", "'threads'"]),
                (["--algorithm", "entropie"], ["'entropie'", "entropy"])]:
            with self.subTest(arguments=arguments):
                self.refused(arguments, *parts)

    def test_what_llama_cpp_has_and_dllm_does_not_need(self):
        for option in ("-c", "--ctx-size", "-b", "-ub", "--ubatch-size", "-ngl", "--n-gpu-layers"):
            line = self.refused([option, 5], f"unknown option '{option}'", "leave it out")
            self.assertNotIn("did you mean", line)

    def test_one_letter_is_near_to_nothing(self):
        for option in ("-x", "-q", "--z"):
            self.assertNotIn("did you mean", self.refused([option], f"'{option}'"))
        self.refused(["-n128"], "did you mean '-n 128'")
        self.refused(["-steps", 4], "did you mean '--steps'")

    def test_before_the_model_says_which_sampler_every_one_tells_what_it_takes(self):
        line = self.refused(["--diffusion-algorithm", 7], "'7'", "sampler dream takes origin | ")
        self.assertIn("sampler llada takes 3 for remasking random, 4 for remasking low_confidence", line)
        self.refused(["--diffusion-algorithm", 7, "--sampler", "llada"], "llada takes 3 for remasking random")

    def test_a_long_value_leaves_the_message_readable(self):
        for arguments in (["-n", "9" * 5000], ["--" + "a" * 5000], ["--set", "steps=" + "ä" * 3000], ["b" * 5000]):
            line = self.refused(arguments, "bytes left out", "Fix: ")
            self.assertLess(len(line), 1400)

    def test_a_list_with_an_empty_item_is_refused(self):
        for ids in ("1,,2", ",1", "1,", "[1, ,2]"):
            for command in (["tokenize", "--decode", ids], ["logits", "--out", path("no.npy"), "--tokens", ids]):
                self.assert_fails(self.dllm(*command, "-m", model()), USAGE, f"'{ids}' has an empty item")
        self.assert_ok(self.dllm("tokenize", "-m", model(), "--decode", "[1, 2 3]"))

    @unittest.skipIf(SANITIZED, "UBSan itself opens a pipe to look at an object's type")
    def test_too_few_open_files_are_named(self):
        few = (resource.RLIMIT_NOFILE, (4, 4))  # standard streams, and the library while it is loaded
        result = self.dllm("run", "-m", model(), "-p", "x", preexec_fn=lambda: resource.setrlimit(*few))
        self.assertEqual(result.returncode, FAILURE)
        self.assertIn(b"raise the limit of open files (ulimit -n)", result.stderr)

    def test_an_option_the_sampler_lacks_names_what_to_use(self):
        self.refused(["--sampler", "llada", "--top-k", 3], "llada", "'top_k'", "--sampler dream",
                     "block_length")
        self.refused(["--sampler", "dream", "--remasking", "random"], "dream", "--sampler llada")
        self.refused(["--sampler", "llada", "--diffusion-algorithm", 1], "entropy", "llada")

    def test_a_preset_nobody_has_is_named_with_those_there_are(self):
        self.refused(["--preset", "referense"], "'referense'", "'reference'")
        self.refused(["--sampler", "dream", "--preset", "referense"], "sampler dream", "'referense'", "'reference'")
        self.refused(["--sampler", "dream", "--preset", "x"], "sampler dream", "presets are reference")

    def test_the_models_own_sampler_is_held_to_it_too(self):
        result = self.dllm("run", "-m", model(), "-p", "x", "--top-k", 3)
        self.assert_fails(result, USAGE, "llada", "'top_k'", "dream")

    def test_config_errors_name_file_and_line(self):
        for text, parts in [("\nstpes = 3\n", [":2", "'stpes'", "'steps'"]),
                            ("[sampler]\nstpes = 3\n", [":2", "'stpes'"]),
                            ("[sampel]\n", [":1", "[sampler]"]),
                            ("predict = many\n", [":1", "'many'"])]:
            with self.subTest(text=text):
                name = write("bad.cfg", text)
                self.refused(["--config", name], name, *parts)
        self.refused(["--config", path("none.cfg")], "none.cfg", "No such file")

    def test_no_command_unknown_command_option_first(self):
        nothing = self.dllm()
        self.assertEqual((nothing.returncode, nothing.stdout), (USAGE, b""))
        self.assertEqual(nothing.stderr, self.dllm("--help").stdout)
        self.assert_fails(self.dllm("rn"), USAGE, "'rn'", "'run'")
        self.assert_fails(self.dllm("RUN"), USAGE, "'RUN'", "did you mean 'run'")
        self.assert_fails(self.dllm("version"), USAGE, "did you mean '--version'")
        self.assert_fails(self.dllm("-p", "x"), USAGE, "'-p'", "dllm run -p")

    def test_missing_model_or_prompt(self):
        self.assert_fails(self.dllm("run", "-p", "x"), USAGE, "-m")
        self.assert_fails(self.dllm("run", "-m", ABSENT), USAGE, "no prompt", "-p", "-f")
        self.assert_fails(self.dllm("inspect"), USAGE, "no model")
        self.assert_fails(self.dllm("logits", "-m", ABSENT, "--tokens", "1"), USAGE, "--out")
        self.assert_fails(self.dllm("plugins", "--plugin-dir", path("nowhere")), USAGE, "nowhere")


class Help(CliCase):
    def test_help_and_version_go_to_stdout(self):
        for arguments in (["--help"], ["help", "run"], ["run", "-h"], ["inspect", "--help"]):
            result = self.dllm(*arguments)
            self.assert_ok(result)
            self.assertIn(b"dllm", result.stdout)
            self.assertFalse(result.stderr)
        self.assertRegex(self.dllm("--version").stdout.decode(), r"^dllm \d+\.\d+\.\d+\n$")

    def test_list_devices_works_without_a_command(self):
        for arguments in (["--list-devices"], ["run", "--list-devices"]):
            result = self.dllm(*arguments)
            self.assert_ok(result)
            self.assertRegex(result.stdout.decode(), r"(?m)^cpu: ")
        devices = parse_one_json(self.dllm("--list-devices", "--json").stdout)
        self.assertIn("cpu", [backend["backend"] for backend in devices["backends"]])

    def test_plugins_lists_samplers_with_options(self):
        self.assertIn(b"sampler llada", self.dllm("plugins").stdout)
        plugins = parse_one_json(self.dllm("plugins", "--json").stdout)["plugins"]
        options = {plugin["id"]: {option["name"] for option in plugin["options"]}
                   for plugin in plugins if plugin["kind"] == "sampler"}
        self.assertLessEqual({"steps", "block_length", "remasking"}, options["llada"])
        self.assertLessEqual({"steps", "algorithm", "top_p"}, options["dream"])


if __name__ == "__main__":
    main()
