"""The page of a run: written at the end, valid, self-contained, safe from what a folder holds, and of bounded size."""

import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import time

from _plimsoll import Test

try:
    import html5lib
except ImportError:
    html5lib = None
    print("skipped: the strict parser, python3-html5lib is missing")

SECTIONS = ["curves", "memory", "time", "stability", "data", "settings", "checkpoints", "machine", "command"]
UPDATES = 100_000
MOST_BYTES = 1_500_000


def check_page(test, what, path):
    """A valid page that loads nothing, with a text for each figure. Returns its text."""
    if not test.that(path.is_file(), f"{what}: {path.name} is there"):
        return ""
    data = path.read_bytes()
    text = data.decode()
    if html5lib:
        try:
            html5lib.HTMLParser(strict=True).parse(data)
        except html5lib.html5parser.ParseError as error:
            test.that(False, f"{what} is not valid: {error}")
    test.that("<script" not in text.lower(), f"{what} has no script")
    for link in re.findall(r'(?:src|href)="([^"]*)"', text):
        test.that(link.startswith("#") or link == "data:,", f"{what} links to {link}")
    test.that(not re.search(r"url\(|@import", text), f"{what} loads nothing in its style")
    for svg in re.findall(r"<svg[^>]*role=.img.[^>]*>.{0,40}", text):
        test.that("<title" in svg, f"{what}: a figure has no title: {svg[:80]}")
    return text


def bits(run):
    return [json.loads(line)["loss_bits"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def contents(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def at_the_end(test):
    test.succeeds("train", "config.toml", "--set", "train.evaluate_every=2", "--run", "run")
    text = check_page(test, "the page of a run", test.path("run/report.html"))
    found = re.findall(r'<h2 id="([a-z]+)"', text)
    test.equal("the sections", found, SECTIONS)
    test.that("best validation loss" in text, "the verdict names the best validation loss")
    test.succeeds("train", "config.toml", "--set", "records.report=false", "--set", "train.evaluate_every=2", "--run", "none")
    test.that(not test.path("none/report.html").exists(), "records.report = false writes no page")
    test.equal("the losses without a page", bits(test.path("none")), bits(test.path("run")))


def changes_nothing(test):
    before = contents(test.path("run"))
    test.succeeds("report", "run", "--out", "page.html")
    test.equal("the folder after report --out", contents(test.path("run")), before)
    test.succeeds("report", "run")
    after = contents(test.path("run"))
    test.equal("the other files after report", {k: v for k, v in after.items() if k != "report.html"},
               {k: v for k, v in before.items() if k != "report.html"})
    test.equal("exit code of a page in the place of records", test.run("report", "run", "--out", "run/metrics.jsonl").code, 2)
    test.equal("exit code of several runs without --out", test.run("report", "run", "none").code, 2)
    test.equal("exit code of a folder without a run", test.run("report", ".").code, 2)


def that_fails(test):
    test.path("stuck/report.html").mkdir(parents=True)
    result = test.run("train", "config.toml", "--set", "train.evaluate_every=2", "--run", "stuck")
    test.equal("exit code of a run without its page", result.code, 0)
    test.that("note: " in result.text()[1] and "report.html could not be written" in result.text()[1], "a note tells of it")
    test.equal("the losses of it", bits(test.path("stuck")), bits(test.path("run")))
    test.equal("its status", json.loads(test.path("stuck/run.json").read_text())["status"], "done")


def repeats(test):
    """The printed command, run as it stands."""
    text = test.path("run/report.html").read_text()
    command = re.search(r"<pre><code>plimsoll (.*?)</code></pre>", text).group(1)
    command = command.replace("&#39;", "'").replace("&quot;", '"').replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
    test.succeeds(*shlex.split(command))
    test.equal("the losses of the repeated run", bits(test.path("run-again")), bits(test.path("run")))


def several(test):
    test.succeeds("train", "config.toml", "--set", "optimizer.learning_rate=3e-3", "--set", "train.evaluate_every=2",
                  "--run", "other")
    test.succeeds("report", "run", "other", "--out", "both.html")
    text = check_page(test, "the page of two runs", test.path("both.html"))
    test.that("optimizer.learning_rate" in text, "it names the setting that differs")
    test.that("train.updates" not in text, "it names no setting that is the same")
    test.succeeds("train", "config.toml", "--set", f"data.validation={test.path('train.txt')}", "--set",
                  "train.evaluate_every=2", "--run", "elsewhere")
    test.succeeds("report", "run", "elsewhere", "--out", "both.html")
    text = check_page(test, "the page of runs with other validation data", test.path("both.html"))
    test.that("validation_hash differs" in text, "it tells that the validation data differ")
    test.that('id="validation-t"' not in text, "it draws no validation losses over each other")


def of_interrupted(test):
    """The page of a run that lives, of one that was killed, and of one that was resumed."""
    process = test.start("train", "config.toml", "--set", "train.updates=100000", "--run", "live")
    end = time.monotonic() + 60
    while not (test.path("live/metrics.jsonl").exists() and test.path("live/metrics.jsonl").stat().st_size > 5000):
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    test.succeeds("report", "live", "--out", "live.html")
    test.that("running: update" in check_page(test, "the page of a live run", test.path("live.html")), "it is running")
    process.kill()
    process.communicate()
    test.succeeds("report", "live", "--out", "live.html")
    text = check_page(test, "the page of a killed run", test.path("live.html"))
    test.that("interrupted at update" in text, "it is interrupted")
    with open(test.path("live/metrics.jsonl"), "ab") as lines:
        lines.write(b'{"update": 99')
    test.succeeds("report", "live", "--out", "live.html")


def children_of(pid):
    try:
        return [int(each) for each in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def that_is_killed(test):
    """The process that writes the page is killed: exit code, status and lines of the run are those of a run without a page."""
    command = ["train", "config.toml", "--set", "train.evaluate_every=2", "--run"]
    test.succeeds(*command, "killed", "--updates", 4)
    test.path("killed/report.html").unlink()
    events = test.path("killed/events.jsonl")
    line = json.dumps({"event": "NOT_SAVED", "update": 4, "message": "m" * 300}) + "\n"
    events.write_text((events.read_text() if events.exists() else "") + line * 60_000)  # a page that takes a while
    process = test.start("train", "--run", "killed", "--resume", "--updates", 6)
    said = b""
    while b"weights:" not in said:
        piece = process.stderr.readline()
        if not piece:
            break
        said += piece
    killed, end = [], time.monotonic() + 30
    while not killed and time.monotonic() < end and process.poll() is None:
        for pid in children_of(process.pid):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
    said += process.communicate()[1]
    test.that(killed, "the process of the page was met")
    test.equal("exit code of a run whose page was killed", process.returncode, 0)
    test.that(b"report.html could not be written" in said, f"a note tells of it: {said[-600:]!r}")
    test.equal("its losses", bits(test.path("killed")), bits(test.path("run")))
    run = json.loads(test.path("killed/run.json").read_text())
    test.equal("its status and exit code", (run["status"], run["exit_code"]), ("done", 0))
    test.that(not test.path("killed/report.html").exists(), "there is no page")
    events.write_text("")
    test.succeeds("report", "killed")
    check_page(test, "the page that is written later", test.path("killed/report.html"))


def went_back(test):
    """Updates that a run left behind are drawn, and named, and count in no sum."""
    command = ["train", "config.toml", "--set", "train.evaluate_every=2", "--set", "save.every=2", "--set", "save.keep_last=9"]
    test.succeeds(*command, "--run", "back")
    test.succeeds("train", "--run", "back", "--resume", "--checkpoint", 2)
    test.succeeds("train", "--run", "back", "--resume", "--checkpoint", 4)
    text = check_page(test, "the page of a run that went back", test.path("back/report.html"))
    test.that("went back to an earlier checkpoint 2 times. The last time, these were updates 5 to 6" in text, "it names them")
    curves = text[text.index('<h2 id="curves"') : text.index('<h2 id="memory"')]
    test.equal("the legend has them once", curves.count(">abandoned<"), 1)
    test.equal("the losses", bits(test.path("back")), bits(test.path("run")))
    plain = test.path("run/report.html").read_text()
    test.that("abandoned" not in plain, "a run that never went back has none")


HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m\u202e]]><!--"


def hostile(test):
    """Folders whose texts are markup, and whose files are broken: a page that parses, or exit code 2."""
    named = test.path("<b>&'run\x1b")
    shutil.copytree(test.path("run"), named)
    run = json.loads((named / "run.json").read_text())
    plan = json.loads((named / "plan.json").read_text())
    (named / "note.txt").write_text(HOSTILE)
    run.update(id=HOSTILE, instruction_set=HOSTILE, libraries=[HOSTILE], plan_hash=HOSTILE, fault=HOSTILE, stopped=HOSTILE)
    run["data"] = {"files": [HOSTILE], "validation_files": [HOSTILE], "samples": 7}
    run["environment"] = {key: HOSTILE for key in ("version", "commit", "system", "processor")}
    run["error"] = {"code": HOSTILE, "message": HOSTILE}
    run["parent"] = {"run": HOSTILE, "update": 3}
    run["segments"] = [{"begun": HOSTILE, "host": HOSTILE, "code": HOSTILE, "from_update": 3}] * 300
    (named / "run.json").write_text(json.dumps(run))
    plan["subject"] = {"model": HOSTILE}
    for phase in plan["predicted"]["phases"]:
        phase["name"] = HOSTILE
        phase["owners"] = {HOSTILE: 5}
    for phase in plan["timeline"]:
        phase["phase"] = HOSTILE
        phase["tiers"] = {tier: {HOSTILE: bytes for bytes in owners.values()} for tier, owners in phase["tiers"].items()}
    (named / "plan.json").write_text(json.dumps(plan))
    (named / "events.jsonl").write_text(json.dumps({"event": HOSTILE, "update": 1, "names": [HOSTILE], "what": HOSTILE}) + "\n")
    (named / "config.resolved.toml").write_text('[data]\ntrain = "<img src=x>"\n[x]\n"<i>" = "<u>"\n')
    test.succeeds("report", named, "--out", "hostile.html")
    text = check_page(test, "the page of a hostile folder", test.path("hostile.html"))
    for word in ("<script>", "<b>&", "\x1b", "\u202e", "<img"):
        test.that(word not in text, f"the page of a hostile folder holds {word!r} unescaped")
    test.succeeds("report", named, "run", "--out", "hostile.html")
    check_page(test, "the page of a hostile folder and another", test.path("hostile.html"))

    deep = "[" * 100_000
    contents_of_nothing = ["", "null", "{", "[]", '{"a": NaN}', deep, '{"update": 1e999, "loss": "x"}', "\0" * 1000]
    for name in ("run.json", "plan.json", "metrics.jsonl", "eval.jsonl", "events.jsonl", "config.resolved.toml"):
        for number, content in enumerate(contents_of_nothing):
            folder = test.path("broken")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(test.path("run"), folder)
            (folder / name).write_text(content)
            result = test.run("report", folder, "--out", "broken.html")
            said = f"exit code {result.code} with content {number} of {name}: {result.text()[1][-300:]}"
            test.that(result.code in (0, 2), said)
            if result.code == 0:
                check_page(test, f"the page with content {number} of {name}", test.path("broken.html"))
    odd = [{"update": i, "loss": loss, "grad_norm": -loss, "learning_rate": loss, "seconds": loss, "update_ratio": loss}
           for i, loss in enumerate([1e308, -1e308, 5e-324, 1, 0], 1)]
    (test.path("broken") / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in odd))
    test.succeeds("report", "broken", "--out", "broken.html")
    check_page(test, "the page of numbers at the ends of the range", test.path("broken.html"))
    wrong = json.loads(test.path("run/plan.json").read_text())
    wrong["timeline"] = [{"phase": 3, "steps": [3, 1], "tiers": []},
                         {"phase": "x", "steps": [1, 2], "tiers": {"ram": {"a": [1]}}},
                         {"phase": "y", "steps": [1, 2], "tiers": {"ram": {"a": [1, -5], "b": [1e300, 2]}}}, 7, None]
    wrong["predicted"]["phases"] = [{"live_bytes": -1}, [], {"name": "z", "live_bytes": 1e300, "arena_bytes": 1}]
    (test.path("broken") / "plan.json").write_text(json.dumps(wrong))
    shutil.copy(test.path("run/config.resolved.toml"), test.path("broken"))
    test.succeeds("report", "broken", "--out", "broken.html")
    check_page(test, "the page of a wrong timeline", test.path("broken.html"))
    loop = test.path("broken/checkpoints/loop")
    os.symlink("..", loop)
    os.symlink(test.path("broken"), test.path("broken/weights/self"))
    (test.path("broken") / "eval.jsonl").unlink()
    os.mkfifo(test.path("broken/eval.jsonl"))
    test.succeeds("report", "broken", "--out", "broken.html")


def of_many_updates(test):
    """100,000 updates with one spike: the size is bounded, and the spike is drawn."""
    folder = test.path("long")
    shutil.copytree(test.path("run"), folder)
    line = json.loads(test.path("run/metrics.jsonl").read_text().splitlines()[0])
    with open(folder / "metrics.jsonl", "w") as lines:
        for update in range(1, UPDATES + 1):
            line.update(update=update, samples=8 * update, loss=3 + 2 / (1 + update / 5000) + 0.1 * ((update * 7919) % 13) / 13)
            line.pop("spike", None)
            if update == 54_321:
                line.update(loss=77.0, spike=True)
            lines.write(json.dumps(line) + "\n")
    run = json.loads((folder / "run.json").read_text())
    run.update(updates=UPDATES, samples=8 * UPDATES)
    (folder / "run.json").write_text(json.dumps(run))
    start = time.monotonic()
    test.succeeds("report", "long", "--out", "long.html")
    seconds = time.monotonic() - start
    text = check_page(test, "the page of 100,000 updates", test.path("long.html"))
    print(f"  {UPDATES:,} updates: {seconds:.2f} s, {len(text):,} bytes", flush=True)
    test.that(len(text) <= MOST_BYTES, f"the page has {len(text):,} bytes")
    test.that("spike at update 54321: loss 77.00" in text, "the page marks the spike")
    test.that(seconds < 20, f"the page took {seconds:.1f} s")


def main():
    test = Test("report")
    test.run_parts(at_the_end, changes_nothing, that_fails, repeats, several, of_interrupted, that_is_killed, went_back, hostile,
                   of_many_updates)
    test.finish()


if __name__ == "__main__":
    main()
