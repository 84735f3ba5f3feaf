#include "run/place.h"

#include "run/cpu_device.h"

namespace plimsoll {

Place::Place(const Program& program, const Plan& plan, const PlaceRequest& request)
    : mapped_(align_up(plan.arena + request.beyond, kPage)) {
  if (request.cuda) {
    const CudaBackend& cuda = load_cuda();
    cuda.open();
    device_ = cuda.make_device(program, plan, {request.folder, request.pace, mapped_ - program.arena});
    return;
  }
  arena_.emplace(plan.arena, request.beyond);
  stores_.emplace(program, plan, request.folder, request.links);
  device_ = std::make_unique<CpuDevice>(*arena_, stores_->all());
}

}  // namespace plimsoll
