"""docs/sampler-reference.md names every structure, field, function and constant of the SDK's C headers.

usage: reference_page_test.py ROOT
"""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
page = (root / "docs/sampler-reference.md").read_text(encoding="utf-8")
named = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", " ".join(re.findall(r"`([^`]*)`", page))))

wanted = {}
for header in sorted((root / "plugin-sdk/include/dllm_sdk").glob("*.h")):
    text = re.sub(r"/\*.*?\*/", " ", header.read_text(encoding="utf-8"), flags=re.S)
    for name in re.findall(r"#define (DLLM_[A-Z0-9_]+)", text):
        if not name.startswith("DLLM_SDK_"):
            wanted[name] = header.name
    for struct, body, _ in re.findall(r"typedef struct (\w+) \{(.*?)\} (\w+);", text, re.S):
        wanted[struct] = header.name
        for statement in body.split(";"):
            function = re.search(r"\(\*(\w+)\)", statement)
            field = function or re.search(r"(\w+)(?:\[\d+\])?\s*$", statement)
            if field:
                wanted[f"{field[1]}"] = f"{header.name}, {struct}"
    for name in re.findall(r"\b(dllm_\w+)\(", text):
        wanted[name] = header.name
# Statistics are named in full in their own table; the table of rules leaves the prefix out.
missing = [f"{name} ({where})" for name, where in wanted.items() if name not in named]
assert len(wanted) > 120, f"only {len(wanted)} names were found in the headers"
print("\n".join(missing) or f"all {len(wanted)} names are there")
sys.exit(1 if missing else 0)
