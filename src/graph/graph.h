// The one intermediate representation: typed values, each produced once, and the nodes that produce them, in an order that can
// run. A training step has the sections `micro` (runs k times) and `update` (runs once); `evaluate` and `generate` are forward
// only. Persistent values (parameters, accumulators, optimizer state, staging) live across steps and belong to no section.
#pragma once

#include <array>
#include <cstdint>
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

// A pass that changes no parameter: an evaluation, a generation.
struct ForwardPass {
  std::string name;   // also that of its section and of its phase
  bool sums = false;  // over its runs; the first of them writes what the others add to
};

// Who owns the bytes of a value in the tables that a user reads.
enum class Role : std::uint8_t {
  parameter,
  accumulator,
  optimizer_state,
  staging,
  pages,  // room for what rests on another tier while kernels read or write it
  input,
  activation,
  gradient,
  recomputed,
  output,
  cache,     // of generation: what later tokens read of earlier ones
  statistic  // with its sums over a window: small, and always where kernels run
};
std::string_view name(Role role);

// Where the parts of a value live when there are several ranks; one rank holds everything replicated.
struct Placement {
  enum class Kind : std::uint8_t { replicated, sharded, partial } kind = Kind::replicated;
  int axis = -1;
  friend bool operator==(const Placement&, const Placement&) = default;
};

struct Initializer {
  enum class Kind : std::uint8_t { zeros, ones, normal, uniform } kind = Kind::zeros;
  double std = 0;  // of the last two, around zero
  friend bool operator==(const Initializer&, const Initializer&) = default;
};

enum class ParameterKind : std::uint8_t {
  trained,
  frozen,    // no gradient, accumulator or state, and nothing changes it; a checkpoint has its source and its hash
  statistic  // no gradient, accumulator or state either; ops of a training pass change it, a checkpoint has its bytes
};

// What a family says of a parameter where it declares one.
struct ParameterSpec {
  Shape shape;
  Initializer initializer = {};
  ParameterKind kind = ParameterKind::trained;
  DType storage = DType::f32;
  std::optional<BlockFormat> blocks = {};  // of a frozen matrix: how it is stored
};

// What only a parameter has. The name is stable across versions and is the one in a Hugging Face file.
struct ParameterInfo {
  Initializer initializer;
  ParameterKind kind = ParameterKind::trained;
  bool decay = false;         // weight decay applies (tensors of two or more axes)
  bool table = false;         // rows of it are looked up: an embedding
  bool adapter = false;       // beside the model: its own files have no such tensor
  bool inputs_first = false;  // of a linear layer with an adapter: stored as [inputs, outputs]
  // Of a frozen matrix: the value holds its blocks, u8 [stored bytes]. Loading encodes them.
  std::optional<BlockMatrix> blocks = {};
};

struct Value {
  Symbol name;     // "h.3.attn.qkv": what it is, for people
  ValueType type;  // logical shape and storage dtype
  Role role = Role::activation;
  std::optional<Section> section;  // empty: persistent, lives across steps
  Placement placement;
  std::uint8_t tier = 0;              // where a persistent value rests; 0: where kernels run
  std::string_view format = "dense";  // opaque storage format; its bytes are stated by the kernel catalogue
  NodeId producer;                    // invalid: persistent, or fed from outside at the start of its section
  std::optional<ParameterInfo> parameter;
  ValueId clone_of;    // the forward value that this one recomputes
  ValueId version_of;  // the persistent value that this one is an updated version of
  ValueId replica_of;  // the same value of the last micro-batch of those that go together
  ValueId copy_of;     // the persistent value on another tier whose bytes these are, here for a while

  bool persistent() const { return !section.has_value(); }
  // Whether it comes from outside, at the start of that section.
  bool fed_in(Section other) const { return role == Role::input && section == other && !producer.valid(); }
  Bytes bytes() const { return Bytes{dense_bytes(type.shape, type.dtype)}; }
};

// What a parameter is as a tensor of numbers, however these are stored.
Shape tensor_shape(const Value& parameter);
// Makes a frozen matrix one that is stored in blocks.
void store_in_blocks(Value& parameter, BlockFormat format);

struct Node {
  const OpDef* op = nullptr;
  Attributes attributes;
  std::vector<ValueId> inputs, outputs;
  ValueId pages;  // the room through which inputs stream that rest on another tier; the op knows nothing of it
  Section section = Section::micro;
  bool backward = false;
  // The model line that made it: "h.3.mlp.c_fc". Gradients and clones carry the line of their forward node.
  Symbol line;
  // The random site, fixed when the model is built and copied by clones; 0 where the op draws no noise.
  std::uint64_t site = 0;
  NodeId gradient_of;  // of a backward node: the forward node whose gradient it computes; invalid where no single one is
  NodeId clone_of;
  NodeId replica_of;  // the same node of the last micro-batch of those that go together
};

struct Graph {
  PerValue<Value> values;
  PerNode<Node> nodes;
  std::vector<NodeId> order;     // every node once; inputs before outputs; sections in their order
  std::vector<ValueId> results;  // read from outside after each run of their section (loss total, gradient norm, logits)

  std::vector<ForwardPass> forward;

  std::vector<Section> sections() const;
  std::string_view name(Section section) const;
  // Whether runs of a section add up, of which the first writes.
  bool sums(Section section) const;
  // The section of the forward pass of that name, if there is one.
  std::optional<Section> find_forward(std::string_view name) const;
  std::vector<NodeId> section_order(Section section) const;
  std::vector<ValueId> parameters() const;
  ValueId find(std::string_view name) const;  // first value of that name, invalid if none
};

// Moves the nodes of each section together, in the order of sections; keeps the order within a section.
void sort_sections(Graph& graph);

// Alias pairs of a node, as value ids. What the node reads a second time, at a position without such a pair, it may not
// overwrite.
struct NodeAlias {
  ValueId input, output;
  AliasKind kind;
};
std::vector<NodeAlias> aliases_of(const Graph& graph, const Node& node);

// What a value is a view of, however often; itself where it is none.
ValueId without_views(const Graph& graph, ValueId value);

// What a value is in bytes: views, updated versions and copies from another tier are what they come from.
ValueId origin_of(const Graph& graph, ValueId value);

std::vector<ValueType> types_of(const Graph& graph, const std::vector<ValueId>& values);

// Rules that every graph obeys: single production, definition before use, results produced, no use after an update in place
// (of the value or of another view of its bytes), sections not mixed, inferred types equal stated ones, a site of its own for
// each random op of a section (gradients, clones and replicas have that of their forward node). Throws an internal error that
// names the node.
void verify(const Graph& graph);

// One line per value that no node makes, "%2 f32(2, 3) x : batch of micro", and per node: "micro: %4 f32(2, 3) h.0.mlp.gelu =
// gelu[](%3) @0", with the random site behind the @. Canonical: its hash is the graph's.
std::string to_text(const Graph& graph);
std::string graph_hash(const Graph& graph);

}  // namespace plimsoll
