#include "data/data_kinds.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::array kKinds{&kTokenStreams, &kConversations, &kImages};

}  // namespace

std::span<const DataKind* const> data_kinds() { return kKinds; }

const DataKind& data_kind(std::string_view format) {
  const auto found = std::ranges::find_if(
      kKinds, [&](const DataKind* kind) { return std::ranges::find(kind->formats, format) != kind->formats.end(); });
  return found == kKinds.end() ? kTokenStreams : **found;
}

std::unique_ptr<DataSet> data_set_at(const nlohmann::json& place) {
  const std::string name = place.at("kind");
  const auto found = std::ranges::find(kKinds, name, &DataKind::name);
  ensure(found != kKinds.end(), "data_set_at", "data of an unknown kind");
  return (*found)->at(place);
}

std::string samples_text(const DataKind& kind, std::int64_t samples, std::int64_t row) {
  const auto many = [](std::int64_t count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  if (kind.words.sample == kind.words.position) return many(samples, kind.words.sample);
  return fmt::format("{} of {}", many(samples, kind.words.sample), many(row, kind.words.position));
}

}  // namespace plimsoll
