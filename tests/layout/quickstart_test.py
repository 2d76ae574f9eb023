"""apps/quickstart decides about CUDA for its own run: nothing of that stays in the build folder's cache.

usage: quickstart_test.py ROOT

The script runs on a copy of its files, with stand-ins for cmake, nvcc and nvidia-smi that write down what they were
told.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv[1])

CMAKE = """#!/bin/sh
echo "$*" >> "$STAND_IN/told"
case "$1" in --preset)
  mkdir -p build/release/bin
  printf '%s\\n' 'CMAKE_BUILD_TYPE:STRING=Release' 'DLLM_CUDA:STRING=OFF' 'DLLM_CUDA_ARCHITECTURES:STRING=90' \\
    > build/release/CMakeCache.txt
  printf '#!/bin/sh\\necho "$*" > "$STAND_IN/asked"\\necho 432\\n' > build/release/bin/dllm
  chmod +x build/release/bin/dllm ;;
esac
exit "${CMAKE_STATUS:-0}"
"""


class Quickstart(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dllm_quickstart_"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "apps/setup").mkdir(parents=True)
        shutil.copy(ROOT / "apps/quickstart", self.folder / "apps")
        (self.folder / "apps/setup/packages.sh").write_text(
            "DLLM_BUILD_PACKAGES=()\ninstall_packages() { :; }\ncmake_launcher() { :; }\n", encoding="utf-8")

    def stand_in(self, name, text):
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def run_it(self, *arguments, gpu, **environment):
        self.stand_in("cmake", CMAKE)
        self.stand_in("nvcc", "#!/bin/sh\n")
        self.stand_in("nvidia-smi", f"#!/bin/sh\nexit {0 if gpu else 9}\n")
        result = subprocess.run([self.folder / "apps/quickstart", *arguments], capture_output=True, text=True, check=False,
                                env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                                     "STAND_IN": str(self.folder), **environment})
        return result, (self.folder / "told").read_text(encoding="utf-8")

    def cache(self):
        return (self.folder / "build/release/CMakeCache.txt").read_text(encoding="utf-8")

    def test_without_a_gpu_cuda_is_left_out_of_this_build_alone(self):
        result, told = self.run_it(gpu=False)
        self.assertEqual((result.returncode, result.stdout), (0, "432\n"), result.stderr)
        self.assertIn("-DDLLM_CUDA=OFF", told)
        self.assertIn("no NVIDIA GPU answers here", result.stderr)
        self.assertIn("DLLM_CUDA:STRING=AUTO", self.cache())
        self.assertIn("DLLM_CUDA_ARCHITECTURES:STRING=90", self.cache())

    def test_with_a_gpu_cuda_is_built(self):
        result, told = self.run_it(gpu=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("-DDLLM_CUDA=ON", told)

    def test_the_demo_model_is_asked_unless_a_model_is_given(self):
        for arguments, models in ((["-p", "Hi"], 1), (["-m", "x.gguf"], 0), (["-m=x.gguf"], 0), (["--model", "x.gguf"], 0),
                                  (["--model=x.gguf"], 0)):
            self.assertEqual(self.run_it(*arguments, gpu=False)[0].returncode, 0)
            asked = (self.folder / "asked").read_text(encoding="utf-8")
            self.assertTrue(asked.endswith(" ".join(arguments) + "\n"), asked)
            self.assertEqual(asked.count("demo-llada.gguf"), models, asked)

    def test_help_neither_installs_nor_builds(self):
        self.stand_in("cmake", CMAKE)
        (self.folder / "apps/setup/packages.sh").write_text("exit 9\n", encoding="utf-8")
        for argument in ("-h", "--help"):
            environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "STAND_IN": str(self.folder)}
            result = subprocess.run([self.folder / "apps/quickstart", argument], capture_output=True, text=True, check=False,
                                    env=environment)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn('apps/quickstart -p "Sort these numbers', result.stdout)
        self.assertFalse((self.folder / "told").exists())

    def test_a_failed_build_leaves_no_choice_behind_either(self):
        result, _ = self.run_it(gpu=False, CMAKE_STATUS="1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("error: the build failed", result.stderr)
        self.assertIn("DLLM_CUDA:STRING=AUTO", self.cache())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
