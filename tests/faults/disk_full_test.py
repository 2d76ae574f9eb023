#!/usr/bin/env python3
"""A disk that fills up: every output is complete or absent, never half, and what was there stays.

The disk is full after N bytes of a file through RLIMIT_FSIZE, which fails a write as a full disk does.
"""

import os
import resource
import shutil
import subprocess

from cli_case import FAILURE, CliCase, environment, main, model, path


def bytes_in(place):
    """Bytes of a file, or of the largest file in a folder."""
    if not os.path.isdir(place):
        return os.path.getsize(place)
    return max(os.path.getsize(os.path.join(place, name)) for name in os.listdir(place))


def remove(place):
    if os.path.isdir(place):
        shutil.rmtree(place)
    elif os.path.exists(place):
        os.remove(place)


class FullDisk(CliCase):
    RUN = ["run", "-m", None, "-p", "Hi", "-n", 8]
    OUTPUTS = {  # what is called with the place of the output behind it
        "recording": [*RUN, "--record"],
        "step statistics": [*RUN, "--dump-step-stats"],
        "logits as npy": ["logits", "-m", None, "--tokens", "1,2,3", "--out"],
        "step trace": ["bench", "-m", None, "--canvas", 8, "--repeat", 1, "--warmup", 0, "--no-peak", "--trace"],
        "new sampler": ["new-sampler", "mine", "--folder"],
    }

    def call(self, arguments, place, most_bytes=None):
        command = [model() if part is None else part for part in arguments]
        limit = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
                 ) if most_bytes is not None else None
        return self.dllm(*command, place, preexec_fn=limit)

    def leftovers(self, place):
        folder, name = os.path.split(place)
        return [entry for entry in os.listdir(folder) if entry.startswith(name)]

    def test_every_output_is_complete_or_absent(self):
        for number, (name, arguments) in enumerate(self.OUTPUTS.items()):
            place = path(f"disk{number}.npy")
            self.assert_ok(self.call(arguments, place))
            size = bytes_in(place)
            remove(place)
            for most in (0, 1, size // 2):
                with self.subTest(output=name, most_bytes=most, of=size):
                    result = self.call(arguments, place, most)
                    self.assertEqual(result.returncode, FAILURE, result.stderr)
                    errors = [line for line in result.stderr.splitlines() if b"error: " in line]
                    self.assertEqual(len(errors), 1, result.stderr)
                    self.assertRegex(errors[0].decode(), r"disk|writ|room|File too large")
                    self.assertEqual(self.leftovers(place), [])

    def test_what_was_there_stays_until_the_new_is_whole(self):
        for number, name in enumerate(("recording", "logits as npy", "step trace")):
            place = path(f"kept{number}.npy")
            with open(place, "wb") as file:
                file.write(b"older")
            with self.subTest(output=name):
                self.assertEqual(self.call(self.OUTPUTS[name], place, 1).returncode, FAILURE)
                with open(place, "rb") as file:
                    self.assertEqual(file.read(), b"older")
                self.assert_ok(self.call(self.OUTPUTS[name], place))
                self.assertGreater(bytes_in(place), 5)
                self.assertEqual(self.leftovers(place), [os.path.basename(place)])

    def test_the_answer_of_every_command_is_written_or_the_call_fails(self):
        for arguments in (self.RUN, [*self.RUN, "--json"], [*self.RUN, "--print-config"], ["inspect", None],
                          ["inspect", None, "--json"], ["tokenize", "-m", None, "-p", "Hi"], ["plugins"],
                          ["plugins", "--json"], ["--list-devices"], ["--help"], ["run", "--help"], ["--version"],
                          ["bench", "-m", None, "--canvas", 4, "--repeat", 1, "--no-peak", "--json"],
                          ["new-sampler", "one", "--folder", path("stdout_sampler")]):
            with self.subTest(arguments=arguments), open("/dev/full", "wb") as full:
                result = self.dllm(*[model() if part is None else part for part in arguments], stdout=full)
                self.assertEqual(result.returncode, FAILURE, result.stderr)
                self.assertIn(b"No space left", result.stderr)

    def test_a_recording_may_go_into_a_pipe(self):
        pipe, copy = path("pipe"), path("pipe_copy")
        os.mkfifo(pipe)
        script = 'cat "$0" >"$1" & shift; "$@"; status=$?; wait; exit $status'
        command = self.command(*[model() if part is None else part for part in self.OUTPUTS["recording"]], pipe)
        result = subprocess.run(["sh", "-c", script, pipe, copy, *command], stdin=subprocess.DEVNULL,
                                capture_output=True, env=environment(), timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(copy, encoding="utf-8") as file:
            self.assertIn("finish_reason", file.read().splitlines()[-1])


if __name__ == "__main__":
    main()
