// The module's export (cuda_backend.h).
#include <fmt/core.h>

#include "device/cuda/rates.h"
#include "device/cuda/runtime.h"
#include "interface_id.h"
#include "run/cuda_backend.h"
#include "run/cuda_device.h"

namespace plimsoll {
namespace {

std::string cuda_version(const char* what, int version) {
  return fmt::format("{} {}.{}", what, version / 1000, version % 1000 / 10);
}

// Runs products as well, so that the module's memory in this process is complete.
CudaFacts open() {
  const cuda::DeviceFacts facts = cuda::open_device();
  cuda::try_products();
  return {facts.name, {cuda_version("CUDA", facts.runtime), cuda::products_library()}, facts.memory};
}

CudaRates measure() {
  const cuda::Rates rates = cuda::measure_rates();
  return {.peaks = {.flops_per_second = rates.fp32_flops,
                    .bf16_flops_per_second = rates.bf16_flops,
                    .fp16_flops_per_second = rates.bf16_flops,
                    .bytes_per_second = rates.pass_bytes,
                    .step_seconds = rates.launch_seconds},
          .copy_bytes_per_second = rates.copy_bytes,
          .in = {rates.in_bytes, rates.in_alone_bytes},
          .out = {rates.out_bytes, rates.out_alone_bytes},
          .outside = rates.outside,
          .graph_node = rates.graph_node};
}

std::unique_ptr<Device> make_device(const Program& program, const Plan& plan, const CudaOptions& options) {
  return std::make_unique<CudaDevice>(program, plan, options);
}

constexpr CudaBackend kBackend{PLIMSOLL_INTERFACE, open, measure, make_device};

}  // namespace
}  // namespace plimsoll

extern "C" __attribute__((visibility("default"))) const plimsoll::CudaBackend* plimsoll_cuda_backend() {
  return &plimsoll::kBackend;
}
