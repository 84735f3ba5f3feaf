// Matrices in blocks on their way in and out: in pieces of any size, the bytes and numbers of the whole.
#include "weights/block_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "device/cpu/parallel.h"
#include "tensor/encoded.h"

namespace plimsoll {
namespace {

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(std::sin(0.1 * static_cast<double>(i * i % 9973)));
  return all;
}

std::vector<BlockMatrix> matrices() {
  std::vector<BlockMatrix> all;
  for (const BlockFormat format : {BlockFormat::int8, BlockFormat::nf4, BlockFormat::nf4_nested}) {
    for (const auto& [rows, columns] : {std::pair{1, 1}, {7, 33}, {64, 64}, {301, 517}, {3, 70001}}) {
      all.push_back({format, rows, columns});
    }
  }
  return all;
}

TEST(BlockStream, YieldsTheSameBytesInPartsOfAnySize) {
  cpu::set_thread_count(2);
  for (const BlockMatrix& matrix : matrices()) {
    const std::vector<float> elements = numbers(matrix.rows * matrix.columns);
    const std::vector<std::byte> expected = test::encoded(matrix, elements);
    for (const std::size_t part : {std::size_t{1} << 30, std::size_t{4096}, std::size_t{999}}) {
      std::int64_t next = 0;
      BlockStream stream(matrix, [&](std::int64_t first, std::span<float> out) {
        EXPECT_EQ(first, next) << "elements are read in order, each once";
        EXPECT_EQ(first % 4, 0);
        next = first + std::ssize(out);
        std::copy_n(elements.begin() + first, out.size(), out.begin());
      });
      std::vector<std::byte> stored(expected.size());
      for (std::size_t at = 0; at < stored.size(); at += part) {
        stream.next(std::span(stored).subspan(at, std::min(part, stored.size() - at)));
      }
      EXPECT_TRUE(stored == expected) << name(matrix.format) << " " << matrix.rows << " x " << matrix.columns << ", " << part;
      EXPECT_EQ(next, matrix.rows * matrix.columns);
    }
  }
}

}  // namespace
}  // namespace plimsoll
