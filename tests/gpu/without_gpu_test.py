"""Where no GPU can be used the CUDA backend is listed with its reason, asked for by name it is refused with it, and
`auto` takes the CPU and says so."""

import json
import unittest

from cli_case import BINARY, FAILURE, USAGE, CliCase, model
from greedy import gpu_missing


class WithoutGpu(CliCase):
    @classmethod
    def setUpClass(cls):
        missing = gpu_missing(BINARY)
        if not missing:
            raise unittest.SkipTest("there is a GPU")
        cls.reason = missing.split("not usable: ", 1)[1]

    def test_plugins_lists_it_with_the_reason(self):
        plugins = json.loads(self.dllm("plugins", "--json").stdout)["plugins"]
        cuda = [each for each in plugins if (each["kind"], each["id"]) == ("backend", "cuda")]
        self.assertEqual(len(cuda), 1)
        self.assertEqual(cuda[0]["status"], "ok")
        self.assertIn(self.reason, json.dumps(cuda[0]))

    def test_asked_for_by_name_it_exits_1_with_the_reason(self):
        result = self.dllm("run", "-m", model(), "-p", "Hi", "-n", 4, "--backend", "cuda")
        self.assert_fails(result, FAILURE, f"backend 'cuda' cannot run here: {self.reason}")

    def test_bad_usage_is_told_first_and_exits_2(self):
        for bad, says in ((["--backend-set", "foo=3"], "backend cuda has no option 'foo'"),
                          (["--gpu-memory", 99999], "'99999' is not allowed"), (["-f", "no/such"], "no/such")):
            prompt = [] if bad[0] == "-f" else ["-p", "Hi"]
            self.assert_fails(self.dllm("run", "-m", model(), *prompt, "--backend", "cuda", *bad), USAGE, says)

    def test_auto_takes_the_cpu_and_says_so(self):
        result = self.dllm("run", "-m", model(), "-p", "Hi", "-n", 4, "--backend", "auto")
        self.assert_ok(result)
        self.assertIn(b"backend cpu", result.stderr)

    def test_the_memory_bound_is_an_option_of_cuda_alone(self):
        result = self.dllm("run", "-m", model(), "-p", "Hi", "-n", 4, "--backend", "cpu", "--gpu-memory", 3)
        self.assert_fails(result, USAGE, "'gpu_memory'", "--backend cuda has it")


if __name__ == "__main__":
    unittest.main()
