#include "train/place.h"

#include "run/cpu_device.h"

namespace plimsoll {

Place::Place(const Config& config, const Program& program, const Plan& plan, CudaPace pace, Bytes beyond)
    : mapped_(align_up(plan.arena + beyond, kPage)) {
  const std::filesystem::path folder = config.memory.disk ? config.memory.disk->folder : ".";
  if (config.device == DeviceChoice::cuda) {
    const CudaBackend& cuda = load_cuda();
    cuda.open();
    device_ = cuda.make_device(program, plan, {folder, pace, mapped_ - program.arena});
    return;
  }
  arena_.emplace(plan.arena, beyond);
  const LinkLimits limits = config.device == DeviceChoice::sim ? LinkLimits{config.links.host, config.links.disk} : LinkLimits{};
  stores_.emplace(program, plan, folder, limits);
  device_ = std::make_unique<CpuDevice>(*arena_, stores_->all());
}

}  // namespace plimsoll
