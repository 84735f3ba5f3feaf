"""scripts/check_floors passes on a small correct tree, and names each fault that is added to it."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(os.environ.get("PLIMSOLL_SOURCE_DIR", Path(__file__).resolve().parents[2])) / "scripts" / "check_floors"

TREE = {
    "cmake/dependencies.cmake": "plimsoll_dependency(fmt TARGETS fmt::fmt HEADERS fmt/)\n"
                                "plimsoll_dependency(hwy TARGETS hwy::hwy HEADERS hwy/ IN_HEADERS hwy/)\n",
    "src/low/CMakeLists.txt": "plimsoll_library(low EXTERNAL fmt)\n",
    "src/low/low.h": "#pragma once\n#include <vector>\n",
    "src/low/low.cpp": '#include "low/low.h"\n#include <fmt/core.h>\n',
    "src/middle/CMakeLists.txt": "# floors (in words)\nplimsoll_library(middle EXCEPT cpu*.* LINKS low)\n"
                                 "plimsoll_library(middle_cpu FILES cpu*.* LINKS middle\n  EXTERNAL hwy)\n",
    "src/middle/middle.h": '#pragma once\n#include "low/low.h"\n',
    "src/middle/deep/cpu.h": "#pragma once\n#include <hwy/highway.h>\n",
    "src/middle/deep/cpu.cpp": '#include "middle/deep/cpu.h"\n#include "low/low.h"\n',
    "src/high/CMakeLists.txt": "plimsoll_library(high EXCEPT main.cpp LINKS middle)\n",
    "src/high/main.cpp": '#include "middle/deep/cpu.h"\n#include <fmt/core.h>\n',
    "src/high/high.cpp": '#include "low/low.h"\n#include "middle/middle.h"\n',
}


class CheckFloors(unittest.TestCase):
    def check(self, **changes):
        """Runs the script on TREE with `changes` of file contents; returns the exit code and what it printed."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**TREE, **changes.pop("files", {})}.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, SCRIPT, "--root", folder], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def assert_fault(self, files, expected):
        code, output = self.check(files=files)
        self.assertEqual(code, 1, output)
        self.assertIn(expected, output)
        self.assertIn(" 1 faults", output)

    def test_a_tree_in_order(self):
        code, output = self.check()
        self.assertEqual(code, 0, output)

    def test_upward_include(self):
        self.assert_fault({"src/low/low.cpp": '// one\n#include "middle/middle.h"\n'},
                          'src/low/low.cpp:2: "middle/middle.h" lies in middle, which low does not link')

    def test_kernels_are_not_reached_from_rules(self):
        self.assert_fault({"src/middle/middle.cpp": '#include "middle/deep/cpu.h"\n'},
                          "lies in middle_cpu, which middle does not link")

    def test_include_not_rooted(self):
        self.assert_fault({"src/low/low.cpp": '#include "low.h"\n'}, '"low.h" is no file under src/')

    def test_undeclared_dependency(self):
        self.assert_fault({"src/high/high.cpp": "#include <fmt/core.h>\n"}, "needs EXTERNAL fmt, which high does not list")

    def test_dependency_in_header(self):
        self.assert_fault({"src/low/low.h": "#pragma once\n#include <fmt/core.h>\n"}, "fmt belongs in sources only")

    def test_cycle(self):
        self.assert_fault({"src/low/CMakeLists.txt": "plimsoll_library(low LINKS middle EXTERNAL fmt)\n"},
                          "the floors form a cycle: middle -> low -> middle")

    def test_unknown_floor(self):
        self.assert_fault({"src/high/CMakeLists.txt": "plimsoll_library(high EXCEPT main.cpp LINKS middle cellar)\n"},
                          "high LINKS cellar, which is no library")

    def test_file_of_two_libraries(self):
        lists = ("plimsoll_library(middle LINKS low)\n"
                 "plimsoll_library(middle_cpu FILES cpu.h LINKS low EXTERNAL hwy)\n")
        self.assert_fault({"src/middle/CMakeLists.txt": lists, "src/middle/deep/cpu.cpp": ""},
                          "src/middle/deep/cpu.h: belongs to middle and middle_cpu")


if __name__ == "__main__":
    unittest.main()
