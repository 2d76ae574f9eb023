#!/usr/bin/env python3
"""The hardening that SECURITY.md promises, in the files built and in a running program.

usage: hardening_test.py BUILD SOURCE sanitizer=NAMES BUILD_TYPE
"""

import json
import pathlib
import re
import subprocess
import sys

from cli_case import CliCase, environment, main

BUILD, SOURCE, SANITIZER, BUILD_TYPE = sys.argv[1:5]
del sys.argv[1:5]
BUILD, SOURCE = pathlib.Path(BUILD), pathlib.Path(SOURCE)
SANITIZED = SANITIZER != "sanitizer="
MODEL = SOURCE / "apps/demo_models/demo-llada.gguf"


def built_files():
    files = [BUILD / "bin/dllm", *(BUILD / "lib").glob("libdllm.so"), *(BUILD / "lib/dllm/plugins").glob("*.so")]
    return [file.resolve() for file in files]


def readelf(file, *options):
    return subprocess.run(["readelf", "-W", *options, file], capture_output=True, text=True, check=True).stdout


class Files(CliCase):
    def test_there_are_a_program_a_library_and_plugins(self):
        self.assertGreaterEqual(len(built_files()), 1 + 1 + 5)

    def test_no_segment_is_writable_and_executable(self):
        for file in built_files():
            segments = re.findall(r"^  (\w+) .* ([R ][W ][E ]) 0x", readelf(file, "-l"), re.MULTILINE)
            self.assertIn(("GNU_STACK", "RW "), segments, file)
            self.assertEqual([kind for kind, flags in segments if "W" in flags and "E" in flags], [], file)

    def test_code_is_in_pages_of_its_own(self):
        for file in built_files():
            loads = re.findall(r"^  LOAD .* ([R ][W ][E ]) 0x", readelf(file, "-l"), re.MULTILINE)
            self.assertIn("R  ", loads, f"{file}: constants share a segment with code")

    def test_addresses_are_free_and_relocations_read_only(self):
        for file in built_files():
            self.assertIn("DYN", readelf(file, "-h"), file)
            self.assertIn("GNU_RELRO", readelf(file, "-l"), file)
            self.assertRegex(readelf(file, "-d"), r"BIND_NOW|FLAGS_1.*NOW", file)
            self.assertNotIn("TEXTREL", readelf(file, "-d"), file)


class Commands(CliCase):
    def commands(self):
        """(source, flags) of every C and C++ file of the product."""
        with open(BUILD / "compile_commands.json", encoding="utf-8") as file:
            for entry in json.load(file):
                source = pathlib.Path(entry["file"])
                if SOURCE not in source.parents or source.suffix == ".cu":
                    continue
                place = source.relative_to(SOURCE)
                if place.parts[0] in ("core", "apps", "plugins"):
                    yield place, entry["command"].split()

    def test_every_source_is_compiled_with_the_flags(self):
        wanted = {"-fstack-protector-strong", "-fstack-clash-protection"}
        if "X86-64" in readelf(BUILD / "bin/dllm", "-h"):
            wanted.add("-fcf-protection=full")
        if not SANITIZED and BUILD_TYPE != "Debug":
            wanted.add("-D_FORTIFY_SOURCE=2")
        sources = 0
        for source, flags in self.commands():
            sources += 1
            self.assertLessEqual(wanted, set(flags), source)
            if source.parts[:2] not in (("plugins", "backend_cpu"), ("plugins", "backend_cuda")):
                self.assertIn("-D_GLIBCXX_ASSERTIONS", flags, source)
        self.assertGreater(sources, 80)


class Memory(CliCase):
    def test_no_memory_is_writable_and_executable(self):
        run = subprocess.Popen(self.command("run", "-m", MODEL, "-p", "Tell me a story.", "-n", 100, "--steps", 100),
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               env=environment())
        self.addCleanup(run.stderr.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        self.assertIn(b"backend", run.stderr.readline())  # tokenised, plugins and weights loaded
        with open(f"/proc/{run.pid}/maps", encoding="utf-8") as maps:
            lines = maps.read().splitlines()
        self.assertGreater(len(lines), 20)
        self.assertEqual([line for line in lines if re.match(r"\S+ .wx", line)], [])


if __name__ == "__main__":
    main()
