#!/usr/bin/env python3
"""Precedence of settings and --print-config, which reads back as the same run."""

import os
import subprocess

from cli_case import FOLDER, USAGE, CliCase, environment, main, model, parse_one_json, path, write


def without_times(answer):
    return {key: value for key, value in answer.items()
            if key not in ("timings_ms", "tokens_per_second", "peak_memory_bytes")}


class Precedence(CliCase):
    def seed(self, *arguments, **env):
        printed = self.dllm("run", "-m", model(), "-p", "x", "--print-config", *arguments, env=env)
        self.assert_ok(printed)
        line = next(line for line in printed.stdout.decode().splitlines()
                    if line.startswith("seed = "))
        value, origin = line.split("#")
        return int(value.split("=")[1]), origin.strip()

    def test_each_source_beats_the_next_and_is_named(self):
        first = write("first.cfg", "seed = 3\n")
        later = write("later.cfg", "\nseed = 4\n")
        home = os.path.join(FOLDER, "xdg")
        os.makedirs(os.path.join(home, "dllm"), exist_ok=True)
        user = write("xdg/dllm/config.cfg", "seed = 5\n")
        both = ["--config", first, "--config", later]
        self.assertEqual(self.seed("-s", 1, *both, DLLM_SEED="2"), (1, "-s, command line"))
        self.assertEqual(self.seed(*both, DLLM_SEED="2"), (2, "DLLM_SEED, environment"))
        self.assertEqual(self.seed(*both, XDG_CONFIG_HOME=home), (4, f"seed, {later}:2"))
        self.assertEqual(self.seed(XDG_CONFIG_HOME=home), (5, f"seed, {user}:1"))
        self.assertIn("drawn for -1", self.seed()[1])

    def test_paths_of_a_config_file_start_at_the_file(self):
        os.makedirs(path("runs"), exist_ok=True)
        config = write("runs/run.cfg", f"model = ../{os.path.basename(model())}\nprompt = Hi\n")
        result = self.dllm("run", "--config", config, "-n", 2, cwd="/")
        self.assert_ok(result)
        self.assertEqual(result.stdout, b"==\n")

    def test_a_nul_byte_cuts_no_path_and_no_message(self):
        for key in ("record", "dump_step_stats", "file", "model"):
            config = write("nul.cfg", f"{key} = cut\0tail\n".encode())
            with self.subTest(key=key):
                result = self.dllm("run", "--config", config)
                self.assert_fails(result, USAGE, "cut\\x00tail' is no path", "nul.cfg:1", "Fix: ")
                self.assertFalse(os.path.exists(path("cut")))
        for text in (b"st\0eps = 1", b"[a\0b]", b"steps = \0" b"1"):
            with self.subTest(text=text):
                result = self.dllm("run", "-m", model(), "-p", "x", "--config", write("nul.cfg", text + b"\n"))
                self.assert_fails(result, USAGE, "\\x00", "nul.cfg:1", "Fix: ")

    def test_a_plugin_folder_that_is_not_there_is_named_with_its_source(self):
        config = write("folders.cfg", "plugin-dir = /no/such/folder\n")
        result = self.dllm("run", "-m", "absent.gguf", "-p", "x", "--config", config)
        self.assert_fails(result, USAGE, "/no/such/folder", "folders.cfg:1")

    def test_a_plugin_folder_of_the_environment_that_is_not_there_is_warned_about(self):
        result = self.dllm("plugins", env={"DLLM_PLUGIN_PATH": "/no/such/folder::" + FOLDER})
        self.assert_ok(result)
        self.assertIn(b"'/no/such/folder' is no folder that exists (DLLM_PLUGIN_PATH)", result.stderr)
        self.assertNotIn(FOLDER.encode(), result.stderr)

    def test_misspelt_variables_are_warned_about(self):
        result = self.dllm("run", "-m", model(), "-p", "Hi", "-n", 1, env={"DLLM_STPES": "3"})
        self.assert_ok(result)
        self.assertIn(b"DLLM_STPES", result.stderr)
        self.assertIn(b"DLLM_STEPS", result.stderr)
        result = self.dllm("run", "-m", model(), "-p", "Hi", "-n", 1, env={"DLLM_FOO": "3"})
        self.assert_ok(result)
        self.assertIn(b"warning: DLLM_FOO names no option and is not used\n", result.stderr)


class PrintConfig(CliCase):
    def round_trip(self, *arguments, **env):
        config = self.dllm("run", *arguments, "--print-config", env=env, cwd=FOLDER)
        self.assert_ok(config)
        name = write("printed/run.cfg" if os.path.isdir(path("printed")) else "run.cfg",
                     config.stdout)
        again = self.dllm("run", "--config", name, "--print-config", cwd="/")
        self.assert_ok(again)
        plain = [line.split("  # ")[0] for line in config.stdout.decode().splitlines()]
        repeated = [line.split("  # ")[0] for line in again.stdout.decode().splitlines()]
        self.assertEqual(plain, repeated)
        direct = self.run_json(*arguments, "--seed", self.printed_seed(plain), env=env, cwd=FOLDER) \
            if not any(str(part) in ("-s", "--seed") for part in arguments) \
            else self.run_json(*arguments, env=env, cwd=FOLDER)
        read_back = self.run_json("--config", name, cwd="/")
        direct["model"] = read_back["model"] = ""  # absolute in the file
        self.assertEqual(without_times(direct), without_times(read_back))
        return config.stdout.decode()

    @staticmethod
    def printed_seed(lines):
        return int(next(line for line in lines if line.startswith("seed = ")).split("=")[1])

    def test_reading_it_back_reproduces_the_run(self):
        os.makedirs(path("printed"), exist_ok=True)
        name = os.path.basename(model("random"))  # relative to the folder of the call
        for arguments in (
                ["-p", "Hi", "-n", 6, "--temp", 0.7],
                ["-p", "Hi", "-n", 6, "--seed", 3, "--set", "steps=2", "--remasking", "random"],
                ["-p", " # \"quoted\" \\n \\x41 \ttab ", "-n", 4, "-sys", "a;b=c", "--no-escape"],
                ["-p", b"\xff\xfe raw", "-n", 3, "--no-chat"],
                ["-p", "Hi", "-n", 8, "--preset", "reference", "-t", 1]):
            with self.subTest(arguments=arguments):
                self.round_trip("-m", name, *[part if isinstance(part, bytes) else part
                                              for part in arguments])

    def command(self, *arguments):  # bytes go through as they are
        program = super().command()
        return program + [part if isinstance(part, bytes) else str(part) for part in arguments]

    def test_every_value_has_its_origin(self):
        text = self.round_trip("-m", os.path.basename(model("random")), "-p", "x", "--steps", 2,
                               "-n", 4, DLLM_TEMP="0.5")
        self.assertRegex(text, r"(?m)^steps = 2 +# --steps, command line$")
        self.assertRegex(text, r"(?m)^temperature = 0.5 +# DLLM_TEMP, environment$")
        self.assertRegex(text, r"(?m)^block_length = 0 +# default$")
        self.assertRegex(text, r"(?m)^\[backend\]$")

    def test_preset_reference_gives_the_originals_defaults(self):
        text = self.dllm("run", "-m", model("random", arch="dream"), "-p", "x", "--preset",
                         "reference", "--temp", 0.2, "--print-config").stdout.decode()
        self.assertRegex(text, r"(?m)^steps = 512 +# preset reference$")
        self.assertRegex(text, r"(?m)^algorithm = origin +# preset reference$")
        self.assertRegex(text, r"(?m)^temperature = 0.2 +# --temp, command line$")
        text = self.dllm("run", "-m", model(), "-p", "x", "--preset", "reference",
                         "--print-config").stdout.decode()
        self.assertRegex(text, r"(?m)^block_length = 128 ")
        self.assertRegex(text, r"(?m)^steps = 128 ")

    def test_works_before_a_model_is_there(self):
        result = self.dllm("run", "-p", "x", "--steps", 3, "--print-config")
        self.assert_ok(result)
        self.assertIn(b"steps = 3", result.stdout)
        self.assert_ok(self.dllm("tokenize", "--print-config"))


class LlamaCppNames(CliCase):
    def options(self, arch, *arguments):
        answer = self.run_json("-m", model("random", arch=arch), "-p", "x", "-n", 4, *arguments)
        return answer["sampler"]["options"]

    def test_diffusion_options_are_aliases(self):
        options = self.options("dream", "--diffusion-steps", 2, "--diffusion-eps", 0.01,
                               "--diffusion_alg-temp=0.5", "--diffusion-algorithm", 2)
        self.assertEqual((options["steps"], options["eps"], options["alg_temp"],
                          options["algorithm"]), (2, 0.01, 0.5, "topk_margin"))
        options = self.options("llada", "--diffusion-block-length", 2, "--diffusion-cfg-scale", 0.5,
                               "--diffusion-algorithm", 3, "--diffusion-add-gumbel-noise", 1)
        self.assertEqual((options["block_length"], options["cfg_scale"], options["remasking"]),
                         (2, 0.5, "random"))

    def test_numbered_algorithms_mean_the_rules_of_the_sampler(self):
        for number, name in enumerate(["origin", "entropy", "topk_margin"]):
            self.assertEqual(self.options("dream", "--diffusion-algorithm", number)["algorithm"], name)
        self.assertEqual(self.options("dream", "--diffusion-algorithm", 4)["algorithm"],
                         "maskgit_plus")
        self.assertEqual(self.options("llada", "--diffusion-algorithm", 4)["remasking"],
                         "low_confidence")
        refused = self.dllm("run", "-m", model("random", arch="dream"), "-p", "x",
                            "--diffusion-algorithm", 3)
        self.assert_fails(refused, 2, "random", "dream")


if __name__ == "__main__":
    main()
