"""Every C++ block of docs/writing-a-sampler.md stands word for word in a file that is built.

usage: doc_snippets_test.py DOCS_FOLDER
"""

import pathlib
import re
import sys

docs = pathlib.Path(sys.argv[1])
page = (docs / "writing-a-sampler.md").read_text(encoding="utf-8")
examples = {p.name: p.read_text(encoding="utf-8") for p in sorted((docs / "examples").glob("*.cpp"))}
blocks = re.findall(r"^```cpp\n(.*?)^```", page, re.S | re.M)
strays = [b for b in blocks if not any(b in text for text in examples.values())]
for block in strays:
    print("in no file of docs/examples:\n" + block)
unnamed = [name for name in examples if name not in page]
assert blocks and examples, "no blocks or no examples found"
assert not unnamed, f"the page does not name {unnamed}"
print(f"{len(blocks) - len(strays)} of {len(blocks)} blocks match {list(examples)}")
sys.exit(1 if strays else 0)
