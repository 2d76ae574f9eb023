"""Peak resident memory of `dllm run` at a canvas of 160, mapped pages included (VmHWM).

A model of 83 MB in Q4_K_M; what the program itself takes is measured with one of 0.3 MB and the same
canvas. Weights that stayed mapped beside their imported form would show as twice the file.
"""

import json
import os
import resource
import subprocess
import tempfile
import unittest
from pathlib import Path

from make_tiny_gguf import TinyModel, write_tiny_model

SHAPES = {"llada": dict(heads=8), "dream": dict(heads=8, kv_heads=2)}


class PeakMemory(unittest.TestCase):
    def peak(self, model, path):
        """(VmHWM, file size) of a run that fills the canvas in few steps."""
        write_tiny_model(path, model)
        prompt = "a b c d e f g h"  # no chat: 15 to 16 tokens
        done = subprocess.run([os.environ["DLLM_BINARY"], "run", "-m", path, "-p", prompt, "--no-chat",
                               "--backend", "cpu", "-n", "144", "--steps", "5", "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["peak_memory_bytes"], Path(path).stat().st_size

    def test_peak_is_at_most_the_file_and_15_percent_above_the_program(self):
        for arch, heads in SHAPES.items():
            for tied in (False, True):
                with self.subTest(arch=arch, tied=tied), tempfile.TemporaryDirectory() as folder:
                    path = f"{folder}/model.gguf"
                    program, _ = self.peak(TinyModel(arch, quant="Q4_K_M", ffn=256, **heads), path)
                    big = TinyModel(arch, layers=8, width=1024, ffn=4096, rows=8192, tied=tied,
                                    quant="Q4_K_M", **heads)
                    peak, file_bytes = self.peak(big, path)
                    self.assertLessEqual(peak - program, 1.15 * file_bytes)

    def test_a_long_canvas_asks_for_what_its_tokens_need(self):
        """Address space too: what is asked for and never touched is refused on a machine that is nearly full."""
        limit = 1 << 30
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model.gguf"
            write_tiny_model(path, TinyModel("llada", width=256, ffn=4096, heads=8, context=2048, quant="Q8_0"))
            done = subprocess.run([os.environ["DLLM_BINARY"], "run", "-m", path, "-p", "a", "--no-chat",
                                   "--backend", "cpu", "-t", "2",
                                   "-n", "1500", "--block-length", "1500", "--steps", "2", "--cfg-scale", "1"],
                                  capture_output=True, text=True,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
