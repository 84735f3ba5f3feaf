#include "ops/adapter/adapter.h"

#include <cmath>
#include <utility>

#include "base/ceil_div.h"

#include "ops/cases/cases.h"
#include "ops/cases/stored_matrix.h"

namespace plimsoll::test {
namespace {

std::vector<Numbers> sum_paths(const ReferenceCall& call) {
  Numbers sum = call.values[0];
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += call.values[1][i];
  return {sum};
}

std::vector<Numbers> magnitude(const ReferenceCall& call) {
  const bool bias = call.attributes.as<ops::MagnitudeAttributes>().bias;
  const std::size_t width = call.values[1].size();
  Numbers y = call.values[0];
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t column = i % width;
    const double offset = bias ? call.values[3][column] : 0;
    y[i] = (y[i] - offset) * call.values[1][column] / call.values[2][column] + offset;
  }
  return {y};
}

std::vector<Numbers> magnitude_backward(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::MagnitudeAttributes>();
  const Numbers &dy = call.values[0], &x = call.values[1], &norms = call.values[2];
  Numbers dm = a.accumulate ? call.values.back() : Numbers(norms.size(), 0);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const std::size_t column = i % norms.size();
    dm[column] += dy[i] * (x[i] - (a.bias ? call.values[3][column] : 0)) / norms[column];
  }
  return {dm};
}

std::vector<Numbers> row_norms(const ReferenceCall& call) {
  const auto& attributes = call.attributes.as<ops::RowNormAttributes>();
  const Numbers w = elements_of(attributes.blocks, call.values[1]), &a = call.values[2], &b = call.values[3];
  const std::size_t rank = extent(call.shape(2)[0]), columns = extent(call.shape(2)[1]), rows = extent(call.shape(3)[0]);
  Numbers norms(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    double square = 0;
    for (std::size_t column = 0; column < columns; ++column) {
      double changed = attributes.inputs_first ? w[column * rows + row] : w[row * columns + column];
      for (std::size_t k = 0; k < rank; ++k) changed += attributes.scale * b[row * rank + k] * a[k * columns + column];
      square += changed * changed;
    }
    norms[row] = std::sqrt(square);
  }
  return {norms};
}

constexpr Fill kPositive{0.5, 2};

OpCase magnitude_case(const Shape& shape, bool bias) {
  const Shape row{shape.last()};
  OpCase result{ops::MagnitudeAttributes{.bias = bias}, {wanted(shape), wanted(row), f32(row, kPositive)}};
  if (bias) result.inputs.push_back(f32(row));
  return result;
}

OpCase backward_case(const Shape& shape, bool bias, bool accumulate) {
  const Shape row{shape.last()};
  OpCase result{ops::MagnitudeAttributes{bias, accumulate}, {f32(shape), f32(shape), f32(row, kPositive)}};
  if (bias) result.inputs.push_back(f32(row));
  if (accumulate) result.inputs.push_back(f32(row));
  return result;
}

OpCase norms_case(std::int64_t rows, std::int64_t columns, std::int64_t rank, bool inputs_first) {
  const Shape w = inputs_first ? Shape{columns, rows} : Shape{rows, columns};
  return {ops::RowNormAttributes{0.75, inputs_first}, {f32({rows}), f32(w), f32({rank, columns}), f32({rows, rank})}};
}

// Rows of a GGUF matrix are whole blocks; elsewhere blocks straddle rows, and the last one is partial.
OpCase norms_in_blocks(BlockFormat format, std::int64_t lines, std::int64_t width, bool inputs_first) {
  const std::int64_t of_line = scales_apart(format) ? width : round_up(width, block_elements(format));
  OpCase result = inputs_first ? norms_case(of_line, lines, 3, true) : norms_case(lines, of_line, 3, false);
  auto attributes = result.attributes.as<ops::RowNormAttributes>();
  attributes.blocks = BlockMatrix{format, lines, of_line};
  result.attributes = attributes;
  return with_blocks(format, 1, std::move(result));
}

std::vector<OpCase> with_narrow(std::vector<OpCase> cases, const std::vector<std::size_t>& inputs) {
  const std::vector<OpCase> wide = cases;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const OpCase& each : wide) cases.push_back(with_inputs_of(dtype, inputs, each));
  }
  return cases;
}

}  // namespace

std::vector<OpCases> adapter_cases() {
  std::vector<OpCase> sums, magnitudes, gradients, norms;
  for (const Shape& shape : {Shape{1}, Shape{7, 1}, Shape{65, 7}, Shape{2, 7, 65}, Shape{3, 43, 1030}}) {
    sums.push_back({ops::NoAttributes{}, {wanted(shape), wanted(shape)}});
    for (const bool bias : {false, true}) {
      magnitudes.push_back(magnitude_case(shape, bias));
      gradients.push_back(backward_case(shape, bias, false));
      gradients.push_back(backward_case(shape, bias, true));
      gradients.push_back(in_window(backward_case(shape, bias, true)));
    }
  }
  for (const bool inputs_first : {false, true}) {
    norms.push_back(norms_case(1, 1, 1, inputs_first));
    norms.push_back(norms_case(7, 65, 3, inputs_first));
    norms.push_back(norms_case(300, 129, 8, inputs_first));
    norms.push_back(norms_case(40, 2100, 2, inputs_first));
  }
  std::vector<OpCase> in_blocks;
  for (const BlockFormat format : kBlockFormats) {
    for (const bool inputs_first : {false, true}) {
      in_blocks.push_back(norms_in_blocks(format, 7, 65, inputs_first));
      in_blocks.push_back(norms_in_blocks(format, 40, 2100, inputs_first));
    }
  }
  const Shape large{4096, 768};
  std::vector<OpCase> all_sums = with_narrow(sums, {0, 1}), all_magnitudes = with_narrow(magnitudes, {0});
  std::vector<OpCase> all_gradients = with_narrow(gradients, {0, 1}), all_norms = with_narrow(norms, {1});
  all_sums.push_back(timed({ops::NoAttributes{}, {f32(large), f32(large)}}));
  all_magnitudes.push_back(timed(magnitude_case(large, true)));
  all_gradients.push_back(timed(backward_case(large, true, true)));
  all_norms.insert(all_norms.end(), in_blocks.begin(), in_blocks.end());
  all_norms.push_back(timed(norms_case(3072, 768, 16, false)));
  return {{&ops::kSumPaths, sum_paths, all_sums, {}},
          {&ops::kMagnitude, magnitude, all_magnitudes, {}},
          {&ops::kMagnitudeBackward, magnitude_backward, all_gradients, {}},
          {&ops::kRowNorms, row_norms, all_norms, {}}};
}

}  // namespace plimsoll::test
