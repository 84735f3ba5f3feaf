// The op cases' kernels on this machine's GPU. Without a GPU it prints a line and succeeds.
//
//   test_cuda [--apart] [--captured] [--smallest] [GoogleTest's options]      see on_device.h and ops/cases/smallest.h; the CPU's
//   own cases run where a filter names them
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <exception>

#include "base/error.h"
#include "cuda/on_device.h"
#include "device/cuda/runtime.h"
#include "ops/cases/smallest.h"

namespace plimsoll::test {
namespace {

constexpr int kUsage = 2;

// False without a GPU, with a line on stdout. A GPU that does not work is an error.
bool find_gpu() {
  try {
    const cuda::DeviceFacts facts = cuda::open_device();
    std::printf("%s, sm_%d, %d multiprocessors; CUDA of the driver %d, of this binary %d\n", facts.name.c_str(), facts.capability,
                facts.multiprocessors, facts.driver, facts.runtime);
    return true;
  } catch (const Error& error) {
    if (error.exit != ExitCode::configuration) throw;
    std::printf("no GPU: %s %s\n", error.code.c_str(), error.message.c_str());
    return false;
  }
}

int run(int argc, char** argv) {
  DeviceOptions options;
  GTEST_FLAG_SET(filter, "-Ops/*");
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--apart") == 0) {
      options.apart = true;
    } else if (std::strcmp(argv[i], "--captured") == 0) {
      options.captured = true;
    } else if (std::strcmp(argv[i], "--smallest") == 0) {
      keep_smallest_cases();
    } else {
      std::fprintf(stderr, "test_cuda: '%s' is no option; there are --apart, --captured, --smallest and GoogleTest's\n", argv[i]);
      return kUsage;
    }
  }
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  if (!find_gpu()) return 0;
  set_device_options(options);
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace plimsoll::test

int main(int argc, char** argv) {
  try {
    return plimsoll::test::run(argc, argv);
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "%s  [%s] %s\n", error.code.c_str(), error.where.c_str(), error.message.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 1;
}
