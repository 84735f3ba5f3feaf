// The one intermediate representation: typed values, each produced once, and the nodes that produce them, in an executable order.
// A training step has the sections `micro` (runs k times) and `update` (runs once); each forward pass has a section of its own.
// Persistent values (parameters, accumulators, optimizer state, staging) live across steps and belong to no section.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/id.h"
#include "base/symbol.h"
#include "graph/attributes.h"
#include "graph/op.h"
#include "tensor/block_format.h"

namespace plimsoll {

using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;
template <class T>
using PerValue = PerId<ValueId, T>;
template <class T>
using PerNode = PerId<NodeId, T>;

// `forward` is the first of the forward passes (Graph::forward); the others follow it.
enum class Section : std::uint8_t { micro, update, forward };
constexpr Section forward_section(std::size_t pass) {
  return static_cast<Section>(static_cast<std::size_t>(Section::forward) + pass);
}

// A pass that changes no parameter, for example an evaluation or a generation.
struct ForwardPass {
  std::string name;   // name of the pass, its section and its phase
  bool sums = false;  // adds up over its runs: the first run writes, later ones add
};

// The owner of a value's bytes in the tables for users.
enum class Role : std::uint8_t {
  parameter,
  accumulator,
  optimizer_state,
  staging,
  pages,  // room for ranges of values of another tier while kernels read or write them
  input,
  activation,
  gradient,
  recomputed,
  output,
  cache,     // values of earlier tokens that generation reads for later ones
  statistic  // a statistic or its sums over a window: small, always in tier 0
};
std::string_view name(Role role);

struct Initializer {
  enum class Kind : std::uint8_t { zeros, ones, normal, uniform } kind = Kind::zeros;
  double std = 0;  // standard deviation of normal and uniform, around zero
  friend bool operator==(const Initializer&, const Initializer&) = default;
};

enum class ParameterKind : std::uint8_t {
  trained,
  frozen,    // no gradient, accumulator or state; never changes; a checkpoint has its source and hash
  statistic  // no gradient, accumulator or state; ops of a training pass change it; a checkpoint has its bytes
};

// A family's declaration of a parameter.
struct ParameterSpec {
  Shape shape;
  Initializer initializer = {};
  ParameterKind kind = ParameterKind::trained;
  DType storage = DType::f32;
  std::optional<BlockFormat> blocks = {};  // the storage of a frozen matrix in blocks
  std::optional<Shape> in_files = {};      // see ParameterInfo
};

// The properties of a parameter. Its value's name is stable across versions and is the one in a Hugging Face file.
struct ParameterInfo {
  Initializer initializer;
  ParameterKind kind = ParameterKind::trained;
  bool decay = false;         // weight decay applies (tensors of two or more axes)
  bool table = false;         // an embedding, whose rows are looked up
  bool adapter = false;       // of an adapter: the model's files have no such tensor
  bool inputs_first = false;  // of a linear layer with an adapter: stored as [inputs, outputs]
  // The shape [outputs, channels, height, width] in files of a convolution's weights, which memory holds as [height, width,
  // channels, outputs] or [height width channels, outputs]; or no axes, for a number. Absent: as in memory.
  std::optional<Shape> in_files = {};
  bool head = false;   // of the last layer of a model of classes
  bool fresh = false;  // new also where the other parameters come from a folder
  // A frozen matrix in blocks: the value is u8 [stored bytes]. Loading encodes them.
  std::optional<BlockMatrix> blocks = {};
};

// One of the processes that train together.
struct RankShare {
  int rank = 0, ranks = 1;

  friend bool operator==(const RankShare&, const RankShare&) = default;
};

// The part of a tensor that a rank holds: flat elements [begin, end).
struct Shard {
  Shape whole;
  std::int64_t begin = 0, end = 0;
  // The bounds of all ranks, for a tensor that the first rank reads whole: rank k holds [cuts[k], cuts[k + 1]). Else empty.
  std::vector<std::int64_t> cuts = {};
};

struct Value {
  Symbol name;     // for people: "h.3.attn.qkv"
  ValueType type;  // logical shape and storage dtype
  Role role = Role::activation;
  std::optional<Section> section;  // empty: persistent, lives across steps
  std::uint8_t tier = 0;           // tier of a persistent value; 0: the tier of the kernels
  NodeId producer;                 // invalid for persistent values and for inputs of a section
  std::optional<ParameterInfo> parameter;
  ValueId clone_of;                    // the forward value recomputed by this one
  ValueId version_of;                  // the persistent value updated to this version
  ValueId replica_of;                  // the same value of the last micro-batch of the group
  ValueId copy_of;                     // the persistent value on another tier, copied here temporarily
  std::shared_ptr<const Shard> shard;  // of a persistent value that is a part of a tensor; else null

  bool persistent() const { return !section.has_value(); }
  // True if the value comes from outside at the start of the section.
  bool fed_in(Section other) const { return role == Role::input && section == other && !producer.valid(); }
  Bytes bytes() const { return Bytes{dense_bytes(type.shape, type.dtype)}; }
};

// The shape of a parameter as a tensor of numbers, for any storage format.
Shape tensor_shape(const Value& parameter);
// Changes the storage of a frozen matrix to blocks.
void store_in_blocks(Value& parameter, BlockFormat format);

struct Node {
  const OpDef* op = nullptr;
  Attributes attributes;
  std::vector<ValueId> inputs, outputs;
  ValueId pages;  // the room for streaming inputs from another tier; the op does not see it
  Section section = Section::micro;
  bool backward = false;
  // The model line of the node: "h.3.mlp.c_fc". Gradients and clones have the line of their forward node.
  Symbol line;
  // The random site, fixed when the model is built and copied by clones; 0 if the op draws no noise.
  std::uint64_t site = 0;
  NodeId gradient_of;  // the forward node whose gradient a backward node computes; invalid if there is no single one
  NodeId clone_of;
  NodeId replica_of;  // the same node of the last micro-batch of the group
};

struct Graph {
  PerValue<Value> values;
  PerNode<Node> nodes;
  std::vector<NodeId> order;     // every node once; inputs before outputs; sections in their order
  std::vector<ValueId> results;  // read from outside after each run of their section (loss total, gradient norm, logits)

  std::vector<ForwardPass> forward;

  std::vector<Section> sections() const;
  std::string_view name(Section section) const;
  // True if the runs of a section add up: the first run writes, later ones add.
  bool sums(Section section) const;
  // The section of the forward pass of this name, if there is one.
  std::optional<Section> find_forward(std::string_view name) const;
  std::vector<NodeId> section_order(Section section) const;
  std::vector<ValueId> parameters() const;
  ValueId find(std::string_view name) const;  // first value of this name, invalid if none
};

// Groups the nodes by section, in the order of sections; keeps the order within a section.
void sort_sections(Graph& graph);

// Alias pairs of a node as value ids. A node may not overwrite a value that it also reads at a position without a pair.
struct NodeAlias {
  ValueId input, output;
  AliasKind kind;
};
std::vector<NodeAlias> aliases_of(const Graph& graph, const Node& node);

// The value at the end of a chain of views; the value itself if it is no view.
ValueId without_views(const Graph& graph, ValueId value);

// The bytes of its origin before the first byte of a value.
Bytes offset_in_origin(const Graph& graph, ValueId value);

// The value whose bytes a value has: views, updated versions and copies from another tier are resolved to their source.
ValueId origin_of(const Graph& graph, ValueId value);

std::vector<ValueType> types_of(const Graph& graph, const std::vector<ValueId>& values);

// Checks the rules of every graph. Each value is produced once and defined before its use; results are produced. No node reads a
// value after its bytes were updated in place, through this value or another view. Sections are not mixed; inferred types equal
// stated ones. Each random op of a section has a site of its own; gradients, clones and replicas have that of their forward node.
// Throws an internal error that names the node.
void verify(const Graph& graph);

// One line per value without a producer, "%2 f32(2, 3) x : batch of micro", and per node: "micro: %4 f32(2, 3) h.0.mlp.gelu =
// gelu[](%3) @0", with the random site after the @. Canonical: its hash is the graph's.
std::string to_text(const Graph& graph);
std::string graph_hash(const Graph& graph);

}  // namespace plimsoll
