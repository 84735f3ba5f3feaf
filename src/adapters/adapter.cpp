#include "adapters/adapter.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "adapters/modules.h"
#include "adapters/peft_folder.h"
#include "base/error.h"
#include "graph/builder.h"
#include "models/family.h"
#include "ops/adapter/adapter.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"

namespace plimsoll {
namespace {

constexpr std::string_view kWeight = ".weight", kA = ".lora_A.weight", kB = ".lora_B.weight", kM = ".lora_magnitude_vector",
                           kNorms = ".lora_norms";
constexpr std::size_t kShown = 6;

// The module of a parameter, such as "model.layers.0.mlp".
std::string module_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

std::string some_of(const std::set<std::string>& names) {
  std::string text;
  std::size_t shown = 0;
  for (const std::string& name : names) {
    if (++shown > kShown) return text + ", ...";
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// The linear layers of a model, and the selection for adapters.
class Targets {
 public:
  Targets(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings)
      : graph_(graph), config_(config), settings_(settings), linear_(linear_layers(graph)) {
    if (settings.targets.kind == ModuleSet::Kind::expression) {
      expression_.emplace(settings.targets.names.at(0), "adapter.targets");
    }
  }

  // The weights of the selected layers, in the order of the graph.
  std::vector<ValueId> weights() {
    if (linear_.empty()) {
      throw config_error("E-ADAPTER-TARGET", "adapter.kind", "the model has no linear layer for an adapter",
                         "a model with linear layers; or no adapter, which trains the whole model",
                         settings_.init.empty() ? Remedies{Change("adapter.kind", "none")} : Remedies());
    }
    std::vector<ValueId> chosen;
    std::set<std::string> known;
    for (const ValueId id : graph_.parameters()) {
      const std::string& name = graph_.values[id].name.text();
      if (!name.ends_with(kWeight)) continue;
      for (const std::string& each : names_in_adapter(config_, name)) {
        const std::string module = module_of(each);
        const bool linear = linear_.contains(id);
        if (linear) known.insert(last_part(module));
        if (!selects(module, linear)) continue;
        if (!linear) refuse_other(id, module);
        if (!is_named(module, settings_.excluded)) chosen.push_back(id);
      }
    }
    check_names(known);
    if (chosen.empty()) {
      throw config_error("E-ADAPTER-TARGET", "adapter.targets", "no layer gets an adapter",
                         fmt::format("\"all-linear\", a list of some of {}, or a regular expression for whole names such as {}",
                                     some_of(known), example()));
    }
    return chosen;
  }

  const LinearOperands& linear(ValueId weight) const { return linear_.at(weight); }

 private:
  bool selects(const std::string& module, bool linear) {
    switch (settings_.targets.kind) {
      case ModuleSet::Kind::all_linear: return linear;
      case ModuleSet::Kind::expression: return expression_->matches(module, work_);
      case ModuleSet::Kind::names: break;
    }
    bool any = false;
    for (const std::string& name : settings_.targets.names) {
      if (!is_named(module, name)) continue;
      found_.insert(name);
      any = true;
    }
    return any;
  }

  [[noreturn]] void refuse_other(ValueId id, const std::string& module) const {
    if (!settings_.init.empty()) {
      throw data_error("E-ADAPTER-FEATURE", (settings_.init / kAdapterConfig).string(),
                       fmt::format("target_modules has {}, which is no linear layer of a block", module),
                       "LoRA of linear layers; the merge_and_unload of PEFT makes weights of this adapter");
    }
    throw config_error("E-ADAPTER-TARGET", "adapter.targets", fmt::format("{} is no linear layer of a block", module),
                       "linear layers; an embedding, a norm or the head is trained whole instead", trained_whole(id));
  }

  // Proposes the targets without this module, which is trained whole instead. Nothing for an expression, which has no names to
  // leave out.
  Remedies trained_whole(ValueId id) const {
    if (settings_.targets.kind != ModuleSet::Kind::names) return {};
    std::vector<std::string> targets, saved = settings_.modules_to_save;
    const std::vector<std::string> names = names_in_adapter(config_, graph_.values[id].name.text());
    for (const std::string& target : settings_.targets.names) {
      const bool this_one =
          std::ranges::any_of(names, [&](const std::string& name) { return is_named(module_of(name), target); });
      if (!this_one) targets.push_back(target);
    }
    for (const std::string& name : names) saved.push_back(last_part(module_of(name)));
    const std::string left = targets.empty() ? "all-linear" : nlohmann::json(targets).dump();
    return {Remedy::of_changes({{"adapter.targets", left}, {"adapter.modules_to_save", nlohmann::json(saved).dump()}})};
  }

  // The lists of an existing adapter may be for several kinds of models.
  void check_names(const std::set<std::string>& known) const {
    if (settings_.targets.kind != ModuleSet::Kind::names || !settings_.init.empty()) return;
    for (const std::string& name : settings_.targets.names) {
      if (found_.contains(name)) continue;
      throw config_error("E-ADAPTER-TARGET", "adapter.targets", fmt::format("no layer is called '{}'", name),
                         fmt::format("some of {}, or the end of a whole name such as {}", some_of(known), example()));
    }
  }

  std::string example() const { return module_of(name_in_modules(config_, graph_.values[linear_.begin()->first].name.text())); }

  const Graph& graph_;
  const ModelConfig& config_;
  const AdapterSettings& settings_;
  std::map<ValueId, LinearOperands> linear_;
  std::optional<NamePattern> expression_;
  MatchWork work_;
  std::set<std::string> found_;
};

// The error if only one name of a tied table is trained. `absent`: the other one.
Error tied_error(const AdapterSettings& settings, const std::string& absent) {
  const std::string what = fmt::format("the head is the table of tokens, and {} alone is not to be trained", absent);
  if (!settings.init.empty()) {
    return data_error("E-ADAPTER-TIED", (settings.init / kAdapterConfig).string(), what,
                      "a base with a separate head; merging makes one, and the merged model computes the same",
                      {merge_command(settings.init).remedy});
  }
  std::vector<std::string> saved = settings.modules_to_save;
  saved.push_back(absent);
  return config_error("E-ADAPTER-TIED", "adapter.modules_to_save", what,
                      "both: they are one tensor, and PEFT is given it under both names",
                      {Change("adapter.modules_to_save", nlohmann::json(saved).dump())});
}

// The parameters that are trained whole, next to the adapter.
std::vector<ValueId> saved_parameters(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings) {
  std::vector<ValueId> saved;
  std::set<std::string> known, found;
  for (const ValueId id : graph.parameters()) {
    const std::vector<std::string> names = names_in_adapter(config, graph.values[id].name.text());
    std::vector<std::string> absent;
    for (const std::string& name : names) {
      known.insert(last_part(module_of(name)));
      bool any = false;
      for (const std::string& wanted : settings.modules_to_save) {
        if (wanted.empty() || !module_of(name).ends_with(wanted)) continue;
        found.insert(wanted);
        any = true;
      }
      if (!any) absent.push_back(last_part(module_of(name)));
    }
    if (absent.size() == names.size()) continue;
    if (!absent.empty()) throw tied_error(settings, absent.front());
    saved.push_back(id);
  }
  for (const std::string& wanted : settings.modules_to_save) {
    if (found.contains(wanted) || !settings.init.empty()) continue;
    throw config_error("E-ADAPTER-SAVE", "adapter.modules_to_save", fmt::format("no module is called '{}'", wanted),
                       fmt::format("some of {}", some_of(known)));
  }
  return saved;
}

struct LayerValues {
  LinearOperands linear;
  double scale = 1;
  ValueId weight, a, b, magnitude, norms;
};

class Rewrite {
 public:
  Rewrite(ModelGraph& model, const ModelConfig& config, const AdapterSettings& settings, std::uint64_t seed)
      : graph_(model.graph), builder_(graph_), config_(config), settings_(settings), seed_(seed) {
    if (const Pass* train = model.find("train")) {
      trains_ = true;
      if (settings.dropout > 0) sample_ids_ = train->input("sample_ids");
    }
  }

  void run() {
    Targets targets(graph_, config_, settings_);
    const std::vector<ValueId> weights = targets.weights(), saved = saved_parameters(graph_, config_, settings_);
    for (const ValueId id : graph_.parameters()) {
      ParameterInfo& parameter = *graph_.values[id].parameter;
      const bool kept = std::ranges::find(saved, id) != saved.end() || parameter.kind == ParameterKind::statistic;
      if (!kept) parameter.kind = ParameterKind::frozen;
    }
    for (const ValueId weight : weights) {
      if (std::ranges::find(saved, weight) != saved.end()) {
        throw config_error("E-ADAPTER-SAVE", "adapter.modules_to_save",
                           fmt::format("{} has an adapter, too", module_of(graph_.values[weight].name.text())),
                           "an adapter for it, or all of it trained");
      }
      add_parameters(weight, targets.linear(weight));
    }
    for (const NodeId id : std::exchange(graph_.order, {})) {
      graph_.order.push_back(id);
      adapt(id);
    }
    if (trains_) add_norms();
    sort_sections(graph_);
    verify(graph_);
  }

 private:
  bool dora() const { return settings_.kind == AdapterKind::dora; }

  ValueId add_parameter(const std::string& name, ParameterSpec spec) {
    const ValueId id = builder_.add_parameter(name, std::move(spec));
    graph_.values[id].parameter->adapter = true;
    return id;
  }

  // A starts like kaiming_uniform_ with a = sqrt(5), within 1 / sqrt(inputs); B starts at zero.
  void add_parameters(ValueId weight, const LinearOperands& linear) {
    const std::string name = graph_.values[weight].name.text(), module = module_of(name);
    const Shape shape = graph_.values[weight].type.shape;
    const std::int64_t inputs = shape[linear.inputs_first ? 0 : 1], outputs = shape[linear.inputs_first ? 1 : 0];
    const std::string in_modules = module_of(name_in_modules(config_, name));
    const std::int64_t rank = settings_.rank_of(in_modules);
    graph_.values[weight].parameter->inputs_first = linear.inputs_first;
    LayerValues layer{.linear = linear, .scale = settings_.scale_of(in_modules), .weight = weight};
    const double std = 1 / std::sqrt(3 * static_cast<double>(inputs));
    layer.a =
        add_parameter(module + std::string(kA), {.shape = {rank, inputs}, .initializer = {Initializer::Kind::uniform, std}});
    layer.b = add_parameter(module + std::string(kB), {.shape = {outputs, rank}});
    if (dora()) {
      const Initializer ones{Initializer::Kind::ones, 0};
      layer.magnitude = add_parameter(module + std::string(kM), {.shape = Shape{outputs}, .initializer = ones});
      layer.norms = add_parameter(module + std::string(kNorms),
                                  {.shape = Shape{outputs}, .initializer = ones, .kind = ParameterKind::statistic});
    }
    layers_.emplace(weight, layer);
  }

  // A new last node yields the original value of the product, so its readers do not change.
  void adapt(NodeId id) {
    const Node node = graph_.nodes[id];  // a copy: the graph grows below
    const auto linear = node.op->linear == nullptr ? std::nullopt : node.op->linear(node.attributes);
    const auto found = linear ? layers_.find(node.inputs.at(linear->weight)) : layers_.end();
    if (found == layers_.end()) return;
    builder_.set_section(node.section);
    builder_.set_line(node.line.text());
    const std::size_t first = graph_.nodes.size();
    const ValueId product = node.outputs.at(0), last = adapted(node, found->second);
    const ValueId read = last;  // the unadapted product, after the swap below
    const NodeId end = graph_.values[last].producer;
    for (std::size_t i = first; i < graph_.nodes.size(); ++i) {
      std::ranges::replace(graph_.nodes[NodeId{i}].inputs, product, read);
    }
    graph_.nodes[id].outputs[0] = read;
    graph_.nodes[end].outputs[0] = product;
    std::swap(graph_.values[read].producer, graph_.values[product].producer);
    builder_.rename(read, graph_.values[product].name.text() + ".base");
  }

  ValueId adapted(const Node& node, const LayerValues& layer) {
    const ValueId x = node.inputs.at(layer.linear.x), product = node.outputs.at(0);
    const bool drops = node.section == Section::micro && settings_.dropout > 0;
    if (!drops) return scaled(ops::sum_paths(builder_, product, low_rank(x, layer), "changed"), node, layer);
    const ValueId dropped = ops::dropout(builder_, x, sample_ids_, settings_.dropout, seed_);
    const ValueId change = low_rank(dropped, layer);
    if (!dora()) return ops::sum_paths(builder_, product, change, "changed");
    // PEFT adds (m / norms - 1) drop(x) W + m / norms s drop(x) A^T B^T to x W. A bias cancels out.
    std::vector<ValueId> inputs = node.inputs;
    inputs[layer.linear.x] = dropped;
    const ValueId again = builder_.add1(*node.op, node.attributes, std::move(inputs), "dropped.base");
    const ValueId magnified = scaled(ops::sum_paths(builder_, again, change, "dropped.changed"), node, layer);
    const ValueId less = builder_.add1(ops::kScale, ops::ScaleAttributes{-1}, {again}, "dropped.less");
    return ops::sum_paths(builder_, product, ops::sum_paths(builder_, magnified, less, "difference"), "changed");
  }

  // s x A^T B^T; the scale is applied to the smallest product.
  ValueId low_rank(ValueId x, const LayerValues& layer) {
    ValueId low = ops::matmul(builder_, x, layer.a, {.transpose_b = true}, "lora_A");
    if (layer.scale != 1) low = builder_.add1(ops::kScale, ops::ScaleAttributes{layer.scale}, {low}, "lora_scaled");
    return ops::matmul(builder_, low, layer.b, {.transpose_b = true}, "lora_B");
  }

  ValueId scaled(ValueId x, const Node& node, const LayerValues& layer) {
    if (!dora()) return x;
    const ValueId bias = layer.linear.bias ? node.inputs.at(*layer.linear.bias) : ValueId{};
    return ops::magnitude(builder_, x, layer.magnitude, layer.norms, bias, "magnified");
  }

  // Runs once a window, after the updates of A and B.
  void add_norms() {
    builder_.set_section(Section::update);
    for (const auto& [weight, layer] : layers_) {
      if (!layer.norms.valid()) continue;
      const std::string name = graph_.values[layer.norms].name.text();
      builder_.set_line("update." + name);
      const ops::RowNormAttributes attributes{layer.scale, layer.linear.inputs_first};
      const ValueId norms = builder_.add1(ops::kRowNorms, attributes, {layer.norms, weight, layer.a, layer.b}, "");
      builder_.rename(norms, name);
    }
  }

  Graph& graph_;
  GraphBuilder builder_;
  const ModelConfig& config_;
  const AdapterSettings& settings_;
  std::uint64_t seed_;
  bool trains_ = false;
  ValueId sample_ids_;
  std::map<ValueId, LayerValues> layers_;  // by weight
};

}  // namespace

std::vector<std::string> names_in_adapter(const ModelConfig& config, const std::string& parameter) {
  constexpr const char* kHead = "lm_head.weight";
  std::vector<std::string> names{name_in_modules(config, parameter)};
  const std::vector<std::string> stored = config.family().stored(config, parameter);
  if (parameter != kHead && std::ranges::find(stored, kHead) != stored.end()) names.emplace_back(kHead);
  return names;
}

std::map<ValueId, LinearOperands> linear_layers(const Graph& graph) {
  std::map<ValueId, LinearOperands> layers;
  for (const Node& node : graph.nodes) {
    const auto linear = node.op->linear == nullptr ? std::nullopt : node.op->linear(node.attributes);
    if (!linear) continue;
    const ValueId weight = node.inputs.at(linear->weight);
    const Value& value = graph.values[weight];
    if (value.parameter && !value.parameter->head && !value.parameter->in_files && value.type.shape.rank() == 2)
      layers.emplace(weight, *linear);
  }
  return layers;
}

void add_adapter(ModelGraph& model, const ModelConfig& config, const AdapterSettings& settings, std::uint64_t seed) {
  Rewrite(model, config, settings, seed).run();
}

std::vector<AdaptedLayer> adapted_layers(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings) {
  std::vector<AdaptedLayer> layers;
  for (const ValueId id : graph.parameters()) {
    const std::string& name = graph.values[id].name.text();
    if (!graph.values[id].parameter->adapter || !name.ends_with(kA)) continue;
    const std::string module = name.substr(0, name.size() - kA.size());
    const std::string in_modules = module_of(name_in_modules(config, module + std::string(kWeight)));
    layers.push_back({module, in_modules, settings.scale_of(in_modules)});
  }
  return layers;
}

bool has_adapter(const Graph& graph) {
  return std::ranges::any_of(graph.values, [](const Value& value) { return value.parameter && value.parameter->adapter; });
}

void freeze(Graph& graph, std::span<const std::string> patterns) {
  constexpr const char* kWhere = "model.freeze";
  if (patterns.empty()) return;
  std::vector<NamePattern> compiled;
  MatchWork work;
  for (const std::string& pattern : patterns) compiled.emplace_back(pattern, kWhere);
  std::vector<char> used(patterns.size(), 0);
  std::size_t trained = 0;
  std::set<std::string> names;
  for (const ValueId id : graph.parameters()) {
    ParameterInfo& parameter = *graph.values[id].parameter;
    if (parameter.kind == ParameterKind::statistic) continue;
    names.insert(graph.values[id].name.text());
    for (std::size_t i = 0; i < compiled.size(); ++i) {
      for (std::string name = graph.values[id].name.text();; name = module_of(name)) {
        if (compiled[i].matches(name, work)) used[i] = 1, parameter.kind = ParameterKind::frozen;
        if (name.find('.') == std::string::npos) break;
      }
    }
    trained += parameter.kind == ParameterKind::trained ? 1 : 0;
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i] != 0) continue;
    throw config_error("E-FREEZE", kWhere, fmt::format("'{}' is the name of no parameter and no module", patterns[i]),
                       fmt::format("a regular expression for all of a name: {}", some_of(names)));
  }
  if (trained > 0) return;
  throw config_error("E-FREEZE", kWhere, "all parameters are frozen", "something that is left to train",
                     {Change("model.freeze", "[]")});
}

}  // namespace plimsoll
