"""From `dllm new-sampler` to an answer, as docs/writing-a-sampler.md begins.

usage: new_sampler_test.py WORK MODEL      (WORK/prefix: where dllm is installed)
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PREFIX, MODEL = pathlib.Path(sys.argv[1], "prefix"), sys.argv[2]
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="dllm_new_sampler_"))
# The user's shell: dllm's bin on the PATH, a home of one's own; cmake is told nothing else.
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if not k.startswith("DLLM_")},
               "HOME": str(FOLDER / "home"), "PATH": f"{PREFIX}/bin:{os.environ['PATH']}"}


def call(*command, folder=FOLDER):
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300,
                          check=False)


class NewSampler(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (FOLDER / "home").mkdir()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(FOLDER)

    def must(self, *command, folder=FOLDER):
        result = call(*command, folder=folder)
        self.assertEqual(result.returncode, 0, f"{command}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def test_builds_tests_installs_and_runs(self):
        made = self.must("dllm", "new-sampler", "surest_first")
        self.assertEqual(made, "sampler_surest_first\n")
        project = FOLDER / "sampler_surest_first"
        names = sorted(path.name for path in project.iterdir())
        self.assertEqual(names, ["CMakeLists.txt", "README.md", "sampler_surest_first.cpp",
                                 "test_surest_first.cpp"])
        for path in project.iterdir():
            self.assertNotRegex(path.read_text(encoding="utf-8"), r"@\w+@")
        self.must("cmake", "-G", "Ninja", "-B", "build", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic -Werror",
                  folder=project)
        self.must("cmake", "--build", "build", folder=project)
        tested = self.must("ctest", "--test-dir", "build", folder=project)
        self.assertIn("100% tests passed, 0 tests failed out of 2", tested)
        self.must("cmake", "--install", "build", folder=project)
        self.assertTrue((FOLDER / "home/.local/lib/dllm/plugins/sampler_surest_first.so").is_file())

        plugins = json.loads(self.must("dllm", "plugins", "--json"))["plugins"]
        mine = next(p for p in plugins if p["id"] == "surest_first")
        self.assertEqual((mine["status"], [o["name"] for o in mine["options"]]), ("ok", ["per_step", "temperature"]))

        answer = json.loads(self.must("dllm", "run", "-m", MODEL, "-p", "What is 2 + 3?", "-n", "16", "--sampler",
                                      "surest_first", "--set", "per_step=2", "--json"))
        self.assertEqual(answer["sampler"], {"name": "surest_first", "options": {"per_step": 2, "temperature": 0.0}})
        self.assertLessEqual(answer["forwards"], 8)
        self.assertTrue(answer["tokens"])

    def test_the_template_is_what_its_folder_says(self):
        self.must("dllm", "new-sampler", "plain", "--folder", "elsewhere/deep")
        for path in (FOLDER / "elsewhere/deep").iterdir():
            source = PREFIX / "share/dllm/template" / (path.name.replace("plain", "NAME") + ".in")
            want = source.read_text(encoding="utf-8").replace("@name@", "plain").replace("@Class@", "Plain")
            self.assertEqual(path.read_text(encoding="utf-8"), want)

    def refuse(self, *arguments):
        result = call("dllm", "new-sampler", *arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        return result.stderr

    def test_refuses_names_that_cannot_be(self):
        self.assertIn("a letter first: top_k_margin", self.refuse("Top-K Margin"))
        self.assertIn("'9lives' is no name for a sampler", self.refuse("9lives"))
        self.assertIn("1 to 24 of", self.refuse("x" * 25))
        self.assertIn("dllm new-sampler NAME", self.refuse())
        self.assertIn("'auto' is no name for a sampler", self.refuse("auto"))
        for shipped in ("llada", "dream"):
            self.assertIn(f"there is a sampler '{shipped}' already", self.refuse(shipped))

    def test_never_writes_into_a_folder_with_files(self):
        (FOLDER / "sampler_taken").mkdir()
        (FOLDER / "sampler_taken/notes").write_text("mine")
        self.assertIn("'sampler_taken' exists already", self.refuse("taken"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
