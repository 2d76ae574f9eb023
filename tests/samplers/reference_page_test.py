"""docs/sampler-reference.md names every structure, function and constant of the SDK, and every field and member where
its structure or class is described: the same word elsewhere on the page does not count.

usage: reference_page_test.py ROOT
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv[1])
PAGE = (ROOT / "docs/sampler-reference.md").read_text(encoding="utf-8")
INCLUDE = ROOT / "plugin-sdk/include/dllm_sdk"
# What a plugin author calls or derives from; the rest of the C++ headers carries these over the boundary.
CLASSES = {"sampler_rule.hpp": ("Options", "Canvas", "Plan", "Stats", "Logits", "Edits", "Run", "Sampler"),
           "row_statistics.hpp": ("RowStatistics", "RawRows", "Answers"),
           "testing.hpp": ("Board", "Game", "Played", "PlayedRound", "Refused")}


def words(text):
    """What stands in back-ticks, as identifiers, in order."""
    return re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(r"`([^`]*)`", text)))


def without_comments(header):
    text = (INCLUDE / header).read_text(encoding="utf-8")
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def c_names():
    """Global names, and the fields of each structure."""
    names, fields = set(), {}
    for header in sorted(path.name for path in INCLUDE.glob("*.h")):
        text = without_comments(header)
        names |= {name for name in re.findall(r"#define (DLLM_[A-Z0-9_]+)", text) if not name.startswith("DLLM_SDK_")}
        names |= set(re.findall(r"\b(dllm_\w+)\(", text))
        for struct, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \w+;", text, re.S):
            names.add(struct)
            found = [re.search(r"\(\*(\w+)\)", part) or re.search(r"(\w+)(?:\[\d+\])?\s*$", part)
                     for part in body.split(";")]
            fields[struct] = {match[1] for match in found if match}
    return names, fields


def class_body(text, name):
    """From the opening brace to the one that closes it."""
    start = re.search(rf"\b(?:class|struct) {name}\b[^;{{]*\{{", text)
    depth, at = 1, start.end()
    while depth > 0:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return text[start.end():at - 1], text[start.start():start.end()].lstrip().startswith("struct")


def flattened(body):
    """Without the bodies of its functions and nested types."""
    while re.search(r"\{[^{}]*\}", body):
        body = re.sub(r"\{[^{}]*\}", ";", body)
    return body


def cpp_members():
    """Public functions and data of the classes, without constructors and operators."""
    members = {}
    for header, classes in CLASSES.items():
        text = without_comments(header)
        for name in classes:
            body, public = class_body(text, name)
            members[name] = set()
            for part in re.split(r"(public:|private:|;)", flattened(body)):
                if part in ("public:", "private:"):
                    public = part == "public:"
                declared = re.sub(r"=[^,]*", "", part)  # without what it starts as
                function = re.search(r"([~\w]+)\s*\(", declared)
                for found in [function[1]] if function else re.findall(r"(\w+)\s*(?:,|$)", declared):
                    if public and not re.fullmatch(rf"~?{name}|default|delete|\d+", found):
                        members[name].add(found)
    return members


def own_text(page, owners):
    """What the page says of each owner: the paragraphs, list items and tables that name it before any other owner, its
    row of the table of classes, and where its name is the heading what names no other."""
    own = {owner: "" for owner in owners}
    for section in re.split(r"(?m)^(?=## )", page):
        heading, _, text = section.partition("\n")
        titled = [word for word in words(heading) if word in own]
        between = r"\n\s*\n|\n(?=\* )" + (r"|\n(?=\|)" if heading == "## The C++ classes" else "")
        for block in re.split(between, text):
            named = [word for word in words(block) if word in own] or titled
            if named:
                own[named[0]] += block + "\n"
    return own


def missing(page, global_names, members):
    everywhere = set(words(page))
    own = own_text(page, members)
    return sorted(global_names - everywhere) + sorted(
        f"{owner}.{field}" for owner, fields in members.items() for field in fields if field not in words(own[owner]))


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names, fields = c_names()
        cls.members = {**fields, **cpp_members()}

    def test_the_headers_were_read(self):
        self.assertGreater(len(self.names), 70)
        self.assertEqual(self.members["dllm_edit"], {"position", "token", "kind", "confidence"})
        self.assertEqual(self.members["dllm_host_v1"],
                         {"struct_size", "abi_major", "abi_minor", "context", "log", "get_extension"})
        self.assertEqual(self.members["Options"], {"integer", "number", "boolean", "text"})
        self.assertEqual(self.members["Edits"],
                         {"commit", "commit_revocable", "replace", "remask", "size", "list", "clear"})
        self.assertEqual(self.members["Run"], {"plan", "take_logits", "apply"})
        self.assertIn("allow_all", self.members["Plan"])
        self.assertIn("sampled_prob", self.members["RowStatistics"])

    def test_everything_is_named_in_its_place(self):
        self.assertEqual(missing(PAGE, self.names, self.members), [])

    def test_a_word_taken_out_of_its_place_is_missed(self):
        own = own_text(PAGE, self.members)
        for owner, fields in self.members.items():
            for field in fields:
                without = PAGE
                for block in own[owner].splitlines():
                    without = without.replace(block, re.sub(rf"\b{field}\b", "gone", block))
                self.assertIn(f"{owner}.{field}", missing(without, self.names, self.members))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
