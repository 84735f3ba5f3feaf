#include "train/measure_disk.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "device/disk/page_file.h"
#include "formats/atomic_file.h"
#include "formats/file.h"
#include "plan/passes/paging.h"
#include "train/machine_file.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr const char* kSchema = "plimsoll.disk/1";
constexpr Bytes kPage{1 << 20};
constexpr int kPages = 96;    // of the file
constexpr int kInFlight = 4;  // of each way
constexpr double kMostRate = 1e12;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Bytes per second of each way while the other one is as busy.
double measure(const std::filesystem::path& folder) {
  std::vector<PageFile::Piece> pieces;
  for (int i = 0; i < kPages; ++i) pieces.push_back({kPage * i, kPage});
  PageFile file(folder, {kPage * kPages, kTransfers, kTransferStaging, 2 * kInFlight}, pieces);
  std::vector<std::byte> memory(static_cast<std::size_t>(kPage.n) * 2 * kInFlight);
  const auto page = [&](int slot) { return std::span(memory).subspan(static_cast<std::size_t>(kPage.n * slot), kPage.n); };
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  for (int i = 0; i < kPages; ++i)
    file.write(kPage * i, kPage, [&](std::span<std::byte> part) { std::copy_n(memory.begin(), part.size(), part.begin()); });
  const double start = now();
  for (int i = 0; i < kPages / 2; ++i) {
    const auto in = static_cast<std::uint32_t>(i % kInFlight), out = in + kInFlight;
    if (i >= kInFlight) file.wait(in), file.wait(out);
    file.start_read(in, kPage * i, page(static_cast<int>(in)));
    file.start_write(out, kPage * (kPages / 2 + i), page(static_cast<int>(out)));
  }
  for (std::uint32_t event = 0; event < 2 * kInFlight; ++event) file.wait(event);
  return static_cast<double>((kPage * (kPages / 2)).n) / (now() - start);
}

std::optional<double> known(const std::filesystem::path& path) {
  try {
    const json object = json::parse(read_text(path, 4096, "E-MACHINE-FILE"));
    const double rate = object.at("bytes_per_second").get<double>();
    if (object.at("schema") == kSchema && std::isfinite(rate) && rate > 0 && rate < kMostRate) return rate;
  } catch (const std::exception&) {
    // Absent or damaged: measured again.
  }
  return {};
}

}  // namespace

void add_disk_tier(Machine& machine, const std::filesystem::path& folder, Bytes capacity, const std::filesystem::path& cache,
                   const std::function<void(const std::string&)>& say) {
  if (machine.tiers.size() > 1) return;
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) != 0) {
    throw data_error("E-DISK-FOLDER", folder.string(), "there is no such folder", "a folder that can be written");
  }
  const std::filesystem::path path = cache / fmt::format("disk-{:x}.json", static_cast<unsigned long long>(facts.st_dev));
  std::optional<double> rate = known(path);
  if (!rate) {
    if (say) say(fmt::format("measuring the disk of {}, once, for {}", folder.string(), path.string()));
    rate = measure(folder);
    try {
      std::filesystem::create_directories(cache);
      write_file_atomically(path, json{{"schema", kSchema}, {"bytes_per_second", *rate}}.dump() + "\n");
    } catch (const std::exception& error) {
      if (say) say(fmt::format("the measurement is not kept: {}", error.what()));
    }
  }
  machine.tiers.push_back({"disk", capacity});
  machine.links.push_back({machine.tiers[0].name, "disk", *rate});
  machine.links.push_back({"disk", machine.tiers[0].name, *rate});
  machine.hash = machine_hash(machine);
}

}  // namespace plimsoll
