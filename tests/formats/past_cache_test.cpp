#include "formats/past_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>

#include "formats/expect_error.h"
#include "formats/scratch_folder.h"

namespace plimsoll {
namespace {

TEST(PastCache, ReadsAnyRange) {
  constexpr Bytes kBuffer{8192};
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 50000; ++i) text += static_cast<char>(i * 31 % 251);
  write_raw(folder / "file", text);
  PastCache reader(folder / "file", kBuffer);
  for (const auto& [begin, bytes] :
       {std::pair{0, 50000}, {0, 1}, {4095, 2}, {8191, 8194}, {49999, 1}, {8192, 0}, {16384, 33616}}) {
    std::string got;
    reader.read(begin, bytes, [&](std::span<const std::byte> part) {
      std::ranges::transform(part, std::back_inserter(got), [](std::byte byte) { return static_cast<char>(byte); });
    });
    EXPECT_EQ(got, text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes))) << begin;
  }
  EXPECT_ERROR(reader.read(49999, 2, [](std::span<const std::byte>) {}), "E-IO-READ", "too early");
  EXPECT_ERROR(PastCache(folder / "absent", kBuffer), "E-IO-MISSING", "absent");
}

}  // namespace
}  // namespace plimsoll
