#!/usr/bin/env python3
"""run --record writes what a model answered; replay plays any sampler on it without the model."""

import json
import os

from cli_case import FAILURE, USAGE, CliCase, main, model, parse_one_json, path, write


class Replay(CliCase):
    def record(self, name, *arguments, arch="llada"):
        trace = path(name)
        answer = self.run_json("-m", model("random", arch=arch), "-p", "Hi", "-n", 12, "--seed", 5, *arguments,
                               "--record", trace)
        return trace, answer

    def replay(self, trace, *arguments):
        result = self.dllm("replay", trace, *arguments, "--json")
        self.assert_ok(result)
        return parse_one_json(result.stdout)

    def test_the_recorded_sampler_repeats_its_run_from_the_trace_alone(self):
        for arch, options in [("llada", ["--steps", 5]), ("llada", ["--temp", 0.8, "--remasking", "random"]),
                              ("llada", ["--cfg-scale", 1.5, "--steps", 4]),
                              ("dream", ["--steps", 5]), ("dream", ["--algorithm", "origin", "--temp", 0.6]),
                              ("dream", ["--temp", 0.7, "--top-p", 0.9, "--top-k", 5, "--alg-temp", 0.3]),
                              ("dream", ["--algorithm", "topk_margin"])]:
            with self.subTest(arch=arch, options=options):
                trace, answer = self.record("own.jsonl", *options, arch=arch)
                again = self.replay(trace)
                for key in ("tokens", "text", "steps", "forwards", "finish_reason", "seed", "sampler"):
                    self.assertEqual(again[key], answer[key], key)
                self.assertEqual(again["rows"]["approximate"], 0)
                self.assertGreater(again["rows"]["exact"], 0)
                self.assertEqual(again["recorded"]["same"], again["recorded"]["positions"])

    def test_recording_changes_no_token(self):
        arguments = ["-m", model("random", arch="dream"), "-p", "Hi", "-n", 12, "--seed", 5, "--temp", 0.6]
        plain = self.run_json(*arguments)
        recorded = self.run_json(*arguments, "--record", path("same.jsonl"))
        self.assertEqual(plain["tokens"], recorded["tokens"])

    def test_another_sampler_plays_on_the_same_statistics(self):
        trace, _ = self.record("other.jsonl", "--steps", 12)
        other = self.replay(trace, "--sampler", "dream", "--steps", 4)
        self.assertEqual((other["sampler"]["name"], other["forwards"]), ("dream", 4))
        self.assertEqual(len(other["tokens"]), 12)
        # Its first forward sees the recorded canvas: every row of it is as recorded.
        self.assertGreaterEqual(other["rows"]["exact"], 12)
        self.assertGreater(other["rows"]["approximate"], 0)
        self.assertEqual(other["recorded"]["sampler"], "llada")

    def test_a_trace_has_what_was_planned_answered_and_done(self):
        trace, answer = self.record("fields.jsonl", "--steps", 3)
        with open(trace, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        header, rounds, end = lines[0], lines[1:-1], lines[-1]
        self.assertEqual((header["trace"], header["sampler"], header["options"]["steps"]), (1, "llada", "3"))
        self.assertEqual(header["ids"][:len(answer["prompt_tokens"])], answer["prompt_tokens"])
        self.assertEqual([len(r["plan"]["positions"]) for r in rounds], [12, 8, 4])
        self.assertEqual([len(r["rows"]) for r in rounds], [12, 12, 12])
        self.assertEqual([r["finished"] for r in rounds], [False, False, True])
        first = len(answer["prompt_tokens"])
        written = {e["position"]: e["token"] for r in rounds for e in r["edits"]}
        self.assertEqual([written[first + i] for i in range(12)], answer["tokens"])
        for row in rounds[0]["rows"]:
            self.assertEqual(len(row["top_ids"]), 16)
            self.assertEqual(row["top_ids"][0], row["argmax"])
            self.assertEqual(row["top_probs"], sorted(row["top_probs"], reverse=True))
            self.assertAlmostEqual(row["top_probs"][0], row["top1_prob"], places=6)
        self.assertEqual((end["finish_reason"], end["ids"][first:]), ("length", answer["tokens"]))

    def test_a_trace_cut_short_is_played_and_shown_as_ids(self):
        trace, answer = self.record("cut.jsonl", "--steps", 3)
        with open(trace, encoding="utf-8") as file:
            lines = file.readlines()
        result = self.dllm("replay", write("short.jsonl", "".join(lines[:-1])))
        self.assert_ok(result)
        self.assertEqual([int(word) for word in result.stdout.split()], answer["tokens"])

    def test_what_is_no_trace_is_refused_with_its_line(self):
        trace, _ = self.record("good.jsonl", "--steps", 3)
        with open(trace, encoding="utf-8") as file:
            lines = file.readlines()
        spoilt = json.loads(lines[2])
        spoilt["rows"][0]["position"] = 4000
        header = json.loads(lines[0])
        outside = json.loads(lines[1])
        outside["rows"][0]["sampled"] = 320
        for name, text, parts in [
                ("fraction", json.dumps({**header, "seed": 1.5}), ["line 1", "1.5 is no integer"]),
                ("huge", json.dumps({**header, "seed": 1e300}), ["line 1", "1e+300 is no integer"]),
                ("negative", json.dumps({**header, "ids": [-1], "editable": [1]}), ["line 1", "vocabulary of 320"]),
                ("wide", json.dumps({**header, "editable": [256]}), ["line 1", "256 is no integer from 0 to 255"]),
                ("no list", json.dumps({**header, "ids": 7}), ["line 1", "7 is no list"]),
                ("token", lines[0] + json.dumps(outside), ["line 2", "token 320"]),
                ("empty", "", ["no forward"]),
                ("text", "hello\n", ["line 1"]),
                ("other", '{"step": 1}\n', ["line 1", "no key 'trace'"]),
                ("newer", lines[0].replace('"trace":1', '"trace":9'), ["version 9", "reads 1"]),
                ("short", lines[0] + lines[1][:200] + "\n", ["line 2"]),
                ("lying", "".join(lines[:2]) + json.dumps(spoilt) + "\n", ["line 3", "position 4000"]),
                ("ids", lines[0].replace('"n_vocab":320', '"n_vocab":10'), ["line 1", "vocabulary of 10"])]:
            with self.subTest(name=name):
                result = self.dllm("replay", write(name + ".jsonl", text))
                self.assert_fails(result, FAILURE, *parts)

    def test_bad_usage_is_named(self):
        self.assert_fails(self.dllm("replay"), USAGE, "dllm run --record")
        self.assert_fails(self.dllm("replay", path("nowhere.jsonl")), USAGE, "nowhere.jsonl")
        trace, _ = self.record("usage.jsonl")
        self.assert_fails(self.dllm("replay", trace, "--sampler", "lada"), USAGE, "'lada'", "llada")
        self.assert_fails(self.dllm("replay", trace, "--top-k", 3), USAGE, "llada", "top_k")
        self.assert_fails(self.dllm("run", "-m", model(), "-p", "x", "--record", model()), USAGE, "overwritten")
        self.assert_fails(self.dllm("run", "-m", model(), "-p", "x", "--record", "-"), USAGE, "standard output")
        same = ["--record", path("both.jsonl"), "--dump-step-stats", path("both.jsonl")]
        self.assert_fails(self.dllm("run", "-m", model(), "-p", "x", *same), USAGE, "both.jsonl", "two files")
        if os.geteuid() != 0:
            self.assert_fails(self.dllm("run", "-m", model(), "-p", "x", "--record", "/proc/x"), USAGE, "--record")


if __name__ == "__main__":
    main()
