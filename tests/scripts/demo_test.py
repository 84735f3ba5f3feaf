"""scripts/demo: if the short run that measures the pace fails, the demo ends with the reason."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(os.environ.get("PLIMSOLL_SOURCE_DIR", Path(__file__).resolve().parents[2])) / "scripts"

# The functions of a demo with a program that writes `seconds` for each update, or fails.
HEAD = """
set -euo pipefail
shopt -s inherit_errexit
dir=$1; minutes=1; plimsoll=$dir/plimsoll
eval "$(sed -n '/^seconds_per_update()/,/^}/p' "$2/demo")"
source "$2/demos/$3.sh"
"""
CHOICES = {"bible": 'updates=$(choose_updates); echo "$updates"',
           "chat": 'read -r chats epochs < <(choose_chats 500 4); echo "$chats $epochs"'}
PROGRAM = """#!/usr/bin/env bash
if [[ {seconds} == none ]]; then echo "E-OF-THE-PROGRAM" >&2; exit 3; fi
while [[ $1 != --run ]]; do shift; done
mkdir -p "$2"
for _ in $(seq 20); do echo '{{"seconds": {seconds}}}'; done >"$2/metrics.jsonl"
"""


class Demo(unittest.TestCase):
    def choose(self, name, seconds):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "plimsoll"
            program.write_text(PROGRAM.format(seconds=seconds), encoding="utf-8")
            program.chmod(0o755)
            command = ["bash", "-c", HEAD + CHOICES[name], "demo", folder, SCRIPTS, name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout.strip(), done.stderr

    def test_the_pace_decides(self):
        self.assertEqual(self.choose("bible", 0.5), (0, "120", ""))
        self.assertEqual(self.choose("bible", 100), (0, "20", ""))
        self.assertEqual(self.choose("chat", 1), (0, "240 1", ""))
        self.assertEqual(self.choose("chat", 0.2), (0, "500 2", ""))
        self.assertEqual(self.choose("chat", 100), (0, "4 1", ""))

    def test_a_failed_run_ends_it(self):
        for name in CHOICES:
            code, output, told = self.choose(name, "none")
            self.assertNotEqual(code, 0)
            self.assertEqual(output, "")
            self.assertIn("E-OF-THE-PROGRAM", told)


if __name__ == "__main__":
    unittest.main()
