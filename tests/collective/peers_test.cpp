#include "collective/peers.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "collective/gather.h"
#include "collective/thread_peers.h"

namespace plimsoll {
namespace {

std::span<const std::byte> bytes_of(const std::vector<float>& values) { return std::as_bytes(std::span(values)); }

TEST(Gather, GivesEachRankTheRecordsOfAll) {
  ThreadWorld world(4);
  world.run([](Peers& peers) {
    struct Record {
      std::int64_t rank, round;
    };
    peers.reserve(1, 2 * 3);
    GatherOf<Record> gather(peers, 0);
    for (std::int64_t round = 0; round < 50; ++round) {
      const auto all = gather.run({peers.rank(), round});
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        ensure(all[rank].rank == static_cast<std::int64_t>(rank) && all[rank].round == round, "test", "another record");
      }
    }
  });
  EXPECT_EQ(world.peers(2).sent(), Bytes{50 * 3 * 16});
}

TEST(Peers, MatchPartsInTheOrderOfTheirStarts) {
  ThreadWorld world(2);
  std::vector<std::vector<float>> results(2);
  world.run([&](Peers& peers) {
    const int other = 1 - peers.rank();
    const std::vector<float> first(3, static_cast<float>(peers.rank())), second(5, static_cast<float>(10 + peers.rank()));
    std::vector<float> got(8);
    peers.reserve(2, 2);
    const std::span into = std::as_writable_bytes(std::span(got));
    const std::array sends{Peers::Send{other, bytes_of(first)}, Peers::Send{other, bytes_of(second)}};
    const std::array receives{Peers::Receive{other, into.first(12)}, Peers::Receive{other, into.subspan(12)}};
    peers.start(0, {std::span(sends).first(1), std::span(receives).first(1)});
    peers.start(1, {std::span(sends).last(1), std::span(receives).last(1)});
    peers.wait(1);
    peers.wait(0);
    results[static_cast<std::size_t>(peers.rank())] = got;
  });
  EXPECT_EQ(results[0], (std::vector<float>{1, 1, 1, 11, 11, 11, 11, 11}));
  EXPECT_EQ(results[1], (std::vector<float>{0, 0, 0, 10, 10, 10, 10, 10}));
}

TEST(Peers, AnErrorOfOneRankEndsTheWaitsOfAll) {
  ThreadWorld world(3);
  try {
    world.run([](Peers& peers) {
      peers.reserve(1, 4);
      Gather gather(peers, 0, 8);
      if (peers.rank() == 1) throw data_error("E-DATA-SHORT", "x", "a bad token");
      gather.run();
    });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "E-DATA-SHORT");
  }
}

}  // namespace
}  // namespace plimsoll
