// Products of warpgroups in the emulation: their results to the bit, and the faults of a kernel that it reports or makes visible.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/philox.h"
#include "device/cuda/wgmma.cuh"
#include "formats/expect_error.h"

namespace plimsoll::cuda {
namespace {

constexpr int kTile = 64 * 64;

enum class Fault {
  none,
  dropped_swizzle,
  shifted_tile,
  shifted_row,
  other_swizzle,
  other_stride,
  outside,
  no_fence,
  not_shown,
  shown_before_copies,
  shown_by_some,
  no_barrier,
  overwritten,
  overwritten_by_copy,
  overwritten_before_others_wait,
  sums_read_early,
  sums_written_early,
  operand_written_early,
  one_group_pending,
  no_wait,
  a_warp_missing,
  a_lane_missing,
  different_products,
};

// a, b, v: 64 x 64 elements. c = a b^T; d = 1 + c v.
template <class T>
struct Call {
  const T *a, *b, *v;
  float *c, *d;
  Fault fault = Fault::none;

  bool has(Fault other) const { return fault == other; }
};

template <class T>
int swizzled(const Call<T>& call, int row, int chunk) {
  return row * 64 + (chunk ^ (row & (call.has(Fault::dropped_swizzle) ? 3 : 7))) * 8;
}

template <class T>
void fill_tiles(const Call<T>& call, T* tiles) {
  const T* from[] = {call.a, call.b, call.v};
  for (int tile = 0; tile < 3; ++tile) {
    for (int i = static_cast<int>(threadIdx.x); i < kTile / 8; i += static_cast<int>(blockDim.x)) {
      T* to = tiles + tile * kTile + swizzled(call, i / 8, i % 8);
      if (tile == 1) {
        store_pack(load_pack(from[tile] + i * 8), to);
      } else {
        copy_later<16>(to, from[tile] + i * 8, false);
      }
    }
  }
  commit_copies();
  if (call.has(Fault::shown_before_copies)) show_to_products();
  wait_for_copies<0>();
  const bool some = call.has(Fault::shown_by_some) && threadIdx.x == 77;
  if (!call.has(Fault::not_shown) && !call.has(Fault::shown_before_copies) && !some) show_to_products();
  if (!call.has(Fault::no_barrier)) __syncthreads();
}

// The products c = a b^T up to their wait.
template <class T>
void issue_rows(const Call<T>& call, float (&c)[8][4], T* tiles) {
  std::uint64_t a = tile_descriptor<64>(tiles + (call.has(Fault::shifted_tile) ? 8 : call.has(Fault::shifted_row) ? 64 : 0));
  const std::uint64_t b = tile_descriptor<64>(tiles + kTile);
  if (call.has(Fault::other_swizzle)) a ^= std::uint64_t{3} << 62;
  if (call.has(Fault::other_stride)) a ^= std::uint64_t{(1024 ^ 1536) >> 4} << 32;
  if (call.has(Fault::outside)) a += 3 * kTile * sizeof(T) >> 4;
  if (!call.has(Fault::no_fence)) begin_products();
  for (int k = 0; k < 4; ++k) {
    const bool different = call.has(Fault::different_products) && threadIdx.x >= 64;
    product<T>(c, a + (different ? 3 - k : k) * (32 >> 4), b + k * (32 >> 4), k > 0);
    if (k == 1 && call.has(Fault::one_group_pending)) commit_products();
  }
}

template <class T>
void products_kernel(const Call<T> call) {
  T* tiles = shared_memory<T>();
  fill_tiles(call, tiles);
  const unsigned warp = warp_of_block(), lane = lane_of_warp();
  if (call.has(Fault::a_warp_missing) && warp == 2) return;
  if (call.has(Fault::a_lane_missing) && threadIdx.x == 40) return;
  float c[8][4] = {}, early = 0;
  issue_rows(call, c, tiles);
  T& element = tiles[(threadIdx.x + 1) * 8 % kTile];
  if (call.has(Fault::overwritten)) element = T{};
  if (call.has(Fault::overwritten_by_copy)) copy_later<16>(&element, call.b, false);
  if (call.has(Fault::sums_read_early)) early = c[3][1];
  if (call.has(Fault::sums_written_early)) c[3][1] = 1;
  if (call.has(Fault::no_wait)) return;
  commit_products();
  if (call.has(Fault::one_group_pending)) {
    wait_for_products<1>();
    early = c[3][1];
  }
  wait_for_products<0>();
  if (call.has(Fault::overwritten_before_others_wait) && warp == 0) element = T{};
  Pair pairs[8][2];
  float d[8][4];
  for (int j = 0; j < 8; ++j) {
    for (int e = 0; e < 4; ++e) d[j][e] = 1;
    for (int r = 0; r < 2; ++r) pairs[j][r] = narrow_pair<T>(c[j][2 * r], c[j][2 * r + 1]);
  }
  if (call.has(Fault::operand_written_early)) {
    Pairs rows{{pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1]}};
    begin_products();
    product<T>(d, rows, tile_descriptor<64>(tiles + 2 * kTile));
    rows.at[3] = 0;
    end_products();
  } else {
    Pairs rows[4];
    take_rows(rows, pairs);
    group_multiply_pairs(d, rows, tiles + 2 * kTile);
  }
  for (unsigned j = 0; j < 8; ++j) {
    for (unsigned e = 0; e < 4; ++e) {
      const unsigned at = (16 * warp + lane / 4 + e / 2 * 8) * 64 + 8 * j + lane % 4 * 2 + e % 2;
      call.c[at] = c[j][e] + early;
      call.d[at] = d[j][e];
    }
  }
}

template <class T>
std::vector<T> random_tile(std::uint32_t seed) {
  std::vector<T> tile(kTile);
  for (std::uint32_t i = 0; i < kTile; ++i) {
    const std::uint32_t word = philox4x32(philox_key(7, 11), {i, 0, 0, seed})[0];
    tile[i] = narrow<T>(static_cast<float>(word) * 0x1p-31f - 1);
  }
  return tile;
}

template <class T>
class Products {
 public:
  Products() { run(Fault::none); }

  void run(Fault fault) {
    c.assign(kTile, 0);
    d.assign(kTile, 0);
    const Call<T> call{a.data(), b.data(), v.data(), c.data(), d.data(), fault};
    launch(products_kernel<T>, Grid{{2}, {128}, 3 * kTile * sizeof(T)}, nullptr, call);
  }

  // Sums of 16 products are rounded once.
  static float sum(float begin, const auto& product) {
    for (int k = 0; k < 64; k += 16) {
      double sum = begin;
      for (int i = k; i < k + 16; ++i) sum += product(i);
      begin = static_cast<float>(sum);
    }
    return begin;
  }
  float c_at(int row, int column) const {
    return sum(0, [&](int k) { return double{widen(a[row * 64 + k])} * widen(b[column * 64 + k]); });
  }
  float d_at(int row, int column) const {
    return sum(1, [&](int k) { return double{widen(narrow<T>(c_at(row, k)))} * widen(v[k * 64 + column]); });
  }
  int wrong_sums() const {
    int wrong = 0;
    for (int i = 0; i < kTile; ++i) wrong += c[i] != c_at(i / 64, i % 64);
    return wrong;
  }

  std::vector<T> a = random_tile<T>(1), b = random_tile<T>(2), v = random_tile<T>(3);
  std::vector<float> c, d;
};

template <class T>
void expect_exact() {
  Products<T> products;
  for (const bool reversed : {false, true}) {
    emulation::reverse_turns(reversed);
    products.run(Fault::none);
    EXPECT_EQ(products.wrong_sums(), 0);
    for (int i = 0; i < kTile; i += 7) ASSERT_EQ(products.d[i], products.d_at(i / 64, i % 64)) << i;
  }
  emulation::reverse_turns(false);
}

TEST(EmulatedProducts, AreExactSumsRoundedAtEachStep) {
  expect_exact<Bf16>();
  expect_exact<F16>();
}

TEST(EmulatedProducts, ReadTilesAsDescriptorsState) {
  Products<Bf16> products;
  products.run(Fault::dropped_swizzle);
  EXPECT_GT(products.wrong_sums(), kTile / 4);
  EXPECT_ERROR(products.run(Fault::shifted_tile), "E-INTERNAL", "multiple of 32 bytes");
  EXPECT_ERROR(products.run(Fault::shifted_row), "E-INTERNAL", "multiple of 1,024 bytes");
  EXPECT_ERROR(products.run(Fault::other_swizzle), "E-INTERNAL", "another swizzle");
  EXPECT_ERROR(products.run(Fault::other_stride), "E-INTERNAL", "stride of a descriptor");
  EXPECT_ERROR(products.run(Fault::outside), "E-INTERNAL", "outside");
  products.run(Fault::none);
  EXPECT_EQ(products.wrong_sums(), 0);
}

TEST(EmulatedProducts, ReadWhatWasShownBeforeABarrier) {
  Products<Bf16> products;
  for (const bool reversed : {false, true}) {
    emulation::reverse_turns(reversed);
    for (const Fault fault : {Fault::not_shown, Fault::shown_before_copies, Fault::shown_by_some, Fault::no_barrier}) {
      EXPECT_ERROR(products.run(fault), "E-INTERNAL", "not been shown");
    }
  }
  emulation::reverse_turns(false);
}

TEST(EmulatedProducts, ReadOperandsUntilTheWait) {
  Products<Bf16> products;
  for (const Fault fault : {Fault::overwritten, Fault::overwritten_by_copy, Fault::overwritten_before_others_wait}) {
    EXPECT_ERROR(products.run(fault), "E-INTERNAL", "overwritten");
  }
  EXPECT_ERROR(products.run(Fault::operand_written_early), "E-INTERNAL", "before the wait");
}

TEST(EmulatedProducts, KeepTheirSumsUntilTheWait) {
  Products<Bf16> products;
  EXPECT_ERROR(products.run(Fault::sums_written_early), "E-INTERNAL", "before the wait");
  for (const Fault fault : {Fault::sums_read_early, Fault::one_group_pending}) {
    products.run(fault);
    for (const float c : products.c) ASSERT_TRUE(std::isnan(c));
  }
  EXPECT_ERROR(products.run(Fault::no_wait), "E-INTERNAL", "ends before its products");
  EXPECT_ERROR(products.run(Fault::no_fence), "E-INTERNAL", "no fence");
}

TEST(EmulatedProducts, AreThoseOfWholeWarpgroups) {
  Products<Bf16> products;
  EXPECT_ERROR(products.run(Fault::a_warp_missing), "E-INTERNAL", "different products");
  EXPECT_ERROR(products.run(Fault::a_lane_missing), "E-INTERNAL", "never come");
  EXPECT_ERROR(products.run(Fault::different_products), "E-INTERNAL", "different products");
  const Call<Bf16> call{products.a.data(), products.b.data(), products.v.data(), products.c.data(), products.d.data()};
  EXPECT_ERROR(launch(products_kernel<Bf16>, Grid{{1}, {96}, 3 * kTile * 2}, nullptr, call), "E-INTERNAL", "four whole warps");
}

}  // namespace
}  // namespace plimsoll::cuda
