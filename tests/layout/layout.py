"""Checks of the tree itself; one claim per sub-command, each a ctest (see CMakeLists.txt).

includes  every #include is one its layer may have: the table in docs/architecture.md. Link visibility
          enforces most of it; this finds what a transitive include path would let through.
folders   no two folders of apps/dllm or core/src need each other, directly or over others.
headers   every public header compiles alone: SDK headers (.h) as C11, C++17 and C++20, .hpp as C++17
          and C++20, by this build's compiler and by clang where there is one; core headers as C++20.
exports   every plugin exports dllm_plugin_entry and nothing else; samplers link no library of ours.
readmes   every folder that has a CMakeLists.txt has a README.md.
links     every link between Markdown pages leads to a file, and to a heading where it names one; docs/README.md
          lists every page of docs/; no two decisions have one number.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

C_HEADERS = "assert ctype errno float inttypes limits locale math setjmp signal stdalign stdarg stdatomic " \
            "stdbool stddef stdint stdio stdlib string threads time uchar wchar".split()
CXX_HEADERS = """algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex concepts
condition_variable coroutine deque exception execution filesystem forward_list fstream functional future
initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource
mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set
shared_mutex source_location span sstream stack stdexcept stop_token streambuf string string_view strstream
system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant
vector version cassert cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef
cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype""".split()

# What an include means, by the first pattern that matches it.
KINDS = [
    ("std", "|".join(C_HEADERS).join(["(", r")\.h"])),
    ("std", "|".join(CXX_HEADERS).join(["(", ")"])),
    ("posix", r"(sys/.*|linux/.*|unistd|fcntl|dlfcn|elf|link|sched|signal|malloc|pthread|poll|termios|errno|dirent)(\.h)?"),
    ("intrinsics", r"(immintrin|cpuid|x86intrin|arm_neon)\.h"),
    ("sdk_c", r"dllm_sdk/.*\.h"),
    ("sdk_cxx", r"dllm_sdk/.*\.hpp"),
    ("core", r"dllm/.*"),
    ("boost_dll", r"boost/dll/.*"),
    ("program_options", r"boost/program_options.*"),
    ("boost", r"boost/.*"),
    ("fmt", r"fmt/.*"),
    ("json", r"nlohmann/.*"),
    ("pcre2", r"pcre2\.h"),
    ("utf8proc", r"utf8proc\.h"),
    ("tbb", r"(tbb|oneapi)/.*"),
    ("cuda", r"(cuda|cublas|nccl|cooperative_groups|mma).*"),
    ("generated", r"generated/.*"),
]

# Layer: files, kinds it may include, folders of ours it may include files of by path.
# {own} is the first two levels of the file's path (plugins/backend_cpu).
LAYERS = [
    ("plugin-sdk", r"plugin-sdk/(include|examples)/.*", {"std", "sdk_c", "sdk_cxx"}, []),
    ("core/include", r"core/include/.*", {"std", "core", "sdk_c"}, []),
    ("core/src", r"core/src/.*",
     {"std", "posix", "core", "sdk_c", "boost_dll", "fmt", "json", "pcre2", "utf8proc"}, ["core/src"]),
    ("plugins/model_*", r"plugins/model_[^/]*/.*", {"std", "core", "sdk_c", "fmt"},
     ["{own}", "plugins/model_common"]),
    ("plugins/backend_*", r"plugins/backend_[^/]*/.*",
     {"std", "posix", "core", "sdk_c", "intrinsics", "tbb", "cuda", "fmt"}, ["{own}"]),
    ("plugins/sampler_*", r"plugins/sampler_[^/]*/.*", {"std", "sdk_c", "sdk_cxx"}, ["{own}"]),
    ("apps", r"apps/.*", {"std", "posix", "core", "sdk_c", "sdk_cxx", "program_options", "json", "fmt", "generated"},
     ["{own}"]),
]

SOURCE = re.compile(r".*\.(h|hpp|c|cpp|cu|cuh|inl|in)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*(<([^>]+)>|"([^"]+)")', re.MULTILINE)


def sources():
    for layer in ("plugin-sdk", "core", "plugins", "apps"):
        for folder, _, names in os.walk(ROOT / layer):
            for name in sorted(names):
                if SOURCE.match(name):
                    yield pathlib.Path(folder, name).relative_to(ROOT)


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def kind_of(include):
    for kind, pattern in KINDS:
        if re.fullmatch(pattern, include):
            return kind
    return None


def judge_include(path, include, quoted, kinds, folders):
    """None where allowed, else why not."""
    if ".." in pathlib.PurePosixPath(include).parts:
        return "climbs out of its folder"
    if quoted:
        own = "/".join(path.parts[:2])
        places = [path.parent, *(pathlib.Path(f.format(own=own)) for f in folders),
                  pathlib.Path("core/src"), pathlib.Path("plugins"), pathlib.Path("apps")]
        for place in places:
            if not (ROOT / place / include).is_file():
                continue
            found = (place / include).as_posix()
            allowed = [f.format(own=own) + "/" for f in folders]
            return None if any(found.startswith(f) for f in allowed) else f"is {found}, of another part"
    kind = kind_of(include)
    if kind is None:
        return "is no header this check knows; if it belongs here, teach the check"
    return None if kind in kinds else f"is of kind '{kind}', allowed here: {', '.join(sorted(kinds))}"


def layer_of(path):
    for name, pattern, kinds, folders in LAYERS:
        if re.fullmatch(pattern, path.as_posix()):
            return name, kinds, folders
    return None


def check_includes():
    faults, seen = [], 0
    for path in sources():
        layer = layer_of(path)
        if layer is None:
            if path.suffix != ".in":
                faults.append(f"{path}: belongs to no layer")
            continue
        name, kinds, folders = layer
        text = (ROOT / path).read_text(encoding="utf-8")
        for match in INCLUDE.finditer(text):
            seen += 1
            fault = judge_include(path, match[2] or match[3], match[3] is not None, kinds, folders)
            if fault:
                faults.append(f"{path} ({name}): {match[0].strip()} {fault}")
        code = without_comments(text)
        if name.startswith("core/") and re.search(r"#\s*(if|elif).*(CUDA|NVCC|HIP|ROCM|TBB)", code):
            faults.append(f"{path}: core asks the preprocessor for a device")
        if name == "plugins/backend_*" and re.search(r"llada|dream", code, re.IGNORECASE):
            faults.append(f"{path}: a backend names a model")
    if seen < 100:
        faults.append(f"only {seen} includes were found: the check looks in the wrong place")
    return faults


def includes_of_folder(part):
    """Of every folder of a part, the other folders whose files its files include."""
    needs = {folder.name: set() for folder in (ROOT / part).iterdir() if folder.is_dir()}
    for path in sources():
        if not path.as_posix().startswith(part + "/") or path.parts[len(pathlib.Path(part).parts)] not in needs:
            continue
        own = path.parts[len(pathlib.Path(part).parts)]
        included = (match[3] for match in INCLUDE.finditer((ROOT / path).read_text(encoding="utf-8")) if match[3])
        needs[own] |= {name.split("/")[0] for name in included} & (needs.keys() - {own})
    return needs


def check_folders():
    faults = []
    for part in ("apps/dllm", "core/src"):
        needs = includes_of_folder(part)
        if sum(map(len, needs.values())) < 3:
            faults.append(f"{part}: only {needs} were found: the check looks in the wrong place")
        # Whoever needs none, or is needed by none, is in no circle.
        while ends := {folder for folder, others in needs.items()
                       if not others or all(folder not in more for more in needs.values())}:
            needs = {folder: others - ends for folder, others in needs.items() if folder not in ends}
        faults += [f"{part}/{folder} needs {', '.join(sorted(others))}, in a circle"
                   for folder, others in sorted(needs.items())]
    return faults


def compiles(compiler, standard, header, folders):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "alone.c" if standard.startswith("c1") else "alone.cpp")
        # Twice: a header without a guard fails.
        source.write_text(f'#include "{header}"\n#include "{header}"\n', encoding="utf-8")
        result = subprocess.run(
            [compiler, f"-std={standard}", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
             *(f"-I{f}" for f in folders), str(source)], capture_output=True, text=True, check=False)
    return [] if result.returncode == 0 else [f"{header} as {standard}:\n{result.stderr[:2000]}"]


def clang_pairs():
    """C and C++ drivers of the clang that is here, if any."""
    for suffix in ("", *(f"-{version}" for version in range(22, 13, -1))):
        if shutil.which("clang" + suffix) and shutil.which("clang++" + suffix):
            return [("clang" + suffix, "clang++" + suffix)]
    return []


def check_headers(c_compiler, cxx_compiler, generated):
    sdk, core = ROOT / "plugin-sdk/include", ROOT / "core/include"
    jobs, seen = [], set()
    for c, cxx in [(c_compiler, cxx_compiler), *clang_pairs()]:
        for header in sorted(sdk.rglob("*.h*")):
            name = header.relative_to(sdk).as_posix()
            seen.add(name)
            if header.suffix == ".h":
                jobs.append((c, "c11", name, [sdk]))
            jobs += [(cxx, standard, name, [sdk]) for standard in ("c++17", "c++20")]
    for folder in (core, pathlib.Path(generated)):
        for header in sorted(folder.rglob("*.h*")):
            if header.suffix in (".h", ".hpp"):
                name = header.relative_to(folder).as_posix()
                seen.add(name)
                jobs.append((cxx_compiler, "c++20", name, [sdk, core, generated]))
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        faults = [fault for found in pool.map(lambda job: compiles(*job), jobs) for fault in found]
    return faults if len(seen) > 10 else faults + [f"only {len(seen)} headers were found"]


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


RUNTIME_LIBRARIES = re.compile(r"(lib(stdc\+\+|c\+\+|c\+\+abi|m|gcc_s|c|asan|ubsan|tsan|pthread)|ld-linux.*)\.so\.\d+")


def check_exports(folder):
    faults = []
    plugins = sorted(pathlib.Path(folder).glob("*.so"))
    for plugin in plugins:
        names = {line.split()[-1] for line in lines("nm", "-D", "--defined-only", str(plugin))}
        if names != {"dllm_plugin_entry"}:
            faults.append(f"{plugin.name} exports {sorted(names)[:10]}, expected dllm_plugin_entry alone")
        if not plugin.name.startswith("sampler_"):
            continue
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", "\n".join(lines("readelf", "-d", str(plugin))))
        faults += [f"{plugin.name} needs {name}; a sampler links the language runtime only"
                   for name in needed if not RUNTIME_LIBRARIES.fullmatch(name)]
    if not any(plugin.name.startswith("sampler_") for plugin in plugins):
        faults.append(f"no sampler plugin in {folder}: build everything first")
    return faults


def check_readmes():
    faults, seen = [], 0
    for layer in ("apps", "core", "plugins", "plugin-sdk", "tests"):
        for lists in sorted((ROOT / layer).rglob("CMakeLists.txt")):
            seen += 1
            readme = lists.parent / "README.md"
            if not readme.is_file() or len(readme.read_text(encoding="utf-8").split()) < 10:
                faults.append(f"{lists.parent.relative_to(ROOT)} has no README.md that says what it is")
    return faults if seen > 10 else faults + [f"only {seen} folders were found"]


LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def pages():
    """The Markdown pages of the tree; what tests carry as data is none of ours to check."""
    for folder, names, files in os.walk(ROOT):
        names[:] = [name for name in names if name not in ("build", ".git", "data")]
        yield from (pathlib.Path(folder, name) for name in sorted(files) if name.endswith(".md"))


def anchors(page):
    """The anchors of a page's headings, as the usual renderers make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}


def check_links():
    faults, seen = [], 0
    for page in pages():
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            if re.match(r"\w+:", link):
                continue
            seen += 1
            name, _, anchor = link.partition("#")
            target = (page.parent / name) if name else page
            if not target.exists():
                faults.append(f"{page.relative_to(ROOT)}: {link} leads nowhere")
            elif anchor and anchor not in anchors(target):
                faults.append(f"{page.relative_to(ROOT)}: {target.name} has no heading #{anchor}")
    listed = set(LINK.findall((ROOT / "docs/README.md").read_text(encoding="utf-8")))
    faults += [f"docs/README.md does not list {page.name}" for page in sorted((ROOT / "docs").glob("*.md"))
               if page.name != "README.md" and page.name not in listed]
    numbers = [page.name.split("-")[0] for page in sorted((ROOT / "docs/decisions").glob("*.md"))]
    faults += [f"docs/decisions has number {number} twice" for number in sorted(set(numbers))
               if numbers.count(number) > 1]
    return faults if seen > 50 else faults + [f"only {seen} links were found"]


def main():
    checks = {"includes": check_includes, "folders": check_folders, "headers": check_headers,
              "exports": check_exports, "readmes": check_readmes, "links": check_links}
    faults = checks[sys.argv[1]](*sys.argv[2:])
    print("\n".join(faults) or f"{sys.argv[1]}: all well")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
