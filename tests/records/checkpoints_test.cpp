#include "records/checkpoints.h"

#include <gtest/gtest.h>

#include <vector>

#include "formats/scratch_folder.h"

namespace plimsoll {
namespace {

using Updates = std::vector<std::int64_t>;

TEST(Checkpoints, AreFoundInTheOrderOfTheirUpdates) {
  const ScratchFolder folder;
  EXPECT_TRUE(checkpoints_in(folder.path()).empty());
  for (const char* name : {"9", "100", "20", "007", "-3", "new", "20.plimsoll.partial-1"}) {
    std::filesystem::create_directories(folder / "checkpoints" / name);
  }
  write_raw(folder / "checkpoints/30", "a file");
  std::filesystem::create_directory_symlink("9", folder / "checkpoints/40");
  Updates updates;
  for (const KeptCheckpoint& each : checkpoints_in(folder.path())) updates.push_back(each.update);
  EXPECT_EQ(updates, (Updates{9, 20, 100}));
  write_raw(folder / "checkpoint.safetensors", "format 1");
  EXPECT_EQ(checkpoints_in(folder.path()).front().path, folder / "checkpoint.safetensors");
}

TEST(Checkpoints, TheOldestGoBeforeAndAfterASave) {
  const Retention two;
  EXPECT_EQ(surplus(two, Updates{}, {}, true), Updates{});
  EXPECT_EQ(surplus(two, Updates{10}, {}, true), Updates{}) << "the only one stays";
  EXPECT_EQ(surplus(two, Updates{10, 20}, {}, true), Updates{10});
  EXPECT_EQ(surplus(two, Updates{10, 20}, {}, false), Updates{});
  EXPECT_EQ(surplus(two, Updates{0, 10, 20}, {}, false), Updates{0}) << "format 1 is the oldest";
  const Retention one{.last = 1};
  EXPECT_EQ(surplus(one, Updates{10}, {}, true), Updates{}) << "its successor is not written yet";
  EXPECT_EQ(surplus(one, Updates{10, 20}, {}, false), Updates{10});
  EXPECT_EQ(surplus({.last = 3}, Updates{10, 20, 30}, {}, true), Updates{10});
}

TEST(Checkpoints, TheBestAndThoseOfAnIntervalStay) {
  const std::vector<Evaluation> best{{.update = 20, .loss = 1}, {.update = 50, .loss = 2}, {.update = 30, .loss = 3}};
  EXPECT_EQ(surplus({.last = 1, .best = 1}, Updates{10, 20, 30, 40}, best, false), (Updates{10, 30}));
  EXPECT_EQ(surplus({.last = 1, .best = 2}, Updates{10, 20, 30, 40}, best, false), Updates{10}) << "50 has no checkpoint";
  EXPECT_EQ(surplus({.last = 1, .every = 15}, Updates{10, 20, 30, 40, 45}, {}, false), (Updates{10, 20, 40}));
  EXPECT_EQ(Retention{}.most(1000), 2);
  EXPECT_EQ((Retention{.last = 1}.most(1000)), 2) << "with the one that is being written";
  EXPECT_EQ((Retention{.last = 3, .best = 2, .every = 300}.most(1000)), 8);
}

}  // namespace
}  // namespace plimsoll
