#include "device/process_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace plimsoll {
namespace {

TEST(ProcessMemory, IsCountedAndThePeakRemains) {
  EXPECT_GT(counted_resident(), kMiB);
  const Bytes before = peak_resident();
  EXPECT_GE(before + kMiB * 2, counted_resident());
  {
    const std::size_t size = 64 << 20;
    const auto block = std::make_unique<char[]>(size);
    std::memset(block.get(), 1, size);
    EXPECT_GT(counted_resident(), kMiB * 64);
  }
  EXPECT_GE(peak_resident() + kMiB * 2, kMiB * 64);
}

}  // namespace
}  // namespace plimsoll
