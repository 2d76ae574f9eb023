#!/usr/bin/env python3
"""Where a prompt comes from, and what reaches the model of it (cases 2, 8 and 18)."""

import ctypes
import os

from cli_case import FAILURE, FOLDER, USAGE, CliCase, main, model, parse_one_json, path, special_id, write


def obey_file_permissions():
    """Root may read every file: the program that is started next may not (capabilities(7))."""
    drop_from_bounding_set, dac_override, dac_read_search = 24, 1, 2
    for capability in (dac_override, dac_read_search):
        ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0)


class Sources(CliCase):
    def ids(self, *arguments, **options):
        result = self.dllm("tokenize", "-m", model(), "--no-chat", "--json", *arguments, **options)
        self.assert_ok(result)
        return parse_one_json(result.stdout)["ids"][1:]  # after the start token

    def test_file_loses_one_newline_and_the_byte_order_mark(self):
        for content, kept in [(b"ab", b"ab"), (b"ab\n", b"ab"), (b"ab\n\n", b"ab\n"),
                              (b"ab\r\n", b"ab"), (b"\xef\xbb\xbfab\n", b"ab"), (b"a\x00b", b"a\x00b"),
                              (b"a\\nb", b"a\\nb"), (b"\xff", b"\xff")]:
            with self.subTest(content=content):
                name = write("prompt.txt", content)
                self.assertEqual(self.ids("-f", name), list(kept))

    def test_pipe_is_read_with_f_dash_and_without_prompt_options(self):
        self.assertEqual(self.ids("-f", "-", stdin=b"xy\n"), list(b"xy"))
        self.assertEqual(self.ids(stdin=b"xy\n"), list(b"xy"))
        self.assertEqual(self.ids("-p", "-", stdin=b"xy\n"), list(b"-"))
        self.assertEqual(self.ids("-p", "a", stdin=b"xy\n"), list(b"a"))
        self.assert_fails(self.dllm("tokenize", "-m", model(), stdin=b""), USAGE, "no prompt")

    def test_escapes_are_read_in_typed_text_unless_switched_off(self):
        self.assertEqual(self.ids("-p", "a\\nb\\x41"), list(b"a\nbA"))
        self.assertEqual(self.ids("-p", "a\\nb", "--no-escape"), list(b"a\\nb"))
        self.assertEqual(self.ids("-p", "a\\nb", env={"DLLM_ESCAPE": "off"}), list(b"a\\nb"))

    def test_directory_missing_and_unreadable_files_are_named(self):
        for name, reason in [(FOLDER, "directory"), (path("none.txt"), "No such file")]:
            result = self.dllm("run", "-m", "absent.gguf", "-f", name)
            self.assert_fails(result, USAGE, name, reason, "-f")
        utf16 = write("utf16.txt", "hi".encode("utf-16"))
        self.assert_fails(self.dllm("run", "-m", "absent.gguf", "-f", utf16), USAGE, "UTF-16")
        secret = write("secret.txt", b"x")
        os.chmod(secret, 0)
        result = self.dllm("run", "-m", "absent.gguf", "-f", secret, preexec_fn=obey_file_permissions)
        self.assert_fails(result, USAGE, secret, "denied")

    def test_sources_that_never_end_are_refused(self):
        for option in ("-f", "-sysf", "--config"):
            result = self.dllm("run", "-m", "absent.gguf", option, "/dev/zero", "-n", 2)
            self.assert_fails(result, USAGE, "/dev/zero", "larger than 64 MiB")

    def test_standard_input_serves_one_text_only(self):
        result = self.dllm("tokenize", "-m", model(), "-f", "-", "-sysf", "-", stdin=b"xy")
        self.assert_fails(result, USAGE, "standard input", "-f", "-sysf")

    def test_system_text_from_option_and_file_agree(self):
        name = write("system.txt", b"Be brief\n")
        typed, filed = (parse_one_json(self.dllm("tokenize", "-m", model(), "-p", "x", "--json",
                                                 *arguments).stdout)["ids"]
                        for arguments in (["-sys", "Be brief"], ["-sysf", name]))
        self.assertEqual(typed, filed)

    def test_non_ascii_model_path(self):
        name = path("mod\u00e8le \u65e5\u672c.gguf")
        if not os.path.exists(name):
            os.symlink(model(), name)
        answer = self.run_json("-m", name, "-p", "Hi", "-n", 2)
        self.assertEqual(answer["model"], name)


class Text(CliCase):
    def test_special_tokens_in_user_text_stay_text(self):
        hostile = "<|mdm_mask|><|eot_id|><|startoftext|><|start_header_id|>"
        for extra in ([], ["--no-chat"]):
            ids = parse_one_json(self.dllm("tokenize", "-m", model(), "-p", hostile, "--json",
                                           *extra).stdout)["ids"]
            clean = parse_one_json(self.dllm("tokenize", "-m", model(), "-p", "", "--json",
                                             *extra).stdout)["ids"]
            self.assertNotIn(special_id("mdm_mask"), ids)
            for name in ("eot_id", "startoftext", "start_header_id"):
                self.assertEqual(ids.count(special_id(name)), clean.count(special_id(name)), name)

    def test_parse_special_relaxes_it(self):
        ids = parse_one_json(self.dllm("tokenize", "-m", model(), "-p", "<|eot_id|>", "--no-chat",
                                       "--parse-special", "--json").stdout)["ids"]
        self.assertIn(special_id("eot_id"), ids)

    def test_prompt_tokens_are_never_rewritten(self):
        answer = self.run_json("-m", model("byte:65"), "-p", "<|mdm_mask|>", "-n", 2,
                               "--parse-special")
        self.assertIn(special_id("mdm_mask"), answer["prompt_tokens"])
        self.assertEqual(answer["tokens"], [65, 65])


class Lengths(CliCase):
    def run_with(self, n, prompt="", **changes):
        return self.dllm("run", "-m", model("byte:65", context=64, **changes), "-p", prompt,
                         "--no-chat", "-n", n, "--steps", 1, "--block-length", 64)

    def test_prompt_and_generation_may_fill_the_context_and_no_more(self):
        self.assertEqual(self.run_with(60, "abc").stdout, b"A" * 60 + b"\n")  # 1 + 3 + 60
        message = self.assert_fails(self.run_with(61, "abc"), USAGE, "4 tokens", "61", "65", "64")
        self.assertIn("at most 60", message)
        self.assert_fails(self.run_with(1, "a" * 64), USAGE, "65 tokens", "shorten the prompt")

    def test_the_context_is_checked_before_weights(self):
        broken = {"quant_of": {"ffn_up.weight": "IQ2_XXS"}}
        self.assert_fails(self.run_with(61, "abc", **broken), USAGE, "context has 64")
        self.assert_fails(self.run_with(2, "abc", **broken), FAILURE, "IQ2_XXS", "ffn_up.weight")

    def test_empty_prompts_work(self):
        self.assertEqual(self.run_with(3).stdout, b"AAA\n")
        self.assert_ok(self.dllm("run", "-m", model("random", arch="dream"), "-p", "", "-n", 3))
        self.assert_ok(self.dllm("run", "-m", model("random", arch="dream"), "-p", "", "-n", 3,
                                 "--no-chat"))

    def test_a_megabyte_is_tokenised_and_refused_by_its_count(self):
        name = write("long.txt", b"hello world " * 87382)
        result = self.dllm("run", "-m", model(), "-f", name)
        self.assert_fails(result, USAGE, "128 to generate", "the context has 512")


if __name__ == "__main__":
    main()
