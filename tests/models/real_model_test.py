"""tests/real_model runs on a tiny model, and says so when llama.cpp's ids differ."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from make_tiny_gguf import TinyModel, write_tiny_model

SCRIPT = Path(__file__).parents[1] / "real_model"


class RealModelScript(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.model = f"{self.folder.name}/model.gguf"

    def tearDown(self):
        self.folder.cleanup()

    def run_script(self, *arguments):
        done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_reports_ids_logits_and_text_without_llama_cpp(self):
        for arch in ("llada", "dream"):
            with self.subTest(arch):
                write_tiny_model(self.model, TinyModel(arch, quant="Q4_K"))
                status, text = self.run_script(self.model)
                self.assertEqual(status, 0, text)
                for part in (arch, "ids", "logits are finite", "text (32 tokens", "nothing to compare"):
                    self.assertIn(part, text)

    def test_differing_ids_fail(self):
        write_tiny_model(self.model, TinyModel("llada", quant="Q4_K"))
        stub = Path(self.folder.name) / "llama-tokenize"
        stub.write_text("#!/bin/sh\necho '[1, 2, 3]'\n")
        stub.chmod(0o755)
        status, text = self.run_script(self.model, self.folder.name)
        self.assertEqual(status, 1, text)
        self.assertIn("DIFFER 'Hello, world!'", text)
        self.assertIn("llama.cpp [1, 2, 3]", text)

    def test_help_is_no_error(self):
        for argument in ("-h", "--help"):
            status, text = self.run_script(argument)
            self.assertEqual(status, 0, text)
            self.assertIn("tests/real_model MODEL.gguf", text)

    def test_bad_usage_is_status_2(self):
        for arguments in ((), ("/no/such/model.gguf",), (os.devnull, "/no/such/folder")):
            self.assertEqual(self.run_script(*arguments)[0], 2, arguments)


if __name__ == "__main__":
    unittest.main()
