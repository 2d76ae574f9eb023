#!/usr/bin/env python3
"""A plugin folder that changes while dllm starts: a listing and an answer every time the files are whole.

An installer that renames files into place is never noticed. Writing over the bytes of a file that is in use changes
the code of running programs: no program survives that for certain, and none is asked to here. Between the check of a
file and the system's loader, which opens it again by its name, half a file may take its place; that ends a call with
one error (SECURITY.md), and is allowed in few of them.
"""

import itertools
import os
import shutil
import threading
import time

from cli_case import FAILURE, CliCase, main, model, parse_one_json, path

EXAMPLE = os.path.join(os.environ["DLLM_EXAMPLE_PLUGINS"], "sampler_threshold.so")
STARTS = 40
LOST = b"cannot be read any more"  # the loader met the end of a file that was whole when it was checked


class Changing(CliCase):
    def setUp(self):
        self.n_lost = 0
        self.folder = path(self.id().rsplit(".", maxsplit=1)[1])
        os.mkdir(self.folder)
        self.place = os.path.join(self.folder, "sampler_threshold.so")

    def while_changing(self, changes, check):
        """Calls `check` STARTS times, while another thread goes through `changes` again and again."""
        stop = threading.Event()

        def change():
            for one in itertools.cycle(changes):
                if stop.is_set():
                    return
                one()
                time.sleep(0.001)

        changer = threading.Thread(target=change)
        changer.start()
        try:
            for _ in range(STARTS):
                check()
        finally:
            stop.set()
            changer.join()

    def install(self):
        shutil.copyfile(EXAMPLE, self.place + ".new")
        os.replace(self.place + ".new", self.place)

    def remove(self):
        if os.path.lexists(self.place):
            os.remove(self.place)

    def dangle(self):
        self.remove()
        os.symlink(os.path.join(self.folder, "nowhere"), self.place)

    def half(self):
        self.remove()
        with open(EXAMPLE, "rb") as source, open(self.place, "wb") as target:
            target.write(source.read(os.path.getsize(EXAMPLE) // 2))

    def lost(self, result):
        """The loader was given half a file after all: one error, nothing on standard output."""
        if LOST not in result.stderr:
            return False
        self.assert_fails(result, FAILURE, LOST.decode())
        self.n_lost += 1
        self.assertLessEqual(self.n_lost, STARTS // 4)
        return True

    def check_listing(self):
        result = self.dllm("plugins", "--plugin-dir", self.folder, "--json")
        if self.lost(result):
            return
        self.assert_ok(result)
        known = {plugin["id"] for plugin in parse_one_json(result.stdout)["plugins"]}
        self.assertLessEqual({"cpu", "llada", "dream"}, known)

    def check_run(self):
        result = self.dllm("run", "-m", model(), "-p", "Hi", "-n", 2, "--plugin-dir", self.folder)
        if self.lost(result):
            return
        self.assert_ok(result)
        self.assertEqual(result.stdout, b"==\n")

    def check_end(self):
        result = self.dllm("run", "-m", model(), "-p", "Hi", "-n", 2, "--plugin-dir", self.folder,
                           "--sampler", "threshold")
        self.assertIn(result.returncode, (0, FAILURE, 2), result.stderr)
        errors = [line for line in result.stderr.splitlines() if b"dllm: error: " in line]
        self.assertEqual(len(errors), 0 if result.returncode == 0 else 1, result.stderr)
        self.assertEqual(bool(result.stdout), result.returncode == 0)

    def test_files_that_come_go_and_dangle_stop_no_listing(self):
        self.while_changing([self.install, self.remove, self.dangle, self.half], self.check_listing)

    def test_files_that_come_go_and_dangle_stop_no_run(self):
        self.while_changing([self.install, self.remove, self.dangle, self.half], self.check_run)

    def test_the_changing_plugin_itself_answers_or_fails_by_name(self):
        self.while_changing([self.install, self.remove, self.half], self.check_end)

    def test_a_plugin_replaced_by_renaming_is_always_whole(self):
        self.install()

        def check():
            self.assert_ok(self.dllm("run", "-m", model(), "-p", "Hi", "-n", 2, "--plugin-dir", self.folder,
                                     "--sampler", "threshold"))
        self.while_changing([self.install], check)


if __name__ == "__main__":
    main()
