#include "records/run_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>

#include "records/line_reader.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr int kMostParts = 10'000;

// The update of the first line; nothing without one.
std::optional<std::int64_t> first_update(const fs::path& folder) {
  std::optional<std::int64_t> first;
  read_metrics(folder, [&](const Metrics& metrics) {
    if (!first) first = metrics.update;
  });
  return first;
}

// The lines up to an update.
std::vector<PartLines> up_to(std::vector<PartLines> lines, std::int64_t update) {
  for (PartLines& each : lines) each.until = std::min(each.until, update);
  std::erase_if(lines, [](const PartLines& each) { return each.after >= each.until; });
  return lines;
}

bool within(const PartLines& lines, std::int64_t update) { return update > lines.after && update <= lines.until; }

}  // namespace

void RunPart::metrics(const std::function<void(const Metrics&)>& see) const {
  for (const PartLines& each : lines) {
    read_metrics(each.folder, [&](const Metrics& metrics) {
      if (within(each, metrics.update)) see(metrics);
    });
  }
}

void RunPart::evaluations(const std::function<void(const Evaluation&)>& see) const {
  for (const PartLines& each : lines) {
    read_evaluations(each.folder, [&](const Evaluation& evaluation) {
      if (within(each, evaluation.update)) see(evaluation);
    });
  }
}

void RunPart::events(const std::function<void(const nlohmann::json&)>& see) const {
  for (const PartLines& each : lines) {
    read_events(each.folder, [&](const nlohmann::json& event) {
      if (within(each, event["update"].get<std::int64_t>())) see(event);
    });
  }
}

std::vector<RunPart> parts_of_run(const fs::path& run) {
  struct Left {
    fs::path folder;
    std::int64_t after;  // the update to which the run went back
  };
  std::vector<Left> left;
  std::error_code ignored;
  for (int i = 1; i <= kMostParts; ++i) {
    const fs::path folder = run / "abandoned" / std::to_string(i);
    if (fs::symlink_status(folder, ignored).type() != fs::file_type::directory) break;
    if (const auto first = first_update(folder)) left.push_back({folder, *first - 1});
  }
  std::vector<RunPart> parts(left.size() + 1);
  parts.back().lines = {{run}};
  // Before the run went back, its lines were those it kept, and those it set aside.
  for (std::size_t i = left.size(); i-- > 0;) {
    parts[i].lines = up_to(parts[i + 1].lines, left[i].after);
    parts[i].lines.push_back({left[i].folder, left[i].after});
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    RunPart& part = parts[i];
    part.number = static_cast<int>(i) + 1;
    if (i == 0) continue;
    part.after = left[i - 1].after;
    for (PartLines& each : part.lines) each.after = std::max(each.after, part.after);
    std::erase_if(part.lines, [](const PartLines& each) { return each.after >= each.until; });
  }
  return parts;
}

}  // namespace plimsoll
