#include "measure/measure_rank_link.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collective/gather.h"
#include "formats/kept_json.h"
#include "measure/machine_file.h"

namespace plimsoll {
namespace {

constexpr const char *kFile = "rank-link.json", *kSchema = "plimsoll.rank-link/1";
constexpr std::int64_t kMostFile = 1 << 12;

// The median seconds of an exchange in which each rank sends `bytes` bytes to all others together, on the slowest rank.
double exchange_seconds(Peers& peers, std::uint32_t event, std::int64_t bytes, int times) {
  const auto each = static_cast<std::size_t>(std::max<std::int64_t>(1, bytes / (peers.count() - 1)));
  std::vector<double> seconds;
  {
    Gather room(peers, event, each);
    room.run();  // connections, and the pages of the room
    for (int i = 0; i < times; ++i) {
      Gather(peers, event, 1).run();  // all begin together
      const double start = seconds_now();
      room.run();
      seconds.push_back(seconds_now() - start);
    }
  }
  std::ranges::nth_element(seconds, seconds.begin() + times / 2);
  const std::vector<double> medians = gather(peers, event, seconds[static_cast<std::size_t>(times / 2)]);
  return *std::ranges::max_element(medians);
}

}  // namespace

RankLink measure_rank_link(Peers& peers, std::uint32_t event) {
  constexpr std::int64_t kSmall = 8;
  constexpr std::array<std::int64_t, 4> kSizes{1 << 18, 1 << 20, 1 << 22, 1 << 24};
  constexpr double kMostSeconds = 0.5;  // of an exchange
  RankLink link{.latency_seconds = exchange_seconds(peers, event, kSmall, 51), .assumed = false};
  for (const std::int64_t bytes : kSizes) {
    const double seconds = exchange_seconds(peers, event, bytes, 5);
    link.bytes_per_second = static_cast<double>(bytes) / std::max(seconds - link.latency_seconds, seconds / 10);
    if (seconds > kMostSeconds) break;
  }
  return link;
}

void keep_rank_link(const std::filesystem::path& cache_folder, const RankLink& link) {
  nlohmann::json object = to_json(link);
  object["schema"] = kSchema;
  keep_json(cache_folder / kFile, std::move(object));
}

std::optional<RankLink> kept_rank_link(const std::filesystem::path& cache_folder) {
  const std::optional<nlohmann::json> object = kept_json(cache_folder / kFile, kMostFile);
  if (!object || object->value("schema", "") != kSchema) return {};
  try {
    return rank_link_from(*object);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace plimsoll
