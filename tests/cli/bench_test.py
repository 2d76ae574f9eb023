#!/usr/bin/env python3
"""dllm bench: one result in its documented form, comparisons, a trace that is whole or absent.

No figure of time decides anything here: only what must hold between figures.
"""

import json
import os
import resource
import signal
import statistics
import subprocess
import time
import unittest

from cli_case import (FOLDER, INTERRUPTED, SANITIZED, USAGE, CliCase, environment, main, model, parse_one_json,
                      path, write)

STAGES = ["embed", "qkv", "attention", "out", "ffn", "head", "stats", "sampler", "other"]
# As a file, so that a test may say otherwise.
QUICK = ["--config", write("quick.cfg", "canvas = 20\nrepeat = 3\npeak = false\n"
                                        "[sampler]\nsteps = 2\n")]


class Bench(CliCase):
    def bench(self, *arguments, **options):
        return self.dllm("bench", "-m", model("random"), *arguments, **options)

    def bench_json(self, *arguments, **options):
        result = self.bench(*QUICK, *arguments, "--json", **options)
        self.assert_ok(result)
        return parse_one_json(result.stdout)


class Result(Bench):
    def test_json_has_the_documented_keys_and_agrees_with_itself(self):
        answer = self.bench_json("--seed", 7, "-t", 1)
        self.assertLessEqual(
            {"model", "backend", "isa", "threads", "canvas", "ms_per_step", "stages_ms",
             "tokens_per_second", "tops", "gb_per_s", "peak_memory_bytes", "version"}, set(answer))
        self.assertEqual((answer["canvas"], answer["threads"], answer["backend"], answer["seed"]),
                         (20, 1, "cpu", 7))
        self.assertEqual((answer["steps"], answer["repeat"], answer["prompt_tokens"]), (2, 3, 4))
        self.assertEqual(sorted(answer["stages_ms"]), sorted(["load", *STAGES]))
        step = answer["ms_per_step"]
        repeats = answer["repeats_ms"]
        self.assertEqual((step["min"], step["max"]), (min(repeats), max(repeats)))
        self.assertEqual(step["median"], statistics.median(repeats))
        self.assertEqual(sum(answer["types"].values()), self.tensor_count())
        self.assertGreater(answer["peak_memory_bytes"], 1 << 20)
        self.assertEqual((answer["peak"], answer["limit_ms"]), (None, None))

    def tensor_count(self):
        inspected = self.dllm("inspect", model("random"), "--json")
        return len(parse_one_json(inspected.stdout)["tensors"])

    def test_stages_add_up_to_the_step(self):
        answer = self.bench_json("--repeat", 1)
        stages = {stage: answer["stages_ms"][stage] for stage in STAGES}
        self.assertTrue(all(ms >= 0 for ms in stages.values()), stages)
        for stage in ("embed", "qkv", "attention", "out", "ffn", "head", "stats", "sampler"):
            self.assertGreater(stages[stage], 0, stage)
        self.assertAlmostEqual(sum(stages.values()), answer["ms_per_step"]["median"], places=6)

    def test_stages_add_up_to_the_median_step_whatever_the_number_of_repeats(self):
        for repeats in (3, 4):
            answer = self.bench_json("--repeat", repeats)
            stages = {name: ms for name, ms in answer["stages_ms"].items() if name != "load"}
            self.assertEqual(len(answer["repeats_ms"]), repeats)
            self.assertAlmostEqual(sum(stages.values()), answer["ms_per_step"]["median"], places=6)

    def test_work_is_counted_from_the_shapes(self):
        answer = self.bench_json()
        rows, width, layers = 20, 256, 1
        inspected = parse_one_json(self.dllm("inspect", model("random"), "--json").stdout)
        matrices = {t["name"]: t for t in inspected["tensors"] if len(t["shape"]) == 2}
        weights = sum(t["shape"][0] * t["shape"][1] for name, t in matrices.items()
                      if name != "token_embd.weight")
        attention = 4 * rows * rows * width * layers
        self.assertEqual(answer["operations"], 2 * weights * rows + attention)
        self.assertEqual((answer["rows"], type(answer["rows"])), (rows, int))
        uneven = self.bench_json("--asked-rows", "--steps", 3)  # of 16, 16 - 6 and 5 positions
        self.assertAlmostEqual(uneven["rows"], (16 + 10 + 5) / 3)

    def test_asked_rows_score_what_the_sampler_asks_for(self):
        answer = self.bench_json("--asked-rows", "--steps", 1)
        self.assertEqual((answer["rows"], answer["prompt_tokens"]), (16, 4))

    def test_a_prompt_takes_its_place_in_the_canvas(self):
        ids = parse_one_json(self.dllm("tokenize", "-m", model("random"), "-p", "Hello", "--json",
                                       "--no-chat").stdout)["ids"]
        answer = self.bench_json("-p", "Hello", "--no-chat")
        self.assertEqual(answer["prompt_tokens"], len(ids))

    def test_sampler_options_are_those_of_run(self):
        answer = self.bench_json("--steps", 4, "--block-length", 8, "--temp", 0.5)
        options = answer["sampler"]["options"]
        self.assertEqual((options["steps"], options["block_length"], options["temperature"]),
                         (4, 8, 0.5))
        dream = self.dllm("bench", "-m", model("random", arch="dream"), *QUICK, "--json")
        self.assert_ok(dream)
        self.assertEqual(parse_one_json(dream.stdout)["sampler"]["options"]["steps"], 2)

    def test_more_steps_than_there_are_positions_are_told_once(self):
        for arch, arguments, fact in (
                ("llada", ["--steps", 500], b"500 steps are asked for (--steps, command line), but there are 16 "
                                            b"positions to fill: 16 needed the model"),
                ("dream", ["--steps", 500], b"but there are 16 positions to fill: "), ("llada", ["--steps", 16], None)):
            bench = self.dllm("bench", "-m", model("random", arch=arch), *QUICK, *arguments)
            run = self.dllm("run", "-m", model("random", arch=arch), "-p", "Hi", "-n", 16, "--ignore-eos", *arguments)
            for result in (bench, run):
                self.assert_ok(result)
                self.assertEqual(result.stderr.count(b"are asked for"), 1 if fact else 0, result.stderr)
                self.assertIn(fact or b"", result.stderr)

    def test_the_device_line_tells_what_was_asked_for_apart_from_what_is_used(self):
        self.assertNotIn(b"asked for", self.bench(*QUICK).stdout)
        lines = self.bench(*QUICK, "-t", 1000, "--backend-set", "products=exact").stdout.decode().splitlines()
        self.assertRegex(lines[1], r"^device  cpu .*; asked for: products exact, threads 1000 \(\d+ are used\)$")

    def test_the_peak_gives_a_limit(self):
        result = self.bench("--canvas", 8, "--steps", 1, "--repeat", 1, "--json")
        self.assert_ok(result)
        answer = parse_one_json(result.stdout)
        for key in ("integer_tops", "float_tflops"):
            self.assertGreater(answer["peak"][key], 0, key)
        self.assertTrue(answer["peak"]["integer_unit"])
        if answer["peak"]["read_gb_per_s"] > 0:  # 0: no room to measure it
            self.assertAlmostEqual(answer["limit_share"],
                                   answer["limit_ms"] / answer["ms_per_step"]["median"])

    @unittest.skipIf(SANITIZED, "its shadow memory counts")
    def test_a_peak_that_finds_no_memory_is_null_and_the_result_is_there(self):
        limit = 192 << 20  # the peak of reading takes 256 MiB at least
        result = self.bench("--canvas", 8, "--steps", 1, "--repeat", 1, "-t", 1, "--json",
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
        self.assert_ok(result)
        answer = parse_one_json(result.stdout)
        self.assertEqual((answer["peak"], answer["limit_ms"], answer["repeat"]), (None, None, 1))
        self.assertRegex(result.stderr, rb"warning: the peak of the machine was not measured: "
                                        rb"the system refused \d+ bytes .*; --no-peak does not try")

    def test_text_names_every_stage_and_nothing_else_goes_to_stdout(self):
        result = self.bench(*QUICK)
        self.assert_ok(result)
        text = result.stdout.decode()
        for word in ("model ", "device ", "work ", "load ", "step ", "memory ", *STAGES):
            self.assertIn(word, text)
        self.assertNotIn("\x1b", text + result.stderr.decode())
        self.assertIn(b"backend cpu", result.stderr)

    def test_one_row_and_one_step_are_told_as_one(self):
        result = self.dllm("bench", "-m", model("random"), "--canvas", 1, "--repeat", 1, "--no-peak")
        self.assert_ok(result)
        self.assertIn(b"1 row scored, 1 x 1 step, sampler", result.stdout)

    def test_bad_canvases_are_refused_before_the_weights(self):
        huge = self.bench("--canvas", 100000)
        self.assert_fails(huge, USAGE, "100000", "--canvas")
        full = self.bench("--canvas", 3, "-p", "Hello", "--no-chat")
        self.assert_fails(full, USAGE, "leave nothing to fill", "--canvas")
        self.assert_fails(self.bench("--canvas", 0), USAGE, "--canvas")
        self.assert_fails(self.bench("--repeats", 2), USAGE, "--repeat")

    def test_settings_come_from_files_and_print_config_reproduces_them(self):
        config = write("bench.cfg", "canvas = 24\nrepeat = 2\npeak = false\n[sampler]\nsteps = 3\n")
        answer = self.dllm("bench", "-m", model("random"), "--config", config, "--json")
        self.assert_ok(answer)
        answer = parse_one_json(answer.stdout)
        self.assertEqual((answer["canvas"], answer["repeat"], answer["steps"]), (24, 2, 3))
        printed = self.dllm("bench", "-m", model("random"), "--config", config, "--print-config")
        self.assert_ok(printed)
        again = self.dllm("bench", "--config", write("again.cfg", printed.stdout), "--json")
        self.assert_ok(again)
        again = parse_one_json(again.stdout)
        self.assertEqual([again[key] for key in ("canvas", "repeat", "steps", "peak")],
                         [24, 2, 3, None])

    def test_interrupted_before_a_repeat_ends_without_a_result(self):
        process = subprocess.Popen(
            self.command("bench", "-m", model("random"), "--canvas", 200, "--repeat", 100000,
                         "--warmup", 100000),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            env=environment())
        line = process.stderr.readline()  # the backend is named: the steps begin
        self.assertIn(b"backend", line)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (INTERRUPTED, b""), err)


class Compare(Bench):
    def old(self, **changes):
        result = {**self.bench_json(), **changes}
        return write("old.json", json.dumps(result)), result

    def test_ratios_are_new_over_old(self):
        name, old = self.old()
        answer = self.bench_json("--compare", name)
        compared = answer["compare"]
        step = compared["ms_per_step"]
        self.assertAlmostEqual(step["ratio"],
                               answer["ms_per_step"]["median"] / old["ms_per_step"]["median"])
        self.assertEqual(set(compared["stages_ms"]), {"load", *STAGES})
        self.assertEqual(compared["stages_ms"]["ffn"]["old"], old["stages_ms"]["ffn"])
        self.assertEqual(compared["differences"], [])
        self.assertGreaterEqual(step["noise"], 0)

    def test_verdicts_follow_the_ranges(self):
        for median, spread, verdict in [(1e8, 1e5, "faster"), (1e-9, 1e-10, "slower"),
                                        (1.0, None, "within noise"), (1e8, 0, "unknown")]:
            low, high = (1e-12, 1e9) if spread is None else (median - spread, median + spread)
            name, _ = self.old(ms_per_step={"median": median, "min": low, "max": high})
            compared = self.bench_json("--compare", name)["compare"]
            self.assertEqual(compared["ms_per_step"]["verdict"], verdict, median)

    def test_of_a_single_repeat_no_noise_is_told(self):
        name, _ = self.old()
        step = self.bench_json("--repeat", 1, "--compare", name)["compare"]["ms_per_step"]
        self.assertEqual((step["noise"], step["verdict"]), (None, "unknown"))
        text = self.bench(*QUICK, "--repeat", 1, "--compare", name).stdout.decode().splitlines()[-1]
        self.assertTrue(text.startswith("step ") and text.endswith(
            "  no verdict: one side has a single repeat, which tells nothing of noise"), text)

    def test_a_difference_within_the_printed_noise_is_no_verdict(self):
        """A range that begins above every new step, and is wide enough for the difference."""
        name, _ = self.old(ms_per_step={"median": 2e3, "min": 1.5e3, "max": 1e9})
        step = self.bench_json("--compare", name)["compare"]["ms_per_step"]
        self.assertLess(1 / step["ratio"] - 1, step["noise"])
        self.assertEqual(step["verdict"], "within noise")

    def test_another_measurement_is_named(self):
        name, _ = self.old(canvas=999, isa="other")
        compared = self.bench_json("--compare", name)["compare"]
        self.assertEqual(compared["differences"], ["isa", "canvas"])
        text = self.bench(*QUICK, "--compare", name)
        self.assertIn(b"not the same measurement: isa, canvas differ", text.stdout)

    def refuse_old(self, name, content, *parts):
        result = self.dllm("bench", "-m", "no_such_model.gguf", "--compare", write(name, content))
        self.assert_fails(result, USAGE, "is no result of dllm bench", *parts)

    def test_times_that_no_bench_measures_are_refused(self):
        good = {"ms_per_step": {"median": 2, "min": 1, "max": 3}, "stages_ms": {"ffn": 1, "rope": 0}}
        for part, key, value, says in [
                ("ms_per_step", "median", -2, "'median' of its ms_per_step is -2 ms, allowed are 1e-12 to"),
                ("ms_per_step", "min", 0, "'min' of its ms_per_step is 0"),
                ("ms_per_step", "max", 1e308, "'max' of its ms_per_step is 1e+308 ms"),
                ("ms_per_step", "median", 5, "the median of its ms_per_step, 5, is not between 1 and 3"),
                ("ms_per_step", "max", "3", "'max' of its ms_per_step is no number"),
                ("stages_ms", "ffn", -1e-3, "stage 'ffn' is -0.001 ms"),
                ("stages_ms", "ffn", 1e-300, "stage 'ffn' is 1e-300 ms")]:
            with self.subTest(key=key, value=value):
                self.refuse_old("odd.json", json.dumps({**good, part: {**good[part], key: value}}), says)

    def test_a_file_that_is_no_result_is_refused_before_the_model_is_read(self):
        good = '{"ms_per_step": {"median": 1, "min": 1, "max": 2}, "stages_ms": {}}'
        wrong = {"text.json": "hello", "hidden.json": good + "\0{", "empty.json": "{}", "list.json": "[1]",
                 "half.json": '{"ms_per_step": {"median": 1, "min": 1}}',
                 "words.json": '{"ms_per_step": {"median": 1, "min": 1, "max": 2}, '
                               '"stages_ms": {"ffn": "fast"}}'}
        for name, content in wrong.items():
            self.refuse_old(name, content, "--compare", "dllm bench --json")
        missing = self.dllm("bench", "-m", "no_such_model.gguf", "--compare", path("none.json"))
        self.assert_fails(missing, USAGE, "--compare", "none.json")


class Trace(Bench):
    def test_a_step_is_whole_with_rows_for_the_threads(self):
        name = path("step.json")
        self.assert_ok(self.bench(*QUICK, "--trace", name, "-t", 2))
        with open(name, encoding="utf-8") as file:
            trace = json.load(file)
        events = trace["traceEvents"]
        rows = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
        self.assertEqual(rows[0], "step")
        self.assertIn("thread 0", rows.values())
        spans = [e for e in events if e["ph"] == "X"]
        self.assertTrue(all(e["dur"] >= 0 and e["ts"] >= 0 for e in spans))
        stages = {e["cat"] for e in spans if e["tid"] == 0}
        self.assertLessEqual(set(STAGES) - {"stats", "other"}, stages)
        # Work lies inside the op it is named after.
        ops = [e for e in spans if e["tid"] == 0 and e["cat"] != "part"]
        work = [e for e in spans if e["tid"] > 0]
        self.assertGreater(len(work), 10)
        for item in work:
            self.assertTrue(any(op["name"] == item["name"] and op["ts"] <= item["ts"] + 1e-3 and
                                item["ts"] + item["dur"] <= op["ts"] + op["dur"] + 1e-3
                                for op in ops), item)

    def test_places_that_cannot_be_written_are_refused_and_nothing_is_left(self):
        for name in (path("no/step.json"), FOLDER, "/dev/full", "-", model("random")):
            self.assert_fails(self.bench("--trace", name), USAGE, "--trace")
        name = write("keep.json", "{}")
        self.assert_fails(self.bench("--trace", name, "--compare", name), USAGE)
        with open(name, encoding="utf-8") as file:
            self.assertEqual(file.read(), "{}")

    def test_a_write_that_fails_leaves_no_file(self):
        before = set(os.listdir(FOLDER))
        name = path("late.json")
        result = self.bench(*QUICK, "--trace", name, "--json",
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(b"--trace", result.stderr)
        self.assertFalse(set(os.listdir(FOLDER)) - before)
        self.assertEqual(parse_one_json(result.stdout)["repeat"], 3, "the result is not lost with it")


if __name__ == "__main__":
    main()
