#include "ops/shape/kernels.h"

#include <algorithm>

#include "ops/kernel_buffers.h"

namespace plimsoll::cpu {
namespace {

using Extents = std::array<std::int64_t, 4>;

Floats naive_permute(const Extents& extents, const std::array<int, 4>& axes, const Floats& x) {
  const Extents strides{extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
  Floats y(x.size());
  Extents e{}, s{};
  for (std::size_t i = 0; i < 4; ++i)
    e[i] = extents[static_cast<std::size_t>(axes[i])], s[i] = strides[static_cast<std::size_t>(axes[i])];
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < e[0]; ++i)
    for (std::int64_t j = 0; j < e[1]; ++j)
      for (std::int64_t k = 0; k < e[2]; ++k)
        for (std::int64_t l = 0; l < e[3]; ++l) y[at++] = x[i * s[0] + j * s[1] + k * s[2] + l * s[3]];
  return y;
}

TEST(ShapeKernels, EveryPermutation) {
  on_every_target([] {
    for (const Extents& extents : {Extents{2, 3, 4, 5}, Extents{1, 1, 1, 1}, Extents{3, 70, 5, 37}, Extents{2, 33, 1, 70}}) {
      const Floats x = random_floats(extents[0] * extents[1] * extents[2] * extents[3], 1);
      std::array<int, 4> axes{0, 1, 2, 3};
      do {
        Floats y(x.size());
        permute(extents, axes, x.data(), y.data());
        EXPECT_TRUE(y == naive_permute(extents, axes, x)) << axes[0] << axes[1] << axes[2] << axes[3];
      } while (std::next_permutation(axes.begin(), axes.end()));
    }
  });
}

TEST(ShapeKernels, Transpose) {
  on_every_target([] {
    for (const Extents& s :
         {Extents{1, 1, 1}, Extents{1, 7, 3}, Extents{2, 100, 131}, Extents{1, 768, 513}, Extents{1, 1, 40000}}) {
      const Floats x = random_floats(s[0] * s[1] * s[2], 1);
      Floats y(x.size());
      transpose(s[0], s[1], s[2], x.data(), y.data());
      EXPECT_TRUE(y == naive_permute({1, s[0], s[1], s[2]}, {0, 1, 3, 2}, x));
    }
  });
}

TEST(ShapeKernels, CopyMovesEveryByte) {
  for (const std::int64_t n : {1, 63, 65536, 65537, 300001}) {
    Guarded<unsigned char> from(n), to(n);
    for (std::int64_t i = 0; i < n; ++i) from[i] = static_cast<unsigned char>(random_word(1, i));
    copy(Bytes{n}, from.data(), to.data());
    EXPECT_TRUE(from == to);
  }
}

TEST(ShapeKernels, ThreadsChangeNoBit) {
  const Floats x = random_floats(300 * 400, 1);
  expect_same_on_threads([&] {
    Floats y(x.size());
    transpose(1, 300, 400, x.data(), y.data());
    return y;
  });
}

}  // namespace
}  // namespace plimsoll::cpu
