"""The demo models' generator against its checkers, its determinism, the training/held-out split, and the two GGUF files.

    /usr/bin/python3 demo_models_test.py

Needs the standard library and numpy. The last group asks the built dllm, where the build set DLLM_BINARY, for token ids and
one answer of each model.
"""

import json
import os
import subprocess
import sys
import unittest
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np

DEMO = Path(__file__).resolve().parents[2] / "apps" / "demo_models"
sys.path.insert(0, str(DEMO))

import gguf_io                                                                     # noqa: E402
from evaluate_rules import held_out_set, is_right, prompts_of, validation_set                                 # noqa: E402
from generator import TASKS, is_held_out, stream                                   # noqa: E402
from generator.practice import PRACTICE                                            # noqa: E402
from generator.task import draw                                                    # noqa: E402
from tokenizer import ROLES, SPECIALS, VOCABULARY_SIZE, Tokenizer                  # noqa: E402

LARGEST_FILE = 15 * 2**20
ARCHITECTURES = ("llada", "dream")


def held_out_rows(name):
    return [json.loads(line) for line in (DEMO / "heldout" / f"{name}.jsonl").read_text().splitlines()]


class Generator(unittest.TestCase):
    def test_every_answer_passes_its_checker(self):
        for task in TASKS.values():
            rng = Random(5)
            for _ in range(300):
                made = task.make(rng)
                self.assertTrue(task.check(made.prompt, made.answer), (task.name, made))

    def test_every_practice_answer_passes_the_checker_of_its_task(self):
        for name, make in PRACTICE.items():
            rng = Random(8)
            for _ in range(200):
                made = make(rng)
                self.assertTrue(TASKS[name].check(made.prompt, made.answer), (name, made))

    def test_checkers_refuse_answers_of_other_questions(self):
        for task in TASKS.values():
            rng = Random(6)
            pairs = [task.make(rng) for _ in range(200)]
            swapped = [(a.prompt, b.answer) for a, b in zip(pairs, pairs[1:]) if a.answer != b.answer]
            if task.one_answer:
                passed = [pair for pair in swapped if self.passes(task, *pair)]
                self.assertEqual(passed, [], task.name)
            else:      # a free story may happen to grant another prompt's wishes
                self.assertLess(sum(self.passes(task, *pair) for pair in swapped), len(swapped) / 2, task.name)

    def test_checkers_refuse_damaged_answers(self):
        for task in TASKS.values():
            rng = Random(7)
            for _ in range(100):
                made = task.make(rng)
                self.assertFalse(self.passes(task, made.prompt, made.answer[:-1]), (task.name, made))

    @staticmethod
    def passes(task, prompt, answer):
        try:
            return bool(task.check(prompt, answer))
        except (ValueError, IndexError, KeyError, TypeError):
            return False

    def test_same_seed_gives_the_same_text(self):
        def first(seed):
            return [(task.name, made) for task, made in islice(stream(seed), 500)]
        self.assertEqual(first(11), first(11))
        self.assertNotEqual(first(11), first(12))

    def test_text_is_ascii_and_fits_a_window_of_128(self):
        tokenizers = [Tokenizer(a) for a in ARCHITECTURES]
        for task, made in islice(stream(13), 3000):
            self.assertTrue((made.prompt + made.answer).isascii())
            for tokenizer in tokenizers:
                self.assertLessEqual(len(tokenizer.answer_ids(made.answer)), 128, made)


class Split(unittest.TestCase):
    def test_training_never_draws_a_held_out_question(self):
        for task, made in islice(stream(17), 4000):
            self.assertFalse(is_held_out(task, made.key), (task.name, made))

    def test_practice_never_draws_a_held_out_question(self):
        for task, made in islice(stream(18, practice=1.0), 3000):
            self.assertFalse(is_held_out(task, made.key), (task.name, made))

    def test_validation_questions_are_held_out_and_not_the_tested_ones(self):
        for name in ("subtract", "pick", "weekday"):
            task = TASKS[name]
            tested = {made.key for made in held_out_set(task)}
            chosen = validation_set(task)
            self.assertGreaterEqual(len(chosen), 50, name)
            for made in chosen:
                self.assertTrue(is_held_out(task, made.key) and made.key not in tested, (name, made))

    def test_held_out_files_are_what_the_generator_gives(self):
        for task in TASKS.values():
            rows = held_out_rows(task.name)
            made = held_out_set(task)
            self.assertEqual([(r["prompt"], r["answer"]) for r in rows], [(i.prompt, i.answer) for i in made], task.name)

    def test_a_later_part_of_a_set_begins_where_the_earlier_ended_and_a_set_without_one_is_asked_whole(self):
        rows = held_out_rows("add")
        self.assertEqual(prompts_of(TASKS["add"], 40) + prompts_of(TASKS["add"], 100, skip=40), rows)
        self.assertEqual(prompts_of(TASKS["add"], 50, skip=len(rows)), rows[:50])

    def test_held_out_prompts_are_many_distinct_and_unseen(self):
        for task in TASKS.values():
            prompts = {row["prompt"] for row in held_out_rows(task.name)}
            self.assertGreaterEqual(len(prompts), 50, task.name)
            rng = Random(19)
            seen = {draw(task, rng, held_out=False).prompt for _ in range(500)}
            self.assertEqual(prompts & seen, set(), task.name)

    def test_held_out_answers_count_as_right(self):
        for task in TASKS.values():
            for row in held_out_rows(task.name):
                self.assertTrue(is_right(task, row["prompt"], row["answer"], row["answer"]), row)


class Files(unittest.TestCase):
    def setUp(self):
        self.files = {a: DEMO / f"demo-{a}.gguf" for a in ARCHITECTURES}

    def test_size(self):
        for path in self.files.values():
            self.assertLessEqual(path.stat().st_size, LARGEST_FILE, path.name)

    def test_metadata(self):
        for a, path in self.files.items():
            meta, tensors = gguf_io.read(path)
            tokenizer = Tokenizer(a)
            self.assertEqual(meta["general.architecture"], a)
            self.assertEqual(meta["general.license"], "apache-2.0")
            self.assertEqual(meta["tokenizer.ggml.tokens"], tokenizer.tokens)
            self.assertEqual(meta["tokenizer.ggml.merges"], [" ".join(m) for m in tokenizer.merges])
            self.assertEqual(meta["tokenizer.ggml.pre"], {"llada": "bailingmoe", "dream": "qwen2"}[a])
            self.assertEqual(meta["diffusion.shift_logits"], a == "dream")
            self.assertEqual(meta["tokenizer.ggml.add_bos_token"], a == "llada")
            for role, key in (("bos", "bos"), ("eos", "eos"), ("eot", "eot"), ("mask", "mask"), ("eos", "padding")):
                self.assertEqual(meta["tokenizer.ggml.tokens"][meta[f"tokenizer.ggml.{key}_token_id"]], ROLES[a][role])
            types = meta["tokenizer.ggml.token_type"]
            self.assertEqual([t for t, kind in zip(tokenizer.tokens, types) if kind == 3], SPECIALS[a])
            self.assertEqual(len(tokenizer.tokens), VOCABULARY_SIZE[a])
            self.assertEqual(tensors["token_embd.weight"][1], (meta[f"{a}.embedding_length"], VOCABULARY_SIZE[a]))
            self.assertEqual("blk.0.attn_q.bias" in tensors, a == "dream")

    def test_weights_are_finite_and_alive(self):
        for path in self.files.values():
            for name, tensor in gguf_io.read(path)[1].items():
                values = gguf_io.dequantize(*tensor)
                self.assertTrue(np.isfinite(values).all(), name)
                self.assertGreater(float(np.abs(values).max()), 0.0, name)


class Vocabulary(unittest.TestCase):
    def test_bytes_are_all_there_and_digits_stay_single(self):
        for a in ARCHITECTURES:
            tokenizer = Tokenizer(a)
            self.assertEqual(len(tokenizer.byte_of), 256)
            self.assertTrue(set(tokenizer.byte_of) <= set(tokenizer.tokens))
            self.assertEqual([t for t in tokenizer.tokens if len(t) > 1 and any(c.isdigit() for c in t)], [])

    def test_decoding_undoes_encoding(self):
        for a in ARCHITECTURES:
            tokenizer = Tokenizer(a)
            for _, made in islice(stream(23), 500):
                self.assertEqual(tokenizer.decode(tokenizer.encode(made.prompt)), made.prompt)


class CommandLines(unittest.TestCase):
    def refusal(self, script, *arguments):
        done = subprocess.run([sys.executable, DEMO / script, *arguments], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0, arguments)
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr

    def test_evaluate_cli_refuses_before_it_asks_anything(self):
        given = ["--dllm", "/no/such/dllm", "--model", "/no/such.gguf"]
        for options, fact in ((["--tasks", "add,nosuch"], "no task 'nosuch'"), (["--rates", "1,0"], "'0' is no number from 1 on"),
                              (["--rates", "129"], "129 tokens a step, the window has 128"),
                              (["--per-task", "-1"], "'-1' is no number from 1 on"),
                              (["--out", "/no/such/folder/x"], "there is no folder /no/such/folder"),
                              (["--tasks", "add"], "/no/such/dllm: No such file or directory")):
            self.assertIn(fact, self.refusal("evaluate_cli.py", *given, *options))

    def test_results_of_what_is_no_run_leave_the_results_alone(self):
        before = (DEMO / "results" / "accuracy.json").read_bytes()
        for arguments in ((), ("--help",), ("/no/such/run",)):
            self.assertIn("usage: results.py RUN...", self.refusal("results.py", *arguments))
        self.assertEqual((DEMO / "results" / "accuracy.json").read_bytes(), before)


@unittest.skipUnless(os.environ.get("DLLM_BINARY"), "DLLM_BINARY is not set")
class Runtime(unittest.TestCase):
    def dllm(self, *arguments):
        done = subprocess.run([os.environ["DLLM_BINARY"], *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_prompt_ids_are_those_of_training(self):
        prompts = ["What is 48213 + 9971?", "Solve this 4x4 sudoku (0 is empty):\n1204\n3012\n0000\n4321",
                   'What is the value of "city" in {"name": "Anna", "city": "Bralain"}', "Spell garden backwards."]
        for a in ARCHITECTURES:
            for prompt in prompts:
                got = self.dllm("tokenize", "-m", str(DEMO / f"demo-{a}.gguf"), "-e", "-p", prompt, "--json")
                self.assertEqual(got["ids"], Tokenizer(a).prompt_ids(prompt), (a, prompt))

    def test_both_models_add_in_wide_and_narrow_windows(self):
        for a in ARCHITECTURES:
            for window in (16, 32, 64):
                got = self.dllm("run", "-m", str(DEMO / f"demo-{a}.gguf"), "-p", "What is 48213 + 9971?", "-n", str(window),
                                "--steps", "16", "--json")
                self.assertEqual(got["text"], "58184", (a, window))


if __name__ == "__main__":
    unittest.main()
