#!/usr/bin/env python3
"""Folders and files that the system refuses: one message with its reason, before any work, nothing left behind."""

import os
import shutil
import unittest

from cli_case import FAILURE, USAGE, CliCase, main, model, path, write

# Root may write anywhere; without these two capabilities it may not.
SETPRIV = shutil.which("setpriv")
POWERLESS = [SETPRIV, "--bounding-set", "-dac_override,-dac_read_search",
             "--inh-caps", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


@unittest.skipIf(os.geteuid() == 0 and not SETPRIV, "root without setpriv cannot be refused anything")
class Refused(CliCase):
    def command(self, *arguments):
        return [*POWERLESS, *super().command(*arguments)]

    def folder(self, name, mode):
        place = path(name)
        os.mkdir(place)
        os.chmod(place, mode)
        self.addCleanup(os.chmod, place, 0o700)
        return place

    def test_outputs_in_a_read_only_folder(self):
        place = self.folder("read_only", 0o500)
        run = ["run", "-m", model(), "-p", "Hi", "-n", 2]
        for arguments in ([*run, "--record"], [*run, "--dump-step-stats"],
                          ["logits", "-m", model(), "--tokens", "1", "--out"],
                          ["bench", "-m", model(), "--repeat", 1, "--trace"]):
            with self.subTest(arguments=arguments):
                result = self.dllm(*arguments, os.path.join(place, "out.npy"))
                self.assert_fails(result, USAGE, arguments[-1], "Permission denied")
        result = self.dllm("new-sampler", "mine", "--folder", os.path.join(place, "mine"))
        self.assert_fails(result, USAGE, "--folder", "Permission denied")
        self.assertEqual(os.listdir(place), [])

    def test_inputs_that_may_not_be_read(self):
        secret = write("secret.gguf", b"GGUF")
        os.chmod(secret, 0)
        self.addCleanup(os.chmod, secret, 0o600)
        self.assert_fails(self.dllm("run", "-m", secret, "-p", "x"), FAILURE, secret, "Permission denied")
        self.assert_fails(self.dllm("run", "-m", model(), "-f", secret), USAGE, secret, "Permission denied")
        self.assert_fails(self.dllm("run", "--config", secret, "-m", model(), "-p", "x"), USAGE, secret,
                          "Permission denied")
        self.assert_fails(self.dllm("replay", secret), USAGE, secret)

    def test_a_plugin_folder_that_may_not_be_read_stops_no_run(self):
        hidden = self.folder("hidden_plugins", 0)
        # The folders of a user are searched for whoever has something there; this one says why it is skipped.
        result = self.dllm("plugins", env={"DLLM_PLUGIN_PATH": hidden})
        self.assert_ok(result)
        self.assertIn(b"sampler llada", result.stdout)
        self.assert_ok(self.dllm("run", "-m", model(), "-p", "x", "-n", 2, env={"DLLM_PLUGIN_PATH": hidden}))

    def test_a_home_that_may_not_be_read_stops_no_run(self):
        home = self.folder("hidden_home", 0)
        self.assert_ok(self.dllm("run", "-m", model(), "-p", "x", "-n", 2, env={"HOME": home}))


if __name__ == "__main__":
    main()
