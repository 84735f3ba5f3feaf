#include "train/measure_disk.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "device/disk/page_file.h"
#include "formats/atomic_file.h"
#include "formats/file.h"
#include "plan/passes/paging.h"
#include "train/machine_file.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr const char* kSchema = "plimsoll.disk/3";
constexpr Bytes kLarge{1 << 20}, kSmall{128 << 10};
constexpr int kPages = 96;    // of the file, where the budget has room for so many
constexpr int kInFlight = 4;  // of each way
constexpr int kRounds = 3;
constexpr double kMostRate = 1e12, kMostLatency = 10;

// Seconds of a page that is read, while as many are written or none; the best round, as others use the machine too.
double measure_page(const std::filesystem::path& folder, TransferEngine engine, Bytes page_bytes, int pages, bool alone) {
  std::vector<PageFile::Piece> pieces;
  for (int i = 0; i < pages; ++i) pieces.push_back({page_bytes * i, page_bytes});
  PageFile file(folder, {page_bytes * pages, kTransfers, kTransferStaging, 2 * kInFlight, engine}, pieces);
  std::vector<std::byte> memory(static_cast<std::size_t>(page_bytes.n) * 2 * kInFlight);
  const auto page = [&](int slot) {
    return std::span(memory).subspan(static_cast<std::size_t>(page_bytes.n * slot), page_bytes.n);
  };
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  for (int i = 0; i < pages; ++i)
    file.write(page_bytes * i, page_bytes,
               [&](std::span<std::byte> part) { std::copy_n(memory.begin(), part.size(), part.begin()); });
  double best = 1e300;
  for (int round = 0; round < kRounds; ++round) {
    const double start = seconds_now();
    for (int i = 0; i < pages / 2; ++i) {
      const auto in = static_cast<std::uint32_t>(i % kInFlight), out = in + kInFlight;
      if (i >= kInFlight) file.wait(in);
      if (i >= kInFlight && !alone) file.wait(out);
      file.start_read(in, page_bytes * i, page(static_cast<int>(in)));
      if (!alone) file.start_write(out, page_bytes * (pages / 2 + i), page(static_cast<int>(out)));
    }
    for (std::uint32_t event = 0; event < (alone ? 1 : 2) * kInFlight; ++event) file.wait(event);
    best = std::min(best, (seconds_now() - start) / (pages / 2));
  }
  return best;
}

struct DiskRate {
  double bytes_per_second = 0, latency_seconds = 0;  // a page takes latency + bytes / rate
  double alone_bytes_per_second = 0;                 // with nothing the other way
};

DiskRate measure(const std::filesystem::path& folder, TransferEngine engine, Bytes capacity) {
  const auto most = static_cast<int>(std::min<std::int64_t>(capacity.n / kLarge.n, kPages));
  const int pages = std::max(2 * kInFlight, most / 2 * 2);
  const double large = measure_page(folder, engine, kLarge, pages, false);
  const double small = std::min(measure_page(folder, engine, kSmall, pages, false), large);
  const double rate = static_cast<double>((kLarge - kSmall).n) / std::max(large - small, 1e-9);
  const double latency = std::max(0.0, small - static_cast<double>(kSmall.n) / rate);
  const double alone = measure_page(folder, engine, kLarge, pages, true);
  const double alone_rate = static_cast<double>(kLarge.n) / std::max(alone - latency, 1e-9);
  return {rate, latency, std::clamp(alone_rate, rate, 4 * rate)};  // more than that is no rate
}

std::optional<DiskRate> known(const std::filesystem::path& path, TransferEngine engine) {
  try {
    const json object = json::parse(read_text(path, 4096, "E-MACHINE-FILE"));
    const DiskRate rate{object.at("bytes_per_second").get<double>(), object.at("latency_seconds").get<double>(),
                        object.at("alone_bytes_per_second").get<double>()};
    const bool sound = rate.bytes_per_second > 0 && rate.alone_bytes_per_second >= rate.bytes_per_second &&
                       rate.alone_bytes_per_second < kMostRate && rate.latency_seconds >= 0 &&
                       rate.latency_seconds < kMostLatency;
    if (object.at("schema") == kSchema && object.at("transfers") == name(engine) && sound) return rate;
  } catch (const std::exception&) {
    // Absent or damaged: measured again.
  }
  return {};
}

void keep(const DiskRate& rate, TransferEngine engine, const std::filesystem::path& path) {
  std::error_code ignored;  // the write says what is wrong with the folder
  std::filesystem::create_directories(path.parent_path(), ignored);
  const json object{{"schema", kSchema},
                    {"transfers", name(engine)},
                    {"bytes_per_second", rate.bytes_per_second},
                    {"alone_bytes_per_second", rate.alone_bytes_per_second},
                    {"latency_seconds", rate.latency_seconds}};
  write_file_atomically(path, object.dump() + "\n");
}

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
  const std::filesystem::path path =
      cache / fmt::format("disk-{:x}-{}.json", static_cast<unsigned long long>(facts.st_dev), name(engine));
  std::optional<DiskRate> rate = known(path, engine);
  if (!rate) {
    if (say) say(fmt::format("measuring the disk of {}, once, for {}", disk.folder.string(), path.string()));
    rate = measure(disk.folder, engine, disk.size);
    try {
      keep(*rate, engine, path);
    } catch (const std::exception& error) {
      if (say) say(fmt::format("the measurement is not kept: {}", error.what()));
    }
  }
  const std::string near = machine.tiers.back().name;
  machine.tiers.push_back({"disk", disk.size, engine});
  // What is written alone was not measured: no slower than what is written beside reads.
  machine.links.push_back({near, "disk", rate->bytes_per_second, rate->latency_seconds});
  machine.links.push_back({"disk", near, rate->bytes_per_second, rate->latency_seconds, true, rate->alone_bytes_per_second});
  machine.hash = machine_hash(machine);
}

}  // namespace plimsoll
