// A run's folder and its report: one run at a time, nothing left if no run began, and agreement with the audit.
#include "records/run_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/expect_error.h"
#include "formats/scratch_folder.h"
#include "records/check_room.h"
#include "records/line_reader.h"
#include "records/run_report.h"

namespace plimsoll {
namespace {

TEST(RunFolder, BelongsToOneRunAtATime) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder / "deep/run";
  {
    RunFolder first = RunFolder::open(path, false);
    EXPECT_ERROR(RunFolder::open(path, false), "E-RUN-BUSY", "another process");
    EXPECT_TRUE(std::filesystem::exists(path)) << "the folder of the first run is not the second one's to remove";
    first.write_run({{"pid", 4242}});
    EXPECT_ERROR(RunFolder::open(path, true), "E-RUN-BUSY", "process 4242");
    EXPECT_ERROR(RunFolder::open(path, false), "E-RUN-EXISTS", "resumed once that process has ended");
    const RunFolder moved = std::move(first);
    EXPECT_ERROR(RunFolder::open(path, true), "E-RUN-BUSY", "process 4242");
  }
  EXPECT_NO_THROW(RunFolder::open(path, true));
  EXPECT_TRUE(std::filesystem::exists(path / "run.json"));
}

TEST(RunFolder, WithoutARunNothingIsLeft) {
  const ScratchFolder folder;
  { const RunFolder run = RunFolder::open(folder / "deep/run", false); }
  EXPECT_FALSE(std::filesystem::exists(folder / "deep"));
  std::filesystem::create_directory(folder / "mine");
  { const RunFolder run = RunFolder::open(folder / "mine", false); }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "mine"));
}

TEST(RunFolder, ARunThatNobodyHoldsIsInterrupted) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder / "run";
  EXPECT_EQ(run_status(path), "");
  {
    RunFolder run = RunFolder::open(path, false);
    run.write_run({{"pid", 4242}, {"status", "running"}});
    EXPECT_EQ(run_status(path), "running");
  }
  std::filesystem::create_directories(path / "checkpoints/3");
  EXPECT_EQ(run_status(path), "interrupted");
  EXPECT_ERROR(RunFolder::open(path, false), "E-RUN-EXISTS", "(interrupted)");
  {
    RunFolder run = RunFolder::open(path, true);
    EXPECT_EQ(run.ended_process(), 4242);
    const nlohmann::json report = nlohmann::json::parse(read_raw(path / "run.json"));
    EXPECT_EQ(report["status"], "interrupted");
    EXPECT_EQ(report["exit_code"], 6);
    run.write_run({{"pid", 1}, {"status", "done"}, {"long", std::string(100, 'x')}});
    run.overwrite_run({{"pid", 1}, {"status", "failed"}});
  }
  EXPECT_EQ(run_status(path), "failed");
  EXPECT_EQ(RunFolder::open(path, true).ended_process(), std::nullopt);
}

// The run follows a folder that was moved, and does not touch a new folder at the old path.
TEST(RunFolder, StaysWithTheFolderThatItHasOpened) {
  const ScratchFolder folder;
  RunFolder run = RunFolder::open(folder / "run", false);
  run.write_run({{"pid", 1}});
  run.open_metrics(0);
  EXPECT_FALSE(run.follow());
  std::filesystem::rename(folder / "run", folder / "moved");
  std::filesystem::create_directory(folder / "run");
  run.append(Metrics{});
  run.append(Evaluation{1, 1, 0.5, 1, 1});
  run.append_event({{"update", 1}});
  EXPECT_TRUE(run.follow());
  EXPECT_EQ(run.path(), std::filesystem::canonical(folder / "moved"));
  run.write("plan.json", "{}");
  run.write_run({{"pid", 2}});
  run.append(Evaluation{1, 1, 0.25, 1, 1});
  for (const char* name : {"metrics.jsonl", "eval.jsonl", "events.jsonl", "plan.json"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / "moved" / name)) << name;
  }
  EXPECT_NE(read_raw(folder / "moved/eval.jsonl").find("0.25"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "run"));
  std::filesystem::remove_all(folder / "moved");
  EXPECT_ERROR(run.follow(), "E-IO-WRITE", "not there any more");
  EXPECT_ERROR(run.write_run({{"pid", 3}}), "E-IO-WRITE", "not there any more");
  EXPECT_TRUE(std::filesystem::is_empty(folder / "run"));
}

TEST(RunFolder, AnotherFolderAtItsPathIsNotTakenAway) {
  const ScratchFolder folder;
  {
    const RunFolder run = RunFolder::open(folder / "run", false);
    std::filesystem::rename(folder / "run", folder / "moved");
    std::filesystem::create_directories(folder / "run/tokens");
    write_raw(folder / "run/plan.json", "another's");
  }
  EXPECT_EQ(read_raw(folder / "run/plan.json"), "another's");
  EXPECT_TRUE(std::filesystem::exists(folder / "run/tokens"));
}

TEST(RunFolder, WritesThroughNoLink) {
  for (const char* name :
       {"metrics.jsonl", "eval.jsonl", "samples.jsonl", "events.jsonl", "run.json", "checkpoint.safetensors", "weights"}) {
    const ScratchFolder folder;
    write_raw(folder / "victim", "precious");
    std::filesystem::create_directory(folder / "run");
    std::filesystem::create_symlink("../victim", folder / "run" / name);
    EXPECT_ERROR(RunFolder::open(folder / "run", false), "E-IO-WRITE", "it is a link");
    EXPECT_EQ(read_raw(folder / "victim"), "precious") << name;
  }
  // One that comes later.
  const ScratchFolder folder;
  write_raw(folder / "victim", "precious");
  RunFolder run = RunFolder::open(folder / "run", false);
  run.write_run({{"pid", 1}});
  std::filesystem::create_symlink("../victim", folder / "run/eval.jsonl");
  ASSERT_EQ(mkfifo((folder / "run/events.jsonl").c_str(), 0600), 0);
  EXPECT_ERROR(run.append(Evaluation{1, 1, 0.5, 1, 1}), "E-IO-WRITE", "it is a link");
  EXPECT_ERROR(run.append_event({{"update", 1}}), "E-IO-WRITE", "");
  EXPECT_EQ(read_raw(folder / "victim"), "precious");
}

std::vector<std::string> answers_in(const std::filesystem::path& folder) {
  std::vector<std::string> answers;
  read_answers(folder, [&](const Answer& each) { answers.push_back(std::to_string(each.update) + each.answer); });
  return answers;
}

TEST(RunFolder, HasTheAnswersOfAnUpdateOnce) {
  using Answers = std::vector<std::string>;
  const ScratchFolder folder;
  {
    RunFolder run = RunFolder::open(folder / "run", false);
    run.write_run({{"pid", 1}});
    run.open_answers(0);
    for (const std::int64_t update : {2, 4, 6})
      run.append(std::array{Answer{update, "p", "a", "e"}, Answer{update, "q", "b", "f"}});
    EXPECT_EQ(answers_in(folder / "run"), (Answers{"2a", "2b", "4a", "4b", "6a", "6b"}));
    run.append(std::array{Answer{6, "p", "c\xff\n", "e"}});  // in the place of those that were there
    EXPECT_EQ(answers_in(folder / "run"), (Answers{"2a", "2b", "4a", "4b", "6c\uFFFD\n"}));
    run.append(std::array<Answer, 0>{});
    run.sync();
  }
  write_raw(folder / "run/samples.jsonl", read_raw(folder / "run/samples.jsonl") + "{\"update\":8,\"pro");
  RunFolder run = RunFolder::open(folder / "run", true);
  const std::filesystem::path aside = run.set_aside(2);
  EXPECT_EQ(answers_in(aside), (Answers{"4a", "4b", "6c\uFFFD\n"}));
  run.open_answers(2);
  EXPECT_EQ(answers_in(folder / "run"), (Answers{"2a", "2b"}));
  run.append(std::array{Answer{4, "p", "d", "e"}});
  EXPECT_EQ(answers_in(folder / "run"), (Answers{"2a", "2b", "4d"}));
}

// Under another name the bytes may be somebody else's.
TEST(RunFolder, LinesThatHaveAnotherNameAreCopied) {
  const ScratchFolder folder;
  const std::string lines = "{\"update\":1,\"loss\":1,\"grad_norm\":1}\n";
  write_raw(folder / "victim", lines);
  std::filesystem::create_directory(folder / "run");
  std::filesystem::create_hard_link(folder / "victim", folder / "run/metrics.jsonl");
  write_raw(folder / "run/run.json", "{}");
  RunFolder run = RunFolder::open(folder / "run", true);
  run.open_metrics(1);
  run.append(Metrics{});
  EXPECT_EQ(read_raw(folder / "victim"), lines);
  EXPECT_TRUE(read_raw(folder / "run/metrics.jsonl").starts_with(lines));
}

TEST(RunRoom, IsRefusedWithNumbersAndAPlace) {
  const ScratchFolder folder;
  const RunFolder run = RunFolder::open(folder / "run", false);
  const std::optional<Bytes> left = free_bytes(folder / "not/there/yet");
  ASSERT_TRUE(left);
  const Bytes most = *left;
  const auto room = [](Bytes checkpoint, Bytes weights) {
    return RunRoom{.checkpoint = checkpoint, .weights = weights, .averages = {}, .best = {}, .records = {}};
  };
  EXPECT_NO_THROW(check_room(run, room(Bytes{1}, Bytes{1}), {}, {}, {}));
  EXPECT_ERROR(check_room(run, room(most, Bytes{1}), {}, {}, {}), "E-RUN-ROOM", "2 checkpoints");
  EXPECT_ERROR(check_room(run, room(Bytes{1}, most * 2), {}, {}, {}), "E-RUN-ROOM", "weights");
  EXPECT_ERROR(check_room(run, room(Bytes{1}, Bytes{1}), most * 2, folder / "pages", {}), "E-RUN-ROOM", "pages of memory.disk");
  std::filesystem::create_directories(run.path() / "abandoned/1");
  write_raw(run.path() / "abandoned/1/state", "");
  std::filesystem::resize_file(run.path() / "abandoned/1/state", std::uintmax_t{1} << 32);  // a sparse file
  EXPECT_ERROR(check_room(run, room(Bytes{1}, most + Bytes{1 << 30}), {}, {}, {}), "E-RUN-ROOM", "abandoned has 4");
  RunRoom all{.checkpoint = Bytes{100}, .weights = Bytes{7}, .averages = Bytes{5}, .best = Bytes{7}, .records = Bytes{1}};
  EXPECT_EQ(all.all(), Bytes{200 + 7 + 5 + 7 + 1 + 7});
  all.best = {};
  EXPECT_EQ(all.all(), Bytes{200 + 7 + 5 + 1}) << "nothing is replaced";
  all.again = true;
  EXPECT_EQ(all.all(), Bytes{200 + 7 + 5 + 1 + 7}) << "a resumed run replaces its weights";
}

TEST(RunReport, AuditIsComparedPhaseByPhase) {
  const std::vector<PhasePlan> planned{{Phase::load, "load", Bytes{640}, Bytes{640}, {}},
                                       {Phase::first, "first", Bytes{1280}, Bytes{1216}, {}}};
  const PhaseAudit load{Phase::load, "load", Bytes{640}, Bytes{640}};
  EXPECT_EQ(audit_difference(planned, {load, {Phase::first, "first", Bytes{1280}, Bytes{1216}}}), "");
  EXPECT_EQ(audit_difference(planned, {load}), "") << "a phase that did not run";
  EXPECT_EQ(audit_difference(planned, {load, {Phase::first, "first", Bytes{1344}, Bytes{1216}}}),
            "phase first: planned arena 1280 live 1216 bytes, measured 1344 and 1216");
  EXPECT_EQ(
      audit_difference(planned, {{Phase::load, "load", Bytes{640}, Bytes{576}}, {Phase::save, "save", Bytes{64}, Bytes{64}}}),
      "phase load: planned arena 640 live 640 bytes, measured 640 and 576; phase save: not planned");
  PhaseAudit update{Phase::first, "first", Bytes{640}, Bytes{576}};
  update.partial = true;
  EXPECT_EQ(audit_difference(planned, {update}), "") << "a part of a phase stays below its peak";
  update.live = Bytes{1280};
  EXPECT_EQ(audit_difference(planned, {update}), "phase first: planned arena 1280 live 1216 bytes, measured 640 and 1280");
}

}  // namespace
}  // namespace plimsoll
