// One op case, four uses: its value against a reference, its gradient by finite differences, stray writes, and benchmarks.
// A case is a call of an op: attributes, input types and their values. The reference of an op computes its outputs naively in
// fp64 from the inputs converted to fp64, independent of kernels.
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

// The form of an op in the output of tests.
inline void PrintTo(const OpDef* op, std::ostream* out) { *out << op->name; }

}  // namespace plimsoll

namespace plimsoll::test {

using Numbers = std::vector<double>;  // the elements of a value of any dtype

// Uniform in [low, high); whole numbers for integers. `gap`: smaller magnitudes are moved away from zero, for functions with a
// kink there.
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
  std::span<const Numbers> values;  // the inputs

  const Shape& shape(std::size_t input) const { return inputs[input].shape; }
};
using Reference = std::vector<Numbers> (*)(const ReferenceCall&);

struct OpCase {
  Attributes attributes;
  std::vector<CaseInput> inputs;
  bool overwrite = false;  // the first micro-step of a window: updated inputs are written, not read
  int chunks = 1;
  bool rounds_at_random = false;       // narrow results are one of the two neighbours, not the nearest
  std::optional<DType> rounds_within;  // intermediate values are rounded to this dtype or a finer one
  bool sums_squares = false;           // results in fp64 are sums of squares of elements, with the error of sum_error
  bool benchmark = false;              // has the size of a real model: timed, not tested
  // Computes inputs that follow from others, such as the results of the forward op that a backward op reads.
  std::function<void(std::vector<Numbers>&)> derive;
};

struct OpCases {
  const OpDef* op = nullptr;
  Reference reference = nullptr;
  std::vector<OpCase> cases;
  // For a loss op, the root of a backward pass: no gradient flows into its outputs, and this input scales the sum of the first
  // output.
  std::optional<std::size_t> root_scale;
};

// The cases of each family are in a file of the same name.
#define PLIMSOLL_DECLARE(NAME) std::vector<OpCases> NAME##_cases();
PLIMSOLL_OP_FAMILIES(PLIMSOLL_DECLARE, PLIMSOLL_DECLARE)
#undef PLIMSOLL_DECLARE

// The cases of all ops.
const std::vector<OpCases>& all_cases();
// Null if the op has none.
const OpCases* find_cases(const OpDef& op);
// The output of a failing test: "matmul[transpose_b=true](f32(7, 5), f32(3, 5)) overwrite".
std::string describe(const OpDef& op, const OpCase& a_case);

// The maximum error of a result, relative to the largest magnitude of the reference.
constexpr double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-12;
    case DType::f32: return 4e-6;
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    default: return 0;
  }
}

// The maximum relative error of a tiled sum of squares. Each addition in fp32 is off by at most 2^-24 of the sum, which only
// grows. A tile is summed in at least four lanes, then the lanes are added; tiles are added in fp64.
double sum_error(std::int64_t elements);

// The inputs of a case, rounded to their dtypes; equal seeds give equal numbers.
std::vector<Numbers> fill_inputs(const OpCase& a_case, std::uint64_t seed);
std::vector<ValueType> input_types(const OpCase& a_case);
std::vector<ValueType> output_types(const OpDef& op, const OpCase& a_case);

// Conversion between numbers and the bytes of a dense value. Encoding rounds to nearest even.
void encode(const Numbers& numbers, DType dtype, std::byte* bytes);
Numbers decode(const std::byte* bytes, const ValueType& type);
Numbers round_to(const Numbers& numbers, DType dtype);

// Shorthands of the case lists.
inline CaseInput f32(Shape shape, Fill fill = {}) { return {{DType::f32, std::move(shape)}, fill, false}; }
// An input whose gradient is tested.
inline CaseInput wanted(Shape shape, Fill fill = {}) { return {{DType::f32, std::move(shape)}, fill, true}; }
inline CaseInput f64(Shape shape, Fill fill = {}) { return {{DType::f64, std::move(shape)}, fill, false}; }
inline CaseInput i32(Shape shape, double low, double high) { return {{DType::i32, std::move(shape)}, {low, high}, false}; }
inline CaseInput sample_ids(std::int64_t batch) { return {{DType::u32, Shape{batch, 2}}, {0, 1000}, false}; }
// Token ids of packed rows, filled by make_token_ids.
inline CaseInput token_ids(std::int64_t batch, std::int64_t tokens) {
  return {{DType::u32, Shape{batch, tokens, 3}}, {0, 1000}, false};
}
// Each row of tokens holds three samples; a token has the numbers of its sample and its position in it.
void make_token_ids(Numbers& ids, std::size_t tokens);
inline OpCase in_window(OpCase a_case) {
  a_case.overwrite = true;
  return a_case;
}
inline OpCase timed(OpCase a_case) {
  a_case.benchmark = true;
  return a_case;
}

// The same case with inputs of another type, whose gradients are not tested.
inline OpCase with_inputs_of(DType dtype, std::vector<std::size_t> inputs, OpCase a_case) {
  for (const std::size_t i : inputs) a_case.inputs[i].type.dtype = dtype;
  for (CaseInput& input : a_case.inputs) input.differentiable = false;
  return a_case;
}

inline std::size_t extent(std::int64_t n) { return static_cast<std::size_t>(n); }
inline std::size_t elements(const ValueType& type) { return extent(type.shape.elements()); }

}  // namespace plimsoll::test
