#include "autodiff/sharding.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "autodiff/shard_bounds.h"
#include "autodiff/trained_parameters.h"
#include "autodiff/training.h"
#include "base/ceil_div.h"
#include "base/error.h"
#include "graph/builder.h"
#include "graph/exchange.h"
#include "ops/cast/cast.h"
#include "ops/update/update.h"

namespace plimsoll {
namespace {

// A trained parameter with its place on the ranks.
struct Trained : TrainedParameter {
  bool is_cut = false;          // every rank has a part
  bool rests_in_parts = false;  // the parameter
  ValueId copy;                 // all of it in 16 bits, where all readers round it
  std::vector<std::int64_t> cuts;
  ValueId sum;    // the own shard of the gradient after its sum over ranks
  ValueId token;  // a value that is ready on all ranks once that sum is
};

class Sharding {
 public:
  Sharding(Graph& graph, RankShare share, std::int64_t stage)
      : graph_(graph), builder_(graph), share_(share), ranks_(share.ranks), stage_(stage) {}

  std::vector<ShardedParameter> run() {
    update_ = graph_.section_order(Section::update);
    for (TrainedParameter& each : trained_parameters(graph_)) trained_.push_back({std::move(each)});
    cut();
    if (stage_ > 1) reduce_in_rounds();
    stage_ > 2 ? fetch_parameters() : keep_copies();
    for (const Trained& each : trained_) require_own(each);
    builder_.set_section(Section::update);
    rewrite();
    share_averages();
    verify(graph_);
    std::vector<ShardedParameter> result;
    for (const Trained& each : trained_) result.push_back({each.parameter, each.cuts});
    return result;
  }

 private:
  std::size_t own() const { return static_cast<std::size_t>(share_.rank); }
  std::int64_t elements(ValueId value) const { return tensor_shape(graph_.values[value]).elements(); }
  std::int64_t begin(const Trained& each) const { return each.cuts[own()]; }
  std::int64_t end(const Trained& each) const { return each.cuts[own() + 1]; }
  bool owns(const Trained& each) const { return begin(each) < end(each); }
  bool owns_all(const Trained& each) const { return begin(each) == 0 && end(each) == elements(each.parameter); }
  ExchangeAttributes exchange(const Trained& each) const { return {share_.rank, each.cuts}; }

  void cut() {
    std::vector<CutTensor> tensors;
    for (const Trained& each : trained_) {
      const auto elementwise = [&](NodeId id) { return graph_.nodes[id].op->sharded != nullptr; };
      tensors.push_back({elements(each.parameter), std::ranges::all_of(each.nodes, elementwise)});
    }
    std::vector<std::vector<std::int64_t>> bounds = shard_bounds(tensors, ranks_);
    for (std::size_t i = 0; i < trained_.size(); ++i) {
      Trained& each = trained_[i];
      each.cuts = std::move(bounds[i]);
      each.is_cut = is_cut(tensors[i], ranks_);
      each.rests_in_parts = each.is_cut && stage_ > 2 && !graph_.values[each.parameter].parameter->adapter;
    }
  }

  void rewrite() {
    const auto first = std::ranges::find_if(update_, [&](NodeId id) {
      return std::ranges::any_of(trained_, [&](const Trained& each) { return each.squares == id; });
    });
    const std::vector<NodeId> before(update_.begin(), first), after(first, update_.end());
    std::erase_if(graph_.order, [&](NodeId id) { return std::ranges::find(after, id) != after.end(); });
    sum_statistics(before);
    std::vector<ValueId> squares;
    for (Trained& each : trained_) sum(each, squares);
    gather_squares(squares);
    for (const NodeId id : after) {
      const auto one = std::ranges::find_if(trained_, [&](const Trained& each) {
        return each.squares == id || std::ranges::find(each.nodes, id) != each.nodes.end();
      });
      if (one == trained_.end()) {
        give_to_one(id);
        graph_.order.push_back(id);
      } else if (one->squares == id) {
        graph_.order.push_back(id);
      } else {
        update(*one, id);
      }
    }
    sort_sections(graph_);
  }

  // The gradients become those of a round, and each leaves for its ranks behind the last node that adds to it.
  void reduce_in_rounds() {
    std::map<NodeId, std::vector<NodeId>> behind;  // by node: the nodes of the ends of its gradients
    std::set<NodeId> moved;                        // all nodes of `behind`
    const std::vector<NodeId> micro = graph_.section_order(Section::micro);
    for (Trained& each : trained_) {
      const ValueId whole = origin_of(graph_, each.gradient);
      std::vector<ValueId> parts{whole};  // and rows of lookups
      const NodeId rows = graph_.values[each.gradient].producer;
      if (rows.valid()) parts = graph_.nodes[rows].inputs;
      std::map<ValueId, ValueId> newest;  // by part
      NodeId last;
      for (const NodeId id : micro) {
        for (const ValueId output : graph_.nodes[id].outputs) {
          const auto part = std::ranges::find(parts, origin_of(graph_, output));
          if (part != parts.end()) newest[*part] = output, last = id;
        }
      }
      ensure(newest.size() == parts.size(), "sharding", "a gradient that no node adds to");
      for (const ValueId part : parts) graph_.values[part].section = Section::micro;
      const auto move_behind = [&](NodeId node) {
        behind[last].push_back(node);
        moved.insert(node);
      };
      if (rows.valid()) {
        join_rows(rows, last, newest);
        move_behind(rows);
      } else {
        each.gradient = newest.at(whole);
      }
      move_behind(reduce(each, last));
    }
    const std::vector<NodeId> order = std::exchange(graph_.order, {});
    for (const NodeId id : order) {
      if (moved.contains(id)) continue;
      graph_.order.push_back(id);
      const auto found = behind.find(id);
      if (found != behind.end()) graph_.order.insert(graph_.order.end(), found->second.begin(), found->second.end());
    }
    std::erase_if(update_, [&](NodeId id) { return graph_.nodes[id].section == Section::micro; });
  }

  // The rows of a round join its gradient.
  void join_rows(NodeId id, NodeId last, const std::map<ValueId, ValueId>& newest) {
    Node& node = graph_.nodes[id];
    node.section = Section::micro;
    node.backward = true;
    node.line = graph_.nodes[last].line;
    node.gradient_of = graph_.nodes[last].gradient_of;
    for (ValueId& input : node.inputs) input = newest.at(input);
    for (const ValueId output : node.outputs) graph_.values[output].section = Section::micro;
  }

  NodeId reduce(Trained& each, NodeId last) {
    builder_.set_section(Section::micro, /*backward=*/true);
    builder_.set_role(Role::accumulator);
    builder_.set_line(graph_.nodes[last].line.text());
    builder_.set_gradient_of(graph_.nodes[last].gradient_of);
    const Value& whole = graph_.values[origin_of(graph_, each.gradient)];
    const Shape held = owns_all(each) ? whole.type.shape : Shape{std::max<std::int64_t>(1, end(each) - begin(each))};
    each.sum = builder_.add_persistent(whole.name.text() + ".sum", {whole.type.dtype, held}, Role::accumulator);
    each.token = each.sum;
    builder_.add1(kReduceShards, exchange(each), {each.gradient, each.sum}, "sum");
    builder_.set_gradient_of({});
    return graph_.order.back();
  }

  void hold_shard(ValueId parameter, const std::vector<std::int64_t>& cuts) {
    Value& value = graph_.values[parameter];
    value.shard = std::make_shared<const Shard>(Shard{value.type.shape, cuts[own()], cuts[own() + 1], cuts});
    value.type.shape = Shape{cuts[own() + 1] - cuts[own()]};
  }

  // A rank holds its shard of a parameter and, in the type to which all readers round it, a copy of the whole.
  void keep_copies() {
    for (Trained& each : trained_) {
      const std::optional<DType> to = each.is_cut ? rounded_to(each) : std::nullopt;
      if (!to) continue;
      const Value parameter = graph_.values[each.parameter];  // a copy: the graph grows below
      each.copy = builder_.add_persistent(parameter.name.text() + ".copy", {*to, parameter.type.shape}, Role::parameter);
      each.rests_in_parts = true;
      hold_shard(each.parameter, each.cuts);
      for (Node& node : graph_.nodes) {
        if (node.op != &ops::kCast || node.inputs.front() != each.parameter) continue;
        node.op = &kWhole;
        node.attributes = WholeAttributes{0, parameter.type.shape};
        node.inputs = {each.copy};
      }
    }
  }

  // The type of 16 bits to which all readers outside of the update round a parameter.
  std::optional<DType> rounded_to(const Trained& each) const {
    std::optional<DType> to;
    for (const NodeId id : graph_.order) {
      const Node& node = graph_.nodes[id];
      if (node.section == Section::update || !reads(node, each.parameter)) continue;
      if (node.op != &ops::kCast) return {};
      const DType dtype = node.attributes.as<ops::CastAttributes>().to;
      if (size_of(dtype) != 2 || to.value_or(dtype) != dtype) return {};
      to = dtype;
    }
    return to;
  }

  // Each rank holds its shard of a parameter. All of it comes before its first reader of a line in a pass, in the type that the
  // reader rounds to, and is gone after its last one.
  void fetch_parameters() {
    std::map<ValueId, std::vector<std::int64_t>> in_parts = frozen_cuts();  // bounds by parameter
    for (const Trained& each : trained_) {
      if (each.rests_in_parts) in_parts[each.parameter] = each.cuts;
    }
    for (const auto& [parameter, cuts] : in_parts) hold_shard(parameter, cuts);
    std::map<std::tuple<ValueId, Section, bool, std::string>, ValueId> known;
    const std::vector<NodeId> order = std::exchange(graph_.order, {});
    for (const NodeId id : order) {
      for (std::size_t i = 0; i < graph_.nodes[id].inputs.size() && graph_.nodes[id].section != Section::update; ++i) {
        const Node node = graph_.nodes[id];  // a copy: the graph grows below
        const auto found = in_parts.find(node.inputs[i]);
        if (found == in_parts.end()) continue;
        if (node.op == &ops::kCast) {
          graph_.nodes[id].op = &kFetchShards;
          graph_.nodes[id].attributes = fetch(*found, node.attributes.as<ops::CastAttributes>().to);
          continue;
        }
        ValueId& whole = known[{node.inputs[i], node.section, node.backward, node.line.text()}];
        if (!whole.valid()) whole = fetch_for(*found, node);
        graph_.nodes[id].inputs[i] = whole;
      }
      graph_.order.push_back(id);
    }
  }

  // The bounds of frozen parameters that no update reads, tile by tile.
  std::map<ValueId, std::vector<std::int64_t>> frozen_cuts() const {
    std::map<ValueId, std::vector<std::int64_t>> all;
    for (const ValueId id : graph_.parameters()) {
      const Value& value = graph_.values[id];
      const std::int64_t elements = value.type.shape.elements();
      const bool read = std::ranges::any_of(update_, [&](NodeId node) { return reads(graph_.nodes[node], id); });
      const bool frozen = value.parameter->kind == ParameterKind::frozen;
      if (frozen && !read && is_cut({elements, true}, ranks_)) all[id] = even_bounds(elements, ranks_);
    }
    return all;
  }

  // If a rank has a part of a parameter, only its own update may read it.
  void require_own(const Trained& each) const {
    for (const NodeId id : update_) {
      const bool reads =
          std::ranges::any_of(graph_.nodes[id].inputs, [&](ValueId input) { return origin_of(graph_, input) == each.parameter; });
      const bool own = std::ranges::find(each.nodes, id) != each.nodes.end();
      ensure(!each.rests_in_parts || !reads || own, "sharding", "an update reads a parameter that is not here");
    }
  }

  using Parts = std::pair<const ValueId, std::vector<std::int64_t>>;  // a parameter with its bounds

  ExchangeAttributes fetch(const Parts& parts, DType dtype) const {
    return {share_.rank, parts.second, graph_.values[parts.first].shard->whole, dtype};
  }

  ValueId fetch_for(const Parts& parts, const Node& reader) {
    builder_.set_section(reader.section, reader.backward);
    builder_.set_role(Role::pages);
    builder_.set_line(reader.line.text());
    builder_.set_gradient_of(reader.gradient_of);
    const std::string name = graph_.values[parts.first].name.text() + ".whole";
    const DType dtype = graph_.values[parts.first].type.dtype;
    const ValueId whole = builder_.add1(kFetchShards, fetch(parts, dtype), {parts.first}, "");
    builder_.rename(whole, name);
    builder_.set_gradient_of({});
    return whole;
  }

  // The gradient leaves for its ranks, if it has not yet; the sums of squares of the own shard follow.
  void sum(Trained& each, std::vector<ValueId>& squares) {
    builder_.set_line("update." + graph_.values[each.parameter].name.text());
    builder_.set_role(Role::accumulator);
    const bool here = each.sum.valid();
    if (!here) each.sum = each.token = builder_.add1(kSumShards, exchange(each), {each.gradient}, "sum");
    if (!owns(each)) {  // a number in its place, so that the exchange of squares comes equally late on all ranks
      builder_.set_role(Role::output);
      squares.push_back(builder_.add1(kNothing, NothingAttributes{1}, {each.token}, "squares"));
    } else {
      if (!here && !owns_all(each)) each.sum = shard(each, each.token, "sum.shard");
      builder_.set_role(Role::output);
      squares.push_back(builder_.add1(kTileSquares, ops::NoAttributes{}, {each.sum}, "squares"));
    }
    if (here) each.token = squares.back();  // the sum may rest on a disk
  }

  ValueId shard(const Trained& each, ValueId of, const char* name) {
    const ValueId part = builder_.add1(kShard, ShardAttributes{begin(each), end(each) - begin(each)}, {of}, name);
    graph_.values[part].role = graph_.values[of].role;
    return part;
  }

  // The tiles of all shards, by rank and parameter. The sum of each parameter adds its tiles in their order.
  void gather_squares(const std::vector<ValueId>& squares) {
    constexpr std::int64_t kStep = kAlignment.n / size_of(DType::f64);
    builder_.set_line("update");
    builder_.set_role(Role::output);
    std::vector<PartsAttributes> parts(trained_.size());
    ExchangeAttributes all{share_.rank, {0}};
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks_); ++rank) {
      std::int64_t place = all.cuts.back();
      for (std::size_t i = 0; i < trained_.size(); ++i) {
        const std::int64_t tiles = ceil_div(trained_[i].cuts[rank + 1] - trained_[i].cuts[rank], ops::kNormTile);
        if (tiles > 0) parts[i].begins.push_back(place), parts[i].counts.push_back(tiles);
        place += std::max<std::int64_t>(1, tiles);
      }
      all.cuts.push_back(round_up(place, kStep));
    }
    const ValueId tiles = builder_.add1(kGatherValues, all, squares, "squares");
    for (std::size_t i = 0; i < trained_.size(); ++i) {
      Node& node = graph_.nodes[trained_[i].squares];
      node.op = &kAddParts;
      node.attributes = parts[i];
      node.inputs = {tiles};
    }
  }

  // One node of an update, on the own shard.
  void update(Trained& each, NodeId id) {
    const bool last = id == each.update;
    const ValueId parameter = each.parameter;
    builder_.set_line("update." + graph_.values[parameter].name.text());
    const ValueId updated = last ? version_in(graph_.nodes[id], parameter) : ValueId{};
    if (!owns(each)) {
      drop(each, id);
      if (last) bring(each, parameter, updated);
      return;
    }
    for (ValueId& input : graph_.nodes[id].inputs) {
      if (origin_of(graph_, input) == origin_of(graph_, each.gradient)) input = each.sum;
    }
    if (owns_all(each)) {
      graph_.order.push_back(id);
      if (last) bring(each, replaced(id, updated), updated);
      return;
    }
    const ShardRule rule = graph_.nodes[id].op->sharded(graph_.nodes[id].attributes, begin(each));
    graph_.nodes[id].attributes = rule.attributes;
    for (const ShardRule::Operand& cut : rule.cut) {
      const ValueId input = graph_.nodes[id].inputs[cut.input];
      if (origin_of(graph_, input) == parameter && each.rests_in_parts) continue;
      if (origin_of(graph_, input) == parameter) {
        const ValueId part = shard(each, input, "shard");
        graph_.nodes[id].inputs[cut.input] = part;
      } else if (input != each.sum) {
        hold_part(each, input, cut.elements);
      }
    }
    ValueId own;
    if (last && !each.rests_in_parts) {
      own = replaced(id, updated);
      graph_.values[own].type.shape = Shape{end(each) - begin(each)};
    }
    retype(id);
    graph_.order.push_back(id);
    if (last && each.copy.valid()) refresh(each, updated);
    if (!last || each.rests_in_parts) return;
    const WholeAttributes around{begin(each), graph_.values[parameter].type.shape};
    const ValueId whole = builder_.add1(kWhole, around, {own}, "whole");
    graph_.values[whole].role = Role::parameter;
    bring(each, whole, updated);
  }

  // The version of a value that a node makes.
  ValueId version_in(const Node& node, ValueId of) const {
    for (const NodeAlias& alias : aliases_of(graph_, node)) {
      if (in_place(alias.kind) && origin_of(graph_, alias.input) == of) return alias.output;
    }
    throw internal_error("sharding", "an update makes no version of its parameter");
  }

  // A new value in place of a node's output, which another node will make.
  ValueId replaced(NodeId id, ValueId output) {
    const Value like = graph_.values[output];
    const ValueId own = graph_.values.push_back(like);
    graph_.values[own].name = like.name.text() + ".own";
    for (ValueId& each : graph_.nodes[id].outputs) {
      if (each == output) each = own;
    }
    return own;
  }

  // The copy of a parameter gets the shards of all ranks.
  void refresh(const Trained& each, ValueId own) {
    const ValueType& copy = graph_.values[each.copy].type;
    std::vector<ValueId> inputs{own, each.copy, each.token};
    inputs.insert(inputs.end(), each.waits.begin(), each.waits.end());
    builder_.set_role(Role::parameter);
    builder_.add1(kRefreshShards, ExchangeAttributes{share_.rank, each.cuts, copy.shape, copy.dtype}, std::move(inputs), "copy");
  }

  // Makes `updated` from the shards of all ranks. It waits for all that an update on any rank waits for.
  void bring(const Trained& each, ValueId own, ValueId updated) {
    std::vector<ValueId> inputs{own, each.token};
    inputs.insert(inputs.end(), each.waits.begin(), each.waits.end());
    const NodeId id = graph_.nodes.push_back({.op = &kGatherShards,
                                              .attributes = exchange(each),
                                              .inputs = std::move(inputs),
                                              .outputs = {updated},
                                              .section = Section::update,
                                              .line = builder_.line()});
    graph_.values[updated].producer = id;
    graph_.order.push_back(id);
  }

  // State in the shape of a parameter, or with one number for `per` of its elements, becomes the part of this rank.
  void hold_part(const Trained& each, ValueId input, std::int64_t per) {
    Value& state = graph_.values[origin_of(graph_, input)];
    if (state.shard) return;
    const std::int64_t from = begin(each) / per, to = ceil_div(end(each), per);
    state.shard = std::make_shared<const Shard>(Shard{state.type.shape, from, to});
    state.type.shape = Shape{to - from};
  }

  // Outputs that are inputs changed in place have their types.
  void retype(NodeId id) {
    for (const NodeAlias& alias : aliases_of(graph_, graph_.nodes[id])) {
      graph_.values[alias.output].type = graph_.values[alias.input].type;
    }
  }

  // A node that runs on another rank alone. Its persistent values do not exist here; the numbers that it reports are zeros.
  void drop(const Trained& each, NodeId id) {
    Node& node = graph_.nodes[id];
    for (const ValueId changed : changed_by(graph_, node)) {
      if (changed != each.parameter) forget(changed);
    }
    absent(id, each.update == id ? version_in(graph_.nodes[id], each.parameter) : ValueId{});
  }

  // `kept`: an output that another node will make.
  void absent(NodeId id, ValueId kept) {
    Node& node = graph_.nodes[id];
    std::vector<ValueId> outputs;
    std::int64_t elements = 0;
    for (const ValueId output : node.outputs) {
      if (output == kept) continue;
      Value& value = graph_.values[output];
      if (is_read(output, id)) {
        ensure(outputs.empty() && value.type.dtype == DType::f64, "sharding", "an update of another rank has a result here");
        outputs.push_back(output);
        elements = value.type.shape.elements();
        continue;
      }
      value.producer = {};
      value.version_of = {};
      value.role = Role::activation;
    }
    node.op = &kNothing;
    node.attributes = NothingAttributes{elements};
    node.inputs.clear();
    node.outputs = std::move(outputs);
    graph_.order.push_back(id);
  }

  // True if a node outside of all updates reads a value.
  bool is_read(ValueId value, NodeId by) const {
    return std::ranges::any_of(update_, [&](NodeId id) {
      const bool of_update = std::ranges::any_of(
          trained_, [&](const Trained& each) { return std::ranges::find(each.nodes, id) != each.nodes.end(); });
      return id != by && !of_update && reads(graph_.nodes[id], value);
    });
  }

  void forget(ValueId persistent) {
    Value& value = graph_.values[persistent];
    value.section = Section::update;
    value.role = Role::activation;
  }

  // State that belongs to no parameter, such as averages of statistics, is on the first rank, which saves it with the weights.
  void give_to_one(NodeId id) {
    const std::vector<ValueId> changed = changed_by(graph_, graph_.nodes[id]);
    const bool state = !changed.empty() && std::ranges::all_of(changed, [&](ValueId value) {
      return graph_.values[value].role == Role::optimizer_state;
    });
    if (!state || own() == 0) return;
    for (const ValueId value : changed) forget(value);
    absent(id, {});
    graph_.order.pop_back();  // the caller appends it
  }

  // The first rank saves the averages of all parameters as weights, so all ranks know where they are.
  void share_averages() {
    for (const Trained& each : trained_) {
      const ValueId average = graph_.find(graph_.values[each.parameter].name.text() + "." + kAverageName);
      if (!average.valid()) continue;
      graph_.values[average].shard =
          std::make_shared<const Shard>(Shard{tensor_shape(graph_.values[each.parameter]), begin(each), end(each), each.cuts});
    }
  }

  // Sums of a window over the rows of all ranks. Their readers come after the gradients.
  void sum_statistics(const std::vector<NodeId>& before) {
    std::map<ValueId, ValueId> summed;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[NodeId{i}].section != Section::micro) continue;
      const Node node = graph_.nodes[NodeId{i}];  // a copy: the graph grows below
      for (const NodeAlias& alias : aliases_of(graph_, node)) {
        const ValueId origin = origin_of(graph_, alias.input);
        const Value& value = graph_.values[origin];
        const bool statistic = value.role == Role::statistic && value.persistent();
        if (!statistic || !in_place(alias.kind)) continue;
        if (alias.kind != AliasKind::accumulates || value.type.dtype != DType::f64) {
          throw internal_error("sharding", fmt::format("{} is no sum over a window", value.name.text()));
        }
        builder_.set_line("update." + value.name.text());
        builder_.set_role(Role::statistic);
        ExchangeAttributes all{share_.rank, std::vector<std::int64_t>(static_cast<std::size_t>(ranks_) + 1, 0)};
        summed[origin] = builder_.add1(kSumAll, all, {origin}, "sum");
      }
    }
    for (const NodeId id : update_) {
      if (std::ranges::find(before, id) != before.end()) continue;
      for (ValueId& input : graph_.nodes[id].inputs) {
        const auto found = summed.find(origin_of(graph_, input));
        if (found != summed.end()) input = found->second;
      }
    }
  }

  Graph& graph_;
  GraphBuilder builder_;
  RankShare share_;
  std::int64_t ranks_, stage_;
  std::vector<NodeId> update_;
  std::vector<Trained> trained_;
};

}  // namespace

std::vector<ShardedParameter> shard_update(Graph& graph, RankShare share, std::int64_t stage) {
  ensure(share.ranks > 1 && share.rank >= 0 && share.rank < share.ranks, "sharding", "a rank that is none");
  ensure(stage >= 1 && stage <= 3, "sharding", "a stage that is none");
  return Sharding(graph, share, stage).run();
}

}  // namespace plimsoll
