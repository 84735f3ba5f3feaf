// Products with a matrix that is decoded on the way: the bits of the decoded copy through the same kernel.
#include "device/cpu/stored_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/philox.h"
#include "device/cpu/gemm_tiled.h"
#include "device/cpu/library_gemm.h"
#include "device/cpu/parallel.h"
#include "tensor/encoded.h"
#include "tensor/half.h"

namespace plimsoll::cpu {
namespace {

// 64-byte aligned memory, followed by bytes that nothing may write.
class Room {
 public:
  explicit Room(std::int64_t bytes)
      : size_(static_cast<std::size_t>(bytes)),
        memory_(static_cast<std::byte*>(std::aligned_alloc(64, (size_ + 127) / 64 * 64))) {
    std::memset(memory_.get(), 0xFF, (size_ + 127) / 64 * 64);
  }
  explicit Room(Bytes bytes) : Room(bytes.n) {}
  std::byte* data() { return memory_.get(); }
  float* floats() { return reinterpret_cast<float*>(memory_.get()); }
  bool intact() const {
    for (std::size_t i = size_; i < (size_ + 127) / 64 * 64; ++i) {
      if (memory_.get()[i] != std::byte{0xFF}) return false;
    }
    return true;
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> memory_;
};

float number(std::int64_t i) { return static_cast<float>(std::sin(0.37 * static_cast<double>(i % 10007) + 1)); }

void fill(float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = number(i);
}

struct Operand {
  StoredMatrix matrix;
  std::vector<std::byte> stored;
  std::vector<float> elements;

  Operand(std::optional<BlockFormat> format, std::int64_t rows, std::int64_t columns)
      : elements(static_cast<std::size_t>(rows * columns)) {
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = number(static_cast<std::int64_t>(i * 3));
    if (!format) {
      matrix = {DType::bf16, {}};
      stored.resize(2 * elements.size());
      for (std::size_t i = 0; i < elements.size(); ++i) {
        const std::uint16_t bits = narrow_bf16(elements[i]);
        std::memcpy(stored.data() + 2 * i, &bits, 2);
      }
    } else {
      matrix = {DType::u8, BlockMatrix{*format, rows, columns}};
      stored.resize(static_cast<std::size_t>(stored_bytes(*matrix.blocks).n));
      encode(*format);
    }
    read_elements(matrix, stored.data(), 0, elements);
  }

 private:
  void encode(BlockFormat format) {
    if (!scales_apart(format)) {  // any byte is a code, and a scale of two equal bytes is sane
      for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<std::byte>(0x20 + mix64(i) % 16);
      return;
    }
    stored = test::encoded(*matrix.blocks, elements);
  }
};

std::string text_of(const GemmShape& shape) {
  return std::to_string(shape.m) + " x " + std::to_string(shape.k) + " x " + std::to_string(shape.n) +
         (shape.transpose_b ? " transposed" : "") + (shape.bias ? " bias" : "");
}

// Forward and, with the transpose, the gradient of the input.
std::vector<GemmShape> shapes(std::int64_t block) {
  std::vector<GemmShape> all;
  for (const bool transposed : {false, true}) {
    for (const bool bias : {false, true}) {
      const std::int64_t width = block > 1 ? 3 * block : 331;
      all.push_back(
          {.m = 37, .n = transposed ? 53 : width, .k = transposed ? width : 53, .transpose_b = transposed, .bias = bias});
      all.push_back({.m = 2,
                     .n = transposed ? 430 : 4 * width,
                     .k = transposed ? 4 * width : 430,
                     .transpose_b = transposed,
                     .bias = bias});
    }
  }
  return all;
}

std::vector<std::optional<BlockFormat>> formats() {
  std::vector<std::optional<BlockFormat>> all{std::nullopt};
  for (const BlockFormat format : kBlockFormats) all.emplace_back(format);
  return all;
}

std::int64_t unit_of(const std::optional<BlockFormat>& format) {
  const bool any = !format || *format == BlockFormat::nf4 || *format == BlockFormat::nf4_nested;
  return any ? 1 : block_elements(*format);
}

TEST(DecodingProduct, HasTheBitsOfTheDecodedCopy) {
  for (const auto& format : formats()) {
    for (const GemmShape& shape : shapes(unit_of(format))) {
      const Operand b(format, shape.transpose_b ? shape.n : shape.k, shape.transpose_b ? shape.k : shape.n);
      SCOPED_TRACE(name(b.matrix) + " " + text_of(shape));
      Room a(4 * shape.m * shape.k), bias(4 * shape.n), dense(4 * shape.k * shape.n);
      fill(a.floats(), shape.m * shape.k), fill(bias.floats(), shape.n);
      std::copy(b.elements.begin(), b.elements.end(), dense.floats());
      for (const int threads : {1, 2}) {
        set_thread_count(threads);
        Room expected(4 * shape.m * shape.n), actual(4 * shape.m * shape.n);
        Room scratch(tiled_gemm_scratch(shape, threads));
        run_tiled_gemm(shape, threads, a.floats(), dense.floats(), bias.floats(), expected.floats(), scratch.data());
        const StoredGemm gemm(shape, b.matrix, threads);
        EXPECT_EQ(gemm.plan().implementation, "tiled " + name(b.matrix));
        EXPECT_EQ(gemm.plan().scratch, plan_stored_gemm(shape, b.matrix, threads).scratch);
        Room decoding(gemm.plan().scratch);
        gemm.run(a.data(), b.stored.data(), bias.floats(), actual.data(), decoding.data());
        EXPECT_EQ(std::memcmp(actual.data(), expected.data(), static_cast<std::size_t>(4 * shape.m * shape.n)), 0);
        EXPECT_TRUE(actual.intact() && decoding.intact());
      }
    }
  }
  set_thread_count(2);
}

// A sum in fp64 over one row of A and one column of B.
double element_of(const GemmShape& shape, const float* a, const Operand& b, std::int64_t row, std::int64_t column) {
  double sum = 0;
  for (std::int64_t i = 0; i < shape.k; ++i) {
    const std::int64_t at = shape.transpose_b ? column * shape.k + i : i * shape.n + column;
    sum += static_cast<double>(a[row * shape.k + i]) * static_cast<double>(b.elements[static_cast<std::size_t>(at)]);
  }
  return sum;
}

// The first rows of each 400, which are some of each band.
std::vector<std::int64_t> rows_of_each_band(const GemmShape& shape) {
  constexpr std::int64_t kEvery = 400, kFirst = 21;
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < shape.m; ++row) {
    if (row % kEvery < kFirst) rows.push_back(row);
  }
  return rows;
}

void expect_strips_agree(const GemmShape& shape, const std::optional<BlockFormat>& format) {
  const Operand b(format, shape.transpose_b ? shape.n : shape.k, shape.transpose_b ? shape.k : shape.n);
  SCOPED_TRACE(name(b.matrix) + " " + text_of(shape));
  const StripGemm gemm(shape, b.matrix, 2);
  EXPECT_EQ(gemm.plan().scratch, StripGemm::plan_of(shape, b.matrix, 2).scratch);
  Room a(4 * shape.m * shape.k), bias(4 * shape.n), c(4 * shape.m * shape.n), scratch(gemm.plan().scratch);
  fill(a.floats(), shape.m * shape.k), fill(bias.floats(), shape.n);
  gemm.run(a.data(), b.stored.data(), bias.floats(), c.data(), scratch.data());
  EXPECT_TRUE(c.intact() && scratch.intact());
  for (const std::int64_t row : rows_of_each_band(shape)) {
    for (std::int64_t column = 0; column < shape.n; ++column) {
      const double expected = bias.floats()[column] + element_of(shape, a.floats(), b, row, column);
      ASSERT_NEAR(c.floats()[row * shape.n + column], expected, 2e-3) << row << ", " << column;
    }
  }
}

// Of fp32, which every processor multiplies. The strips of the second shape are several, the last one shorter; those of the last
// one have several bands, too.
TEST(StripProduct, AgreesWithTheWholeProduct) {
  set_thread_count(2);
  for (GemmShape shape : {GemmShape{.m = 9, .n = 70, .k = 65, .bias = true}, GemmShape{.m = 5, .n = 901, .k = 1300, .bias = true},
                          GemmShape{.m = 803, .n = 1300, .k = 700, .bias = true}}) {
    for (const bool transposed : {false, true}) {
      shape.transpose_b = transposed;
      expect_strips_agree(shape, std::nullopt);
      expect_strips_agree(shape, BlockFormat::nf4_nested);
      expect_strips_agree(shape, BlockFormat::int8);
    }
  }
}

TEST(StripProduct, TakesAtMostFourMebibytes) {
  for (const std::int64_t k : {64, 1536, 8960, 70000}) {
    const GemmShape shape{.m = 4, .n = 4000, .k = k};
    const GemmPlan plan = StripGemm::plan_of(shape, {DType::bf16, {}}, 2);
    Bytes product;  // of a strip of any number of columns
    for (std::int64_t n = 1; n <= shape.n; n = n < 64 ? n + 1 : n + 64)
      product = std::max(product, plan_gemm({.m = 4, .n = n, .k = k}, 2).scratch);
    EXPECT_LE(plan.scratch.n, (std::int64_t{4} << 20) + align_up(product, kCacheLine).n) << k;
  }
}

// If the library multiplies 16-bit numbers, it does so for a B of several strips too. Our kernel would be several times slower.
TEST(StripProduct, ReachesTheLibraryWhereverItMultiplies16Bits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const bool transposed : {false, true}) {
      for (const std::int64_t k : {1536, 8960}) {
        GemmShape shape{.m = 1024, .n = 8960, .k = k, .transpose_b = transposed, .operands = dtype, .result = dtype};
        const StoredMatrix matrix{DType::u8,
                                  BlockMatrix{BlockFormat::nf4, transposed ? shape.n : shape.k, transposed ? shape.k : shape.n}};
        const bool library = LibraryGemm::plan_of(shape, 2).has_value();
        const std::string chosen = plan_stored_gemm(shape, matrix, 2).implementation;
        EXPECT_EQ(chosen.starts_with("strips"), library) << chosen << " " << text_of(shape);
      }
    }
  }
}

// The product runs in strips of the library if that multiplies 16-bit numbers, else in our kernel. Both round the elements.
TEST(NarrowProduct, RoundsTheElements) {
  set_thread_count(2);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const GemmShape shape{.m = 3, .n = 40, .k = 70, .transpose_b = true, .operands = dtype, .result = dtype};
    const Operand b(BlockFormat::nf4, shape.n, shape.k);
    const StoredGemm gemm(shape, b.matrix, 2);
    EXPECT_EQ(gemm.plan().implementation, plan_stored_gemm(shape, b.matrix, 2).implementation);
    Room a(2 * shape.m * shape.k), c(2 * shape.m * shape.n), scratch(gemm.plan().scratch);
    const auto narrow = [&](float x) { return dtype == DType::bf16 ? narrow_bf16(x) : narrow_f16(x); };
    const auto wide = [&](std::uint16_t x) { return dtype == DType::bf16 ? widen_bf16(x) : widen_f16(x); };
    auto *bits_a = reinterpret_cast<std::uint16_t*>(a.data()), *bits_c = reinterpret_cast<std::uint16_t*>(c.data());
    for (std::int64_t i = 0; i < shape.m * shape.k; ++i) bits_a[i] = narrow(number(i));
    gemm.run(a.data(), b.stored.data(), nullptr, c.data(), scratch.data());
    EXPECT_TRUE(c.intact() && scratch.intact());
    for (std::int64_t row = 0; row < shape.m; ++row) {
      for (std::int64_t column = 0; column < shape.n; ++column) {
        double sum = 0;
        for (std::int64_t i = 0; i < shape.k; ++i) {
          const float element = b.elements[static_cast<std::size_t>(column * shape.k + i)];
          sum += static_cast<double>(wide(bits_a[row * shape.k + i])) * static_cast<double>(wide(narrow(element)));
        }
        EXPECT_NEAR(wide(bits_c[row * shape.n + column]), sum, 0.004 * std::abs(sum) + 1e-3);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::cpu
