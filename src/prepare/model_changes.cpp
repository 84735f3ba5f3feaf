#include "prepare/model_changes.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "config/adapter_keys.h"
#include "config/config_rules.h"
#include "models/family.h"
#include "plan/units.h"
#include "prepare/changed_config.h"
#include "prepare/training_graph.h"

namespace plimsoll {
namespace {

constexpr std::array kBases{BaseFormat::none, BaseFormat::bf16, BaseFormat::int8, BaseFormat::nf4};

// A regular expression that matches this name alone.
std::string expression_of(std::string_view name) {
  std::string text;
  for (const char c : name) text += c == '.' ? std::string("[.]") : std::string(1, c);
  return text;
}

std::string_view without_last(std::string_view name) { return name.substr(0, name.rfind('.')); }

std::vector<std::string> tables_of(const Graph& graph) {
  std::vector<std::string> patterns;
  for (const ValueId id : graph.parameters()) {
    if (graph.values[id].parameter->table) patterns.push_back(expression_of(without_last(graph.values[id].name.text())));
  }
  return patterns;
}

// "model[.]layers[.](0|1|2)" for modules that differ in the last part of their names.
std::vector<std::string> lower_half_of(const Graph& graph) {
  const std::vector<Unit> units = find_units(graph);
  std::string last_parts, stem;
  for (std::size_t i = 0; i < static_cast<std::size_t>(block_count(units) / 2); ++i) {
    const std::string_view name = units[i].name, before = without_last(name);
    if (i > 0 && before != stem) return {};
    stem = before;
    last_parts += fmt::format("{}{}", i == 0 ? "" : "|", name.substr(name.rfind('.') + 1));
  }
  if (stem.empty()) return {};
  return {fmt::format("{}[.]({})", expression_of(stem), last_parts)};
}

Alternative samples_of(const Config& config, std::int64_t context) {
  return {fmt::format("samples of {} tokens instead of {}", context, config.model.context), {{"model.context", context}}, true};
}

}  // namespace

std::vector<Alternative> new_adapters(const Config& config) {
  if (config.adapter.active() || !config.model.freeze.empty()) return {};
  // Under an adapter, no layer normalises by a batch.
  const Changes no_groups = same_groups(config).empty() ? Changes{} : Changes{{"norm.stat_batch", "auto"}};
  std::vector<Alternative> list;
  for (const int rank : {16, 8}) {
    list.push_back({fmt::format("LoRA of rank {}, all else frozen", rank),
                    both({{"adapter.kind", "lora"}, {"adapter.rank", rank}}, no_groups), true});
  }
  list.push_back({"LoRA of rank 16, all else frozen in nf4",
                  both({{"adapter.kind", "lora"}, {"adapter.rank", 16}, {"quantize.base", "nf4"}}, no_groups), true});
  return list;
}

std::vector<Alternative> other_ranks(const Config& config) {
  if (!config.adapter.active() || !config.adapter.init.empty()) return {};
  const std::int64_t rank = config.adapter.rank;
  std::vector<Alternative> list;
  for (const std::int64_t other : {rank / 2, 2 * rank}) {
    if (other == 0) continue;
    list.push_back({fmt::format("adapter of rank {} instead of {}", other, rank), {{"adapter.rank", other}}, true});
  }
  return list;
}

std::vector<Alternative> other_bases(const Config& config) {
  if (!config.adapter.active() && config.model.freeze.empty()) return {};
  std::vector<Alternative> list;
  for (const BaseFormat format : kBases) {
    if (format == config.base) continue;
    list.push_back({fmt::format("frozen layers in {}", format == BaseFormat::none ? "fp32" : name(format)),
                    {{"quantize.base", std::string(name(format))}},
                    true});
  }
  return list;
}

std::vector<Alternative> narrower_state(const Config& config) {
  if (!keeps_state(config) || config.precision.optimizer_state != DType::f32) return {};
  return {{"optimizer state in bf16", {{"precision.optimizer_state", "bf16"}}, true},
          {"optimizer state in 8bit", {{"precision.optimizer_state", "8bit"}}, true}};
}

std::vector<Alternative> shorter_samples(const Config& config) {
  constexpr std::int64_t kShortest = 8;
  if (facts_of(config.model.config).vocab == 0) return {};
  std::vector<Alternative> list;
  for (const std::int64_t divisor : {2, 4, 8}) {
    const std::int64_t context = config.model.context / divisor;
    if (context < kShortest) break;
    list.push_back(samples_of(config, context));
  }
  return list;
}

std::vector<Alternative> longer_samples(const Config& config) {
  if (facts_of(config.model.config).vocab == 0) return {};
  return {samples_of(config, 2 * config.model.context)};
}

std::vector<Alternative> frozen_parts(const Config& config, const PlanningInput& input) {
  if (config.adapter.active()) return {};
  const Graph graph = build_training_graph(config, input.facts, input.request.row_step).graph;
  const auto freeze = [&](std::string text, std::vector<std::string> patterns) {
    patterns.insert(patterns.begin(), config.model.freeze.begin(), config.model.freeze.end());
    return Alternative{std::move(text), {{"model.freeze", names_text(patterns)}}, true};
  };
  std::vector<std::string> patterns = tables_of(graph);
  std::vector<Alternative> list;
  if (!patterns.empty()) list.push_back(freeze("embeddings frozen", patterns));
  const std::vector<std::string> half = lower_half_of(graph);
  patterns.insert(patterns.end(), half.begin(), half.end());
  if (!half.empty()) {
    const std::string text = fmt::format("{}the lower half of the blocks frozen", list.empty() ? "" : "embeddings and ");
    list.push_back(freeze(text, std::move(patterns)));
  }
  return list;
}

}  // namespace plimsoll
