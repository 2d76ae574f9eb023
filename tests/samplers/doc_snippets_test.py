"""Every C++, C and CMake block of README, docs and plugin-sdk stands word for word in a file that is built.

usage: doc_snippets_test.py ROOT
"""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
PAGES = sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "plugin-sdk").rglob("*.md")])
FOLDERS = ["plugin-sdk/examples", "plugin-sdk/template", "tests/sdk_consumer/project"]
SUFFIXES = (".c", ".cpp", ".txt", ".in", ".rs")

built = {path.relative_to(root): path.read_text(encoding="utf-8")
         for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in SUFFIXES}
text_of = {str(page.relative_to(root)): page.read_text(encoding="utf-8") for page in PAGES}
blocks = [(page, block) for page, text in text_of.items()
          for block in re.findall(r"^```(?:cpp|c|cmake)\n(.*?)^```", text, re.S | re.M)]
strays = [(page, block) for page, block in blocks if not any(block in text for text in built.values())]
for page, block in strays:
    print(f"{page}: in no file that is built:\n{block}")
examples = [path.name for path in built if path.parent.name == "examples" and path.suffix != ".txt"]
unnamed = [name for name in examples if name not in text_of["docs/writing-a-sampler.md"]]
assert len(blocks) > 5 and len(examples) > 3, "no blocks or no examples found"
assert not unnamed, f"writing-a-sampler.md does not name {unnamed}"
print(f"{len(blocks) - len(strays)} of {len(blocks)} blocks match")
sys.exit(1 if strays else 0)
