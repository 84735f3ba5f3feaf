// One op case, four uses: its value against a reference, its gradient by finite differences, stray writes, and benchmarks.
// A case says how to call an op: attributes, input types and what to fill them with. The reference of an op computes its outputs
// naively in fp64 from the fp64 images of its inputs; it knows nothing of kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "graph/op.h"
#include "ops/families.h"

namespace plimsoll {

// How tests that are given an op show it.
inline void PrintTo(const OpDef* op, std::ostream* out) { *out << op->name; }

}  // namespace plimsoll

namespace plimsoll::test {

using Numbers = std::vector<double>;  // the elements of a value, whatever its dtype

// Uniform in [low, high), or whole numbers of [low, high) for integers. `gap`: magnitudes below it are moved away from zero, for
// functions with a kink there.
struct Fill {
  double low = -1, high = 1, gap = 0;
};

struct CaseInput {
  ValueType type;
  Fill fill;
  bool differentiable = false;
};

struct ReferenceCall {
  const Attributes& attributes;
  TypeSpan inputs, outputs;
  std::span<const Numbers> values;  // of the inputs

  const Shape& shape(std::size_t input) const { return inputs[input].shape; }
};
using Reference = std::vector<Numbers> (*)(const ReferenceCall&);

struct OpCase {
  Attributes attributes;
  std::vector<CaseInput> inputs;
  bool overwrite = false;  // the first micro-step of a window: what is updated is written, not read
  int chunks = 1;
  bool rounds_at_random = false;       // narrow results are one of two neighbours, not the nearest one
  std::optional<DType> rounds_within;  // what its results follow from is rounded to this, or finer, on the way
  bool sums_squares = false;           // results in fp64 are sums of squares of elements, as sum_error says
  bool cpu_only = false;               // with such operands no GPU runs the op
  bool benchmark = false;              // of the size of a real model: it is timed, not tested
  // Computes the inputs that follow from others, such as what a backward op gets from its forward op.
  std::function<void(std::vector<Numbers>&)> derive;
};

struct OpCases {
  const OpDef* op = nullptr;
  Reference reference = nullptr;
  std::vector<OpCase> cases;
  // A loss op is the root of a backward pass: nothing flows into its outputs, this input scales the sum of the first one.
  std::optional<std::size_t> root_scale;
};

// Of each family, in its own file.
#define PLIMSOLL_DECLARE(NAME) std::vector<OpCases> NAME##_cases();
PLIMSOLL_OP_FAMILIES(PLIMSOLL_DECLARE, PLIMSOLL_DECLARE)
#undef PLIMSOLL_DECLARE

// Of every op.
const std::vector<OpCases>& all_cases();
// Null where an op has none.
const OpCases* find_cases(const OpDef& op);
// "matmul[transpose_b=true](f32(7, 5), f32(3, 5)) overwrite": what a failing test prints.
std::string describe(const OpDef& op, const OpCase& a_case);

// The largest error that a result of a dtype may have, relative to the largest magnitude of the reference.
constexpr double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-12;
    case DType::f32: return 4e-6;
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    default: return 0;
  }
}

// The largest relative error of a sum of squares that is made of tiles: each addition in fp32 is off by at most 2^-24 of the sum,
// which only grows. A tile is summed in lanes, four at least, then these; the tiles are added in fp64.
double sum_error(std::int64_t elements);

// Inputs as a case asks for, already rounded to their dtypes; equal seeds give equal numbers.
std::vector<Numbers> fill_inputs(const OpCase& a_case, std::uint64_t seed);
std::vector<ValueType> input_types(const OpCase& a_case);
std::vector<ValueType> output_types(const OpDef& op, const OpCase& a_case);

// Between numbers and the bytes of a dense value. Encoding rounds to nearest even.
void encode(const Numbers& numbers, DType dtype, std::byte* bytes);
Numbers decode(const std::byte* bytes, const ValueType& type);
Numbers round_to(const Numbers& numbers, DType dtype);

// Shorthands of the case lists.
inline CaseInput f32(Shape shape, Fill fill = {}) { return {{DType::f32, std::move(shape)}, fill, false}; }
// An input that the gradient is tested for.
inline CaseInput wanted(Shape shape, Fill fill = {}) { return {{DType::f32, std::move(shape)}, fill, true}; }
inline CaseInput f64(Shape shape, Fill fill = {}) { return {{DType::f64, std::move(shape)}, fill, false}; }
inline CaseInput i32(Shape shape, double low, double high) { return {{DType::i32, std::move(shape)}, {low, high}, false}; }
inline CaseInput sample_ids(std::int64_t batch) { return {{DType::u32, Shape{batch, 2}}, {0, 1000}, false}; }
// Of packed rows: make_token_ids fills them.
inline CaseInput token_ids(std::int64_t batch, std::int64_t tokens) {
  return {{DType::u32, Shape{batch, tokens, 3}}, {0, 1000}, false};
}
// Each row of tokens holds three samples; a token has its sample's numbers and its place in it.
void make_token_ids(Numbers& ids, std::size_t tokens);
inline OpCase in_window(OpCase a_case) {
  a_case.overwrite = true;
  return a_case;
}
inline OpCase timed(OpCase a_case) {
  a_case.benchmark = true;
  return a_case;
}

// The same with inputs of another type, whose gradient is not tested.
inline OpCase with_inputs_of(DType dtype, std::vector<std::size_t> inputs, OpCase a_case) {
  for (const std::size_t i : inputs) a_case.inputs[i].type.dtype = dtype;
  for (CaseInput& input : a_case.inputs) input.differentiable = false;
  return a_case;
}

inline std::size_t extent(std::int64_t n) { return static_cast<std::size_t>(n); }
inline std::size_t elements(const ValueType& type) { return extent(type.shape.elements()); }

}  // namespace plimsoll::test
