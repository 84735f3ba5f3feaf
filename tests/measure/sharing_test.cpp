// The share of the processors that other work had during a measurement.
#include "measure/sharing.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <sstream>

#include "base/clock.h"

namespace plimsoll {
namespace {

ProcessorTimes times_in(const std::string& text) {
  std::istringstream stat(text);
  return read_processor_times(stat);
}

TEST(Sharing, ReadsTheFirstLineOfTheKernel) {
  const auto tick = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const ProcessorTimes times = times_in("cpu  100 20 30 400 50 6 7 80 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n");
  EXPECT_DOUBLE_EQ(times.all, 693 / tick);
  EXPECT_DOUBLE_EQ(times.busy, 243 / tick);
  EXPECT_DOUBLE_EQ(times.stolen, 80 / tick);
  EXPECT_DOUBLE_EQ(times_in("cpu  100 20 30 400 50 6 7\n").stolen, 0);
  for (const char* text : {"", "cpu", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8", "cpu a b c d e f g h"}) {
    EXPECT_EQ(times_in(text).all, 0) << text;
  }
}

TEST(Sharing, IsTheSumOfWhatOthersTake) {
  EXPECT_FALSE((Sharing{.others = 0.05, .stolen = 0.04}.shared()));
  EXPECT_TRUE((Sharing{.others = 0.06, .stolen = 0.06}.shared()));
  EXPECT_TRUE((Sharing{.waited = 0.3}.shared()));
  EXPECT_EQ(sharing_text({.others = 0.38, .stolen = 0.05}),
            "other processes had 38 % of the processors and other guests of the host had 5 % of the processors");
  EXPECT_EQ(sharing_text({}), "nothing else ran");
}

// The work of this process does not count as other work.
TEST(Contention, LeavesOutThisProcess) {
  const Contention contention;
  const double begin = seconds_now();
  const std::clock_t before = std::clock();
  volatile double sum = 0;
  while (seconds_now() - begin < 0.5) sum = sum + 1;
  const double own = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  const Sharing sharing = contention.sharing();
  const double all = (seconds_now() - begin) * static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_GE(sharing.most(), 0);
  EXPECT_LE(sharing.others + own / all, 1.15);  // ticks are coarse
}

}  // namespace
}  // namespace plimsoll
