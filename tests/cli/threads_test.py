#!/usr/bin/env python3
"""How many threads a run takes: what the process may use, never more (case 15)."""

import os

from cli_case import CliCase, main, model, parse_one_json, write

QUICK = ["--config", write("threads.cfg", "canvas = 8\nrepeat = 1\npeak = false\n[sampler]\nsteps = 1\n")]


class Threads(CliCase):
    def bench(self, *arguments, cores=None):
        """The result and stderr of a bench that may run on these cores."""
        pin = None if cores is None else lambda: os.sched_setaffinity(0, cores)
        result = self.dllm("bench", "-m", model("random"), *QUICK, "--json", *arguments, preexec_fn=pin)
        self.assert_ok(result)
        return parse_one_json(result.stdout), result.stderr

    def test_default_threads_follow_the_affinity_mask(self):
        usable = sorted(os.sched_getaffinity(0))
        self.assertEqual(self.bench(cores={usable[0]})[0]["threads"], 1)
        whole = self.bench()[0]["threads"]
        self.assertLessEqual(1, whole)
        self.assertLessEqual(whole, len(usable))
        self.assertLessEqual(self.bench(cores=set(usable[:2]))[0]["threads"], 2)

    def test_more_threads_than_cores_are_cut_to_them_with_a_word(self):
        usable = sorted(os.sched_getaffinity(0))
        for cores in ({usable[0]}, set(usable)):
            answer, message = self.bench("-t", 1000, cores=cores)
            self.assertLessEqual(answer["threads"], len(cores))
            self.assertIn(b"1000", message)

    def test_one_core_gives_the_tokens_of_all(self):
        first = min(os.sched_getaffinity(0))
        arguments = ["-m", model("random"), "-p", "x", "-n", 8, "--seed", 1]
        pinned = self.run_json(*arguments, preexec_fn=lambda: os.sched_setaffinity(0, {first}))
        self.assertEqual(pinned["tokens"], self.run_json(*arguments)["tokens"])


if __name__ == "__main__":
    main()
