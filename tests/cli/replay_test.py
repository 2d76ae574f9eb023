#!/usr/bin/env python3
"""run --record writes what a model answered; replay plays any sampler on it without the model."""

import json
import os
import resource

from cli_case import FAILURE, SANITIZED, USAGE, CliCase, main, model, parse_one_json, path, special_id, write


def limit_memory():
    """Not in a sanitizer's build: its shadow memory counts."""
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))


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

    def test_the_text_has_no_control_tokens_as_that_of_the_run_has_none(self):
        trace = path("ends.jsonl")
        answer = self.run_json("-m", model(f"byte:{special_id('endoftext')}"), "-p", "Hi", "-n", 4, "--ignore-eos", "--record", trace)
        again = self.replay(trace)
        self.assertEqual((answer["tokens"], answer["text"]), ([special_id("endoftext")] * 4, ""))
        self.assertEqual((again["tokens"], again["text"]), (answer["tokens"], ""))

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

    def test_what_cannot_be_read_is_told_with_the_reason(self):
        for place, reason in (("/", "it is a folder"), ("/no/such", "No such file or directory"),
                              ("/proc/self/mem", "Input/output error")):
            self.assert_fails(self.dllm("replay", place), USAGE, f"cannot read the trace '{place}': {reason}")

    def test_a_recorded_sampler_that_is_not_installed_is_named(self):
        trace, _ = self.record("gone.jsonl", "--steps", 3)
        with open(trace, encoding="utf-8") as file:
            text = file.read().replace('"sampler":"llada"', '"sampler":"mine"', 1)
        result = self.dllm("replay", write("foreign.jsonl", text))
        self.assert_fails(result, USAGE, "recorded with sampler 'mine', which is not among the plugins found (dream, llada)",
                          "foreign.jsonl", "--sampler", "--plugin-dir")
        self.assert_ok(self.dllm("replay", path("foreign.jsonl"), "--sampler", "llada"))

    def test_what_is_no_trace_is_refused_with_its_line(self):
        trace, _ = self.record("good.jsonl", "--steps", 3)
        with open(trace, encoding="utf-8") as file:
            lines = file.readlines()
        spoilt = json.loads(lines[2])
        spoilt["rows"][0]["position"] = 4000
        for name, text, parts in [
                ("empty", "", ["the trace is empty"]),
                ("header", lines[0], ["the trace holds no forward"]),
                ("text", "hello\n", ["line 1", "the line is no JSON from byte 1 of 5 on"]),
                ("brace", "{\n", ["line 1", "the line is no JSON: it breaks off after 1 byte"]),
                ("nul", lines[0] + lines[1].rstrip("\n") + "\0\n",
                 ["line 2", f"the line is no JSON: byte {len(lines[1])} of {len(lines[1])} is NUL"]),
                ("hidden", lines[0].rstrip("\n") + "\0{}\n" + lines[1], ["line 1", "is NUL"]),
                ("other", '{"step": 1}\n', ["line 1", "no key 'trace'"]),
                ("newer", lines[0].replace('"trace":1', '"trace":9'), ["version 9", "reads 1"]),
                ("gap", lines[0] + "\n" + lines[1], ["line 2", "the line is empty"]),
                ("short", lines[0] + lines[1][:200] + "\n", ["line 2", "the line is no JSON: it breaks off after 200 bytes"]),
                ("lying", "".join(lines[:2]) + json.dumps(spoilt) + "\n", ["line 3", "'position' of a row is 4000"]),
                ("ids", lines[0].replace('"n_vocab":320', '"n_vocab":10'),
                 ["line 1", "'n_tokens' of the facts is 320, allowed are 1 to 10"])]:
            with self.subTest(name=name):
                result = self.dllm("replay", write(name + ".jsonl", text))
                self.assert_fails(result, FAILURE, *parts)

    def test_every_value_of_a_trace_is_checked_before_it_is_used(self):
        """One value at a time is replaced; each is refused with its line, in dllm's own words."""
        trace, _ = self.record("checked.jsonl", "--steps", 3)
        with open(trace, encoding="utf-8") as file:
            good = [json.loads(line) for line in file]
        first = good[1]["rows"][0]["position"]
        for line, keys, value, says in [
                (0, ["facts", "n_vocab"], -1, "'n_vocab' of the facts is -1, allowed are 1 to 2147483647"),
                (0, ["facts", "n_vocab"], 2 ** 64, "'n_vocab' of the facts is 1.8446744073709552e+19"),
                (0, ["facts", "n_tokens"], 4000, "'n_tokens' of the facts is 4000, allowed are 1 to 320"),
                (0, ["facts", "eos_id"], 320, "'eos_id' of the facts is 320, allowed are -1 to 319"),
                (0, ["facts", "stop_ids"], [1] * 1001, "'stop_ids' of the facts has 1001 entries, at most 1000"),
                (0, ["facts"], 3, "the facts is 3, not an object"),
                (0, ["ids", 0], 4294967296, "'ids' of the header is 4294967296"),
                (0, ["ids"], "abc", "'ids' of the header is \"abc\", not a list"),
                (0, ["editable", 0], 7, "'editable' of the header is 7, allowed are 0 to 1"),
                (0, ["seed"], -1, "'seed' of the header is -1, allowed are 0 to 18446744073709551615"),
                (0, ["seed"], 1.5, "'seed' of the header is 1.5"),
                (0, ["seed"], 1e300, "'seed' of the header is 1e+300"),
                (0, ["editable", 0], 256, "'editable' of the header is 256"),
                (0, ["sampler"], 5, "'sampler' of the header is 5, not a text"),
                (0, ["options", "steps"], [], "'options' of the header holds a list, not texts alone"),
                (1, ["plan", "domain"], "cooked", "'domain' of the plan is neither raw nor filtered"),
                (1, ["plan", "temperature"], None, "'temperature' of the plan is null, allowed are 0 to"),
                (1, ["plan", "positions"], [1, 1], "'positions' of the plan do not ascend"),
                (1, ["plan", "suppress_both"], [1] * 321, "'suppress_both' of the plan has 321 entries, at most 320"),
                (1, ["rows"], [{}] * 600, "'rows' of the round has 600 entries, at most "),
                (1, ["rows", 0], {}, "a row has no key 'position'"),
                (1, ["rows", 0, "position"], 0, "a row of position 0, which is not editable"),
                (1, ["rows", 0, "sampled"], 320, "'sampled' of a row is 320, allowed are -1 to 319"),
                (1, ["rows", 0, "argmax"], good[0]["facts"]["mask_id"],
                 "is the mask, which the plan suppresses"),
                (1, ["rows", 0, "sampled"], -1, f"a row of position {first} with 'sampled' -1 and 'argmax' "),
                (1, ["rows", 0], {**good[1]["rows"][0], "sampled": -1, "argmax": -1},
                 f"a row of position {first} without tokens ('sampled' and 'argmax' are -1), which the plan asks for"),
                (1, ["rows"], good[1]["rows"][1:], f"no row of position {first}, which is editable"),
                (2, ["rows"], good[2]["rows"][:-1], f"no row of position {first + 11}, which is editable"),
                (1, ["rows"], [], f"no row of position {first}, which is editable"),
                (1, ["rows", 0, "top_ids"], [1] * 65, "'top_ids' of a row has 65 entries, at most 64"),
                (1, ["rows", 0, "top_ids", 1], good[1]["rows"][0]["top_ids"][0], "twice or out of place"),
                (1, ["rows", 0, "top_probs", 0], 2, "'top_probs' of a row is 2, allowed are 0 to 1.001"),
                (1, ["rows", 0, "log_sum_exp"], None, "without its log_sum_exp"),
                (1, ["rows", 0, "sampled_prob"], None, f"a row of position {first} without its sampled_prob"),
                (1, ["rows", 0, "top1_prob"], None, f"a row of position {first} without its top1_prob"),
                (1, ["rows", 0, "top2_prob"], None, f"a row of position {first} without its top2_prob"),
                (1, ["rows", 0, "entropy"], None, f"a row of position {first} without its entropy"),
                (1, ["rows", 1], good[1]["rows"][0], f"a row of position {first} behind that of position {first}"),
                (1, ["rows", 0, "sampled_prob"], -1e30, "'sampled_prob' of a row is -1e+30, allowed are 0 to 1.001"),
                (1, ["rows", 0, "top1_prob"], 1.5, "'top1_prob' of a row is 1.5, allowed are 0 to 1.001"),
                (1, ["rows", 0, "top2_prob"], -0.5, "'top2_prob' of a row is -0.5, allowed are 0 to 1.001"),
                (1, ["rows", 0, "entropy"], 1e300, "'entropy' of a row is 1e+300, allowed are"),
                (1, ["edits", 0, "token"], 5000, "'token' of an edit is 5000, allowed are 0 to 319"),
                (1, ["edits", 0, "position"], 0, "an edit of position 0, which is not editable"),
                (1, ["edits", 0, "kind"], "steal", "'kind' of an edit is none of commit, replace, remask"),
                (1, ["edits"], [{}] * 600, "'edits' of the round has 600 entries"),
                (1, ["round"], 1.5, "'round' of the round is 1.5, allowed are 0 to"),
                (1, ["round"], 4294967295, "round 4294967295 where round 0 is due"),
                (2, ["round"], 0, "round 0 where round 1 is due"),
                (3, ["round"], 1, "round 1 where round 2 is due"),
                (1, ["forward"], "yes", "'forward' of the round is \"yes\", not true or false"),
                (-1, ["ids"], [1], "1 ids at the end, "),
                (-1, ["pieces", "-5"], "x", "a piece of what is no token (0 to 319)"),
                (-1, ["pieces", "5"], "\u0100", "a piece holds a character above U+00FF")]:
            lines = json.loads(json.dumps(good))
            at = lines[line]
            for key in keys[:-1]:
                at = at[key]
            at[keys[-1]] = value
            with self.subTest(keys=keys, value=str(value)[:30]):
                text = "".join(json.dumps(each) + "\n" for each in lines)
                result = self.dllm("replay", write("hostile.jsonl", text))
                self.assert_fails(result, FAILURE, f"line {line % len(good) + 1}", says, "record it again")
                self.assertNotIn(b"json.exception", result.stderr)

    def spoil(self, trace, name, change):
        with open(trace, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        change(lines)
        return write(name, "".join(json.dumps(line) + "\n" for line in lines))

    def test_options_of_the_header_are_refused_as_the_traces_own(self):
        trace, _ = self.record("options.jsonl", "--steps", 3)
        for options, fact, fix in [
                ({"steps": "abc"}, "option steps: 'abc' is not allowed (", "give an integer from 0 to"),
                ({"remasking": "x"}, "option remasking: 'x' is not allowed (", "give low_confidence | random"),
                ({"steps": "1", "block_length": "4"}, "steps 1 is less than the 3 blocks", "raise steps to 3")]:
            with self.subTest(options=options):
                spoilt = self.spoil(trace, "spoilt.jsonl", lambda lines: lines[0]["options"].update(options))
                self.assert_fails(self.dllm("replay", spoilt), FAILURE, fact, f"{spoilt}, line 1", fix)
                self.assert_ok(self.dllm("replay", spoilt, "--sampler", "dream"))
                given = [part for name in options for part in ("--set", f"{name}=" + (
                    "random" if name == "remasking" else "12"))]
                self.assert_ok(self.dllm("replay", spoilt, *given))
        unknown = self.spoil(trace, "unknown.jsonl", lambda lines: lines[0]["options"].update(colour="red"))
        result = self.dllm("replay", unknown)
        self.assert_ok(result)
        self.assertIn(b"warning: sampler llada has no option 'colour', which the trace was recorded with", result.stderr)

    def test_what_was_not_finite_is_told_of_the_trace_where_a_sampler_asks_for_it(self):
        """The recorded sampler asked for its first block alone; the last row of that round held no token."""
        def break_last_row(lines):
            row = lines[1]["rows"][-1]
            row.update({"sampled": -1, "argmax": -1, "top_ids": [-1], "top_probs": [0]})
            row.update(dict.fromkeys(("sampled_prob", "top1_prob", "top2_prob", "entropy", "log_sum_exp")))
        trace, answer = self.record("blocks.jsonl", "--steps", 3, "--block-length", 4)
        broken = self.spoil(trace, "broken.jsonl", break_last_row)
        self.assertEqual(self.replay(broken)["tokens"], answer["tokens"])
        last = len(answer["prompt_tokens"]) + 11
        self.assert_fails(self.dllm("replay", broken, "--sampler", "dream"), FAILURE,
                          f"what the model answered for position {last} was not finite", f"{broken}, line 2")

    def test_a_row_of_no_token_is_told_of_the_trace_not_of_the_sampler_that_would_commit_it(self):
        trace, _ = self.record("fewer.jsonl", "--steps", 3)
        fewer = self.spoil(trace, "fewer.jsonl", lambda lines: lines[0]["facts"].update(n_tokens=1))
        self.assert_fails(self.dllm("replay", fewer), FAILURE, "beyond the facts' 1 tokens", f"{fewer}, line 2")

    def test_a_round_behind_the_last_is_refused(self):
        trace, _ = self.record("behind.jsonl", "--steps", 3)
        with open(trace, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        lines[2]["finished"] = True
        result = self.dllm("replay", write("behind.jsonl", "".join(json.dumps(line) + "\n" for line in lines)))
        self.assert_fails(result, FAILURE, "line 4", "a round behind round 1, which finished the run")

    def test_a_trace_of_any_size_and_depth_is_refused_without_taking_the_memory(self):
        trace, _ = self.record("sized.jsonl", "--steps", 3)
        with open(trace, encoding="utf-8") as file:
            header = json.loads(file.readline())
        wide = {**header, "ids": [0] * (1 << 18), "editable": [0] * (1 << 18)}
        a_round = {"forward": True, "rows": [], "edits": [], "finished": False, "plan": {
            "positions": [], "want": 0, "domain": "raw", "allow_all": False, "temperature": 0, "top_p": 1, "top_k": 0,
            "guidance_scale": 0, "suppress_both": [], "suppress_confidence": []}}
        for name, text, says in [
                ("long", "[" + "0," * (9 << 20), "line 1"), ("deep", "[" * (1 << 20), "nested over 6 deep"),
                ("endless", "/dev/zero", "longer than 16 MiB"),
                ("many", json.dumps(wide) + "\n" + "".join(
                    json.dumps({"round": i, **a_round}) + "\n" for i in range(600)), "513 forwards of a canvas of"),
                ("keys", '{"trace":1,"model":{' + ",".join(f'"{i}":0' for i in range(1 << 18)) + "}}", "not a text")]:
            with self.subTest(name=name):
                file = text if text.startswith("/dev") else write(name + ".jsonl", text)
                result = self.dllm("replay", file, preexec_fn=None if SANITIZED else limit_memory)
                self.assert_fails(result, FAILURE, says)

    def test_bad_usage_is_named(self):
        self.assert_fails(self.dllm("replay"), USAGE, "dllm run --record")
        self.assert_fails(self.dllm("replay", "a", "a"), USAGE, "option TRACE is given twice: 'a' and 'a'")
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
