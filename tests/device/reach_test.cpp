#include "device/cuda/reach.h"

#include <gtest/gtest.h>

#include <array>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace plimsoll::cuda {
namespace {

#ifdef __SANITIZE_ADDRESS__
bool reached(const std::byte& at) { return __asan_address_is_poisoned(&at) == 0; }

TEST(Reach, IsWhatTheToolIsTold) {
  alignas(64) std::array<std::byte, 256> memory{};
  const std::span<std::byte> all(memory);
  {
    Reach reach(all);
    EXPECT_TRUE(reached(memory[0]) && reached(memory[255]));
    reach.only({all.subspan(128, 64), all.first(16), all.subspan(160, 64), {}});
    for (const std::size_t at : {0, 15, 128, 191, 223}) EXPECT_TRUE(reached(memory[at])) << at;
    for (const std::size_t at : {16, 127, 224, 255}) EXPECT_FALSE(reached(memory[at])) << at;
    reach.all();
    EXPECT_TRUE(reached(memory[127]));
    reach.only({});
  }
  EXPECT_TRUE(reached(memory[127])) << "the memory outlives it";
}
#else
TEST(Reach, NeedsAToolThatListens) { GTEST_SKIP() << "AddressSanitizer: scripts/build --preset asan"; }
#endif

}  // namespace
}  // namespace plimsoll::cuda
