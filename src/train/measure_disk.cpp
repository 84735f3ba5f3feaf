#include "train/measure_disk.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "device/disk/page_file.h"
#include "plan/passes/paging.h"
#include "train/machine_facts.h"
#include "train/machine_file.h"
#include "train/measure_store.h"

namespace plimsoll {
namespace {

// Asked each time, so that a plan never counts on what a container no longer allows.
TransferEngine choose_engine(TransferPolicy policy, const std::function<void(const std::string&)>& say) {
  if (policy == TransferPolicy::threads) return TransferEngine::threads;
  const std::string refusal = io_uring_refusal();
  if (refusal.empty()) return TransferEngine::io_uring;
  if (say) say(fmt::format("no io_uring ({}): transfers to the disk run on threads", refusal));
  return TransferEngine::threads;
}

}  // namespace

void add_disk_tier(Machine& machine, const DiskBudget& disk, TransferPolicy policy, const std::filesystem::path& cache,
                   const std::function<void(const std::string&)>& say) {
  if (const std::size_t known_disk = disk_of(machine); known_disk > 0) {
    if (policy == TransferPolicy::threads) machine.tiers[known_disk].transfers = TransferEngine::threads;
    machine.hash = machine_hash(machine);
    return;
  }
  struct stat facts {};
  if (::stat(disk.folder.c_str(), &facts) != 0) {
    throw data_error("E-DISK-FOLDER", disk.folder.string(), "there is no such folder", "a folder that can be written");
  }
  const TransferEngine engine = choose_engine(policy, say);
  const int threads = std::min(machine.threads, usable_cores());  // a described machine may have more
  const std::filesystem::path path =
      cache / fmt::format("disk-{:x}-{}-{}.json", static_cast<unsigned long long>(facts.st_dev), name(engine), threads);
  const StoreOfPieces store = [&](const std::vector<TierStore::Piece>& pieces, std::uint32_t events) {
    const Bytes size = pieces.back().offset + pieces.back().bytes;
    return std::make_unique<PageFile>(disk.folder, PageFile::Sizes{size, kTransfers, kTransferStaging, events, engine}, pieces);
  };
  const StoreRate rate =
      store_rate(store, disk.size, threads, std::string(name(engine)), "the disk of " + disk.folder.string(), path, say);
  const std::string near = machine.tiers.back().name;
  machine.tiers.push_back({"disk", disk.size, engine});
  // What is written alone was not measured: no slower than what is written beside reads.
  machine.links.push_back({near, "disk", rate.bytes_per_second, rate.latency_seconds, true, 0, rate.kernel_seconds_per_byte});
  machine.links.push_back({"disk", near, rate.bytes_per_second, rate.latency_seconds, true, rate.alone_bytes_per_second,
                           rate.kernel_seconds_per_byte});
  machine.hash = machine_hash(machine);
}

}  // namespace plimsoll
