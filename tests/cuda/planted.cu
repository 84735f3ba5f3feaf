// Faults on purpose, which compute-sanitizer has to find: hidden tests, one for each of its tools, run by scripts/on_gpu alone.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "device/cuda/kernels.cuh"
#include "device/cuda/reach.h"
#include "device/cuda/runtime.h"
#include "ops/cases/bound_case.h"

namespace plimsoll::test {
namespace {

constexpr int kThreads = 256;

// Writes one element past the end of its memory, into the next buffer.
__global__ void overrun_kernel(int n, float* to) {
  for (int i = static_cast<int>(threadIdx.x); i <= n; i += kThreads) to[i] = 1;
}

// Neighbouring threads exchange numbers without a barrier.
__global__ void race_kernel(float* to) {
  __shared__ float left[kThreads];
  left[threadIdx.x] = to[threadIdx.x];
  to[threadIdx.x] = left[(threadIdx.x + kThreads / 2) % kThreads];
}

__global__ void unwritten_kernel(const float* from, float* to) { to[threadIdx.x] = from[threadIdx.x] + 1; }

// A barrier that some threads of a block do not reach.
__global__ void barrier_kernel(float* to) {
  if (threadIdx.x <= cuda::kWarp) {
    to[threadIdx.x] = 1;
    __syncthreads();
  }
  to[threadIdx.x] += 1;
}

// Two buffers of a case, as op cases have them.
class Planted : public testing::Test {
 protected:
  template <class... Parameters, class... Arguments>
  void run(void (*kernel)(Parameters...), Arguments... arguments) {
    const std::vector<CaseBuffer> buffers = {{first_.with_guards(), {first_.data(), first_.size()}, true, true},
                                             {second_.with_guards(), {second_.data(), second_.size()}, false, false}};
    there_ = kCuda.elsewhere(buffers);
    there_->run([&] { cuda::launch(kernel, cuda::Grid{{1}, {kThreads}}, there_->stream(), arguments(*there_)...); });
  }
  auto first() {
    return [this](const Elsewhere& there) { return reinterpret_cast<float*>(there.address(first_.data())); };
  }
  auto second() {
    return [this](const Elsewhere& there) { return reinterpret_cast<float*>(there.address(second_.data())); };
  }

  GuardedBytes first_{kThreads * sizeof(float), std::byte{0}}, second_{kThreads * sizeof(float), std::byte{0}};
  std::unique_ptr<Elsewhere> there_;
};

// The guards of a buffer detect the write.
TEST_F(Planted, DISABLED_Overrun) {
  run(
      overrun_kernel, [](const Elsewhere&) { return kThreads; }, first());
  EXPECT_TRUE(first_.intact()) << "planted: a write past the end";
}

// Writes into the next buffer of one arena, which is allocated memory too.
TEST(Reach, DISABLED_Neighbour) {
  const cuda::Stream stream;
  const cuda::DeviceMemory arena(Bytes{2 * kThreads * sizeof(float)});
  cuda::Reach reach(arena.all());
  reach.only({arena.all().first(kThreads * sizeof(float))});
  cuda::launch(overrun_kernel, cuda::Grid{{1}, {kThreads}}, stream.handle(), kThreads, reinterpret_cast<float*>(arena.data()));
  stream.synchronize();
}

TEST_F(Planted, DISABLED_Race) { run(race_kernel, first()); }

TEST_F(Planted, DISABLED_Unwritten) { run(unwritten_kernel, second(), first()); }

TEST_F(Planted, DISABLED_Barrier) { run(barrier_kernel, first()); }

}  // namespace
}  // namespace plimsoll::test
