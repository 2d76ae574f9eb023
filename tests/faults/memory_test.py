#!/usr/bin/env python3
"""Whatever memory the system leaves, a run ends with its answer or with one error: never by a signal."""

import os
import resource
import signal
import unittest

from cli_case import CliCase, main, model

MEBIBYTE = 1 << 20
CGROUP = os.environ.get("DLLM_TEST_CGROUP", "")


def one_of(*names):
    """The first of some files of the control group that exists: cgroup v2 and v1 name them differently."""
    return next(path for path in (os.path.join(CGROUP, name) for name in names) if os.path.exists(path))


def set_group_limit(limit):
    with open(one_of("memory.max", "memory.limit_in_bytes"), "w", encoding="ascii") as file:
        file.write(str(limit))


def join_group():
    with open(one_of("cgroup.procs"), "w", encoding="ascii") as file:
        file.write(str(os.getpid()))


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

    @unittest.skipUnless(CGROUP, "DLLM_TEST_CGROUP names no control group whose memory limit may be set")
    def test_any_limit_of_a_control_group_gives_the_answer_or_one_error_with_the_amounts(self):
        outcomes = []
        for limit in (4, 8, 16, 20, 24, 32, 40, 64, 128):
            set_group_limit(limit * MEBIBYTE)
            result = self.dllm("run", "-m", model("random", layers=4, ffn=512), "-p", "Hi", "-n", 4, "-t", 2,
                               preexec_fn=join_group)
            with self.subTest(limit=limit, status=result.returncode, stderr=result.stderr):
                if result.returncode == 1:
                    error = self.assert_fails(result, 1, "needs", "are available")
                    self.assertRegex(error, r"needs \d+ bytes, \d+ are available")
                # Less than the program's own start needs: the kernel ends it, before a byte of the answer.
                self.assertIn(result.returncode, (0, 1) if {0, 1} & {*outcomes} else (0, 1, -signal.SIGKILL))
                self.assertEqual(bool(result.stdout), result.returncode == 0)
            outcomes.append(result.returncode)
        self.assertLessEqual({0, 1}, {*outcomes}, "both kinds of end were seen")


if __name__ == "__main__":
    main()
