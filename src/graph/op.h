// What an op is, as one value: its types, gradient, cost and effects on memory. Passes ask these properties; none lists ops by
// name. Kernels are elsewhere (ops/*/cpu.cpp): this is all that planning needs.
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
  DType operands = DType::f32;  // of the products that the operations are
};

// How an output relates to the bytes of an input.
enum class AliasKind {
  may_overwrite,  // elementwise: the output may take the input's bytes if the input dies here
  updates,        // the output is the input, changed in place (parameters, moments, statistics): always the same bytes
  accumulates,    // likewise a sum over a window: its first micro-step writes it, whatever was there, later ones add to it
  view,           // the output is the same bytes read under another shape: no instruction
};

constexpr bool in_place(AliasKind kind) { return kind == AliasKind::updates || kind == AliasKind::accumulates; }

struct Alias {
  std::size_t input;
  std::size_t output;
  AliasKind kind;
};

// What a node of graph/transfer.h does; none for all that computes.
enum class Transfer : std::uint8_t { none, fetch, fetched, store, stored };

using TypeSpan = std::span<const ValueType>;

// Of a node that applies a linear layer: y = x W + b. These are positions of inputs.
struct LinearOperands {
  std::size_t x = 0, weight = 1;
  std::optional<std::size_t> bias;
  bool inputs_first = false;  // W is stored as [inputs, outputs], else as [outputs, inputs]
};

// How an op works on its largest operands where they are elsewhere and only a part of each is here: on ranges of their elements,
// one after the other. Outputs that are no ranges, and scratch, stay for all of them.
struct RangeRule {
  std::int64_t step = 1;            // ranges begin at multiples of so many elements, or hold all
  std::vector<std::size_t> inputs;  // of which ranges are here, and of the outputs that they are updated to
  int passes = 1;                   // over all ranges; what is updated is here in the last one only
};

// The elements that one run of a node covers, of those inputs.
struct NodeRange {
  std::int64_t begin = 0, elements = 0;  // 0 elements: all, at once
  int pass = 0;
  bool whole() const { return elements == 0; }
  bool first() const { return begin == 0 && pass == 0; }
};

// A backward op that repeats a rounding of its forward op. It reads an output of the forward op, and gets its attributes by the
// width of the forward op's first output.
struct RoundsAgain {
  std::size_t input = 0;  // of the backward op
  Attributes (*rounded)(const Attributes&, DType to) = nullptr;
};

struct OpDef;

// An op and its attributes, which take a node's place where one of its inputs is stored otherwise.
struct StoredReader {
  const OpDef* op = nullptr;
  Attributes attributes;
};

struct OpDef {
  std::string_view name;

  // Output types from input types; throws config_error E-SHAPE with both shapes where they do not agree.
  std::vector<ValueType> (*infer)(const Attributes&, TypeSpan inputs) = nullptr;
  Cost (*cost)(const Attributes&, TypeSpan inputs, TypeSpan outputs) = nullptr;
  // Emits the nodes of the backward pass; null where `not_differentiable` says why there is none.
  void (*gradient)(GradientContext&) = nullptr;
  std::string_view not_differentiable = {};
  // Of a forward op that accumulates over a window: emits the nodes of the update that take over what it has accumulated.
  void (*at_update)(const WindowEnd&) = nullptr;
  std::vector<Alias> (*aliases)(const Attributes&) = nullptr;  // null: no effect

  RangeRule (*ranges)(const Attributes&, TypeSpan inputs) = nullptr;  // null: needs all operands whole
  // Null, or nothing: with these attributes it is no linear layer.
  std::optional<LinearOperands> (*linear)(const Attributes&) = nullptr;
  // What reads an input that is a frozen matrix, where that is stored in these blocks, or, without any, as bf16. Null, or
  // nothing: this input has to be fp32.
  std::optional<StoredReader> (*reads_stored)(const Attributes&, std::size_t input, const std::optional<BlockMatrix>&) = nullptr;
  // Where the configuration asks for 16 bits: inputs that it takes rounded, all of them; inputs that it takes in either width;
  // and the attributes by which it rounds its first outputs itself. Null: none, and everything is fp32.
  std::vector<std::size_t> (*narrow)(const Attributes&) = nullptr;
  std::vector<std::size_t> (*either)(const Attributes&) = nullptr;
  Attributes (*rounded)(const Attributes&, DType to) = nullptr;
  std::size_t rounds = 1;  // its first outputs that `rounded` rounds, or that are `alike`: all of them or none
  RoundsAgain again = {};

  Transfer transfer = Transfer::none;
  bool elementwise = false;
  bool alike = false;      // its inputs in either width and its first outputs are all of one width
  bool costly = false;     // matrix products and attention: not made again at each reader in turn
  bool random = false;     // draws counter-based noise; a replay yields the same bits
  bool replayable = true;  // false: never recomputed (routing, statistics)
  bool view = false;       // moves no byte and needs no kernel
  bool chunked = false;    // the planner may choose into how many chunks it is split; its results do not depend on it
};

inline std::vector<Alias> aliases_of(const OpDef& op, const Attributes& attributes) {
  return op.aliases == nullptr ? std::vector<Alias>{} : op.aliases(attributes);
}

}  // namespace plimsoll
