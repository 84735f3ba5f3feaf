#include "measure/measure_disk.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/disk_folder.h"
#include "base/error.h"
#include "device/disk/page_file.h"
#include "measure/machine_file.h"
#include "measure/measure_store.h"
#include "plan/passes/paging.h"

namespace plimsoll {
namespace {

// Asks the system each time, so that a plan never relies on an engine that a container no longer allows.
TransferEngine choose_engine(TransferPolicy policy, const std::function<void(const std::string&)>& say) {
  if (policy == TransferPolicy::threads) return TransferEngine::threads;
  const std::string refusal = io_uring_refusal();
  if (refusal.empty()) return TransferEngine::io_uring;
  if (say) say(fmt::format("no io_uring ({}): transfers to the disk run on threads", refusal));
  return TransferEngine::threads;
}

// The disk of the folder, which may not exist yet.
MeasuredStore store_of(const DiskBudget& disk, TransferEngine engine) {
  const std::filesystem::path folder = existing_folder(disk.folder);
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) != 0) {
    throw data_error("E-DISK-FOLDER", disk.folder.string(), "there is no such folder", "a folder that can be written");
  }
  return {
      "the disk of " + folder.string(), fmt::format("disk-{:x}-{}", static_cast<unsigned long long>(facts.st_dev), name(engine)),
      disk.size, [folder, engine](Bytes size, const std::vector<TierStore::Piece>& pieces, std::uint32_t events) {
        return std::make_unique<PageFile>(folder, PageFile::Sizes{size, kTransfers, kTransferStaging, events, engine}, pieces);
      }};
}

void append_disk(Machine& machine, Bytes size, TransferEngine engine, const Link& measured) {
  const std::size_t far = machine.tiers.size(), near = far - 1;
  machine.tiers.push_back({TierKind::disk, "disk", size, engine});
  machine.links.push_back(between(near, far, measured));
  // Not measured: writing alone is no slower than with reads, and nothing waits for writes.
  Link& out = machine.links.back();
  out.alone_bytes_per_second = out.tail_seconds = out.tail_seconds_per_byte = 0;
  out.alone_latency_seconds.reset();
  machine.links.push_back(between(far, near, measured));
  machine.hash = machine_hash(machine);
}

}  // namespace

std::filesystem::path existing_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder, ignored)) return folder;
  const std::filesystem::path absolute = std::filesystem::absolute(folder, ignored);
  return absolute.has_filename() ? absolute.parent_path() : absolute.parent_path().parent_path();  // "pages", "pages/"
}

std::optional<double> known_disk_rate(const std::filesystem::path& folder, int threads, const std::filesystem::path& cache) {
  for (const TransferEngine engine : {TransferEngine::io_uring, TransferEngine::threads}) {
    const std::optional<Link> known = known_store_link(store_of({folder, {}}, engine), threads, cache);
    if (known) return known->bytes_per_second;
  }
  return {};
}

bool add_known_disk_tier(Machine& machine, const DiskBudget& disk, TransferPolicy policy, const std::filesystem::path& cache) {
  if (disk_of(machine) > 0) {
    add_disk_tier(machine, disk, policy, cache, nullptr);
    return true;
  }
  const TransferEngine engine = choose_engine(policy, nullptr);
  const std::optional<Link> known = known_store_link(store_of(disk, engine), machine.threads, cache);
  append_disk(machine, disk.size, engine, known.value_or(Link{{}, {}, kAssumedDiskRate, kAssumedDiskLatency}));
  return known.has_value();
}

void add_disk_tier(Machine& machine, const DiskBudget& disk, TransferPolicy policy, const std::filesystem::path& cache,
                   const std::function<void(const std::string&)>& say) {
  if (say && lies_in_memory(disk.folder)) {
    say(fmt::format("note: {} lies in memory (tmpfs): its content takes memory in addition to the budget", disk.folder.string()));
  }
  if (const std::size_t known_disk = disk_of(machine); known_disk > 0) {
    if (policy == TransferPolicy::threads) machine.tiers[known_disk].transfers = TransferEngine::threads;
    machine.hash = machine_hash(machine);
    return;
  }
  const TransferEngine engine = choose_engine(policy, say);
  append_disk(machine, disk.size, engine, store_link(store_of(disk, engine), machine.threads, cache, say));
}

}  // namespace plimsoll
