"""The SDK's C structures are laid out as in the committed dump, as libabigail (abidw, abidiff) sees them.

usage: abi_dump_test.py C_COMPILER [--update]
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "plugin-sdk/include"
DUMP = HERE / "sdk.abi"


def build(compiler, folder, include):
    library = pathlib.Path(folder, "sdk_types.so")
    subprocess.run([compiler, "-std=c11", "-g", "-O0", "-fPIC", "-shared", f"-ffile-prefix-map={HERE}=.",
                    f"-I{include}", "-o", str(library), str(HERE / "sdk_types.c")], check=True)
    return library


def dump(library, out):
    subprocess.run(["abidw", "--no-comp-dir-path", "--no-corpus-path", "--no-show-locs", "--out-file", str(out),
                    str(library)], check=True)


def difference(dump_file, library):
    """abidiff's report, empty where nothing changed. It exits with 4 for a change, 1 and 2 for its own faults."""
    result = subprocess.run(["abidiff", "--no-corpus-path", str(dump_file), str(library)], capture_output=True,
                            text=True, check=False)
    if result.returncode & 3:
        raise RuntimeError(result.stdout + result.stderr)
    return result.stdout if result.returncode else ""


def changed_headers(folder):
    """A copy of the SDK in which one field of dllm_edit has another type: the check must see that."""
    copy = pathlib.Path(folder, "include")
    shutil.copytree(INCLUDE, copy)
    header = copy / "dllm_sdk/sampler_abi.h"
    text = header.read_text(encoding="utf-8")
    assert "  int32_t token;\n" in text
    header.write_text(text.replace("  int32_t token;\n", "  int64_t token;\n"), encoding="utf-8")
    return copy


def main():
    compiler = sys.argv[1]
    if not shutil.which("abidw") or not shutil.which("abidiff"):
        print("SKIPPED: abidw is not installed (abigail-tools)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        library = build(compiler, folder, INCLUDE)
        if "--update" in sys.argv:
            dump(library, DUMP)
            return 0
        report = difference(DUMP, library)
        print(report or "as in the dump")
        changed = build(compiler, folder, changed_headers(folder))
        seen = difference(DUMP, changed)
        if "dllm_edit" not in seen:
            print("a changed field was not noticed:\n" + seen)
            return 1
    return 1 if report else 0


if __name__ == "__main__":
    sys.exit(main())
