#!/usr/bin/env python3
"""A model file that is cut short while a command has it mapped: an answer, or one error; never a signal.

usage: lost_model_file_test.py MODEL     (megabytes, so that loading takes a while)
"""

import os
import shutil
import subprocess
import sys
import time

from cli_case import FAILURE, CliCase, environment, main, path

MODEL = sys.argv.pop(1)
MOMENTS = 12


class CutShort(CliCase):
    def check_every_moment(self, arguments):
        name = path("cut.gguf")
        shutil.copyfile(MODEL, name)
        command = self.command(*[name if part is None else part for part in arguments])
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                   "env": environment()}
        begin = time.monotonic()
        self.assertEqual(subprocess.run(command, timeout=100, **options).returncode, 0)
        length = time.monotonic() - begin
        statuses = set()
        for moment in range(MOMENTS):
            shutil.copyfile(MODEL, name)
            process = subprocess.Popen(command, **options)
            time.sleep(length * moment / MOMENTS)
            os.truncate(name, 5000 * moment)
            out, message = process.communicate(timeout=100)
            with self.subTest(command=arguments[0], moment=moment, status=process.returncode, message=message):
                self.assertIn(process.returncode, (0, FAILURE))
                errors = [line for line in message.splitlines() if b"dllm: error: " in line]
                self.assertEqual(len(errors), process.returncode)
                if arguments[0] != "inspect":  # which lists what it can of a broken file
                    self.assertEqual(bool(out), process.returncode == 0)
            statuses.add(process.returncode)
        self.assertIn(FAILURE, statuses, "no moment came early enough to matter")

    def test_run(self):
        self.check_every_moment(["run", "-m", None, "-p", "12 + 30", "-n", 8, "--json"])

    def test_tokenize(self):
        self.check_every_moment(["tokenize", "-m", None, "-p", "12 + 30", "--json"])

    def test_inspect(self):
        self.check_every_moment(["inspect", None])


if __name__ == "__main__":
    main()
