"""The .deb files of runtime, SDK and headers: their fields, their files, and that they work where dpkg puts them.

usage: packaging_test.py CPACK VERSION
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CPACK, VERSION = sys.argv[1:3]
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="dllm_packaging_"))
ROOT = FOLDER / "root"
NAMES = ("dllm", "dllm-plugin-sdk", "libdllm-dev")


def call(*command, folder=FOLDER, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("DLLM_")}
    return subprocess.run([*map(str, command)], cwd=folder, env={**clean, "HOME": str(FOLDER), **environment},
                          capture_output=True, text=True, timeout=300, check=False)


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = call(CPACK, "-G", "DEB", "-B", FOLDER / "packages",
                    "--config", pathlib.Path(os.environ["DLLM_BUILD"], "CPackConfig.cmake"))
        if made.returncode != 0:
            raise RuntimeError(made.stdout + made.stderr)
        cls.files = {path.name.split("_")[0]: path for path in (FOLDER / "packages").glob("*.deb")}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(FOLDER)

    def must(self, *command, **options):
        result = call(*command, **options)
        self.assertEqual(result.returncode, 0, f"{command}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def field(self, name, field):
        return self.must("dpkg-deb", "--field", self.files[name], field).strip()

    def paths(self, name):
        lines = self.must("dpkg-deb", "--contents", self.files[name]).splitlines()
        return [re.sub(r"^\./", "/", line.split()[5]) for line in lines if not line.startswith("d")]

    def test_1_there_are_three_with_their_fields(self):
        self.assertEqual(sorted(self.files), sorted(NAMES))
        machine = self.must("dpkg", "--print-architecture").strip()
        for name in NAMES:
            self.assertEqual(self.field(name, "Version"), VERSION)
            self.assertEqual(self.field(name, "Architecture"), "all" if name == "dllm-plugin-sdk" else machine)
            self.assertTrue(self.field(name, "Description"))
        self.assertEqual(self.field("dllm-plugin-sdk", "Depends"), "", "the SDK needs nothing")
        self.assertIn(f"dllm (= {VERSION})", self.field("libdllm-dev", "Depends"))
        if shutil.which("dpkg-shlibdeps"):
            for library in ("libc6", "libstdc++6", "libtbb", "libpcre2-8-0", "libfmt"):
                self.assertIn(library, self.field("dllm", "Depends"))
            self.assertNotIn("dllm", self.field("dllm", "Depends"))

    def test_2_every_file_is_in_one_package_and_under_usr(self):
        owner = {}
        for name in NAMES:
            for path in self.paths(name):
                self.assertTrue(path.startswith("/usr/"), path)
                self.assertNotIn(path, owner)
                owner[path] = name
        for path, name in [("/usr/bin/dllm", "dllm"), ("/usr/lib/dllm/plugins/sampler_llada.so", "dllm"),
                           ("/usr/include/dllm_sdk/sampler.hpp", "dllm-plugin-sdk"),
                           ("/usr/lib/cmake/DllmPluginSdk/DllmPluginSdkConfig.cmake", "dllm-plugin-sdk"),
                           ("/usr/share/dllm/examples/sampler_margin.c", "dllm-plugin-sdk"),
                           ("/usr/include/dllm/backend.hpp", "libdllm-dev"),
                           ("/usr/lib/cmake/Dllm/DllmConfig.cmake", "libdllm-dev"),
                           ("/usr/lib/libdllm.so", "libdllm-dev")]:
            self.assertEqual(owner.get(path), name, path)

    def test_3_dpkg_installs_them_and_they_work(self):
        self.install()
        answer = json.loads(self.must(ROOT / "usr/bin/dllm", "plugins", "--json"))
        plugins = {p["id"]: p["status"] for p in answer["plugins"]}
        self.assertEqual({plugins.get(name) for name in ("llada", "dream", "cpu")}, {"ok"}, answer)
        self.must(ROOT / "usr/bin/dllm", "new-sampler", "packaged")
        project = FOLDER / "sampler_packaged"
        path = f"{ROOT}/usr/bin:{os.environ['PATH']}"
        self.must("cmake", "-G", "Ninja", "-B", "build", folder=project, PATH=path)
        self.must("cmake", "--build", "build", folder=project)
        self.assertIn("100% tests passed", self.must("ctest", "--test-dir", "build", folder=project))

    def install(self):
        """With dpkg into an empty root; what other packages they need stays outside it."""
        for part in ("info", "updates", "triggers"):
            (ROOT / "var/lib/dpkg" / part).mkdir(parents=True)
        (ROOT / "var/lib/dpkg/status").touch()
        (ROOT / "var/lib/dpkg/available").touch()
        forced = ("--force-not-root", "--force-depends", "--force-script-chrootless", "--force-bad-path")
        self.must("dpkg", f"--root={ROOT}", f"--log={FOLDER}/dpkg.log", *forced, "--install", *self.files.values())
        listed = self.must("dpkg-query", f"--admindir={ROOT}/var/lib/dpkg", "-W",
                           "-f=${Package} ${db:Status-Abbrev}\n").splitlines()
        self.assertEqual(sorted(line.strip() for line in listed), sorted(f"{name} ii" for name in NAMES))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
