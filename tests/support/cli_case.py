"""Calls of dllm as a user makes them, and tiny models to call it with.

    class Streams(CliCase):
        def test_answer(self):
            result = self.dllm("run", "-m", model("one"), "-p", "Hi", "-n", 4)
            self.assert_ok(result)

The environment of a call is clean: no DLLM_ variables, an empty home, no plugin folders but the build's.
"""

import atexit
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from make_tiny_gguf import TinyModel, next_token_table, write_tiny_model

BINARY = os.environ["DLLM_BINARY"]
FOLDER = tempfile.mkdtemp(prefix="dllm_cli_")
atexit.register(shutil.rmtree, FOLDER, True)

USAGE, FAILURE, INTERRUPTED = 2, 1, 130
CACHE = pathlib.Path(os.environ["DLLM_BUILD"], "CMakeCache.txt").read_text(encoding="utf-8")
SANITIZED = re.search(r"^DLLM_SANITIZE:\w+=.", CACHE, re.MULTILINE) is not None
TOKENS = 320  # of a tiny model; ids below 256 are the bytes
_models = {}


def always(token):
    """Logits that make every position prefer one token."""
    table = np.full((1, TOKENS), -20.0)
    table[0, token] = 10.0
    return table


def model(name="next", **changes):
    """Path of a tiny model; the same arguments give the same file. `name`: next, random, byte:N."""
    key = (name, repr(sorted(changes.items(), key=lambda item: item[0])))
    if key not in _models:
        if name == "next":
            changes.setdefault("known_logits", next_token_table(TOKENS))
        elif name.startswith("byte:"):
            changes.setdefault("known_logits", always(int(name[5:])))
        changes.setdefault("layers", 1)
        changes.setdefault("ffn", 256)
        _models[key] = os.path.join(FOLDER, f"model{len(_models)}.gguf")
        write_tiny_model(_models[key], TinyModel(**changes))
    return _models[key]


def special_id(name):
    """Id of a special token of the tiny LLaDA vocabulary, which stand at its end."""
    names = ["startoftext", "endoftext", "mdm_mask", "start_header_id", "end_header_id", "eot_id"]
    return TOKENS - len(names) + names.index(name)


def path(name):
    return os.path.join(FOLDER, name)


def write(name, content):
    with open(path(name), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return path(name)


def environment(**extra):
    clean = {key: value for key, value in os.environ.items()
             if not key.startswith("DLLM_") and key not in ("NO_COLOR", "XDG_CONFIG_HOME", "TERM")}
    return {**clean, "HOME": FOLDER, "TERM": "xterm", **extra}


class CliCase(unittest.TestCase):
    longMessage = True

    def command(self, *arguments):
        return [BINARY, *map(str, arguments)]

    def dllm(self, *arguments, env=None, stdin=None, **options):
        """stdout and stderr are bytes. `stdin`: bytes to pipe in; None: nothing (/dev/null)."""
        source = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        options.setdefault("stdout", subprocess.PIPE)
        return subprocess.run(self.command(*arguments), stderr=subprocess.PIPE, timeout=120,
                              env=environment(**(env or {})), **source, **options)

    def run_json(self, *arguments, **options):
        result = self.dllm("run", *arguments, "--json", **options)
        self.assert_ok(result)
        return parse_one_json(result.stdout)

    def assert_ok(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)

    def assert_fails(self, result, status, *parts):
        """Nothing on stdout, one line of error that holds every part."""
        message = result.stderr.decode()
        self.assertEqual(result.returncode, status, message)
        self.assertFalse(result.stdout, message)
        errors = [line for line in message.splitlines() if line.startswith("dllm: error: ")]
        self.assertEqual(len(errors), 1, message)
        for part in parts:
            self.assertIn(str(part), errors[0])
        return errors[0]


def parse_one_json(output):
    """Exactly one strict JSON value and a newline."""
    text = output.decode("utf-8")
    if not text.endswith("}\n"):
        raise AssertionError(f"no JSON value and newline: {text!r}")

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def main():
    unittest.main(verbosity=1, argv=[sys.argv[0]])
