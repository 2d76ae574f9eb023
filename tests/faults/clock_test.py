#!/usr/bin/env python3
"""A wall clock that jumps by years changes no token and no time that is told.

usage: clock_test.py CLOCK_JUMPS.so     (preloaded)
"""

import subprocess
import sys
import time

from cli_case import CliCase, main, model, parse_one_json

JUMPS = sys.argv.pop(1)


class Clock(CliCase):
    def test_the_preloaded_clock_does_jump(self):
        shown = subprocess.run([sys.executable, "-c", "import time; print(*(int(time.time()) for _ in range(9)))"],
                               env={"LD_PRELOAD": JUMPS}, capture_output=True, check=True).stdout.split()
        self.assertGreater(max(map(int, shown)) - min(map(int, shown)), 365 * 86400)

    def test_no_token_and_no_time_follows_it(self):
        arguments = ["-m", model("random"), "-p", "Hi", "-n", 16, "--temp", 0.7, "--seed", 4]
        still = self.run_json(*arguments)
        begin = time.monotonic()
        jumping = self.run_json(*arguments, env={"LD_PRELOAD": JUMPS})
        elapsed = 1000 * (time.monotonic() - begin)
        self.assertEqual(jumping["tokens"], still["tokens"])
        for name, value in jumping["timings_ms"].items():
            self.assertTrue(0 <= value <= elapsed, f"{name}: {value} ms of {elapsed}")

    def test_bench_tells_true_times(self):
        begin = time.monotonic()
        result = self.dllm("bench", "-m", model(), "--canvas", 8, "--repeat", 3, "--no-peak", "--json",
                           env={"LD_PRELOAD": JUMPS})
        elapsed = 1000 * (time.monotonic() - begin)
        self.assert_ok(result)
        told = parse_one_json(result.stdout)
        times = [*told["stages_ms"].values(), *told["repeats_ms"]]
        self.assertGreater(len(times), 3)
        self.assertTrue(all(0 <= ms <= elapsed for ms in times), times)


if __name__ == "__main__":
    main()
