#!/usr/bin/env python3
"""stdout holds the answer or one JSON value, every time; exit 0 only with an answer (case 6)."""

import json
import os
import subprocess

from cli_case import (FAILURE, SANITIZED, TOKENS, USAGE, CliCase, environment, main, model, parse_one_json, path,
                      special_id, write)

ESCAPES = (b"\x1b", b"\r")


class Streams(CliCase):
    def test_plain_answer_is_the_text_and_a_newline(self):
        result = self.dllm("run", "-m", model("byte:65"), "-p", "Hi", "-n", 5)
        self.assert_ok(result)
        self.assertEqual(result.stdout, b"AAAAA\n")
        self.assertIn(b"backend cpu", result.stderr)
        self.assertIn(b"seed ", result.stderr)

    def test_pipes_never_see_escape_codes(self):
        result = self.dllm("run", "-m", model(), "-p", "Hi", "-n", 5, "-v", "--visual")
        self.assert_ok(result)
        for code in ESCAPES:
            self.assertNotIn(code, result.stdout + result.stderr)
        steps = [line for line in result.stderr.decode().splitlines() if line.startswith("step ")]
        self.assertEqual(len(steps), 5, "one plain line a step")
        self.assertEqual(steps[0].count("\u2591"), 4, steps[0])

    def test_json_with_everything_on_is_one_strict_value(self):
        stats = path("stats.jsonl")
        answer = self.run_json("-m", model(), "-p", "Hi", "-n", 6, "--steps", 3, "--seed", 9, "-v",
                               "--visual", "--dump-step-stats", stats)
        self.assertLessEqual(
            {"text", "tokens", "prompt_tokens", "finish_reason", "steps", "forwards", "seed",
             "model", "backend", "sampler", "cache", "timings_ms", "tokens_per_second",
             "peak_memory_bytes", "version"}, set(answer))
        self.assertEqual((answer["steps"], answer["forwards"], answer["seed"]), (3, 3, 9))
        self.assertEqual(len(answer["tokens"]), 6)
        self.assertEqual((answer["finish_reason"], answer["cache"]), ("length", "exact"))
        self.assertEqual((answer["backend"], answer["sampler"]["name"]), ("cpu", "llada"))
        self.assertEqual(answer["sampler"]["options"]["steps"], 3)
        self.assertEqual(set(answer["timings_ms"]), {"load", "prompt", "generate", "per_step"})
        self.assertGreater(answer["peak_memory_bytes"], 1 << 20)
        self.check_stats(stats, answer)

    def check_stats(self, file_name, answer):
        with open(file_name, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["step"] for line in lines], [0, 1, 2])
        self.assertEqual([line["masked"] for line in lines], [4, 2, 0])
        self.assertEqual([line["scored"] for line in lines], [6, 4, 2])
        first = len(answer["prompt_tokens"])
        written = {edit["position"]: edit["token"] for line in lines for edit in line["edits"]}
        self.assertEqual([written[first + i] for i in range(6)], answer["tokens"])
        self.assertTrue(all(0 < edit["confidence"] <= 1 for edit in lines[0]["edits"]))

    def test_two_hundred_repeats_give_two_hundred_equal_answers(self):
        texts = set()
        for _ in range(20 if SANITIZED else 200):  # each start takes ten times as long there
            result = self.dllm("run", "-m", model(), "-p", "Hi", "-n", 4, "--steps", 1, "--json")
            self.assert_ok(result)
            answer = parse_one_json(result.stdout)
            texts.add((answer["text"], tuple(answer["tokens"])))
        self.assertEqual(len(texts), 1)

    def test_bytes_that_are_no_utf8_become_replacement_characters(self):
        plain = self.dllm("run", "-m", model("byte:255"), "-p", "Hi", "-n", 3)
        self.assertEqual(plain.stdout.decode("utf-8"), "\ufffd" * 3 + "\n")
        answer = self.run_json("-m", model("byte:255"), "-p", "Hi", "-n", 3, "--visual")
        self.assertEqual((answer["text"], answer["tokens"]), ("\ufffd" * 3, [255] * 3))

    def test_text_ends_before_the_end_token(self):
        for end in ("eot_id", "endoftext"):
            answer = self.run_json("-m", model(f"byte:{special_id(end)}"), "-p", "Hi", "-n", 8)
            self.assertEqual((answer["text"], answer["tokens"], answer["finish_reason"]),
                             ("", [], "stop"))
        answer = self.run_json("-m", model(f"byte:{special_id('eot_id')}"), "-p", "Hi", "-n", 8,
                               "--ignore-eos")
        self.assertEqual((len(answer["tokens"]), answer["finish_reason"]), (8, "length"))

    def test_full_logits_change_nothing(self):
        for arch in ("llada", "dream"):
            plain, full = (self.run_json("-m", model("random", arch=arch), "-p", "Hi", "-n", 8,
                                         "--seed", 1, *extra) for extra in ([], ["--full-logits"]))
            self.assertEqual(plain["tokens"], full["tokens"])

    def test_a_drawn_seed_is_reported_and_repeats_the_run(self):
        arguments = ["-m", model("random"), "-p", "Hi", "-n", 8, "--temp", 1]
        first = self.run_json(*arguments)
        again = self.run_json(*arguments, "--seed", first["seed"])
        self.assertEqual(first["tokens"], again["tokens"])
        seeds = {self.run_json(*arguments)["seed"] for _ in range(3)}
        self.assertGreater(len(seeds), 1)


class BrokenOutput(CliCase):
    arguments = ["run", "-m", None, "-p", "Hi", "-n", "2"]

    def arguments_with_model(self):
        return [model() if part is None else part for part in self.arguments]

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            result = self.dllm(*self.arguments_with_model(), stdout=full)
        self.assertEqual(result.returncode, FAILURE)
        self.assertIn(b"No space left", result.stderr)

    def test_closed_stdout(self):
        script = '"$0" "$@" >&-'
        result = subprocess.run(["sh", "-c", script, *self.command(*self.arguments_with_model())],
                                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment())
        self.assertEqual(result.returncode, FAILURE)
        self.assertIn(b"standard output", result.stderr)

    def test_closed_reader(self):
        reader, writer = os.pipe()
        os.close(reader)
        result = self.dllm(*self.arguments_with_model(), stdout=writer)
        os.close(writer)
        self.assertEqual(result.returncode, FAILURE)
        self.assertIn(b"standard output", result.stderr)

    def test_closed_stdout_never_lands_in_another_file(self):
        stats = path("stats_closed.jsonl")
        script = '"$0" "$@" >&-'
        subprocess.run(["sh", "-c", script, *self.command(*self.arguments_with_model(),
                                                          "--dump-step-stats", stats)],
                       stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment())
        self.assertFalse(os.path.exists(stats), "refused before any work")

    def test_step_statistics_on_a_full_disk_fail_after_the_answer(self):
        result = self.dllm(*self.arguments_with_model(), "--dump-step-stats", "/dev/full")
        self.assertEqual((result.returncode, result.stdout), (FAILURE, b"==\n"))
        self.assertIn(b"step statistics could not be written to '/dev/full': No space left", result.stderr)
        self.assertNotIn(b"removed", result.stderr, "a device stays")

    def test_the_file_size_limit_ends_no_run_without_a_word(self):
        # 0 blocks: every write to a file fails, as on a full disk; SIGXFSZ must not end the program.
        link, target = path("limit.link"), path("limit.jsonl")
        os.symlink(target, link)
        script = 'ulimit -f 0; "$0" "$@"'
        result = subprocess.run(["sh", "-c", script, *self.command(*self.arguments_with_model(),
                                                          "--dump-step-stats", link)],
                                stdin=subprocess.DEVNULL, capture_output=True, env=environment())
        self.assertEqual((result.returncode, result.stdout), (FAILURE, b"==\n"))
        self.assertIn(b": File too large; the file was removed", result.stderr)
        self.assertFalse(os.path.exists(target), "a part of it would be left")
        self.assertTrue(os.path.islink(link), "which is the user's")

    def test_step_statistics_nobody_can_write_are_refused_before_weights(self):
        broken = model("random", quant_of={"ffn_up.weight": "IQ2_XXS"})
        result = self.dllm("run", "-m", broken, "-p", "x", "--dump-step-stats", path("no/x.jsonl"))
        self.assert_fails(result, 2, "--dump-step-stats", "does not exist")

    def test_what_is_read_is_never_written_over(self):
        prompt, link = write("read.txt", "Hi"), path("link.gguf")
        if not os.path.lexists(link):
            os.symlink(model(), link)
        kept = open(model(), "rb").read()
        program, twin = write("program.so", "\x7fELF..."), path("twin.x")
        os.symlink("a.x", twin)  # of a file that is not there yet
        for arguments, parts in [
                (["run", "-m", model(), "-p", "x", "--dump-step-stats", model()], ["-m", "overwritten: it is the model"]),
                (["run", "-m", model(), "-p", "x", "--dump-step-stats", link], ["-m", "overwritten"]),
                (["run", "-m", model(), "-f", prompt, "--dump-step-stats", prompt], ["-f", "overwritten"]),
                (["run", "-m", model("random"), "-p", "x", "--dump-step-stats", model()], ["GGUF"]),
                (["run", "-m", model(), "-p", "x", "--record", program], ["--record", "program or plugin"]),
                (["run", "-m", model(), "-p", "x", "--record", path("a.x"), "--dump-step-stats", path("./no/../a.x")],
                 ["both the step statistics and the recording"]),
                (["run", "-m", model(), "-p", "x", "--record", path("a.x"), "--dump-step-stats", twin],
                 ["both the step statistics and the recording"]),
                (["logits", "-m", model(), "--tokens", "1", "--out", model()], ["--out", "overwritten"])]:
            with self.subTest(arguments=arguments):
                self.assert_fails(self.dllm(*arguments), 2, *parts)
        self.assertEqual(open(model(), "rb").read(), kept)
        self.assertEqual(open(prompt).read(), "Hi")

    def test_a_link_to_where_nothing_is_yet_stays_and_its_target_is_written(self):
        link, circle = path("later.link"), path("circle.link")
        os.symlink("later.jsonl", link)
        os.symlink("circle.link", circle)
        self.assert_ok(self.dllm(*self.arguments_with_model(), "--record", link))
        self.assertTrue(os.path.islink(link) and os.path.getsize(path("later.jsonl")) > 0)
        self.assert_fails(self.dllm(*self.arguments_with_model(), "--record", circle), 2, "--record", "symbolic links")
        self.assertTrue(os.path.islink(circle))

    def test_a_place_that_no_file_can_have_is_told_before_the_model_is_read(self):
        file, long = write("a_file", ""), "n" * 300
        for option, command in (("--record", ["run", "-p", "Hi"]), ("--dump-step-stats", ["run", "-p", "Hi"]),
                                ("--out", ["logits", "--tokens", "1"]), ("--trace", ["bench"])):
            for place, fact in ((path(long), f"cannot write '{path(long)}': File name too long"),
                                (path(f"{long}/x"), "cannot be used: File name too long"),
                                (path("no/x"), f"folder '{path('no')}' does not exist"),
                                (f"{file}/x", f"'{file}' is a file, no folder"),
                                (f"{file}/deeper/x", f"'{file}' is a file, no folder"),
                                ("/proc/x", "cannot write '/proc/x': ")):
                with self.subTest(option=option, place=place[-30:]):
                    result = self.dllm(*command, "-m", "no_such_model.gguf", option, place)
                    self.assert_fails(result, USAGE, fact, f"{option}", "Fix: give ")
        for name in (long, path(f"{long}/x"), f"{file}/x"):
            self.assert_fails(self.dllm("new-sampler", "mine", "--folder", name), USAGE, "cannot make", "--folder")

    def test_the_longest_name_a_file_can_have_is_written(self):
        """What it is called until it is whole would be longer than a name may be."""
        for option, command in (("--record", ["run", "-p", "Hi", "-n", 2]), ("--out", ["logits", "--tokens", "1"]),
                                ("--trace", ["bench", "--canvas", 4, "--repeat", 1, "--no-peak"])):
            place = path(option.strip("-").ljust(255, "n"))
            with self.subTest(option=option):
                self.assert_ok(self.dllm(*command, "-m", model(), option, place))
                self.assertGreater(os.path.getsize(place), 10)
        folder = path("f" * 255)
        self.assert_ok(self.dllm("new-sampler", "longest", "--folder", folder))
        self.assertTrue(os.path.isfile(os.path.join(folder, "CMakeLists.txt")))

    def test_a_working_folder_that_is_gone_is_told_as_any_other_place(self):
        def call(*command):
            os.makedirs(path("gone"), exist_ok=True)
            script = 'cd "$1" && rmdir "$1" && shift && "$@"'
            return subprocess.run(["sh", "-c", script, "sh", path("gone"), *self.command(*command)],
                                  stdin=subprocess.DEVNULL, capture_output=True, env=environment())
        for command in (["run", "-p", "Hi", "--record"], ["logits", "--tokens", "1", "--out"]):
            self.assert_fails(call(*command, "x", "-m", model()), USAGE, "cannot write 'x'", command[-1])
        printed = call("run", "--print-config", "--record", "x")
        self.assert_ok(printed)
        self.assertIn(b"record = x ", printed.stdout)

    def test_step_statistics_never_mix_with_the_answer(self):
        result = self.dllm(*self.arguments_with_model(), "--dump-step-stats", "/dev/stdout")
        self.assert_fails(result, 2, "/dev/stdout", "standard output")
        name = path("both.txt")
        with open(name, "wb") as out:
            result = self.dllm(*self.arguments_with_model(), "--dump-step-stats", name, stdout=out)
        self.assertEqual((result.returncode, os.path.getsize(name)), (2, 0))

    def test_closed_stderr_does_not_matter(self):
        script = '"$0" "$@" 2>&-'
        result = subprocess.run(["sh", "-c", script, *self.command(*self.arguments_with_model())],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment())
        self.assertEqual((result.returncode, result.stdout), (0, b"==\n"))


class Tokenize(CliCase):
    def test_json_is_what_run_feeds_the_model(self):
        for extra in ([], ["--no-chat"], ["-sys", "Be kind"]):
            ids = parse_one_json(self.dllm("tokenize", "-m", model(), "-p", "Hi \\n you", "--json",
                                           *extra).stdout)
            answer = self.run_json("-m", model(), "-p", "Hi \\n you", "-n", 1, *extra)
            self.assertEqual(ids["ids"], answer["prompt_tokens"])
            self.assertEqual(len(ids["ids"]), len(ids["pieces"]))
            self.assertLess(max(ids["ids"]), TOKENS)

    def test_text_form_has_a_token_a_line(self):
        result = self.dllm("tokenize", "-m", model(), "-p", "a\\n\\xff", "--no-chat")
        self.assert_ok(result)
        self.assertEqual([line.split(None, 1)[1] for line in result.stdout.decode().splitlines()],
                         ['"<|startoftext|>"', '"a"', '"\\n"', '"\\xFF"'])

    def test_decode_prints_the_exact_bytes(self):
        result = self.dllm("tokenize", "-m", model(), "--decode", "72,255,0,10")
        self.assert_ok(result)
        self.assertEqual(result.stdout, b"H\xff\x00\n")
        shown = self.dllm("tokenize", "-m", model(), "--decode", "72,255", "--json").stdout
        self.assertEqual(parse_one_json(shown), {"text": "H\ufffd"})
        eot = special_id("eot_id")
        special = self.dllm("tokenize", "-m", model(), "--decode", eot, "--parse-special").stdout
        self.assertEqual(special, b"<|eot_id|>")

    def test_decode_refuses_what_is_no_id(self):
        self.assert_fails(self.dllm("tokenize", "-m", model(), "--decode", "1,x"), 2, "'x'")
        self.assert_fails(self.dllm("tokenize", "-m", model(), "--decode", "1,320"), 2, "320")


if __name__ == "__main__":
    main()
