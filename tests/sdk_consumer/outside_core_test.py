"""A backend, a model and a program built outside the tree, from the installed packages, generate.

usage: outside_core_test.py WORK MODEL    (WORK/prefix: where dllm is installed; WORK/build: what was built; MODEL: the LLaDA demo model)
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from gguf_writer import GgufWriter
from make_tiny_gguf import TinyModel, metadata, next_token_table, write_tiny_model
from tiny_vocabulary import build_vocabulary

WORK, MODEL = map(pathlib.Path, sys.argv[1:3])
TOKENS, CLASSES = 320, 64


def dllm(*arguments):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("DLLM_")}
    result = subprocess.run([WORK / "prefix/bin/dllm", *map(str, arguments)], capture_output=True, text=True,
                            check=False, env={**clean, "HOME": "/"})
    assert result.returncode == 0, result.stderr
    return result.stdout


def write_bigram(path):
    """Token t prefers t + 1: the logits of next_token_table, by a model of embedding and head alone."""
    tiny = TinyModel("llada", width=CLASSES)
    vocabulary = build_vocabulary("llada", TOKENS)
    writer = GgufWriter()
    for key, (kind, value) in metadata(tiny, vocabulary).items():
        if not key.startswith("llada."):
            writer.set(key, "bigram" if key == "general.architecture" else value, kind.removesuffix("[]"))
    writer.set("bigram.context_length", 256, "u32")
    embedding = np.zeros((TOKENS, CLASSES), np.float32)
    embedding[np.arange(TOKENS), np.arange(TOKENS) % CLASSES] = 1000
    output = (next_token_table(TOKENS, CLASSES).T / np.sqrt(CLASSES)).astype(np.float32)
    for name, value in (("token_embd.weight", embedding), ("output.weight", output),
                        ("output_norm.weight", np.ones(CLASSES, np.float32))):
        writer.add_raw(name, "F32", tuple(reversed(value.shape)), value.tobytes())
    writer.write(path)
    return vocabulary.ids


class Outside(unittest.TestCase):
    def run_json(self, model, *arguments):
        return json.loads(dllm("run", "-m", model, "-p", "Hi", "-n", 12, "--seed", 3, "--json", "--plugin-dir",
                               WORK / "build", *arguments))

    def test_the_plain_backend_gives_the_tokens_of_the_cpu_backend(self):
        with tempfile.TemporaryDirectory() as folder:
            for arch, quant, options in (("llada", "F32", ()), ("llada", "Q8_0", ("--cfg-scale", 1.5, "--steps", 5)),
                                         ("dream", "Q4_K", ("--temp", 0.5, "--top-p", 0.9, "--steps", 4))):
                with self.subTest(arch=arch, quant=quant):
                    path = os.path.join(folder, "tiny.gguf")
                    write_tiny_model(path, TinyModel(arch, quant=quant, ffn=256))
                    # f32 products, so that both compute the same numbers up to rounding.
                    cpu = self.run_json(path, "--backend", "cpu", "--backend-set", "products=f32", *options)
                    plain = self.run_json(path, "--backend", "plain", *options)
                    self.assertEqual(plain["backend"], "plain")
                    self.assertEqual(plain["tokens"], cpu["tokens"])

    def test_the_bigram_model_says_what_its_table_says(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bigram.gguf")
            ids = write_bigram(path)
            mask = next(number for name, number in ids.items() if "mdm_mask" in name)
            for backend in ("cpu", "plain"):
                answer = self.run_json(path, "--backend", backend, "--no-chat", "--sampler", "in_cpp", "--set",
                                       "at_once=3")
                self.assertEqual(answer["architecture"], "bigram")
                # Every masked position sees the mask alone, and prefers the token behind its class.
                self.assertEqual(answer["tokens"], [(mask % CLASSES + 1) % CLASSES] * 12)
                self.assertEqual(answer["forwards"], 4)

    def test_a_program_generates_through_the_library(self):
        question = "What is 47 + 385?"
        clean = {k: v for k, v in os.environ.items() if not k.startswith("DLLM_")}
        result = subprocess.run([WORK / "build/generate_text", MODEL, question], capture_output=True, text=True,
                                check=False, env={**clean, "HOME": "/"})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, dllm("run", "-m", MODEL, "-p", question, "-n", 64, "--steps", 32, "--seed", 1,
                                             "--backend", "cpu"))
        missing = subprocess.run([WORK / "build/generate_text", WORK / "none.gguf", question], capture_output=True,
                                 text=True, check=False)
        self.assertEqual((missing.returncode, missing.stdout), (1, ""))
        self.assertIn("none.gguf", missing.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
