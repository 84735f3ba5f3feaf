#include "ops/shape/kernels.h"

#include "ops/kernel_buffers.h"

namespace plimsoll::cpu {
namespace {

struct Matrices {
  std::int64_t batch, rows, columns;
};

TEST(ShapeKernels, Transpose) {
  on_every_target([] {
    for (const Matrices& s : {Matrices{1, 1, 1}, {1, 7, 3}, {2, 100, 131}, {6, 33, 70}, {1, 768, 513}, {1, 1, 40000}}) {
      const Floats x = random_floats(s.batch * s.rows * s.columns, 1);
      Floats y(x.size());
      transpose(s.batch, s.rows, s.columns, x.data(), y.data());
      bool same = true;
      for (std::int64_t i = 0; i < x.size(); ++i) {
        const std::int64_t matrix = i / (s.rows * s.columns), r = i / s.columns % s.rows, c = i % s.columns;
        same &= y[(matrix * s.columns + c) * s.rows + r] == x[i];
      }
      EXPECT_TRUE(same) << s.batch << " of " << s.rows << " x " << s.columns;
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
