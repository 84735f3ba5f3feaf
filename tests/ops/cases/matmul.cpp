#include "ops/matmul/matmul.h"

#include <utility>

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

using ops::MatmulAttributes;

// A dense matrix of a batch, read as it is or transposed.
struct Operand {
  const double* data;
  std::size_t columns;  // as stored
  bool transposed;
  double at(std::size_t row, std::size_t column) const {
    return transposed ? data[column * columns + row] : data[row * columns + column];
  }
};

std::vector<Numbers> matmul(const ReferenceCall& call) {
  const auto& a = call.attributes.as<MatmulAttributes>();
  const std::size_t batch = a.batched ? elements(call.inputs[0]) / extent(call.shape(0).last() * call.shape(0).last(1)) : 1;
  const std::size_t total = elements(call.outputs[0]) / batch, a_size = call.values[0].size() / batch,
                    b_size = call.values[1].size() / batch;
  const std::size_t a_columns = extent(call.shape(0).last()), b_columns = extent(call.shape(1).last());
  const std::size_t n = a.transpose_b ? b_size / b_columns : b_columns, m = total / n, k = a_size / m;
  Numbers out = a.accumulate ? call.values.back() : Numbers(batch * total);
  for (std::size_t s = 0; s < batch; ++s) {
    const Operand left{call.values[0].data() + s * a_size, a_columns, a.transpose_a};
    const Operand right{call.values[1].data() + s * b_size, b_columns, a.transpose_b};
    for (std::size_t row = 0; row < m; ++row) {
      for (std::size_t column = 0; column < n; ++column) {
        double sum = a.bias ? call.values[2][column] : 0;
        for (std::size_t i = 0; i < k; ++i) sum += left.at(row, i) * right.at(i, column);
        out[s * total + row * n + column] += sum;
      }
    }
  }
  return {out};
}

// op(a) is m x k, op(b) is k x n.
OpCase product(std::int64_t m, std::int64_t k, std::int64_t n, MatmulAttributes attributes, Shape leading = {}) {
  Shape a = leading, b = leading, c = leading;
  const auto push = [](Shape& shape, std::int64_t rows, std::int64_t columns, bool transposed) {
    if (transposed) std::swap(rows, columns);
    shape.push_back(rows);
    shape.push_back(columns);
  };
  push(a, m, k, attributes.transpose_a);
  push(b, k, n, attributes.transpose_b);
  push(c, m, n, false);
  OpCase result{attributes, {wanted(a), wanted(b)}};
  if (attributes.bias) result.inputs.push_back(wanted({n}));
  if (attributes.accumulate) result.inputs.push_back(f32(c));
  return result;
}

}  // namespace

std::vector<OpCases> matmul_cases() {
  std::vector<OpCase> cases;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const MatmulAttributes plain{.transpose_a = transpose_a, .transpose_b = transpose_b};
      MatmulAttributes adding = plain, batched = plain, biased = plain;
      adding.accumulate = true;
      batched.batched = true;
      biased.bias = true;
      cases.insert(cases.end(), {product(1, 1, 1, plain), product(65, 7, 33, plain), product(7, 65, 1, plain),
                                 product(1, 65, 130, plain), product(7, 65, 17, adding), in_window(product(7, 65, 17, adding)),
                                 product(65, 33, 7, biased), product(7, 5, 9, batched, {3}), product(1, 65, 7, batched, {2, 2})});
    }
  }
  const MatmulAttributes both{.bias = true, .accumulate = true};
  cases.insert(cases.end(), {product(9, 16, 31, both), in_window(product(9, 16, 31, both))});
  // Leading axes that are flattened into rows, in either operand.
  cases.push_back({MatmulAttributes{.bias = true}, {wanted({2, 7, 65}), wanted({65, 5}), wanted({5})}});
  cases.push_back({MatmulAttributes{.transpose_b = true}, {wanted({3, 1, 8}), wanted({65, 8})}});
  cases.push_back({MatmulAttributes{.transpose_a = true}, {wanted({2, 7, 3}), wanted({2, 7, 9})}});
  cases.push_back({MatmulAttributes{.transpose_a = true}, {wanted({2, 7, 3}), wanted({14, 9})}});
  cases.push_back({MatmulAttributes{.transpose_a = true, .accumulate = true}, {f32({2, 7, 3}), f32({2, 7, 9}), f32({3, 9})}});
  cases.push_back({MatmulAttributes{}, {wanted({5, 6}), wanted({2, 3, 4})}});
  // The kernel for few rows.
  for (const bool transpose_b : {false, true}) {
    const MatmulAttributes plain{.transpose_b = transpose_b, .few_rows = true},
        biased{.transpose_b = transpose_b, .bias = true, .few_rows = true};
    for (const OpCase& each :
         {product(1, 1, 1, plain), product(1, 65, 130, plain), product(1, 576, 192, plain), product(3, 130, 1025, biased),
          product(7, 67, 70, biased), product(8, 300, 300, plain), product(9, 65, 33, plain)}) {
      cases.push_back(each);
    }
  }
  // 16-bit operands with even and odd extents.
  const auto narrow = [](DType dtype, const OpCase& a_case) { return with_inputs_of(dtype, {0, 1}, a_case); };
  const auto rounded = [&](DType dtype, OpCase a_case) {
    auto attributes = a_case.attributes.as<MatmulAttributes>();
    attributes.output = dtype;
    a_case.attributes = attributes;
    return narrow(dtype, a_case);
  };
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const MatmulAttributes plain{.transpose_a = transpose_a, .transpose_b = transpose_b};
        MatmulAttributes adding = plain, biased = plain, batched = plain;
        adding.accumulate = biased.bias = batched.batched = true;
        for (const OpCase& each :
             {product(1, 1, 1, plain), product(65, 7, 33, plain), product(130, 64, 96, plain), product(7, 65, 17, adding),
              in_window(product(64, 65, 128, adding)), product(65, 33, 7, biased), product(7, 5, 9, batched, {3})}) {
          cases.push_back(narrow(dtype, each));
          if (!each.attributes.as<MatmulAttributes>().accumulate) cases.push_back(rounded(dtype, each));
        }
      }
    }
  }
  for (const std::int64_t rows : {1, 8}) {
    cases.push_back(timed(product(rows, 576, 1536, {.transpose_b = true, .few_rows = true})));
    cases.push_back(timed(product(rows, 768, 3072, {.bias = true, .few_rows = true})));
  }
  for (const std::int64_t rows : {1024, 4096}) {
    cases.push_back(timed(narrow(DType::bf16, product(rows, 768, 3072, {.bias = true}))));
    cases.push_back(timed(rounded(DType::bf16, product(rows, 768, 3072, {.bias = true}))));
    cases.push_back(timed(narrow(DType::bf16, product(rows, 3072, 768, {.transpose_b = true}))));
    cases.push_back(timed(narrow(DType::bf16, product(768, rows, 3072, {.transpose_a = true, .accumulate = true}))));
    cases.push_back(timed(product(rows, 768, 3072, {.bias = true})));
    cases.push_back(timed(product(rows, 3072, 768, {.transpose_b = true})));
    cases.push_back(timed(product(768, rows, 3072, {.transpose_a = true, .accumulate = true})));
  }
  return {{&ops::kMatmul, matmul, std::move(cases), {}}};
}

}  // namespace plimsoll::test
