"""scripts/demos/packages.py with a substitute for dpkg-query: answers, held-out samples, the order, omitted packages."""

import collections
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(os.environ.get("PLIMSOLL_SOURCE_DIR", Path(__file__).resolve().parents[2])) / "scripts" / "demos" / "packages.py"

# Fills the fields of the format that it is asked for, as dpkg-query does.
DPKG_QUERY = """#!{python}
import json, os, sys

assert sys.argv[1:3] == ["-W", "-f"], sys.argv
for package in json.load(open(os.path.join(os.path.dirname(sys.argv[0]), "packages.json"), encoding="utf-8")):
    record = sys.argv[3]
    for field, value in package.items():
        record = record.replace("${{" + field + "}}", value)
    sys.stdout.buffer.write(record.encode("utf-8"))
"""


def package(name, description="a thing", source=None, status="installed"):
    return {"db:Status-Status": status, "Package": name, "source:Package": source or name, "Description": description}


class Packages(unittest.TestCase):
    def run_script(self, packages, *arguments, environment=None):
        """The script's exit code, what it printed, and the chats of both files by package."""
        with tempfile.TemporaryDirectory() as folder:
            fake = Path(folder) / "dpkg-query"
            fake.write_text(DPKG_QUERY.format(python=sys.executable), encoding="utf-8")
            fake.chmod(0o755)
            (Path(folder) / "packages.json").write_text(json.dumps(packages), encoding="utf-8")
            path = folder + os.pathsep + os.environ["PATH"]
            done = subprocess.run([sys.executable, SCRIPT, folder, *arguments], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": path, **(environment or {})})
            chats = [self.chats(Path(folder) / f"{part}.jsonl") for part in ("train", "validation")]
            return done.returncode, done.stdout + done.stderr, *chats

    def chats(self, path):
        answers = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            user, assistant = json.loads(line)["messages"]
            self.assertEqual((user["role"], assistant["role"]), ("user", "assistant"))
            words = user["content"].removesuffix("?").split()
            self.assertEqual(words[:-1], "What is the Debian package".split())
            self.assertNotIn(words[-1], answers, "a package is asked for once")
            answers[words[-1]] = assistant["content"]
        return answers

    def answers(self, *packages):
        code, output, train, held_out = self.run_script(list(packages))
        self.assertEqual(code, 0, output)
        return {**train, **held_out}

    def test_an_answer_is_the_summary_and_the_first_sentences(self):
        text = "default icon theme.\n It holds icons\n for desktops. It is\n small. More e.g\n .\n Another paragraph."
        self.assertEqual(self.answers(package("icons", text)),
                         {"icons": "Default icon theme. It holds icons for desktops. It is small."})

    def test_an_answer_has_at_most_fifty_words_beyond_its_summary(self):
        sentence = "one two three four five six seven eight nine ten."
        answer = self.answers(package("long", "a summary\n " + " ".join([sentence] * 9)))["long"]
        self.assertEqual(answer, "A summary. " + " ".join([sentence] * 4))
        words = " ".join(["word"] * 80)
        self.assertEqual(self.answers(package("wordy", words + "\n More."))["wordy"], "W" + words[1:] + ".")

    def test_a_summary_alone_and_text_that_is_not_ascii(self):
        self.assertEqual(self.answers(package("short", "éditeur"), package("none", ""), package("blank", " \n")),
                         {"short": "Éditeur."})

    def test_a_removed_package_is_not_asked_for(self):
        gone = package("gone", status="config-files")
        self.assertEqual(list(self.answers(gone, package("here"))), ["here"])

    def test_the_locale_does_not_matter(self):
        code, output, train, held_out = self.run_script([package("short", "éditeur")],
                                                        environment={"LC_ALL": "POSIX", "PYTHONUTF8": "0",
                                                                     "PYTHONCOERCECLOCALE": "0"})
        self.assertEqual((code, {**train, **held_out}), (0, {"short": "Éditeur."}), output)

    def test_a_package_of_two_architectures_is_one(self):
        self.assertEqual(list(self.answers(package("libc6"), package("libc6"), package("zlib1g"))).count("libc6"), 1)

    def test_a_tenth_of_the_sources_is_held_out_whole(self):
        packages = [package(f"p{source}-{i}", source=f"s{source}") for source in range(400) for i in range(2)]
        code, output, train, held_out = self.run_script(packages)
        self.assertEqual(code, 0, output)
        self.assertEqual(output, f"{len(train)} {len(held_out)}\n")
        self.assertEqual(len(held_out), 60)
        sources = collections.Counter(name.split("-")[0] for name in train)
        self.assertEqual(set(sources.values()), {2}, "a source lies on one side")
        self.assertTrue(320 <= len(sources) <= 390, len(sources))
        self.assertFalse(sources.keys() & {name.split("-")[0] for name in held_out})

    def test_the_most_chats_are_the_first_ones_of_an_order_that_names_alone_fix(self):
        packages = [package(f"p{i}") for i in range(100)]
        _, _, every, held_out = self.run_script(packages)
        code, output, some, held_out_again = self.run_script(packages[::-1], "--most", "20")
        self.assertEqual((code, output), (0, f"20 {len(held_out)}\n"))
        self.assertEqual(list(some), list(every)[:20])
        self.assertEqual(list(held_out_again), list(held_out))
        self.assertNotEqual(list(every), sorted(every))


if __name__ == "__main__":
    unittest.main()
