#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "config/batch.h"
#include "formats/expect_error.h"

namespace plimsoll {
namespace {

using Maybe = std::optional<std::int64_t>;
constexpr Maybe kAuto;

TEST(Batch, AnyTwoDefineTheThird) {
  EXPECT_EQ(resolve_batch(32, 8, kAuto, ""), (BatchSplit{32, 8, 4}));
  EXPECT_EQ(resolve_batch(32, kAuto, 4, ""), (BatchSplit{32, 8, 4}));
  EXPECT_EQ(resolve_batch(kAuto, 8, 4, ""), (BatchSplit{32, 8, 4}));
  EXPECT_EQ(resolve_batch(32, 8, 4, ""), (BatchSplit{32, 8, 4}));
  EXPECT_EQ(resolve_batch(32, kAuto, kAuto, ""), (BatchSplit{32, kAuto, kAuto}));
  EXPECT_EQ(resolve_batch(kAuto, 8, kAuto, ""), (BatchSplit{8, 8, 1}));
}

TEST(Batch, NearestValuesAreComputed) {
  EXPECT_ERROR(resolve_batch(100, 16, kAuto, ""), "E-BATCH-3",
               "effective_batch=100 cannot be 16 x accumulation. Nearest: 96 (k=6) or 112 (k=7); or micro_batch=20 (k=5).");
  EXPECT_ERROR(resolve_batch(100, 128, kAuto, ""), "E-BATCH-3", "Nearest: 128 (k=1); or micro_batch=100 (k=1).");
  EXPECT_ERROR(resolve_batch(100, kAuto, 7, ""), "E-BATCH-3",
               "effective_batch=100 cannot be micro_batch x 7. Nearest: 98 (b=14) or 105 (b=15); or accumulation=5 (b=20).");
  EXPECT_ERROR(
      resolve_batch(32, 8, 2, ""), "E-BATCH-3",
      "effective_batch=32 is not micro_batch x accumulation = 8 x 2 = 16. Nearest: effective_batch=16, or accumulation=4, or "
      "micro_batch=16.");
  EXPECT_ERROR(resolve_batch(100, 16, 7, ""), "E-BATCH-3", "effective_batch=112, or micro_batch=20 and accumulation=5.");
  EXPECT_ERROR(resolve_batch(kAuto, kAuto, 4, ""), "E-CONFIG-MISSING", "effective_batch");
}

// Every value that a message proposes is accepted.
TEST(Batch, EveryProposalWorks) {
  for (std::int64_t effective = 1; effective <= 60; ++effective) {
    for (std::int64_t micro = 1; micro <= 70; ++micro) {
      try {
        const BatchSplit split = resolve_batch(effective, micro, kAuto, "");
        EXPECT_EQ(*split.micro * *split.accumulation, effective);
      } catch (const Error& error) {
        ASSERT_EQ(error.remedies.size(), 1U);
        const std::int64_t better = std::stoll(error.remedies[0].changes.at(0).value);
        EXPECT_NO_THROW(resolve_batch(effective, better, kAuto, ""));
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll
