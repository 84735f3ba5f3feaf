#include "ops/block_matmul/block_matmul.h"

#include "ops/cases/cases.h"
#include "ops/cases/stored_matrix.h"

namespace plimsoll::test {
namespace {

using ops::BlockMatmulAttributes;

// If x has 16 bits, the elements of W are rounded to its type.
std::vector<Numbers> block_matmul(const ReferenceCall& call) {
  const auto& a = call.attributes.as<BlockMatmulAttributes>();
  const ops::BlockMatmulExtents e = ops::block_matmul_extents(a, call.inputs);
  const std::size_t m = extent(e.m), n = extent(e.n), k = extent(e.k);
  const Numbers w = round_to(elements_of(a.blocks, call.values[1]), call.inputs[0].dtype);
  Numbers y(m * n);
  for (std::size_t row = 0; row < m; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      double sum = a.bias ? call.values[2][column] : 0;
      for (std::size_t i = 0; i < k; ++i) sum += call.values[0][row * k + i] * w[a.transposed ? column * k + i : i * n + column];
      y[row * n + column] = sum;
    }
  }
  return {y};
}

// op(W) is k x n.
OpCase product(Shape x, std::int64_t n, std::optional<BlockFormat> format, bool transposed, bool bias = false) {
  const std::int64_t k = x.last();
  const Shape w = transposed ? Shape{n, k} : Shape{k, n};
  BlockMatmulAttributes attributes{.blocks = {}, .transposed = transposed, .bias = bias};
  if (format) attributes.blocks = BlockMatrix{*format, w[0], w[1]};
  OpCase result{attributes, {wanted(std::move(x)), {{DType::bf16, w}, {}, false}}};
  if (bias) result.inputs.push_back(wanted({n}));
  return format ? with_blocks(*format, 1, std::move(result)) : result;
}

OpCase of_few_rows(OpCase a_case) {
  auto attributes = a_case.attributes.as<BlockMatmulAttributes>();
  attributes.few_rows = true;
  a_case.attributes = attributes;
  return a_case;
}

OpCase of_x(DType dtype, OpCase a_case, bool rounded) {
  auto attributes = a_case.attributes.as<BlockMatmulAttributes>();
  if (rounded) attributes.output = dtype;
  a_case.attributes = attributes;
  return with_inputs_of(dtype, {0}, std::move(a_case));
}

}  // namespace

std::vector<OpCases> block_matmul_cases() {
  std::vector<OpCase> cases;
  std::vector<std::optional<BlockFormat>> formats{std::nullopt};
  for (const BlockFormat format : kBlockFormats) formats.emplace_back(format);
  for (const std::optional<BlockFormat>& format : formats) {
    // Rows of a GGUF matrix are whole blocks; elsewhere blocks straddle rows, and the last one is partial.
    const std::int64_t block = format ? block_elements(*format) : 1;
    const bool whole =
        format && *format != BlockFormat::int8 && *format != BlockFormat::nf4 && *format != BlockFormat::nf4_nested;
    const std::int64_t width = whole ? block : 65;
    cases.push_back(product({7, width}, 33, format, /*transposed=*/true));
    cases.push_back(product({5, 9}, width, format, /*transposed=*/false));
    cases.push_back(product({2, 3, width}, 50, format, /*transposed=*/true, /*bias=*/true));
    for (const bool rounded : {false, true}) {
      cases.push_back(of_x(DType::bf16, product({6, width}, 17, format, /*transposed=*/true, /*bias=*/true), rounded));
      cases.push_back(of_x(DType::bf16, product({6, 10}, width, format, /*transposed=*/false), rounded));
    }
    cases.push_back(of_x(DType::f16, product({3, width}, 5, format, /*transposed=*/true), false));
    // The kernel for few rows: whole blocks, and pieces of them.
    for (const bool bias : {false, true}) {
      cases.push_back(of_few_rows(product({1, width}, 33, format, /*transposed=*/true, bias)));
      cases.push_back(of_few_rows(product({7, 5 * width}, 9, format, /*transposed=*/true, bias)));
      cases.push_back(of_few_rows(product({1, 9}, 3 * width, format, /*transposed=*/false, bias)));
      cases.push_back(of_few_rows(product({8, 70}, width, format, /*transposed=*/false, bias)));
      if (!whole) cases.push_back(of_few_rows(product({2, 128}, 192, format, bias)));
    }
  }
  // Several blocks of k, strips of columns and pieces of rows; the last of each is partial.
  for (const bool transposed : {false, true}) {
    cases.push_back(product({9, 1000}, 451, BlockFormat::nf4_nested, transposed));
    cases.push_back(product({1, 777}, 403, BlockFormat::int8, transposed));
    cases.push_back(product({1, 1}, 1, BlockFormat::nf4, transposed));
  }
  for (const bool transposed : {false, true}) {
    for (const auto& format : formats) cases.push_back(timed(of_few_rows(product({1, 1536}, 2048, format, transposed))));
  }
  for (const std::int64_t rows : {1, 1024}) {
    for (const bool transposed : {false, true}) {
      for (const auto& format : {std::optional<BlockFormat>(), std::optional(BlockFormat::nf4_nested),
                                 std::optional(BlockFormat::int8), std::optional(BlockFormat::q4_k)}) {
        cases.push_back(timed(product({rows, 1536}, 2048, format, transposed)));
      }
    }
  }
  return {{&ops::kBlockMatmul, block_matmul, std::move(cases), {}}};
}

}  // namespace plimsoll::test
