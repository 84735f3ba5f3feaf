#include "device/tier_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/clock.h"
#include "device/host_store.h"
#include "device/limited_store.h"

namespace plimsoll {
namespace {

const std::vector<TierStore::Piece> kPieces{{Bytes{0}, Bytes{4096}}, {Bytes{4096}, Bytes{100}}, {Bytes{8192}, Bytes{5000}}};
constexpr Bytes kSize{16384};

std::vector<std::byte> pattern(std::size_t bytes, int seed) {
  std::vector<std::byte> result(bytes);
  for (std::size_t i = 0; i < bytes; ++i) result[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed));
  return result;
}

TEST(HostStore, GivesBackWhatWasWrittenAndZerosBefore) {
  HostStore store(kSize, 4, kPieces);
  std::vector<std::byte> back(100, std::byte{7});
  store.start_read(0, Bytes{4096}, back);
  store.wait(0);
  EXPECT_EQ(back, std::vector<std::byte>(100));
  EXPECT_EQ(store.written(), Bytes{0});
  const auto first = pattern(4096, 1), last = pattern(5000, 2);
  store.start_write(1, Bytes{0}, first);
  store.start_write(2, Bytes{8192}, last);
  store.wait(2), store.wait(1);
  EXPECT_EQ(store.height(), Bytes{16384});
  EXPECT_EQ(store.written(), Bytes{4096 + 8192});
  std::vector<std::byte> again(5000);
  store.start_read(3, Bytes{8192}, again);
  store.wait(3);
  EXPECT_EQ(again, last);
}

TEST(HostStore, TheCallerReadsAndWritesPiecesInOrder) {
  HostStore store(kSize, 1, kPieces);
  int number = 0;
  store.write(Bytes{0}, Bytes{4196}, [&](std::span<std::byte> part) {
    const auto data = pattern(part.size(), ++number);
    std::copy(data.begin(), data.end(), part.begin());
  });
  std::vector<std::vector<std::byte>> parts;
  store.read(Bytes{0}, Bytes{4196}, [&](std::span<const std::byte> part) { parts.emplace_back(part.begin(), part.end()); });
  EXPECT_EQ(parts, (std::vector{pattern(4096, 1), pattern(100, 2)}));
}

TEST(HostStore, RefusesWhatNoProgramSays) {
  HostStore store(kSize, 1, kPieces);
  std::vector<std::byte> memory(4096);
  EXPECT_THROW(store.start_read(0, Bytes{1}, memory), Error);
  EXPECT_THROW(store.start_read(0, Bytes{4096}, memory), Error) << "not the size of the piece";
  EXPECT_THROW(store.start_read(1, Bytes{0}, memory), Error) << "no such event";
}

// Each direction is a lane. A transfer over two links ends when the slower link has finished.
TEST(LimitedStore, TransfersTakeAsLongAsTheirLinks) {
  constexpr double kRate = 1e6;
  const auto near = std::make_shared<LinkLimit>(LinkLimit{10 * kRate}), far = std::make_shared<LinkLimit>(LinkLimit{kRate});
  LimitedStore store(
      std::make_unique<HostStore>(
          Bytes{1 << 20}, 4,
          std::vector<TierStore::Piece>{{Bytes{0}, Bytes{40960}}, {Bytes{40960}, Bytes{40960}}, {Bytes{81920}, Bytes{40960}}}),
      {near, far}, 4);
  std::vector<std::byte> a(40960), b(40960), c(40960);
  const double start = seconds_now();
  store.start_read(0, Bytes{0}, a);
  store.start_read(1, Bytes{40960}, b);
  store.start_write(2, Bytes{81920}, c);
  store.wait(2);
  const double out = seconds_now() - start;
  store.wait(0), store.wait(1);
  const double in = seconds_now() - start;
  EXPECT_GE(out, 0.0409);
  EXPECT_LT(out, 0.0819) << "it waits for nothing that comes in";
  EXPECT_GE(in, 0.0819) << "one after the other";
}

}  // namespace
}  // namespace plimsoll
