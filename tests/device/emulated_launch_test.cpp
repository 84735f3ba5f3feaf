// The emulation refuses what a GPU refuses when a kernel is launched.
#include <gtest/gtest.h>

#include "device/cuda/kernels.cuh"
#include "device/cuda/runtime.h"
#include "formats/expect_error.h"

namespace plimsoll::cuda {
namespace {

void first_kernel(int* ran) { ++*ran; }
void second_kernel(int* ran) { ++*ran; }

TEST(EmulatedLaunch, RefusesWhatCudaRefuses) {
  const Stream stream;
  int ran = 0;
  const auto go = [&](dim3 blocks, dim3 threads, std::size_t shared = 0) {
    launch(first_kernel, Grid{blocks, threads, shared}, stream.handle(), &ran);
    stream.synchronize();
  };
  go({3, 2, 1}, {64});
  EXPECT_EQ(ran, 3 * 2 * 64);
  EXPECT_ERROR(go({1}, {1056}), "E-INTERNAL", "threads");
  EXPECT_ERROR(go({1}, {48}), "E-INTERNAL", "whole warps");
  EXPECT_ERROR(go({0}, {32}), "E-INTERNAL", "blocks");
  EXPECT_ERROR(go({1, 65536}, {32}), "E-INTERNAL", "second or third");
  go({1}, {32}, 48 << 10);
  EXPECT_ERROR(go({1}, {32}, (48 << 10) + 1), "E-INTERNAL", "shared memory");
  allow_shared(second_kernel, 64 << 10);
  EXPECT_ERROR(go({1}, {32}, 64 << 10), "E-INTERNAL", "shared memory");
  allow_shared(first_kernel, 64 << 10);
  go({1}, {32}, 64 << 10);
  EXPECT_ERROR(go({1}, {32}, (64 << 10) + 1), "E-INTERNAL", "shared memory");
  EXPECT_ERROR(allow_shared(first_kernel, (227 << 10) + 1), "E-INTERNAL", "shared memory");
}

}  // namespace
}  // namespace plimsoll::cuda
