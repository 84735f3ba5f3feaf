#include "ops/reduce/kernels.h"

#include <limits>

#include "ops/kernel_buffers.h"

namespace plimsoll::cpu {
namespace {

struct Matrix {
  std::int64_t rows, n;
};
const std::vector<Matrix> kMatrices{{1, 1}, {3, 5}, {64, 64}, {65, 17}, {300, 130}, {1000, 768}, {5000, 3}};

Floats sum_of_rows(const Floats& x, const Matrix& s, bool accumulate, const Floats& before) {
  Floats out = before.clone();
  Guarded<std::byte> scratch(sum_rows_scratch(s.rows, s.n).n);
  sum_rows(s.rows, s.n, x.data(), accumulate, out.data(), scratch.data());
  return out;
}

TEST(ReduceKernels, SumRowsMatchesDouble) {
  on_every_target([] {
    for (const Matrix& s : kMatrices) {
      const Floats x = random_floats(s.rows * s.n, 1), before = random_floats(s.n, 2);
      const Floats plain = sum_of_rows(x, s, false, before), added = sum_of_rows(x, s, true, before);
      bool near = true, same = true;
      for (std::int64_t c = 0; c < s.n; ++c) {
        double sum = 0;
        for (std::int64_t r = 0; r < s.rows; ++r) sum += double{x[r * s.n + c]};
        near &= std::abs(plain[c] - sum) <= 1e-6 * std::sqrt(static_cast<double>(s.rows)) * 2;
        same &= added[c] == before[c] + plain[c];
      }
      EXPECT_TRUE(near && same) << s.rows << " x " << s.n;
    }
  });
}

TEST(ReduceKernels, SumRowsAddsTilesInAscendingOrder) {
  const Matrix s{200, 37};
  const Floats x = random_floats(s.rows * s.n, 1), zero(s.n);
  on_every_target([&] {
    const Floats out = sum_of_rows(x, s, false, zero);
    for (std::int64_t c = 0; c < s.n; ++c) {
      float total = 0;
      for (std::int64_t begin = 0; begin < s.rows; begin += kRowTile) {
        float sum = x[begin * s.n + c];
        for (std::int64_t r = begin + 1; r < std::min(s.rows, begin + kRowTile); ++r) sum += x[r * s.n + c];
        total = begin == 0 ? sum : total + sum;
      }
      EXPECT_EQ(out[c], total);
    }
  });
}

TEST(ReduceKernels, SumOfSquaresMatchesAndDoesNotDependOnTheInstructionSet) {
  for (const std::int64_t n : {1, 31, 32, 33, 1000, 65536, 65537, 300001}) {
    const Floats x = random_floats(n, 1);
    long double expected = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const long double value = x[i];
      expected += value * value;
    }
    std::vector<std::uint64_t> seen;
    on_every_target([&] {
      Guarded<std::byte> scratch(sum_scratch(n).n);
      const double squares = sum_of_squares(n, x.data(), 0, scratch.data());
      // A running sum adds 2048 products, each addition within 2^-53.
      EXPECT_NEAR(squares, static_cast<double>(expected), 0x1p-42 * squares);
      seen.push_back(std::bit_cast<std::uint64_t>(squares));
    });
    for (const std::uint64_t bits : seen) EXPECT_EQ(bits, seen.front());
  }
}

TEST(ReduceKernels, PagesGiveTheSumOfTheWhole) {
  const std::int64_t n = 5 * kSumTile + 77, cut = 2 * kSumTile;
  const Floats x = random_floats(n, 1);
  Guarded<std::byte> scratch(sum_scratch(n).n);
  const double whole = sum_of_squares(n, x.data(), 0, scratch.data());
  const double first = sum_of_squares(cut, x.data(), 0, scratch.data());
  EXPECT_EQ(sum_of_squares(n - cut, x.data() + cut, first, scratch.data()), whole);
}

TEST(ReduceKernels, NonFiniteShowsInTheSumOfSquares) {
  on_every_target([] {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      Floats x(70000, 1);
      x[69999] = bad;
      Guarded<std::byte> scratch(sum_scratch(x.size()).n);
      EXPECT_FALSE(std::isfinite(sum_of_squares(x.size(), x.data(), 0, scratch.data())));
    }
  });
}

TEST(ReduceKernels, LastAxis) {
  on_every_target([] {
    for (const Matrix& s : kMatrices) {
      const Floats x = random_floats(s.rows * s.n, 1);
      Floats sums(s.rows), means(s.rows);
      reduce_last_axis(s.rows, s.n, false, x.data(), sums.data());
      reduce_last_axis(s.rows, s.n, true, x.data(), means.data());
      bool near = true;
      for (std::int64_t r = 0; r < s.rows; ++r) {
        double sum = 0;
        for (std::int64_t c = 0; c < s.n; ++c) sum += double{x[r * s.n + c]};
        near &= std::abs(sums[r] - sum) <= 1e-7 * std::abs(sum) + 1e-12;
        near &= std::abs(means[r] - sum / static_cast<double>(s.n)) <= 1e-7 * std::abs(sum) + 1e-12;
      }
      EXPECT_TRUE(near);
    }
  });
}

TEST(ReduceKernels, LossesAddInOrderHoweverSplit) {
  const Floats x = random_floats(1000, 1);
  double whole = 0, split = 0;
  sum_in_order(1000, x.data(), &whole);
  sum_in_order(123, x.data(), &split);
  sum_in_order(877, x.data() + 123, &split);
  EXPECT_EQ(whole, split);
}

TEST(ReduceKernels, ThreadsChangeNoBit) {
  const Matrix s{1000, 768};
  const Floats x = random_floats(s.rows * s.n, 1), zero(s.n);
  expect_same_on_threads([&] { return sum_of_rows(x, s, false, zero); });
  expect_same_on_threads([&] {
    Guarded<std::byte> scratch(sum_scratch(x.size()).n);
    Guarded<double> out(1);
    out[0] = sum_of_squares(x.size(), x.data(), 0, scratch.data());
    return out;
  });
}

}  // namespace
}  // namespace plimsoll::cpu
