// A run's folder and its report: one run at a time, nothing left where none began, and what the audit must agree with.
#include "records/run_folder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "formats/expect_error.h"
#include "formats/scratch_folder.h"
#include "records/run_report.h"
#include "records/run_room.h"

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
    EXPECT_ERROR(RunFolder::open(path, false), "E-RUN-EXISTS", "--resume");
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
  write_raw(path / "checkpoint.safetensors", "saved");
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

TEST(RunRoom, IsRefusedWithNumbersAndAPlace) {
  const ScratchFolder folder;
  const RunFolder run = RunFolder::open(folder / "run", false);
  const std::optional<Bytes> left = free_bytes(folder / "not/there/yet");
  ASSERT_TRUE(left);
  const Bytes most = *left;
  EXPECT_NO_THROW(check_room(run, {Bytes{1}, Bytes{1}, Bytes{1}}, {}, {}, {}));
  EXPECT_ERROR(check_room(run, {most, Bytes{1}, {}}, {}, {}, {}), "E-RUN-ROOM", "its successor");
  EXPECT_ERROR(check_room(run, {Bytes{1}, most * 2, {}}, {}, {}, {}), "E-RUN-ROOM", "weights");
  // Two copies of the weights, where these are larger than the checkpoint.
  EXPECT_EQ((RunRoom{Bytes{3}, Bytes{7}, Bytes{5}}.all()), Bytes{22});
  EXPECT_ERROR(check_room(run, {Bytes{1}, Bytes{most.n * 2 / 3}, {}}, {}, {}, {}), "E-RUN-ROOM", "a successor of the largest");
  EXPECT_ERROR(check_room(run, {Bytes{1}, Bytes{1}, {}}, most * 2, folder / "pages", {}), "E-RUN-ROOM", "pages of --disk");
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
}

}  // namespace
}  // namespace plimsoll
