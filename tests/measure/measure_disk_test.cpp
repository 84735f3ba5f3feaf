#include "measure/measure_disk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "device/disk/transfers.h"
#include "device/refuse_io_uring.h"
#include "formats/scratch_folder.h"
#include "measure/machine_file.h"

namespace plimsoll {
namespace {

class MeasureDisk : public testing::Test {
 protected:
  Machine measured(TransferPolicy policy) {
    Machine machine;
    machine.tiers = {{TierKind::compute, "ram", kGiB}};
    add_disk_tier(machine, {folder_.path(), kMiB * 8}, policy, folder_ / "cache",
                  [&](const std::string& text) { said_.push_back(text); });
    return machine;
  }
  bool says(const std::string& words) const {
    return std::ranges::any_of(said_, [&](const std::string& text) { return text.find(words) != std::string::npos; });
  }
  ScratchFolder folder_;
  std::vector<std::string> said_;
};

TEST_F(MeasureDisk, EachEngineIsMeasuredOnce) {
  const Machine threads = measured(TransferPolicy::threads);
  EXPECT_EQ(threads.tiers.at(1).transfers, TransferEngine::threads);
  EXPECT_TRUE(says("measuring the disk"));
  said_.clear();
  EXPECT_EQ(measured(TransferPolicy::threads).hash, threads.hash);
  EXPECT_TRUE(said_.empty());
  const Machine chosen = measured(TransferPolicy::automatic);
  EXPECT_EQ(chosen.tiers.at(1).transfers, io_uring_refusal().empty() ? TransferEngine::io_uring : TransferEngine::threads);
  EXPECT_EQ(machine_from(machine_text(chosen)).tiers.at(1).transfers, chosen.tiers.at(1).transfers);
}

TEST_F(MeasureDisk, WhereIoUringIsRefusedThreadsAreChosenAloud) {
  bool filtered = false;
  TransferEngine engine = TransferEngine::io_uring;
  std::thread([&] {
    filtered = refuse_io_uring();
    if (filtered) engine = measured(TransferPolicy::automatic).tiers.at(1).transfers;
  }).join();
  if (!filtered) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(engine, TransferEngine::threads);
  EXPECT_TRUE(says("no io_uring"));
}

TEST_F(MeasureDisk, MachinesDifferByTheirEngine) {
  Machine machine;
  machine.tiers = {{TierKind::compute, "ram", kGiB}, {TierKind::disk, "disk", kGiB}};
  const std::string threads = machine_hash(machine);
  machine.tiers[1].transfers = TransferEngine::io_uring;
  EXPECT_NE(machine_hash(machine), threads);
  EXPECT_EQ(machine_from(machine_text(machine)).tiers[1].transfers, TransferEngine::io_uring);
  // A machine with a disk, as a file describes one.
  machine.hash = machine_hash(machine);
  add_disk_tier(machine, {folder_.path(), kMiB}, TransferPolicy::threads, folder_ / "cache", nullptr);
  EXPECT_EQ(machine.tiers[1].transfers, TransferEngine::threads);
  EXPECT_EQ(machine.hash, threads);
}

}  // namespace
}  // namespace plimsoll
