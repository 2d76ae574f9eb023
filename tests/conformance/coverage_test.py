"""Every clause of the cases in README.md names tests that exist: nothing there is a promise.

usage: coverage_test.py ROOT

A name in the table is a case of this suite (`group.name`, * allowed), a GoogleTest (`Suite.Name`, or `Suite.Name/parameter`
whose parameter stands in the same file as a name) or a Python test (`folder/file.py:test_name`).
"""

import fnmatch
import re
import sys
import unittest
from pathlib import Path

from suite_test import run

ROOT = Path(sys.argv.pop(1))
TESTS = ROOT / "tests"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+) \|$", re.M)


def google_tests():
    """(suite, name) -> text of the file it stands in."""
    found = {}
    for path in TESTS.rglob("*_test.cpp"):
        text = path.read_text(encoding="utf-8")
        for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", text, re.M):
            found[suite, name] = text
    return found


class Coverage(unittest.TestCase):
    def setUp(self):
        page = (TESTS / "conformance/README.md").read_text(encoding="utf-8")
        self.rows = ROW.findall(page)
        self.google = google_tests()
        self.cases = [each.name for each in run.registry().cases]

    def exists(self, name):
        if re.fullmatch(r"[\w/]+\.py:test_\w+", name):
            path, test = name.split(":")
            return f"def {test}(" in (TESTS / path).read_text(encoding="utf-8")
        google = re.fullmatch(r"([A-Z]\w*)\.([A-Z]\w*)(?:/(\w+))?", name)
        if google:
            text = self.google.get((google[1], google[2]))
            return text is not None and (google[3] is None or f'"{google[3]}"' in text)
        return bool(fnmatch.filter(self.cases, name))

    def test_every_named_test_is_there(self):
        named = [(clause, name) for _, clause, tests in self.rows for name in re.findall(r"`([^`]+)`", tests)]
        self.assertGreater(len(named), 100)
        missing = [f"{name} ({clause})" for clause, name in named if not self.exists(name)]
        self.assertEqual(missing, [])

    def test_every_clause_has_one_and_no_case_is_left_out(self):
        self.assertEqual(sorted({int(number) for number, _, _ in self.rows}), list(range(1, 21)))
        bare = [clause for _, clause, tests in self.rows if not re.search(r"`[^`]+`", tests)]
        self.assertEqual(bare, [])

    def test_a_name_nobody_has_is_noticed(self):
        for name in ("broken_file.NoSuchFault", "EngineBatch.NoSuchTest", "cli/usage_test.py:test_nothing",
                     "Refusal.NamesReasonAndRemedyAndStopsNoOther/no_such_fault"):
            self.assertFalse(self.exists(name), name)

    def test_every_group_of_cases_is_a_ctest(self):
        text = (TESTS / "conformance/CMakeLists.txt").read_text(encoding="utf-8")
        listed = re.search(r"foreach\(group (.*?)\)", text, re.S)[1].split()
        self.assertEqual(sorted(listed), sorted({name.split(".")[0] for name in self.cases}))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
