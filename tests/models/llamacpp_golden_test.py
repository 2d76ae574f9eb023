"""The numpy oracle and llama.cpp agree on the same files.

Plain-float models agree to rounding; the goldens are kept as f16 (2^-12 relative), so a cosine below
1 - 1e-6 would be a real difference. Quantised models differ by llama.cpp's rounding of activations to
8 bits, about 0.6 % a product and 2 % of the logits' deviation after the chain of products.
"""

import hashlib
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "goldens"))
from golden_cases import CASES, IDS
from make_tiny_gguf import write_tiny_model
from reference_forward import ReferenceModel

GOLDENS = np.load(Path(__file__).parent / "goldens" / "llamacpp.npz")


def cosines(a, b):
    return (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))


class LlamaCppGoldens(unittest.TestCase):
    def check(self, name, path):
        """Both oracles of one case: llama.cpp's stored logits, numpy's computed ones."""
        write_tiny_model(path, CASES[name])
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        self.assertEqual(digest, str(GOLDENS[f"{name}.sha256"]),
                         "the tiny model is not the one the golden was made of: make it again")
        return GOLDENS[f"{name}.logits"].astype(np.float64), ReferenceModel(path).logits(IDS)

    def test_reference_agrees_with_llama_cpp(self):
        self.assertEqual(list(GOLDENS["ids"]), IDS)
        for name in CASES:
            with self.subTest(name), tempfile.NamedTemporaryFile(suffix=".gguf") as file:
                golden, reference = self.check(name, file.name)
                least = 1 - 1e-6 if CASES[name].quant == "F32" else 0.999
                self.assertGreaterEqual(cosines(golden, reference).min(), least)
                self.assertTrue((golden.argmax(1) == reference.argmax(1)).all())


if __name__ == "__main__":
    unittest.main()
