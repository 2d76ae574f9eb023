"""The Rust example declares the C structures as the C compiler lays them out: checked without a Rust compiler.

usage: rust_declarations_test.py ROOT C_COMPILER

Rust's #[repr(C)] lays fields out as C does (reference, "The C representation"): computed here from sampler_dice.rs and
compared with offsetof and sizeof of the headers. The constants it repeats are compared too.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT, COMPILER = pathlib.Path(sys.argv[1]), sys.argv[2]
SOURCE = (ROOT / "plugin-sdk/examples/sampler_dice.rs").read_text(encoding="utf-8")

# Structure in Rust -> in C; and where a field has another name there.
STRUCTURES = {"Descriptor": "dllm_plugin_descriptor", "Note": "dllm_plugin_note", "Error": "dllm_error",
              "Canvas": "dllm_canvas", "Plan": "dllm_plan", "Stats": "dllm_stats", "Edit": "dllm_edit",
              "Edits": "dllm_edits", "Table": "dllm_sampler_v1"}
RENAMED = {("Note", "kind"): "type"}
PREFIXES = {"Stats"}  # declares the first fields only: the host hands over a pointer
CONSTANTS = {"OK": "DLLM_OK", "ERROR": "DLLM_ERROR", "MASKED": "DLLM_POSITION_MASKED",
             "WANT_SAMPLED": "DLLM_STAT_SAMPLED", "DRAW_ORDER": "DLLM_DRAW_ORDER", "COMMIT": "DLLM_EDIT_COMMIT",
             "RUNNING": "DLLM_RUN_RUNNING", "FINISHED": "DLLM_RUN_FINISHED"}
SIZES = {"u8": 1, "i8": 1, "u16": 2, "u32": 4, "i32": 4, "f32": 4, "u64": 8, "i64": 8, "f64": 8}
POINTER = 8


def fields_of(body):
    """(name, type) pairs; commas inside parentheses and brackets belong to the type."""
    out, depth, part = [], 0, ""
    for c in body + ",":
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            if ":" in part:
                name, kind = part.split(":", 1)
                out.append((name.split()[-1], kind.strip()))
            part = ""
        else:
            part += c
    return out


def structures():
    found = re.findall(r"#\[repr\(C(?:, align\(4\))?\)\]\s*(?:pub )?struct (\w+) \{(.*?)\n\}", SOURCE, re.S)
    return {name: fields_of(body) for name, body in found}


def layout(name, declared):
    """[(field, offset)], size, alignment of one structure."""
    offset, largest, out = 0, 1, []
    for field, kind in declared[name]:
        size, alignment = measure(kind, declared)
        offset += -offset % alignment
        out.append((field, offset))
        offset += size
        largest = max(largest, alignment)
    return out, offset + -offset % largest, largest


def measure(kind, declared):
    if kind.startswith(("*", "unsafe extern", "Option<unsafe extern")):
        return POINTER, POINTER
    array = re.fullmatch(r"\[(\w+); (\d+)\]", kind)
    if array:
        size, alignment = measure(array[1], declared)
        return size * int(array[2]), alignment
    if kind in declared:
        return layout(kind, declared)[1:]
    return SIZES[kind], SIZES[kind]


def asserted(expressions):
    """Compiles one _Static_assert for each; what the compiler refuses."""
    lines = ["#include <stddef.h>", '#include "dllm_sdk/sampler_abi.h"', '#include "dllm_sdk/philox.h"']
    lines += [f'_Static_assert({expression}, "{expression}");' for expression in expressions]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "layout.c")
        source.write_text("\n".join(lines), encoding="utf-8")
        result = subprocess.run([COMPILER, "-std=c11", "-fsyntax-only", f"-I{ROOT}/plugin-sdk/include", str(source)],
                                capture_output=True, text=True, check=False)
    return "" if result.returncode == 0 else result.stderr


class RustDeclarations(unittest.TestCase):
    def test_every_structure_is_laid_out_as_in_the_headers(self):
        declared = structures()
        self.assertLessEqual(set(STRUCTURES), set(declared))
        expressions = []
        for rust, c in STRUCTURES.items():
            offsets, size, _ = layout(rust, declared)
            for (field, offset) in offsets:
                expressions.append(f"offsetof({c}, {RENAMED.get((rust, field), field)}) == {offset}")
            expressions.append(f"sizeof({c}) {'>' if rust in PREFIXES else '=='} {size}")
        self.assertGreater(len(expressions), 70)
        self.assertEqual(asserted(expressions), "")

    def test_its_functions_take_as_many_arguments(self):
        header = (ROOT / "plugin-sdk/include/dllm_sdk/sampler_abi.h").read_text(encoding="utf-8")
        table = re.search(r"typedef struct dllm_sampler_v1 \{(.*?)\} dllm_sampler_v1;", header, re.S)[1]
        in_c = {name: arguments.count(",") + 1 for name, arguments in re.findall(r"\(\*(\w+)\)\(([^)]*)\)", table)}
        in_rust = {name: kind.split("fn(", 1)[1].split(")")[0].count(",") + 1
                   for name, kind in structures()["Table"] if "fn(" in kind}
        self.assertEqual(in_rust, in_c)

    def test_its_constants_have_the_values_of_the_headers(self):
        values = dict(re.findall(r"const (\w+): \w+ = (\d+);", SOURCE))
        self.assertEqual(set(values), set(CONSTANTS))
        self.assertEqual(asserted([f"{CONSTANTS[name]} == {value}" for name, value in values.items()]), "")

    def test_a_field_out_of_place_is_noticed(self):
        self.assertIn("offsetof(dllm_edit, token) == 8", asserted(["offsetof(dllm_edit, token) == 8"]))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
