#!/usr/bin/env python3
"""dllm logits: rows before any shift, raw or NumPy; the file is complete or absent."""

import os

import numpy as np

from cli_case import FAILURE, FOLDER, TOKENS, USAGE, CliCase, main, model, parse_one_json, path


class Logits(CliCase):
    def logits(self, out, *arguments, **changes):
        return self.dllm("logits", "-m", model("random", **changes), "--out", out, *arguments)

    def test_raw_and_numpy_files_hold_the_same_rows(self):
        raw, npy = path("x.bin"), path("x.npy")
        for out in (raw, npy):
            result = self.logits(out, "--tokens", "1,2,3,4", "--rows", "0,3")
            self.assert_ok(result)
            self.assertFalse(result.stdout)
        array = np.load(npy)
        self.assertEqual((array.shape, array.dtype), ((2, TOKENS), np.dtype("<f4")))
        self.assertTrue(np.array_equal(np.fromfile(raw, "<f4").reshape(2, TOKENS), array))
        self.assertTrue(np.isfinite(array).all())

    def test_rows_are_the_models_own_before_the_shift(self):
        rows = {}
        for shift in (True, False):
            out = path(f"shift{shift}.npy")
            self.assert_ok(self.logits(out, "--tokens", "1,2,3", arch="dream", shift=shift))
            rows[shift] = np.load(out)
        self.assertTrue(np.array_equal(rows[True], rows[False]))

    def test_all_rows_by_default_ranges_and_order_as_asked(self):
        whole, some = path("whole.npy"), path("some.npy")
        self.assert_ok(self.logits(whole, "--tokens", "[5, 6, 7]"))
        self.assert_ok(self.logits(some, "--tokens", "5 6 7", "--rows", "2,0-1"))
        self.assertTrue(np.array_equal(np.load(whole)[[2, 0, 1]], np.load(some)))

    def test_a_prompt_gives_its_chat_formatted_rows(self):
        out = path("prompt.npy")
        result = self.logits(out, "-p", "Hi", "--json")
        self.assert_ok(result)
        report = parse_one_json(result.stdout)
        ids = parse_one_json(self.dllm("tokenize", "-m", model("random"), "-p", "Hi",
                                       "--json").stdout)["ids"]
        self.assertEqual((report["tokens"], report["shape"]), (ids, [len(ids), TOKENS]))
        self.assertEqual(np.load(out).shape, (len(ids), TOKENS))

    def test_bad_ids_and_rows_are_refused(self):
        out = path("never.bin")
        for arguments, parts in [(["--tokens", "1,320"], ["320", "position 1", "0 to 319"]),
                                 (["--tokens", "1,a"], ["'a'"]),
                                 (["--tokens", "1,2", "--rows", "2"], ["--rows", "'2'", "0 to 1"]),
                                 (["--tokens", ""], ["0 tokens"]),
                                 (["--tokens", "1", "-p", "x"], ["exclude each other"])]:
            with self.subTest(arguments=arguments):
                self.assert_fails(self.logits(out, *arguments), USAGE, *parts)
                self.assertFalse(os.path.exists(out))

    def test_bad_places_are_refused_and_nothing_is_left(self):
        for out in (path("no/folder.bin"), FOLDER, "/dev/full", "-"):
            self.assert_fails(self.logits(out, "--tokens", "1"), USAGE, "--out")
        before = set(os.listdir(FOLDER))
        broken = self.logits(path("broken.bin"), "--tokens", "1",
                             quant_of={"ffn_up.weight": "IQ2_XXS"})
        self.assert_fails(broken, FAILURE, "IQ2_XXS")
        left = {name for name in set(os.listdir(FOLDER)) - before if not name.endswith(".gguf")}
        self.assertFalse(left)


if __name__ == "__main__":
    main()
