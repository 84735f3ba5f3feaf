// Block formats against digests of the gguf package and of bitsandbytes (digests.py), cut in every way.
#include "tensor/block_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/digests.h"
#include "tensor/encoded.h"

namespace plimsoll {
namespace {

BlockFormat format_named(std::string_view text) {
  return *std::ranges::find(kBlockFormats, text, [](BlockFormat f) { return name(f); });
}

struct Decoded {
  std::string_view format;
  std::uint64_t values;
};

std::vector<float> decoded(const BlockMatrix& matrix, std::span<const std::byte> stored, std::int64_t first, std::size_t count) {
  std::vector<float> values(count);
  decode_blocks(matrix, stored.data(), first, values);
  return values;
}

void expect_any_cut(const BlockMatrix& matrix, std::span<const std::byte> stored) {
  const std::int64_t elements = matrix.rows * matrix.columns;
  const std::vector<float> whole = decoded(matrix, stored, 0, static_cast<std::size_t>(elements));
  TestBytes random(3);
  for (int trial = 0; trial < 200; ++trial) {
    const std::int64_t first = (random.next() * 256 + random.next()) % elements;
    const std::int64_t count = std::min<std::int64_t>(random.next() * (1 + random.next() % 4), elements - first);
    const std::vector<float> part = decoded(matrix, stored, first, static_cast<std::size_t>(count));
    ASSERT_EQ(digest(std::span(whole).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count))), digest(part))
        << name(matrix.format) << " from " << first << ", " << count << " elements";
    // The same part, decoded from its own codes alone, with the scales in other memory.
    const std::int64_t origin = first - first % block_elements(matrix.format);
    const auto bytes_of = [&](std::int64_t end) { return code_bytes({matrix.format, 1, end}).n; };
    const auto all = static_cast<std::ptrdiff_t>(code_bytes(matrix).n);
    const std::vector<std::byte> codes(stored.begin() + bytes_of(origin), stored.begin() + bytes_of(first + count)),
        behind(stored.begin() + all, stored.end());
    std::vector<float> pieces(part.size());
    decode_blocks(matrix, {codes.data(), origin, behind.data()}, first, pieces);
    ASSERT_EQ(digest(pieces), digest(part)) << name(matrix.format) << " in pieces";
  }
}

TEST(BlockFormat, GgufFormatsDecodeToTheReferenceBits) {
  for (const Decoded& golden : {
           Decoded{"q4_0", 0x2aca8daf8a599e00u},
           Decoded{"q4_1", 0xff175189a80ff1ecu},
           Decoded{"q5_0", 0x1c68236eb7c8a5afu},
           Decoded{"q5_1", 0xfc97cf6c78d8afbdu},
           Decoded{"q8_0", 0x211d113714784eb4u},
           Decoded{"q4_k", 0x689a4f1fa3964cc5u},
           Decoded{"q5_k", 0x23eb2089b2df3bdbu},
           Decoded{"q6_k", 0xaf19928da8b287b0u},
       }) {
    const BlockMatrix matrix{format_named(golden.format), 6, 512};
    const std::vector<std::byte> stored = TestBytes(7).take(static_cast<std::size_t>(stored_bytes(matrix).n));
    EXPECT_EQ(digest(decoded(matrix, stored, 0, 6 * 512)), golden.values) << golden.format;
    expect_any_cut(matrix, stored);
  }
}

struct Encoded {
  std::string_view format;
  std::int64_t rows, columns;
  float offset;
  std::uint64_t stored, values;
};

std::vector<float> test_values(std::int64_t rows, std::int64_t columns) {
  TestBytes random(static_cast<std::uint64_t>(rows));
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (float& value : values) value = random.value();
  return values;
}

TEST(BlockFormat, RowsEncodeToTheBitsOfBitsandbytesInAnyCut) {
  for (const Encoded& golden : {
           Encoded{"int8", 9, 33, 0, 0xb954e7976dbd4ba5u, 0x33c657e379004e41u},
           Encoded{"nf4", 9, 33, 0, 0xe71ef6439be2ec83u, 0xc5d35b2718144bceu},
           Encoded{"nf4_nested", 9, 33, 0x1.ceb4ccp+2f, 0xbda810a58c87a91fu, 0x5997ccd040780385u},
           Encoded{"int8", 131, 200, 0, 0x4fa392b4e103b1f5u, 0xa628357f585137c4u},
           Encoded{"nf4", 131, 200, 0, 0xb77a3605eb000366u, 0xa0674f81faf97cc7u},
           Encoded{"nf4_nested", 131, 200, 0x1.c5e6f2p+2f, 0x82949e3ede7cd7ecu, 0x2cc8be3d4c75f8a0u},
       }) {
    const BlockMatrix matrix{format_named(golden.format), golden.rows, golden.columns};
    const std::vector<float> values = test_values(golden.rows, golden.columns);
    for (const std::size_t part : {1u, 100u, 1u << 30}) {
      const std::vector<std::byte> stored = test::encoded(matrix, values, part, golden.offset);
      EXPECT_EQ(digest(stored), golden.stored) << golden.format << ", in parts of " << part << " bytes";
      EXPECT_EQ(digest(decoded(matrix, stored, 0, values.size())), golden.values) << golden.format;
      expect_any_cut(matrix, stored);
    }
  }
}

TEST(BlockFormat, AnOffsetThatNobodyGivesIsTheMeanOfTheScales) {
  const BlockMatrix matrix{BlockFormat::nf4_nested, 131, 200};
  const std::vector<std::byte> stored = test::encoded(matrix, test_values(131, 200));
  float offset = 0;
  std::memcpy(&offset, stored.data() + block_parts(matrix).offset.n, sizeof(offset));
  EXPECT_NEAR(offset, 0x1.c5e6f2p+2f, 1e-6 * 7);
}

TEST(BlockFormat, ZerosAndNanSurvive) {
  std::vector<float> values(2 * 128, 0.0f);
  values[200] = std::numeric_limits<float>::quiet_NaN();
  for (const BlockFormat format : {BlockFormat::int8, BlockFormat::nf4}) {
    const BlockMatrix matrix{format, 2, 128};
    const std::vector<float> back = decoded(matrix, test::encoded(matrix, values), 0, values.size());
    EXPECT_EQ(back[5], 0) << name(format);
    EXPECT_TRUE(std::isnan(back[200])) << name(format);
  }
  const BlockMatrix nested{BlockFormat::nf4_nested, 2, 128};
  for (const float value : decoded(nested, test::encoded(nested, std::vector<float>(256, 0.0f)), 0, 256)) EXPECT_EQ(value, 0);
}

TEST(BlockFormat, SizesCountPartialBlocks) {
  EXPECT_EQ(stored_bytes({BlockFormat::int8, 3, 5}), Bytes{16 + 12});
  EXPECT_EQ(stored_bytes({BlockFormat::nf4, 3, 43}), Bytes{68 + 12});  // 129 elements: 65 bytes, three blocks
  EXPECT_EQ(stored_bytes({BlockFormat::nf4_nested, 3, 43}), Bytes{68 + 4 + 4 + 1024 + 4});
  EXPECT_EQ(stored_bytes({BlockFormat::q4_1, 2, 64}), Bytes{80});
  EXPECT_EQ(stored_bytes({BlockFormat::q6_k, 2, 256}), Bytes{420});
}

}  // namespace
}  // namespace plimsoll
