#include "collective/together.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collective/broadcast.h"
#include "collective/thread_peers.h"

namespace plimsoll {
namespace {

TEST(Broadcast, GivesAllTheTextOfOne) {
  ThreadWorld world(3);
  std::vector<std::string> got(3);
  world.run([&](Peers& peers) {
    peers.reserve(1, 4);
    broadcast(peers, 0, 2, peers.rank() == 2 ? "" : "not this");
    got[static_cast<std::size_t>(peers.rank())] =
        broadcast(peers, 0, 1, std::string(1000, static_cast<char>('a' + peers.rank())));
  });
  for (const std::string& text : got) EXPECT_EQ(text, std::string(1000, 'b'));
}

TEST(Together, AllThrowTheErrorOfTheFirst) {
  ThreadWorld world(3);
  std::vector<std::string> codes(3);
  world.run([&](Peers& peers) {
    peers.reserve(1, 4);
    together(peers, 0, [] {});
    try {
      together(peers, 0, [&] {
        if (peers.rank() > 0) throw data_error("E-IO-WRITE", "rank " + std::to_string(peers.rank()), "a full disk");
      });
    } catch (const Error& error) {
      codes[static_cast<std::size_t>(peers.rank())] = error.code + " " + error.where;
    }
  });
  for (const std::string& code : codes) EXPECT_EQ(code, "E-IO-WRITE rank 1");
}

}  // namespace
}  // namespace plimsoll
