#include "prepare/solve_keys.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/disk_folder.h"
#include "base/error.h"
#include "base/text.h"
#include "config/config_keys.h"
#include "models/family.h"
#include "prepare/changed_config.h"

namespace plimsoll {
namespace {

// The configured value of a key; nothing if it is left open.
std::optional<std::int64_t> number_now(const Config& config, std::string_view name) {
  const std::string text = config_key(name).text(config);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

SolveKey size_key(const Config& config, std::string name, std::int64_t step) {
  SolveKey key{.name = name, .step = step, .with = {}};
  key.now = number_now(config, name).value_or(step);
  key.with = [name](std::int64_t value) { return Changes{{name, value}}; };
  return key;
}

SolveKey micro_batch_key(const Config& config, const PlanningInput& input) {
  const std::int64_t batch = input.request.effective_batch;
  SolveKey key{.name = "train.micro_batch", .with = {}};
  for (std::int64_t size = 1; size <= batch; ++size) {
    if (batch % size == 0 && size % input.request.row_step == 0) key.values.push_back(size);
  }
  key.now = input.request.micro_batch.value_or(1);
  key.with = [batch, groups = same_groups(config)](std::int64_t value) {
    return both({{"train.effective_batch", batch}, {"train.micro_batch", value}, {"train.accumulation", "auto"}}, groups);
  };
  return key;
}

// Keeps the configured micro-batch, if there is one.
SolveKey effective_batch_key(const Config& config, const PlanningInput& input) {
  const std::optional<std::int64_t> micro = input.request.micro_batch;
  SolveKey key{.name = "train.effective_batch",
               .step = micro.value_or(input.request.row_step),
               .now = input.request.effective_batch,
               .with = {}};
  key.with = [micro, groups = same_groups(config)](std::int64_t value) {
    const Changes changes = both({{"train.effective_batch", value}}, groups);
    return micro ? both(changes, {{"train.micro_batch", *micro}, {"train.accumulation", "auto"}}) : changes;
  };
  return key;
}

SolveKey memory_key(const Config&, const PlanningInput& input) {
  return {.name = "memory",
          .budget = SolvedBudget::memory,
          .step = kPage.n,
          .now = input.budget.memory.value_or(Bytes{}).n,
          .with = [](std::int64_t value) {
            return Changes{{"memory.budget", value}};
          }};
}

SolveKey host_memory_key(const Config&, const PlanningInput& input) {
  if (!has_host(input.machine.machine)) {
    throw config_error("E-CONFIG-MISSING", "solve", "kernels run in the memory of the host, whose budget is memory.budget",
                       "a machine with a device and a host",
                       {Change("command.solve", "memory"), Change("machine.device", "sim")});
  }
  return {.name = "host_memory",
          .budget = SolvedBudget::host_memory,
          .step = kMiB.n,
          .now = input.budget.host_memory.value_or(Bytes{}).n,
          .with = [](std::int64_t value) {
            return Changes{{"memory.host_memory", value}};
          }};
}

SolveKey disk_key(const Config& config, const PlanningInput&) {
  if (!config.memory.disk) {
    throw config_error("E-CONFIG-MISSING", "solve", "no folder is given", "memory.disk with a folder, and any size",
                       {Remedy::of_changes({advised_disk("1GiB"), {"command.solve", "disk"}})});
  }
  const std::string folder = config.memory.disk->folder.string();
  return {.name = "disk",
          .budget = SolvedBudget::disk,
          .step = kMiB.n,
          .now = config.memory.disk->size.n,
          .with = [folder](std::int64_t value) {
            return Changes{{"memory.disk", fmt::format("{}:{}", folder, value)}};
          }};
}

SolveKey ranks_key(const Config&, const PlanningInput& input) {
  return {.name = "ranks", .budget = SolvedBudget::ranks, .now = input.facts.share.ranks, .with = [](std::int64_t value) {
            return Changes{{kRanks, value}};
          }};
}

struct Entry {
  std::string name;
  std::function<SolveKey(const Config&, const PlanningInput&)> make;
};

std::vector<Entry> entries(const Config& config) {
  const auto size = [](std::string name, std::int64_t step) {
    return Entry{name, [name, step](const Config& c, const PlanningInput&) { return size_key(c, name, step); }};
  };
  const ModelConfig& model = config.model.config;
  std::vector<Entry> list;
  if (facts_of(model).vocab > 0) list.push_back(size("model.context", 1));
  list.insert(list.end(),
              {{"train.micro_batch", micro_batch_key}, {"train.effective_batch", effective_batch_key}, size("adapter.rank", 1)});
  for (const ModelKey& key : model.family().keys()) {
    if (key.step != nullptr) list.push_back(size(fmt::format("model.{}", key.name), key.step(model)));
  }
  list.insert(list.end(), {{"memory", memory_key}, {"host_memory", host_memory_key}, {"disk", disk_key}, {"ranks", ranks_key}});
  return list;
}

}  // namespace

std::int64_t SolveKey::value_of(std::int64_t number) const {
  if (values.empty()) return (budget == SolvedBudget::none ? number + 1 : number) * step;
  // Numbers past the last value stand for no value.
  return number < std::ssize(values) ? values[static_cast<std::size_t>(number)] : values.back() + number + 1 - std::ssize(values);
}

std::int64_t SolveKey::number_of(std::int64_t value) const {
  if (values.empty()) return budget == SolvedBudget::none ? std::max<std::int64_t>(value / step, 1) - 1 : value / step;
  return std::max<std::int64_t>(std::ranges::upper_bound(values, value) - values.begin(), 1) - 1;
}

SolveKey solve_key(std::string_view name, const Config& config, const PlanningInput& input) {
  std::vector<std::string> names;
  for (const Entry& entry : entries(config)) {
    if (name == entry.name || name == leaf_of(entry.name)) return entry.make(config, input);
    names.push_back(entry.name);
    names.emplace_back(leaf_of(entry.name));
  }
  const std::string nearest = nearest_name(name, names);
  Remedies remedies;
  if (!nearest.empty()) remedies.push_back(Change("command.solve", nearest));
  std::vector<std::string> known;
  for (const Entry& entry : entries(config)) known.push_back(entry.name);
  throw config_error("E-SOLVE-KEY", "solve", fmt::format("{} is not a key that memory bounds", name),
                     fmt::format("one of {}", fmt::join(known, ", ")), std::move(remedies));
}

}  // namespace plimsoll
