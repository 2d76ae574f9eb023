#!/usr/bin/env python3
"""A signal at any stage of a run: an answer, or none, and files that are complete or absent.

The moments are spread over the whole life of a run, whose length is measured first: what is tested is that no
moment is a bad one, not which stage a moment falls into.
"""

import json
import os
import signal
import subprocess
import time

from cli_case import CliCase, environment, main, model, parse_one_json, path, write

MOMENTS = 14
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def default_signals():
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


class AnyMoment(CliCase):
    def start(self, *arguments, before=default_signals):
        return subprocess.Popen(self.command(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=environment(), preexec_fn=before)

    def signalled(self, arguments, number, delay):
        process = self.start(*arguments)
        time.sleep(delay)
        process.send_signal(number)
        out, message = process.communicate(timeout=100)
        return process.returncode, out, message

    def length_of(self, arguments):
        begin = time.monotonic()
        process = self.start(*arguments)
        process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0)
        return time.monotonic() - begin

    def check_recording(self, file, out):
        if not os.path.exists(file):
            return
        self.assertTrue(out, "a recording without an answer")
        with open(file, encoding="utf-8") as lines:
            last = json.loads(lines.read().rstrip("\n").split("\n")[-1])
        self.assertEqual(last["finish_reason"], parse_one_json(out)["finish_reason"])
        os.remove(file)

    def test_of_a_run(self):
        recording = path("signalled.jsonl")
        arguments = ["run", "-m", model("random", context=256), "-p", "Hi", "-n", 60, "--block-length", 1,
                     "--ignore-eos", "--json", "--record", recording]
        length = self.length_of(arguments)
        os.remove(recording)
        ends = set()
        for moment in range(MOMENTS):
            number = SIGNALS[moment % len(SIGNALS)]
            status, out, message = self.signalled(arguments, number, length * moment / MOMENTS)
            with self.subTest(moment=moment, signal=number, status=status, message=message):
                self.assertIn(status, (0, -number, 128 + number))
                if status == 128 + number and not out:
                    self.assertIn(b"error: interrupted", message)
                elif status == -number:
                    self.assertFalse(out, "it was not ready for signals yet")
                else:
                    parse_one_json(out)
                self.check_recording(recording, out)
            ends.add((status == 0, status > 0, status < 0))
        self.assertGreaterEqual(len(ends), 2, "the moments were not spread over the run")

    def test_of_logits(self):
        place = path("signalled.npy")
        arguments = ["logits", "-m", model("random", context=4096), "--tokens", ",".join(["7"] * 1000),
                     "--out", place]
        length = self.length_of(arguments)
        size = os.path.getsize(place)
        os.remove(place)
        for moment in range(MOMENTS):
            status, _, message = self.signalled(arguments, signal.SIGTERM, length * moment / MOMENTS)
            with self.subTest(moment=moment, status=status, message=message):
                self.assertIn(status, (0, -signal.SIGTERM, 128 + signal.SIGTERM))
                self.assertEqual(os.path.getsize(place) if os.path.exists(place) else size, size)
                if status == 0:
                    self.assertTrue(os.path.exists(place))
            if os.path.exists(place):
                os.remove(place)

    def wait_for(self, process, happened):
        end = time.monotonic() + 60
        while not happened():
            self.assertIsNone(process.poll(), "it ended by itself")
            self.assertLess(time.monotonic(), end, "it never came there")
            time.sleep(0.01)

    def test_while_a_pipe_waits_for_its_reader(self):
        pipe = path("nobody.fifo")
        os.mkfifo(pipe)
        for option, number in (("--record", signal.SIGINT), ("--dump-step-stats", signal.SIGTERM)):
            process = self.start("run", "-m", model("random", context=256), "-p", "Hi", "-n", 4, option, pipe)
            sleeps = [0]

            def is_waiting():
                with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
                    sleeps[0] = sleeps[0] + 1 if file.read().rsplit(")", 1)[1].split()[0] == "S" else 0
                return sleeps[0] == 10
            self.wait_for(process, is_waiting)
            process.send_signal(number)
            out, message = process.communicate(timeout=100)
            with self.subTest(option=option):
                self.assertEqual((process.returncode, out), (128 + number, b""), message)
                self.assertIn(f"error: interrupted while opening '{pipe}' ({option})".encode(), message)

    def test_while_a_long_prompt_is_tokenised(self):
        """There is nothing to finish yet, so the first signal ends it at once, as the default action does."""
        if not os.path.exists("/proc/self/io"):
            self.skipTest("the system does not tell what a process has read")
        text = write("long.txt", "ab " * (16 << 20))
        process = self.start("run", "-m", model("random", context=256), "-f", text, "-n", 4)

        def has_read():
            with open(f"/proc/{process.pid}/io", encoding="utf-8") as file:
                return int(file.readline().split()[1]) >= os.path.getsize(text)
        self.wait_for(process, has_read)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, message = process.communicate(timeout=100)
        self.assertEqual((process.returncode, out), (-signal.SIGINT, b""), message)

    def test_signals_ignored_from_the_start_stay_ignored(self):
        def ignored():
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)
        process = self.start("run", "-m", model("random", context=256), "-p", "Hi", "-n", 100, "--block-length",
                             1, "--ignore-eos", "--json", before=ignored)
        for number in SIGNALS * 4:
            time.sleep(0.02)
            process.send_signal(number)
        out, message = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0, message)
        self.assertEqual(parse_one_json(out)["finish_reason"], "length")


if __name__ == "__main__":
    main()
