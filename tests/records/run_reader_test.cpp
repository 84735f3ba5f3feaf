// The reader of run folders takes each file as hostile: it leaves out what is broken, and never waits or fails.
#include "records/run_reader.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/expect_error.h"
#include "formats/scratch_folder.h"
#include "records/compare_runs.h"
#include "records/line_reader.h"
#include "records/remove_run.h"
#include "records/run_folder.h"
#include "records/run_note.h"
#include "records/run_parts.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::string line(std::int64_t update, double loss, double time = 0) {
  return nlohmann::json{{"update", update}, {"loss", loss}, {"grad_norm", 1.5}, {"units", 10}, {"seconds", 0.5}, {"time", time}}
             .dump() +
         "\n";
}

std::string lines(std::int64_t from, std::int64_t to, double loss, double time = 0) {
  std::string text;
  for (std::int64_t update = from; update <= to; ++update) text += line(update, loss, time);
  return text;
}

std::vector<std::int64_t> updates_in(const fs::path& folder) {
  std::vector<std::int64_t> updates;
  read_metrics(folder, [&](const Metrics& metrics) { updates.push_back(metrics.update); });
  return updates;
}

using Updates = std::vector<std::int64_t>;

TEST(LineReader, AnswersAreWholeTextsOfUpdatesInOrder) {
  const ScratchFolder folder;
  const auto answer = [](std::int64_t update, const std::string& text) {
    return nlohmann::json{{"update", update}, {"prompt", "p"}, {"answer", text}, {"expected", ""}}.dump() + "\n";
  };
  write_raw(folder / "samples.jsonl", answer(2, "a") + answer(2, "b") + answer(1, "late") + answer(-1, "before") + "[]\n{}\n" +
                                          "{\"update\":3,\"prompt\":[],\"answer\":\"\",\"expected\":\"\"}\n" +
                                          answer(3, std::string(70'000, 'x')) + answer(4, "c") + answer(5, "d").substr(0, 20));
  std::vector<std::string> seen;
  const LeftOut left_out = read_answers(folder.path(), [&](const Answer& each) { seen.push_back(each.answer); });
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(left_out.out_of_order, 2);
  EXPECT_EQ(left_out.broken, 4);
  EXPECT_TRUE(left_out.torn);
}

TEST(LineReader, LeavesOutWhatIsTornBrokenOrOutOfOrder) {
  const ScratchFolder folder;
  const std::string deep(100, '[');
  write_raw(folder / "metrics.jsonl",
            line(1, 5) + "{\"update\":2,\"loss\":NaN,\"grad_norm\":1}\n" + "{\"update\":2,\"loss\":1e999,\"grad_norm\":1}\n" +
                deep + "\n" + "[1]\n\n\"x\"\n" + "{\"update\":-3,\"loss\":1,\"grad_norm\":1}\n" +
                "{\"update\":1e3,\"loss\":1,\"grad_norm\":1}\n" +
                "{\"update\":99999999999999999999,\"loss\":1,\"grad_norm\":1}\n" + std::string(100'000, 'x') + "\n" +
                "{\"update\":3,\"loss\":null,\"grad_norm\":2,\"inner\":{\"loss\":7,\"update\":8}}\n" + line(2, 4) + line(4, 3) +
                line(5, 2).substr(0, 20));
  std::vector<Metrics> seen;
  const LeftOut left_out = read_metrics(folder.path(), [&](const Metrics& metrics) { seen.push_back(metrics); });
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].update, 1);
  EXPECT_EQ(seen[1].update, 3);
  EXPECT_TRUE(std::isnan(seen[1].loss)) << "null is not finite";
  EXPECT_EQ(seen[2].update, 4);
  EXPECT_EQ(seen[2].loss, 3);
  EXPECT_FALSE(seen[2].wait_seconds.has_value()) << "unknown in earlier versions";
  EXPECT_EQ(left_out.out_of_order, 1);
  EXPECT_EQ(left_out.broken, 10);
  EXPECT_TRUE(left_out.torn);
  EXPECT_EQ(last_metrics(folder.path())->update, 4);
  EXPECT_EQ(read_metrics(folder / "none", [](const Metrics&) {}).broken, 0);
}

TEST(LineReader, ReadsTheNoiseThatARunHasWritten) {
  const ScratchFolder folder;
  RunFolder run = RunFolder::open(folder / "run", /*resume=*/false);
  run.write_run({{"schema", "plimsoll.run/1"}});
  run.open_metrics(0);
  Metrics metrics;
  metrics.update = 1, metrics.loss = 3, metrics.grad_norm = 2;
  run.append(metrics);
  metrics.update = 2, metrics.noise = NoiseSums{1.0 / 3, 4, 2.5, 1e300};
  run.append(metrics);
  std::vector<std::optional<NoiseSums>> seen;
  read_metrics(run.path(), [&](const Metrics& each) { seen.push_back(each.noise); });
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_FALSE(seen[0]);
  ASSERT_TRUE(seen[1]);
  EXPECT_EQ(seen[1]->first, 1.0 / 3);
  EXPECT_EQ(seen[1]->window, 4);
  EXPECT_EQ(seen[1]->samples_first, 2.5);
  EXPECT_EQ(seen[1]->samples_window, 1e300);
  // Lists, deeper objects and a part of the four numbers are none.
  const char* numbers = "\"first\":1,\"window\":2,\"samples_first\":3,\"samples_window\":4";
  write_raw(folder / "metrics.jsonl", fmt::format("{{\"update\":1,\"loss\":1,\"grad_norm\":1,\"noise\":[{{{0}}}]}}\n"
                                                  "{{\"update\":2,\"loss\":1,\"grad_norm\":1,\"noise\":{{\"inner\":{{{0}}}}}}}\n"
                                                  "{{\"update\":3,\"loss\":1,\"grad_norm\":1,\"noise\":{{\"first\":1}}}}\n"
                                                  "{{\"update\":4,\"noise\":{{{0}}},\"loss\":1,\"grad_norm\":1}}\n",
                                                  numbers));
  seen.clear();
  EXPECT_EQ(read_metrics(folder.path(), [&](const Metrics& each) { seen.push_back(each.noise); }).broken, 0);
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_TRUE(!seen[0] && !seen[1] && !seen[2] && seen[3]);
}

TEST(LineReader, FindsTheLastLineBehindAnythingElse) {
  const ScratchFolder folder;
  EXPECT_FALSE(last_metrics(folder.path()).has_value());
  write_raw(folder / "metrics.jsonl", lines(1, 500, 4) + std::string(60'000, 'x') + "\n" + "torn");
  EXPECT_EQ(last_metrics(folder.path())->update, 500);
  write_raw(folder / "metrics.jsonl", std::string(2'000'000, 'x'));
  EXPECT_FALSE(last_metrics(folder.path()).has_value());
}

TEST(LineReader, AnErrorOfTheCallerPasses) {
  const ScratchFolder folder;
  write_raw(folder / "metrics.jsonl", line(1, 5));
  EXPECT_ERROR(read_metrics(folder.path(), [](const Metrics&) { throw data_error("E-IO-WRITE", "here", "full"); }), "E-IO-WRITE",
               "full");
}

TEST(LineReader, FollowsAFileThatGrowsAndIsCut) {
  const ScratchFolder folder;
  const fs::path path = folder / "metrics.jsonl";
  LineFollower follower(path);
  Updates seen;
  int again = 0;
  const auto poll = [&] {
    seen.clear();
    follower.poll([&](std::string_view text) { seen.push_back(metrics_of_line(text)->update); },
                  [&] {
                    ++again;
                    seen.clear();
                  });
    return seen;
  };
  const auto append = [&](const std::string& text) { std::ofstream(path, std::ios::app) << text; };
  EXPECT_EQ(poll(), Updates{});
  append(lines(1, 2, 5) + line(3, 5).substr(0, 9));
  EXPECT_EQ(poll(), (Updates{1, 2}));
  append(line(3, 5).substr(9));
  EXPECT_EQ(poll(), Updates{3});
  EXPECT_EQ(poll(), Updates{});
  EXPECT_EQ(again, 0);
  // A resume cuts the file and writes other lines, as long as the former ones.
  fs::resize_file(path, line(1, 5).size());
  append(lines(2, 4, 6));
  EXPECT_EQ(poll(), (Updates{1, 2, 3, 4}));
  EXPECT_EQ(again, 1);
  // It is replaced by an equal file, and removed.
  const std::string text = read_raw(path);
  fs::remove(path);
  write_raw(folder / "new", text + line(5, 1));
  fs::rename(folder / "new", path);
  EXPECT_EQ(poll().back(), 5);
  fs::remove(path);
  const int before = again;
  EXPECT_EQ(poll(), Updates{});
  EXPECT_EQ(again, before + 1);
}

// Each text in the place of run.json: none may throw, hang or be taken for a run.
TEST(RunReader, HostileRunFiles) {
  const ScratchFolder folder;
  const std::vector<std::string> texts{"",
                                       "{",
                                       "[]",
                                       "null",
                                       "{}",
                                       std::string(1000, '{'),
                                       std::string(3 << 20, ' '),
                                       R"({"status":{"a":1},"segments":7,"best":[],"data":"x","batch":null})",
                                       R"({"status":NaN})",
                                       "\xff\xfe\xfd",
                                       R"({"status":7,"updates":"many"})"};
  for (const std::string& text : texts) {
    const fs::path run = folder / "run";
    fs::remove_all(run);
    fs::create_directories(run);
    write_raw(run / "run.json", text);
    write_raw(run / "config.resolved.toml", text);
    EXPECT_EQ(read_run(run).status, "") << text.substr(0, 40);
    EXPECT_EQ(settings_of_run(run).size(), 0U);
    EXPECT_ERROR(open_run_records(run), "E-RUN-MISSING", "cannot be read");
  }
  const std::string odd = R"({"status":"done","updates":-5,"seconds":"x","exit_code":1e300,"pid":-1,
    "batch":{"effective":1.5},"segments":[1,{"begun":7},null,{"begun":"2026-01-01T00:00:00Z","from_update":18446744073709551615}],
    "best":{"update":3,"loss":"low"},"data":{"files":[1,"a",{}]},"measured":{"process_hwm_bytes":-7},"parent":{"run":""}})";
  write_raw(folder / "run" / "run.json", odd);
  const plimsoll::Run run = read_run(folder / "run");
  EXPECT_EQ(run.status, "done");
  EXPECT_EQ(run.updates, 0);
  EXPECT_EQ(run.seconds, 0);
  EXPECT_FALSE(run.exit_code.has_value());
  EXPECT_EQ(run.segments.size(), 4U);
  EXPECT_EQ(run.segments[3].from_update, 0);
  EXPECT_FALSE(run.best.has_value());
  EXPECT_EQ(run.data.files, std::vector<std::string>{"a"});
  EXPECT_FALSE(run.measured.process.has_value());
  EXPECT_FALSE(run.parent.has_value());
}

TEST(RunReader, OtherThingsThanFiles) {
  const ScratchFolder folder;
  for (const char* name :
       {"run.json", "metrics.jsonl", "eval.jsonl", "events.jsonl", "note.txt", "config.resolved.toml", "plan.json"}) {
    fs::create_directories(folder / "pipes");
    ASSERT_EQ(::mkfifo((folder / "pipes" / name).c_str(), 0600), 0);
    fs::create_directories(folder / "folders" / name);
    fs::create_directories(folder / "loops");
    fs::create_symlink(name, folder / "loops" / name);
  }
  for (const char* kind : {"pipes", "folders", "loops"}) {
    EXPECT_EQ(read_run(folder / kind).status, "") << kind;
    EXPECT_EQ(updates_in(folder / kind), Updates{});
    EXPECT_EQ(note_of_run(folder / kind), "");
    EXPECT_EQ(parts_of_run(folder / kind).size(), 1U);
  }
}

TEST(RunReader, ProgressOfARunWithoutAnEndIsInItsLines) {
  const ScratchFolder scratch;
  const fs::path folder = scratch / "run";
  fs::create_directories(folder);
  const nlohmann::json begun{
      {"status", "running"}, {"pid", 1}, {"updates", 10}, {"seconds", 100}, {"segments", {{{"begun", "2026-01-01T00:00:10Z"}}}}};
  write_raw(folder / "run.json", begun.dump());
  write_raw(folder / "metrics.jsonl", lines(1, 30, 2.5, 1767225630) + "{\"update\":31,\"lo");
  write_raw(
      folder / "eval.jsonl",
      "{\"update\":5,\"loss\":1,\"units\":7}\n{\"update\":10,\"loss\":3,\"units\":8}\n{\"update\":20,\"loss\":2,\"units\":8}\n"
      "{\"update\":30,\"loss\":4,\"units\":8}\n");
  plimsoll::Run run = read_run(folder);
  EXPECT_EQ(run.status, "interrupted") << "no process holds it";
  EXPECT_EQ(run.updates, 30);
  EXPECT_EQ(run.loss, 2.5);
  EXPECT_EQ(run.best->update, 20) << "an evaluation of another size is not compared";
  EXPECT_EQ(run.seconds, 120);
  const RunFolder held = RunFolder::open(folder, true);
  write_raw(folder / "run.json", begun.dump());
  EXPECT_EQ(read_run(folder).status, "running");
}

TEST(RunReader, FindsRunsThreeLevelsDownWithoutLinks) {
  const ScratchFolder folder;
  for (const char* run : {"a", "b/c", "b/d/e", "b/d/f/g"}) {
    fs::create_directories(folder / run);
    write_raw(folder / run / "run.json", "{}");
  }
  fs::create_directories(folder / "a/inner");
  write_raw(folder / "a/inner/run.json", "{}");
  fs::create_directory_symlink(folder.path(), folder / "b/loop");
  fs::create_directory_symlink(folder / "a", folder / "latest");
  std::vector<fs::path> found;
  for (const fs::path& run : find_runs(folder.path())) found.push_back(fs::relative(run, folder.path()));
  EXPECT_EQ(found, (std::vector<fs::path>{"a", "b/c", "b/d/e"}));
  EXPECT_EQ(find_runs(folder / "latest").size(), 1U);
  EXPECT_EQ(find_runs(folder / "none").size(), 0U);
}

TEST(RunParts, ARunThatWentBack) {
  const ScratchFolder folder;
  // It went to 80, back to 50, to 60, and back to 20.
  write_raw(folder / "metrics.jsonl", lines(1, 20, 1) + lines(21, 30, 3));
  for (const char* part : {"abandoned/1", "abandoned/2", "abandoned/weights_best"}) fs::create_directories(folder / part);
  write_raw(folder / "abandoned/1/metrics.jsonl", lines(51, 80, 1));
  write_raw(folder / "abandoned/2/metrics.jsonl", lines(21, 50, 1) + lines(51, 60, 2));
  write_raw(folder / "abandoned/1/eval.jsonl", "{\"update\":60,\"loss\":9}\n");
  write_raw(folder / "eval.jsonl", "{\"update\":10,\"loss\":8}\n{\"update\":30,\"loss\":7}\n");
  const std::vector<RunPart> parts = parts_of_run(folder.path());
  ASSERT_EQ(parts.size(), 3U);
  const auto seen = [](const RunPart& part) {
    std::vector<std::pair<std::int64_t, double>> all;
    part.metrics([&](const Metrics& metrics) { all.emplace_back(metrics.update, metrics.loss); });
    return all;
  };
  const auto first = seen(parts[0]), second = seen(parts[1]), third = seen(parts[2]);
  ASSERT_EQ(first.size(), 80U);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].first, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(first[i].second, 1);
  }
  ASSERT_EQ(second.size(), 10U);
  EXPECT_EQ(second.front(), (std::pair<std::int64_t, double>(51, 2)));
  ASSERT_EQ(third.size(), 10U);
  EXPECT_EQ(third.front(), (std::pair<std::int64_t, double>(21, 3)));
  Updates evaluated;
  parts[0].evaluations([&](const Evaluation& each) { evaluated.push_back(each.update); });
  EXPECT_EQ(evaluated, (Updates{10, 60}));
}

TEST(CompareRuns, ValidationOnOtherDataIsNotCompared) {
  std::vector<plimsoll::Run> runs(2);
  for (plimsoll::Run& run : runs) {
    run.data.hash = "d", run.data.validation_hash = "v";
    run.best = Evaluation{.update = 5, .loss = 1.5, .units = 256};
    run.validation_loss = 1.6;
  }
  const auto has = [](const RunComparison& comparison, const char* key) {
    return std::ranges::any_of(comparison.figures, [&](const RunFigure& figure) { return figure.key == key; });
  };
  EXPECT_TRUE(compare_runs(runs).validation.same);
  EXPECT_TRUE(compare_runs(runs).differences.empty());
  EXPECT_TRUE(has(compare_runs(runs), "best_loss"));
  runs[1].best->units = 512;
  EXPECT_EQ(compare_runs(runs).validation.why, "units differs: 256, 512");
  EXPECT_FALSE(has(compare_runs(runs), "best_loss"));
  EXPECT_FALSE(has(compare_runs(runs), "validation_loss"));
  runs[1].data.validation_hash = "w";
  EXPECT_EQ(compare_runs(runs).validation.why, "validation_hash differs: v, w");
  EXPECT_TRUE(compare_runs(runs).training.same);
  runs[1].data.hash = "e";
  EXPECT_FALSE(compare_runs(runs).training.same) << "losses over other trained tokens";
}

TEST(CompareRuns, SettingsThatChangeTheLossSaySo) {
  const ScratchFolder folder;
  std::vector<plimsoll::Run> runs(2);
  for (std::size_t i = 0; i < 2; ++i) {
    runs[i].path = folder / std::to_string(i);
    fs::create_directory(runs[i].path);
  }
  const auto why = [&](const std::string& key, const std::string& value) {
    write_raw(runs[0].path / "config.resolved.toml", key);
    write_raw(runs[1].path / "config.resolved.toml", value);
    return compare_runs(runs).training.why;
  };
  EXPECT_EQ(why("[train]\nlabel_smoothing = 0.1\n", "[train]\nlabel_smoothing = 0.0\n"), "train.label_smoothing differs");
  EXPECT_EQ(why("[train]\nz_loss = 0.1\n", "[train]\nz_loss = 0.0\n"), "train.z_loss differs");
  EXPECT_EQ(why("[data]\nloss = \"all\"\n", "[data]\nloss = \"last\"\n"), "data.loss differs");
  EXPECT_EQ(why("[train]\ngradient_clip = 0.1\n", "[train]\ngradient_clip = 1.0\n"), "");
  EXPECT_EQ(why("[other]\nsmoothing = 0.1\n", "[other]\nsmoothing = 1.0\n"), "");
}

TEST(RemoveRun, RemovesWhatARunWritesAlone) {
  const ScratchFolder folder;
  const fs::path run = folder / "run";
  write_raw(folder / "outside.txt", "outside");
  for (const char* file : {"run.json",
                           "metrics.jsonl",
                           "eval.jsonl",
                           "events.jsonl",
                           "samples.jsonl",
                           "settings.json",
                           "config.resolved.toml",
                           "plan.json",
                           "note.txt",
                           "report.html",
                           "stored.json",
                           "weights/model.safetensors",
                           "weights/model-00001-of-00002.safetensors",
                           "weights/tokenizer.json",
                           "weights_best/best.json",
                           "checkpoints/5/state.safetensors",
                           "checkpoints/5/state-1.safetensors",
                           "checkpoints/5/manifest.json",
                           "diverged/state.safetensors",
                           "abandoned/1/metrics.jsonl",
                           "abandoned/1/checkpoints/9/manifest.json",
                           "tokens/x"}) {
    fs::create_directories((run / file).parent_path());
    write_raw(run / file, "x");
  }
  fs::copy(run, folder / "clean", fs::copy_options::recursive);
  remove_run(folder / "clean" / "");
  EXPECT_FALSE(fs::exists(folder / "clean"));
  EXPECT_TRUE(fs::exists(folder.path()));

  write_raw(run / "thesis.tex", "mine");
  write_raw(run / "weights/notes.md", "mine");
  fs::create_directories(run / "checkpoints/5/mine");
  fs::create_directory_symlink(folder.path(), run / "weights_ema");
  fs::create_symlink(folder / "outside.txt", run / "diverged.safetensors");
  EXPECT_EQ(plan_removal(run).foreign.size(), 5U);
  remove_run(run);
  EXPECT_FALSE(fs::exists(run / "run.json"));
  EXPECT_FALSE(fs::exists(run / "weights/model.safetensors"));
  EXPECT_EQ(read_raw(folder / "outside.txt"), "outside");
  for (const char* stays : {"thesis.tex", "weights/notes.md", "checkpoints/5/mine"})
    EXPECT_TRUE(fs::exists(run / stays)) << stays;
  EXPECT_TRUE(fs::is_symlink(run / "weights_ema"));
  EXPECT_TRUE(fs::is_symlink(run / "diverged.safetensors"));
  EXPECT_FALSE(fs::exists(run / "abandoned"));

  const RunFolder held = RunFolder::open(folder / "held", false);
  write_raw(folder / "held/run.json", "{\"pid\":42}");
  EXPECT_ERROR(remove_run(folder / "held"), "E-RUN-BUSY", "process 42");
}

}  // namespace
}  // namespace plimsoll
