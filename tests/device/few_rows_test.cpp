// Products of few rows, against fp64 and bit by bit. A block gives the result of its decoded elements. A row does not depend on
// other rows, and nothing depends on the number of threads.
#include "device/cpu/few_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "ops/cases/stored_matrix.h"
#include "ops/kernel_buffers.h"
#include "tensor/half.h"

namespace plimsoll::cpu {
namespace {

struct Operand {
  StoredMatrix matrix;
  Guarded<std::byte> stored;
  std::vector<float> elements;  // as fp32
};

// `rows` x `columns` as stored.
Operand numbers_of(DType dtype, std::int64_t rows, std::int64_t columns) {
  const std::int64_t n = rows * columns, size = size_of(dtype);
  Operand operand{{dtype, {}}, Guarded<std::byte>(n * size), std::vector<float>(static_cast<std::size_t>(n))};
  const Floats random = random_floats(n, 11);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint16_t bits = dtype == DType::bf16 ? narrow_bf16(random[i]) : narrow_f16(random[i]);
    std::memcpy(operand.stored.data() + i * size, dtype == DType::f32 ? static_cast<const void*>(&random[i]) : &bits,
                static_cast<std::size_t>(size));
  }
  read_elements(operand.matrix, operand.stored.data(), 0, operand.elements);
  return operand;
}

Operand blocks_of(BlockFormat format, std::int64_t rows, std::int64_t columns) {
  const BlockMatrix matrix{format, rows, columns};
  test::Numbers bytes;
  test::fill_blocks(matrix, bytes);
  Operand operand{{DType::u8, matrix},
                  Guarded<std::byte>(static_cast<std::int64_t>(bytes.size())),
                  std::vector<float>(static_cast<std::size_t>(rows * columns))};
  for (std::size_t i = 0; i < bytes.size(); ++i) operand.stored[static_cast<std::int64_t>(i)] = static_cast<std::byte>(bytes[i]);
  read_elements(operand.matrix, operand.stored.data(), 0, operand.elements);
  return operand;
}

Floats product(const GemmShape& shape, const StoredMatrix& matrix, const std::byte* w, const Floats& a, const Floats& bias) {
  Floats c(shape.m * shape.n, NAN);
  multiply_few_rows(FewRows(shape, matrix), a.data(), w, shape.bias ? bias.data() : nullptr, c.data());
  return c;
}

std::string text_of(const StoredMatrix& matrix, const GemmShape& shape) {
  return name(matrix) + " " + std::to_string(shape.m) + " x " + std::to_string(shape.k) + " x " + std::to_string(shape.n) +
         (shape.transpose_b ? " transposed" : "") + (shape.bias ? " bias" : "");
}

void expect_reference(const GemmShape& shape, const Operand& w, const Floats& a, const Floats& bias, const Floats& c) {
  for (std::int64_t row = 0; row < shape.m; ++row) {
    for (std::int64_t column = 0; column < shape.n; ++column) {
      double sum = shape.bias ? bias[column] : 0, size = std::abs(sum) + 1e-30;
      for (std::int64_t i = 0; i < shape.k; ++i) {
        const std::int64_t at = shape.transpose_b ? column * shape.k + i : i * shape.n + column;
        const double term = double{a[row * shape.k + i]} * double{w.elements[static_cast<std::size_t>(at)]};
        sum += term, size += std::abs(term);
      }
      ASSERT_NEAR(c[row * shape.n + column], sum, 2e-6 * size) << row << ", " << column;
    }
  }
}

void check(const GemmShape& shape, const Operand& w) {
  SCOPED_TRACE(text_of(w.matrix, shape));
  const Floats a = random_floats(shape.m * shape.k, 3), bias = random_floats(shape.n, 5);
  set_thread_count(2);
  on_every_target([&] {
    const Floats c = product(shape, w.matrix, w.stored.data(), a, bias);
    expect_reference(shape, w, a, bias, c);
    const StoredMatrix wide{DType::f32, {}};
    EXPECT_TRUE(c == product(shape, wide, reinterpret_cast<const std::byte*>(w.elements.data()), a, bias)) << "as fp32";
    set_thread_count(1);
    EXPECT_TRUE(c == product(shape, w.matrix, w.stored.data(), a, bias)) << "on one thread";
    set_thread_count(2);
    GemmShape one = shape;
    one.m = 1;
    Floats row(shape.k);
    std::memcpy(row.data(), a.data() + (shape.m - 1) * shape.k, static_cast<std::size_t>(shape.k) * 4);
    const Floats alone = product(one, w.matrix, w.stored.data(), row, bias);
    EXPECT_EQ(std::memcmp(alone.data(), c.data() + (shape.m - 1) * shape.n, static_cast<std::size_t>(shape.n) * 4), 0);
  });
}

TEST(FewRows, NumbersOfEveryWidth) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool transposed : {false, true}) {
      for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                    {1, 3, 5},
                                    {2, 130, 67},
                                    {3, 257, 96},
                                    {5, 70, 1030},
                                    {7, 1100, 64},
                                    {8, 515, 131},
                                    {1, 700, 576}}) {
        const GemmShape shape{.m = m, .n = n, .k = k, .transpose_b = transposed, .bias = n % 2 == 0};
        check(shape, numbers_of(dtype, transposed ? n : k, transposed ? k : n));
      }
    }
  }
}

TEST(FewRows, BlocksGiveWhatTheirElementsGive) {
  for (const BlockFormat format : kBlockFormats) {
    const std::int64_t block = block_elements(format);
    for (const bool transposed : {false, true}) {
      // The width of a row of W as stored; some scales of a matrix whose scales lie apart are those of two rows.
      std::vector<std::int64_t> widths{block, 3 * block, 2048 + block};
      if (scales_apart(format)) widths.insert(widths.end(), {1, 67, 576, 1100});
      for (const std::int64_t width : widths) {
        for (const std::int64_t m : {1, 3, 8}) {
          const std::int64_t other = 13;
          GemmShape shape{.m = m, .n = other, .k = width, .transpose_b = true, .bias = m == 3};
          if (!transposed) std::swap(shape.n, shape.k), shape.transpose_b = false;
          check(shape, blocks_of(format, other, width));
        }
      }
    }
  }
}

// Columns of a wider C: what lies between its rows stays.
TEST(FewRows, RowsOfTheResultMayLieApart) {
  for (const bool transposed : {false, true}) {
    const GemmShape shape{.m = 4, .n = 37, .k = 50, .transpose_b = transposed};
    const Operand w = numbers_of(DType::f32, transposed ? 37 : 50, transposed ? 50 : 37);
    const Floats a = random_floats(shape.m * shape.k, 3), dense = product(shape, w.matrix, w.stored.data(), a, a);
    FewRows wide(shape, w.matrix);
    wide.stride = 41;
    Floats c(3 * 41 + 37, -7);
    multiply_few_rows(wide, a.data(), w.stored.data(), nullptr, c.data());
    for (std::int64_t i = 0; i < c.size(); ++i) {
      EXPECT_EQ(c[i], i % 41 < 37 ? dense[i / 41 * 37 + i % 41] : -7) << i;
    }
  }
}

TEST(FewRows, TakesPlainProductsOfUpToEightRows) {
  EXPECT_TRUE(has_few_rows({.m = 8, .n = 5, .k = 3, .transpose_b = true, .bias = true}));
  EXPECT_FALSE(has_few_rows({.m = 9, .n = 5, .k = 3}));
  EXPECT_FALSE(has_few_rows({.batch = 2, .m = 1, .n = 5, .k = 3}));
  EXPECT_FALSE(has_few_rows({.m = 1, .n = 5, .k = 3, .transpose_a = true}));
  EXPECT_FALSE(has_few_rows({.m = 1, .n = 5, .k = 3, .accumulate = true}));
  EXPECT_FALSE(has_few_rows({.m = 1, .n = 5, .k = 3, .operands = DType::bf16}));
}

}  // namespace
}  // namespace plimsoll::cpu
