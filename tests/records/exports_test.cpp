// Event files: the bytes that TensorBoard reads, repeated exports, and runs that were resumed or went back.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/expect_error.h"
#include "formats/scratch_folder.h"
#include "records/exports/csv.h"
#include "records/exports/event_file.h"
#include "records/exports/tensorboard.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

using Times = EventFile::Times;

std::string line(std::int64_t update, double time) {
  return nlohmann::json{{"update", update}, {"loss", 5.5}, {"grad_norm", 1.5}, {"units", 10}, {"seconds", 0.5}, {"time", time}}
             .dump() +
         "\n";
}

std::string lines(std::int64_t from, std::int64_t to, double since) {
  std::string text;
  for (std::int64_t update = from; update <= to; ++update) text += line(update, since + static_cast<double>(update));
  return text;
}

// The steps that a reader of the only file in the folder sees.
Times times_in(const fs::path& folder, const char* tag) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("events.out.tfevents")) return EventFile(entry.path(), 0).times(tag);
  }
  return {};
}

TEST(EventFile, HasTheChecksumsOfCrc32c) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(EventFile, BeginsAsTensorboardWritesIt) {
  const ScratchFolder folder;
  { EventFile(folder / "file", 1.5).flush(); }
  // A length of 24, its masked checksum, wall_time 1.5 and file_version "brain.Event:2".
  const std::string bytes = read_raw(folder / "file");
  ASSERT_EQ(bytes.size(), 40U);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x18\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(12, 9), std::string("\x09\0\0\0\0\0\0\xf8\x3f", 9));
  EXPECT_EQ(bytes.substr(21, 15),
            "\x1a\x0d"
            "brain.Event:2");
}

TEST(EventFile, ContinuesAfterATornRecord) {
  const ScratchFolder folder;
  const fs::path path = folder / "file";
  const std::vector<Scalar> scalars{{"train/loss", 1}, {"perf/wait_seconds", 2}};
  {
    EventFile file(path, 0);
    for (int step = 1; step <= 5; ++step) file.add(step, 10 + step, scalars);
    file.flush();
  }
  const std::string whole = read_raw(path);
  for (const std::size_t cut : {1U, 20U, 60U}) {
    write_raw(path, whole.substr(0, whole.size() - cut));
    EventFile file(path, 0);
    EXPECT_EQ(file.times("train/loss").size(), 4U);
    EXPECT_EQ(file.times("perf/wait_seconds"), file.times("train/loss"));
    file.add(5, 15, scalars);
    file.flush();
    EXPECT_EQ(read_raw(path), whole);
  }
  std::string broken = whole;
  broken[whole.size() - 30] ^= 1;
  write_raw(path, broken);
  EXPECT_EQ(EventFile(path, 0).times("train/loss").size(), 4U) << "a wrong checksum";
  {
    EventFile file(path, 0);
    file.forget(3, 99);
    file.add(3, 98, scalars);
    file.flush();
  }
  EXPECT_EQ(EventFile(path, 0).times("train/loss"), (Times{{1, 11}, {2, 12}, {3, 98}}));
  EventFile first(path, 0);
  EXPECT_ERROR(EventFile(path, 0), "E-IO-WRITE", "another export");
  write_raw(folder / "other", "some text of a user, which is no record");
  EXPECT_ERROR(EventFile(folder / "other", 0), "E-IO-WRITE", "no event file");
  EXPECT_EQ(read_raw(folder / "other"), "some text of a user, which is no record");
}

class ExportTest : public testing::Test {
 protected:
  ExportTest() {
    write_raw(folder_ / "run.json", R"({"status":"done","id":"00ff00ff00ff00ff"})");
    write_raw(folder_ / "metrics.jsonl", lines(1, 57, 100));
    write_raw(folder_ / "eval.jsonl", "{\"update\":50,\"loss\":4,\"time\":151}\n");
  }

  void export_once() { TensorboardExport(read_run(folder_.path()), folder_ / "out").update(); }
  std::string bytes() {
    for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
      if (entry.is_regular_file()) return read_raw(entry.path());
    }
    return "";
  }

  ScratchFolder folder_;
};

TEST_F(ExportTest, ARepeatedExportAddsNothing) {
  export_once();
  const std::string before = bytes();
  EXPECT_EQ(times_in(folder_ / "out", "train/loss").size(), 57U);
  EXPECT_EQ(times_in(folder_ / "out", "eval/loss"), (Times{{50, 151}}));
  export_once();
  EXPECT_EQ(bytes(), before);
}

// A killed run was resumed from update 50: its later lines were cut and written again.
TEST_F(ExportTest, UpdatesThatWereTrainedAgainReplaceTheFormer) {
  TensorboardExport follows(read_run(folder_.path()), folder_ / "out");
  follows.update();
  write_raw(folder_ / "metrics.jsonl", lines(1, 50, 100));
  follows.update();
  write_raw(folder_ / "metrics.jsonl", lines(1, 50, 100) + lines(51, 53, 900));
  follows.update();
  write_raw(folder_ / "metrics.jsonl", lines(1, 50, 100) + lines(51, 60, 900));
  write_raw(folder_ / "eval.jsonl", "{\"update\":50,\"loss\":4,\"time\":151}\n{\"update\":60,\"loss\":3,\"time\":961}\n");
  follows.update();
  fs::rename(folder_ / "out", folder_ / "followed");
  const Times followed = [&] {
    const ScratchFolder copy;
    fs::copy(folder_ / "followed", copy / "out", fs::copy_options::recursive);
    return times_in(copy / "out", "train/loss");
  }();
  export_once();
  EXPECT_EQ(followed, times_in(folder_ / "out", "train/loss"));
  EXPECT_EQ(followed.size(), 60U);
  EXPECT_EQ(followed.at(50), 150);
  EXPECT_EQ(followed.at(51), 951);
  EXPECT_EQ(times_in(folder_ / "out", "eval/loss"), (Times{{50, 151}, {60, 961}}));
}

TEST_F(ExportTest, ARunThatWentBackBeginsAnotherPart) {
  TensorboardExport follows(read_run(folder_.path()), folder_ / "out");
  follows.update();
  fs::create_directories(folder_ / "abandoned/1");
  write_raw(folder_ / "abandoned/1/metrics.jsonl", lines(31, 57, 100));
  write_raw(folder_ / "abandoned/1/eval.jsonl", read_raw(folder_ / "eval.jsonl"));
  write_raw(folder_ / "eval.jsonl", "");
  write_raw(folder_ / "metrics.jsonl", lines(1, 30, 100) + lines(31, 40, 500));
  follows.update();
  const std::string first = bytes();
  export_csv(folder_.path(), folder_ / "csv");
  EXPECT_EQ(std::ranges::count(read_raw(folder_ / "csv/metrics.csv"), '\n'), 58);
  EXPECT_EQ(std::ranges::count(read_raw(folder_ / "csv/evaluations.csv"), '\n'), 2);
  EXPECT_EQ(std::ranges::count(read_raw(folder_ / "csv/2/metrics.csv"), '\n'), 11);
  EXPECT_EQ(std::ranges::count(read_raw(folder_ / "csv/2/evaluations.csv"), '\n'), 1);
  EXPECT_EQ(bytes(), first);
  ScratchFolder copy;
  fs::copy(folder_ / "out", copy / "out", fs::copy_options::recursive);
  EXPECT_EQ(times_in(copy / "out", "train/loss").size(), 57U);
  EXPECT_EQ(times_in(copy / "out", "eval/loss").size(), 1U);
  const Times second = times_in(copy / "out/2", "train/loss");
  EXPECT_EQ(second.size(), 10U);
  EXPECT_EQ(second.begin()->first, 31);
}

}  // namespace
}  // namespace plimsoll
