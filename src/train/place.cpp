#include "train/place.h"

#include "run/audit.h"
#include "run/cpu_device.h"
#include "run/cuda_backend.h"

namespace plimsoll {

Place::Place(const Config& config, const Program& program, const Plan& plan, bool audited)
    : mapped_(align_up(plan.arena + (audited ? kAuditBeyond : Bytes{0}), kPage)) {
  const std::filesystem::path folder = config.memory.disk ? config.memory.disk->folder : ".";
  if (config.device == DeviceChoice::cuda) {
    const CudaBackend& cuda = load_cuda();
    cuda.open();
    device_ = cuda.make_device(program, plan, {folder, config.gpu_graphs && !audited, mapped_ - program.arena});
    return;
  }
  arena_.emplace(plan.arena, audited ? kAuditBeyond : Bytes{0});
  const LinkLimits limits = config.device == DeviceChoice::sim ? LinkLimits{config.links.host, config.links.disk} : LinkLimits{};
  stores_.emplace(program, plan, folder, limits);
  device_ = std::make_unique<CpuDevice>(*arena_, stores_->all());
}

}  // namespace plimsoll
