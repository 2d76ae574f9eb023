#!/usr/bin/env python3
"""Whatever memory the system leaves, a run ends with its answer or with one error: never by a signal."""

import resource

from cli_case import CliCase, main, model

MEBIBYTE = 1 << 20


class Memory(CliCase):
    def test_any_limit_of_address_space_gives_the_answer_or_one_error(self):
        outcomes = set()
        for limit in [*range(24, 96, 6), 128, 512]:
            bytes_allowed = limit * MEBIBYTE
            result = self.dllm(
                "run", "-m", model("random", layers=4, ffn=512), "-p", "Hi", "-n", 4, "-t", 8,
                preexec_fn=lambda n=bytes_allowed: resource.setrlimit(resource.RLIMIT_AS, (n, n)))
            errors = [line for line in result.stderr.splitlines() if line.startswith(b"dllm: error: ")]
            with self.subTest(limit=limit, status=result.returncode, stderr=result.stderr):
                self.assertIn(result.returncode, (0, 1, 127))
                self.assertEqual(len(errors), 1 if result.returncode == 1 else 0)
                if result.returncode == 127:  # before main: the system's loader could not map the libraries, and says so
                    self.assertIn(b"error while loading shared libraries", result.stderr)
            outcomes.add(result.returncode)
        self.assertLessEqual({0, 1}, outcomes, "both kinds of end were seen")


if __name__ == "__main__":
    main()
