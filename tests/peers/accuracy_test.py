"""Every mode of the CPU backend is as near to float64 as promised beside llama.cpp, for every tensor type.

llama.cpp's errors are the recorded ones (`accuracy.py --record`), of the same model files. The default mode may have
one and a half times its error; `exact` and `f32` may not exceed it, nor need they fall below the
rounding of f32 sums: 2e-6 of the logits' deviation, 2^-24 sqrt(32) over a chain of some twenty
products. Half of the table's models, to take seconds: those with outlier channels and the trained ones.
"""

import json
import unittest

from accuracy import PEER, RECORD, dllm_command, dllm_modes, measure_all
from accuracy_models import cases

LARGEST_RATIO = 1.5
F32_ROUNDING = 2e-6


class Accuracy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.record = json.loads(RECORD.read_text())
        cls.modes = dllm_modes()
        chosen = [case for case in cases() if case.name.startswith(("outliers/dream", "trained/llada"))]
        cls.results = measure_all({mode: dllm_command("cpu", f"products={mode}") for mode in cls.modes}, chosen)

    def check(self, mode, ratio, floor):
        self.assertGreater(len(self.results), 15)
        for name, errors in self.results.items():
            allowed = max(ratio * self.record[name], floor)
            with self.subTest(name, mode=mode):
                self.assertLessEqual(errors[mode], allowed, f"{PEER} has {self.record[name]}")

    def test_the_default_mode_has_at_most_half_more_error_than_llama_cpp(self):
        self.check(self.modes[0], LARGEST_RATIO, F32_ROUNDING)

    def test_exact_has_no_more_error_than_llama_cpp(self):
        self.check("exact", 1.0, F32_ROUNDING)

    def test_f32_has_no_more_error_than_llama_cpp(self):
        self.check("f32", 1.0, F32_ROUNDING)


if __name__ == "__main__":
    unittest.main()
