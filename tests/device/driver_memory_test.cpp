#include "device/cuda/driver_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace plimsoll::cuda {
namespace {

// A driver as NVML reports it.
struct Driver {
  unsigned long long used = 0;
  std::vector<Nvml::Process> processes;
  bool works = true;
} driver;

constexpr unsigned long long kMiB = 1 << 20;

const Nvml kNvml{
    .init = [] { return 0; },
    .device_at =
        [](const char* bus, Nvml::Device* device) {
          *device = &driver;
          return std::string_view(bus) == "0000:3b:00.0" ? 0 : 6;
        },
    .memory =
        [](Nvml::Device, Nvml::Memory* memory) {
          if (memory->version != (sizeof(Nvml::Memory) | 2U << 24)) return 25;
          memory->used = driver.used;
          return driver.works ? 0 : 999;
        },
    .processes =
        [](Nvml::Device, unsigned* count, Nvml::Process* processes) {
          if (*count < driver.processes.size()) return 7;
          *count = static_cast<unsigned>(driver.processes.size());
          std::ranges::copy(driver.processes, processes);
          return driver.works ? 0 : 999;
        },
};
constexpr const char* kBus = "0000:3b:00.0";

unsigned own_pid() { return static_cast<unsigned>(::getpid()); }

TEST(DriverMemory, IsWhatTheDriverListsForThisProcess) {
  driver = {.used = 900 * kMiB};
  const DriverMemory memory(kNvml, kBus);
  driver = {.used = 3000 * kMiB, .processes = {{1, 2000 * kMiB, 0, 0}, {own_pid(), 700 * kMiB, 0, 0}}};
  EXPECT_EQ(memory.held(), Bytes{700 << 20});
}

// A desktop uses memory before, and the list does not contain this process.
TEST(DriverMemory, InAContainerIsWhatCameToUse) {
  driver = {.used = 900 * kMiB};
  const DriverMemory memory(kNvml, kBus);
  driver = {.used = 1500 * kMiB, .processes = {{own_pid() + 1, 600 * kMiB, 0, 0}}};
  EXPECT_EQ(memory.held(), Bytes{600 << 20});
  driver.processes = {{own_pid(), ~0ULL, 0, 0}};
  EXPECT_EQ(memory.held(), Bytes{600 << 20});
  driver.used = 100 * kMiB;  // another process has ended
  EXPECT_EQ(memory.held(), Bytes{0});
}

TEST(DriverMemory, IsUnknownWhereTheDriverTellsNothing) {
  driver = {.used = 900 * kMiB};
  EXPECT_EQ(DriverMemory(kNvml, "0000:3c:00.0").held(), std::nullopt);
  const DriverMemory memory(kNvml, kBus);
  driver.works = false;
  EXPECT_EQ(memory.held(), std::nullopt);
}

TEST(DriverMemory, NoLibraryNoAnswer) { EXPECT_FALSE(load_nvml("libno-such-library.so").has_value()); }

// nvml.h of CUDA 13: unsigned int, unsigned long long and two unsigned int; unsigned int and four unsigned long long.
TEST(DriverMemory, LayoutsAreThoseOfTheLibrary) {
  EXPECT_EQ(sizeof(Nvml::Process), 24U);
  EXPECT_EQ(offsetof(Nvml::Process, used), 8U);
  EXPECT_EQ(offsetof(Nvml::Process, gpu_instance), 16U);
  EXPECT_EQ(sizeof(Nvml::Memory), 40U);
  EXPECT_EQ(offsetof(Nvml::Memory, used), 32U);
}

}  // namespace
}  // namespace plimsoll::cuda
