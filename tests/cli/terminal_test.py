#!/usr/bin/env python3
"""Terminals and Ctrl-C: progress in place on a terminal only; the first interrupt ends the step."""

import os
import pty
import select
import signal
import subprocess
import time

from cli_case import CliCase, INTERRUPTED, environment, main, model, parse_one_json


class Terminal(CliCase):
    def run_on_terminal(self, *arguments, **env):
        """stderr is a terminal, stdout a pipe; returns both outputs."""
        try:
            master, slave = pty.openpty()
        except OSError as reason:  # a container without /dev/pts
            self.skipTest(f"no pseudo-terminal to be had: {reason}")
        process = subprocess.Popen(self.command("run", "-m", model(), "-p", "Hi", "-n", 6, *arguments),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave,
                                   env=environment(**env))
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end is gone
                break
            if not part:
                break
            shown += part
        out = process.stdout.read()
        process.stdout.close()
        os.close(master)
        self.assertEqual(process.wait(), 0, shown)
        return out, shown.replace(b"\r\n", b"\n")  # the terminal driver's own

    def test_an_answer_cannot_steer_the_terminal_it_is_shown_on(self):
        escape = model("byte:27")
        try:
            master, slave = pty.openpty()
        except OSError as reason:
            self.skipTest(f"no pseudo-terminal to be had: {reason}")
        result = self.dllm("run", "-m", escape, "-p", "Hi", "-n", 3, stdout=slave)
        os.close(slave)
        shown = os.read(master, 65536)
        os.close(master)
        self.assert_ok(result)
        self.assertEqual(shown.decode(), "\ufffd" * 3 + "\r\n")
        self.assertEqual(self.dllm("run", "-m", escape, "-p", "Hi", "-n", 3).stdout, b"\x1b\x1b\x1b\n",
                         "a pipe gets the text as it is")

    def test_progress_is_in_place_and_gone_at_the_end(self):
        out, shown = self.run_on_terminal()
        self.assertEqual(out, b"======\n")
        self.assertRegex(shown, rb"\r\x1b\[Kstep 1 after [0-9.]+ s, 5 of 6 left")
        last = shown.rsplit(b"step 6", 1)[1]
        self.assertIn(b"\r\x1b[K", last, "the line is taken back")

    def test_visual_redraws_in_place(self):
        out, shown = self.run_on_terminal("--visual")
        self.assertEqual(out, b"======\n")
        self.assertIn("=\u2591\u2591\u2591\u2591\u2591\n".encode(), shown)
        self.assertIn(b"\x1b[1A\x1b[J", shown)

    def test_no_color_and_dumb_terminals_get_plain_text(self):
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            for arguments in ([], ["--visual"]):
                _, shown = self.run_on_terminal(*arguments, **env)
                self.assertNotIn(b"\x1b", shown)
                self.assertNotIn(b"\r", shown)


def catches_interrupt(pid):
    """Whether the process has a handler for SIGINT now (proc(5), SigCgt)."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        caught = next(line for line in status if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGINT - 1) & 1)


def is_full(writer):
    """Whether a pipe has no free page left, so that the next long line waits."""
    return not select.select([], [writer], [], 0)[1]


class Interrupt(CliCase):
    def wait_until(self, holds):
        deadline = time.monotonic() + 60
        while not holds():
            self.assertLess(time.monotonic(), deadline, "it never came to that")
            time.sleep(0.01)

    def start(self, *arguments):
        """A run of many steps whose plain --visual lines tell when it is under way."""
        reader, writer = os.pipe()
        process = subprocess.Popen(
            self.command("run", "-m", model("random", context=1024), "-p", "Hi", "-n", 900,
                         "--block-length", 1, "--ignore-eos", "--visual", *arguments),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writer, env=environment(),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        shown = b""
        while b"step 3:" not in shown:
            shown += os.read(reader, 4096)
            self.assertIsNone(process.poll(), "it ended before it was interrupted")
        return process, reader, writer

    def finish(self, process, reader, writer):
        """Reads on to the end; returns what is on stdout."""
        os.close(writer)
        while os.read(reader, 65536):
            pass
        os.close(reader)
        out = process.stdout.read()
        process.wait(timeout=60)
        return out

    def test_the_first_ends_after_the_step_and_prints_what_is_final(self):
        process, *pipe = self.start("--json")
        process.send_signal(signal.SIGINT)
        out = self.finish(process, *pipe)
        self.assertEqual(process.returncode, INTERRUPTED)
        answer = parse_one_json(out)
        self.assertEqual(answer["finish_reason"], "interrupted")
        self.assertGreaterEqual(len(answer["tokens"]), 3)
        self.assertLess(len(answer["tokens"]), 900)
        self.assertEqual(len(answer["tokens"]), answer["forwards"])

    def test_text_of_an_interrupted_run_is_valid_utf8(self):
        process, *pipe = self.start()
        process.send_signal(signal.SIGINT)
        out = self.finish(process, *pipe)
        self.assertEqual(process.returncode, INTERRUPTED)
        self.assertTrue(out.decode("utf-8").endswith("\n"))

    def test_the_second_ends_at_once(self):
        process, reader, writer = self.start()
        # Nobody reads the --visual lines any more: the run stands still in the middle of a step.
        self.wait_until(lambda: is_full(writer))
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        self.wait_until(lambda: not catches_interrupt(process.pid))
        self.assertIsNone(process.poll(), "the first waits for the step")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=60), -signal.SIGINT)
        self.finish(process, reader, writer)


if __name__ == "__main__":
    main()
