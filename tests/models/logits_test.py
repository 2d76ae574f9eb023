"""Logits of the model plugins on the CPU backend against the float64 forward and llama.cpp.

Map: shapes (both architectures, head counts, GQA ratios, head sizes, rope), every tensor type, the shift,
ragged batches, llama.cpp's goldens.

Tolerances, relative to the deviation of all logits of the case:
* products=f32: one product of n <= 1536 terms rounds by about 2^-24 sqrt(n) < 2.4e-6; some twenty
  of them follow each other, and the largest of 10^4 errors is 4 deviations out: 5e-5. Allowed 2e-4.
* products=exact: a block of 32 nearly normal values has a step of 2.1 deviations / 127, so a
  product's inputs carry a relative error of 2.1 / 127 / sqrt(12) = 0.5 %, and its output the same;
  over at most twenty products in a chain 2.2 % of the logits' deviation. Allowed 4 % root mean square, and the
  chosen token's reference logit at most 8 % below the reference's best (two errors of 1.5 deviations).
* products=fast: blocks of 256 values of inputs and of weights with a step of 2.9 deviations / 127, so 0.66 %
  each and 0.93 % a product, 1.8 times the above: 7 % and 14 % allowed.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "goldens"))
from golden_cases import CASES as GOLDEN_CASES, IDS as GOLDEN_IDS
from make_tiny_gguf import TinyModel, write_tiny_model
from quant_blocks import TYPES
from reference_forward import ReferenceModel

DRIVER = Path(os.environ["DLLM_BUILD"]) / "tests" / "logits_driver"
GOLDENS = np.load(Path(__file__).parent / "goldens" / "llamacpp.npz")


def some_ids(n, rows=320, seed=7):
    return [int(i) for i in np.random.PCG64(seed).random_raw(n) % rows]


class LogitsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = f"{self.folder.name}/model.gguf"

    def tearDown(self):
        self.folder.cleanup()

    def run_model(self, sequences, score=None, raw=True, products="f32"):
        out = f"{self.folder.name}/logits.bin"
        command = [DRIVER, "--model", self.path, "--out", out, "--set", f"products={products}"]
        for ids in sequences:
            command += ["--sequence", ",".join(map(str, ids))]
        if score is not None:
            command += ["--score", ",".join(map(str, score))]
        done = subprocess.run(command + ["--raw"] * raw, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        n_rows = sum(map(len, sequences)) if score is None else len(score)
        return np.fromfile(out, "<f4").reshape(n_rows, -1)

    def assert_close(self, got, want, products):
        self.assertEqual(got.shape, want.shape)
        self.assertTrue(np.isfinite(got).all())
        deviation = want.std()
        error = (got - want) / deviation
        if products == "f32":
            at = np.unravel_index(np.abs(error).argmax(), error.shape)
            self.assertLessEqual(np.abs(error).max(), 2e-4,
                                 f"row, id {at}: got {got[at]}, want {want[at]}")
            return
        allowed = {"exact": 0.04, "fast": 0.07}[products]
        self.assertLessEqual(np.sqrt((error ** 2).mean()), allowed)
        rows = np.arange(len(want))
        regret = want.max(1) - want[rows, got.argmax(1)]
        self.assertLessEqual(regret.max() / deviation, 2 * allowed)

    def check(self, model, ids, modes=("f32", "exact", "fast")):
        write_tiny_model(self.path, model)
        want = ReferenceModel(self.path).logits(ids)
        for mode in modes:
            with self.subTest(products=mode):
                self.assert_close(self.run_model([ids], products=mode), want, mode)


class Shapes(LogitsTest):
    def test_head_counts_grouping_and_head_sizes(self):
        """Width 256 throughout, so key_length mostly differs from width / heads."""
        shapes = [("llada", heads, kv, dim)
                  for heads, kv, dim in ((1, 1, 64), (3, 3, 64), (5, 5, 64), (2, 2, 128), (6, 2, 64))]
        shapes += [("dream", ratio, 1, 64) for ratio in range(1, 9)]
        shapes += [("dream", 6, 3, 128), ("dream", 14, 2, 128), ("dream", 15, 5, 64)]
        for arch, heads, kv, dim in shapes:
            with self.subTest(arch=arch, heads=heads, kv_heads=kv, head_dim=dim):
                model = TinyModel(arch, heads=heads, kv_heads=kv, head_dim=dim, layers=2, ffn=256)
                self.check(model, some_ids(9))

    def test_lengths(self):
        for arch in ("llada", "dream"):
            for length in (1, 2, 31, 64, 65, 131):
                with self.subTest(arch=arch, length=length):
                    self.check(TinyModel(arch, heads=2, head_dim=64, ffn=128), some_ids(length),
                               ("f32",))

    def test_one_layer_and_odd_sizes(self):
        for arch in ("llada", "dream"):
            for layers, width, ffn, rows in ((1, 96, 100, 331), (3, 90, 77, 351)):
                with self.subTest(arch=arch, layers=layers):
                    model = TinyModel(arch, layers=layers, width=width, heads=3, kv_heads=1,
                                      head_dim=30, ffn=ffn, rows=rows)
                    self.check(model, some_ids(7, rows))

    def test_tied_output(self):
        for arch in ("llada", "dream"):
            for quant in ("F32", "Q6_K", "Q4_K"):
                with self.subTest(arch=arch, quant=quant):
                    self.check(TinyModel(arch, tied=True, quant=quant), some_ids(6))

    def test_partial_rotation_and_linear_rope_scaling(self):
        for arch in ("llada", "dream"):
            scaled = {f"{arch}.rope.scaling.type": ("string", "linear"),
                      f"{arch}.rope.scaling.factor": ("f32", 4.0)}
            with self.subTest(arch=arch):
                self.check(TinyModel(arch, rope_dims=32, extra_keys=scaled), some_ids(40), ("f32",))


class TensorTypes(LogitsTest):
    def test_every_type_in_every_matrix(self):
        shapes = (("llada", 2, 2, 128), ("dream", 4, 2, 64))
        for quant in TYPES:
            for arch, heads, kv, dim in shapes:
                with self.subTest(quant=quant, arch=arch):
                    self.check(TinyModel(arch, heads=heads, kv_heads=kv, head_dim=dim, quant=quant),
                               some_ids(8))

    def test_types_of_32_blocks_with_rows_that_are_no_multiple_of_256(self):
        for quant in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL"):
            with self.subTest(quant=quant):
                self.check(TinyModel("dream", width=288, heads=3, kv_heads=1, head_dim=96, ffn=352,
                                     quant=quant), some_ids(5))

    def test_the_q4_k_m_mix(self):
        for arch in ("llada", "dream"):
            with self.subTest(arch=arch):
                self.check(TinyModel(arch, layers=4, quant="Q4_K_M"), some_ids(33))


class ShiftAndRows(LogitsTest):
    def test_shift_follows_the_key_on_both_architectures(self):
        ids, wanted = some_ids(6), [0, 1, 3, 5]
        for arch in ("llada", "dream"):
            for shift in (True, False, None):
                with self.subTest(arch=arch, shift=shift):
                    write_tiny_model(self.path, TinyModel(arch, shift=shift))
                    reference = ReferenceModel(self.path)
                    self.assertEqual(reference.shift, arch == "dream" if shift is None else shift)
                    got = self.run_model([ids], wanted, raw=False)
                    self.assert_close(got, reference.scores(ids, wanted), "f32")

    def test_scored_rows_are_the_rows_of_the_whole(self):
        """In any order, repeated, alone: bit for bit."""
        ids = some_ids(20)
        for arch, mode in (("llada", "f32"), ("dream", "exact"), ("llada", "fast")):
            with self.subTest(arch=arch, products=mode):
                write_tiny_model(self.path, TinyModel(arch, quant="Q4_K"))
                whole = self.run_model([ids], products=mode)
                for rows in ([19, 3, 3, 0], [7], list(range(5, 15))):
                    got = self.run_model([ids], rows, products=mode)
                    np.testing.assert_array_equal(got, whole[rows])


class Batches(LogitsTest):
    def test_a_ragged_batch_equals_its_single_runs_bit_for_bit(self):
        sequences = [some_ids(1, seed=1), some_ids(40, seed=2), some_ids(7, seed=3)]
        for arch in ("llada", "dream"):
            for quant, mode in (("Q4_K_M", "exact"), ("Q4_K_M", "fast"), ("F16", "f32"), ("Q8_0", "exact")):
                with self.subTest(arch=arch, quant=quant, products=mode):
                    write_tiny_model(self.path, TinyModel(arch, quant=quant))
                    for raw in (True, False):
                        alone = np.concatenate([self.run_model([ids], None, raw, mode)
                                                for ids in sequences])
                        together = self.run_model(sequences, None, raw, mode)
                        np.testing.assert_array_equal(together, alone)

    def test_scored_rows_may_alternate_between_sequences(self):
        sequences = [some_ids(5, seed=4), some_ids(9, seed=5)]
        write_tiny_model(self.path, TinyModel("dream", quant="Q6_K"))
        whole = self.run_model(sequences)
        score = [0, 6, 1, 13, 4, 4]
        np.testing.assert_array_equal(self.run_model(sequences, score), whole[score])

    def test_known_logits_come_out_as_chosen(self):
        table = np.arange(7 * 320).reshape(7, 320) % 97 / 8.0
        for arch in ("llada", "dream"):
            with self.subTest(arch=arch):
                write_tiny_model(self.path, TinyModel(arch, quant="Q4_K", known_logits=table))
                ids = some_ids(12)
                want = table[np.array(ids) % 7]
                for mode in ("f32", "exact"):
                    np.testing.assert_allclose(self.run_model([ids], products=mode), want,
                                               rtol=1e-5, atol=1e-5)


class LlamaCpp(LogitsTest):
    def test_agrees_with_llama_cpp_on_the_same_file(self):
        """Cosine per row and argmax; quantised models also carry llama.cpp's own rounding."""
        for name, model in GOLDEN_CASES.items():
            write_tiny_model(self.path, model)
            golden = GOLDENS[f"{name}.logits"].astype(np.float64)
            least = 1 - 1e-6 if model.quant == "F32" else 0.998
            for mode in ("f32", "exact", "fast"):
                with self.subTest(name, products=mode):
                    got = self.run_model([GOLDEN_IDS], products=mode).astype(np.float64)
                    cosine = (got * golden).sum(1) / np.sqrt((got ** 2).sum(1) * (golden ** 2).sum(1))
                    self.assertGreaterEqual(cosine.min(), least)
                    rows = np.arange(len(golden))
                    regret = golden.max(1) - golden[rows, got.argmax(1)]
                    self.assertLessEqual(regret.max() / golden.std(), 0.1)


if __name__ == "__main__":
    unittest.main()
