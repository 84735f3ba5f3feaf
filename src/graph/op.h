// The definition of an op as one value: its types, gradient, cost and effects on memory. Passes ask these properties; none lists
// ops by name. Planning needs nothing else; kernels are in ops/*/cpu.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/attributes.h"
#include "tensor/block_format.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace plimsoll {

// graph/gradient.h; declared here because these rules are the op's properties
class GradientContext;
struct WindowEnd;

struct ValueType {
  DType dtype = DType::f32;
  Shape shape;
  friend bool operator==(const ValueType&, const ValueType&) = default;
};

// Arithmetic operations and bytes read and written by one run of an op, for the roofline.
struct Cost {
  double flops = 0;
  double bytes = 0;
  DType operands = DType::f32;  // of the products
};

// The relation of an output to the bytes of an input.
enum class AliasKind {
  may_overwrite,  // elementwise: the output may take the input's bytes if the input dies here
  updates,        // the output is the input, changed in place (parameters, moments, statistics)
  accumulates,    // the output is the input as a sum over a window: its first micro-step writes it, later ones add to it
  view,           // the output has the input's bytes under another shape: no instruction
};

constexpr bool in_place(AliasKind kind) { return kind == AliasKind::updates || kind == AliasKind::accumulates; }

struct Alias {
  std::size_t input;
  std::size_t output;
  AliasKind kind;
};

// The kind of a node of graph/transfer.h; none for nodes that compute.
enum class Transfer : std::uint8_t { none, fetch, fetched, store, stored };

// The kind of a node of graph/exchange.h, which moves bytes between ranks; none for all others.
enum class Exchange : std::uint8_t { none, sum_shards, gather_shards, fetch_shards, gather_values, sum_all };

using TypeSpan = std::span<const ValueType>;

// The positions of the inputs of a linear layer, y = x W + b.
struct LinearOperands {
  std::size_t x = 0, weight = 1;
  std::optional<std::size_t> bias;
  bool inputs_first = false;  // W is stored as [inputs, outputs], else as [outputs, inputs]
};

// The rule of an op for its largest operands if these rest on another tier: it works on ranges of their elements, one after the
// other. Scratch and all other outputs stay in place over all ranges.
struct RangeRule {
  std::int64_t step = 1;            // ranges begin at multiples of `step` elements, or hold all
  std::vector<std::size_t> inputs;  // the operands in ranges; outputs that update them are in ranges, too
  int passes = 1;                   // over all ranges; updated operands are present in the last pass only
};

// The elements of the range inputs that one run of a node covers.
struct NodeRange {
  std::int64_t begin = 0, elements = 0;  // 0 elements: all, at once
  int pass = 0;
  bool whole() const { return elements == 0; }
  bool first() const { return begin == 0 && pass == 0; }
};

// A backward op's repetition of a rounding of its forward op. It reads an output of the forward op; the width of the forward op's
// first output sets its attributes.
struct RoundsAgain {
  std::size_t input = 0;  // of the backward op
  Attributes (*rounded)(const Attributes&, DType to) = nullptr;
};

struct OpDef;

// An elementwise update of a part of a tensor that begins at any element. `cut` names the inputs that are cut, and the elements
// of the tensor for one element of each.
struct ShardRule {
  struct Operand {
    std::size_t input = 0;
    std::int64_t elements = 1;
  };
  Attributes attributes;  // of the part
  std::vector<Operand> cut;
};

// The op and attributes that replace a node if one of its inputs is stored in another format.
struct StoredReader {
  const OpDef* op = nullptr;
  Attributes attributes;
};

struct OpDef {
  std::string_view name;

  // Output types from input types; throws config_error E-SHAPE with both shapes if they do not agree.
  std::vector<ValueType> (*infer)(const Attributes&, TypeSpan inputs) = nullptr;
  Cost (*cost)(const Attributes&, TypeSpan inputs, TypeSpan outputs) = nullptr;
  // Emits the nodes of the backward pass; null if `not_differentiable` states why there is none.
  void (*gradient)(GradientContext&) = nullptr;
  std::string_view not_differentiable = {};
  // For a forward op that accumulates over a window: emits the nodes of the update that use the accumulated values.
  void (*at_update)(const WindowEnd&) = nullptr;
  std::vector<Alias> (*aliases)(const Attributes&) = nullptr;  // null: no effect

  RangeRule (*ranges)(const Attributes&, TypeSpan inputs) = nullptr;  // null: needs all operands whole
  // The update of the elements from `first` on, a multiple of kNormTile. Null: it needs whole tensors.
  ShardRule (*sharded)(const Attributes&, std::int64_t first) = nullptr;
  // For a view: the element of the input with which the output begins, negative if it begins before the input. Null: 0.
  std::int64_t (*view_begin)(const Attributes&) = nullptr;
  // Null, or an absent result: the op with these attributes is no linear layer.
  std::optional<LinearOperands> (*linear)(const Attributes&) = nullptr;
  // The op that reads a frozen matrix at `input` if it is stored in these blocks or, without blocks, as bf16. Null, or an absent
  // result: the input must be fp32.
  std::optional<StoredReader> (*reads_stored)(const Attributes&, std::size_t input, const std::optional<BlockMatrix>&) = nullptr;
  // For configurations with 16 bits: `narrow` inputs must all be rounded, `either` inputs may have either width, and `rounded`
  // returns the attributes with which the op rounds its first outputs. Null: none, and everything is fp32.
  std::vector<std::size_t> (*narrow)(const Attributes&) = nullptr;
  std::vector<std::size_t> (*either)(const Attributes&) = nullptr;
  Attributes (*rounded)(const Attributes&, DType to) = nullptr;
  std::size_t rounds = 1;  // number of first outputs for `rounded` and `alike`: all of them or none
  RoundsAgain again = {};

  Transfer transfer = Transfer::none;
  Exchange exchange = Exchange::none;
  bool elementwise = false;
  bool alike = false;      // the `either` inputs and the first outputs all have one width
  bool costly = false;     // matrix products and attention: not recomputed for each reader
  bool random = false;     // draws counter-based noise; a replay yields the same bits
  bool replayable = true;  // false: never recomputed (routing, statistics)
  bool view = false;       // moves no byte and needs no kernel
  bool chunked = false;    // the planner chooses the number of chunks; the results do not depend on it
};

inline std::vector<Alias> aliases_of(const OpDef& op, const Attributes& attributes) {
  return op.aliases == nullptr ? std::vector<Alias>{} : op.aliases(attributes);
}

}  // namespace plimsoll
