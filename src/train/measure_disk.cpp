#include "train/measure_disk.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <memory>
#include <vector>

#include "base/error.h"
#include "device/disk/page_file.h"
#include "plan/passes/paging.h"
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
  const MeasuredStore store{"the disk of " + disk.folder.string(),
                            fmt::format("disk-{:x}-{}", static_cast<unsigned long long>(facts.st_dev), name(engine)), disk.size,
                            [&](Bytes size, const std::vector<TierStore::Piece>& pieces, std::uint32_t events) {
                              return std::make_unique<PageFile>(
                                  disk.folder, PageFile::Sizes{size, kTransfers, kTransferStaging, events, engine}, pieces);
                            }};
  const Link measured = store_link(store, machine.threads, cache, say);
  const std::string near = machine.tiers.back().name;
  machine.tiers.push_back({"disk", disk.size, engine});
  machine.links.push_back(between(near, "disk", measured));
  // Not measured: what is written alone is no slower than beside reads, and nobody waits for what goes out.
  Link& out = machine.links.back();
  out.alone_bytes_per_second = out.tail_seconds = out.tail_seconds_per_byte = 0;
  out.alone_latency_seconds.reset();
  machine.links.push_back(between("disk", near, measured));
  machine.hash = machine_hash(machine);
}

}  // namespace plimsoll
