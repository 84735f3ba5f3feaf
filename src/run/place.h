// The place of a run: the processor with its arena and the tiers past it, or a GPU.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "device/arena.h"
#include "run/cuda_backend.h"
#include "run/device.h"
#include "run/stores.h"

namespace plimsoll {

struct PlaceRequest {
  bool cuda = false;
  CudaPace pace = CudaPace::kernels;   // of a GPU
  std::filesystem::path folder = ".";  // of the page file
  LinkLimits links = {};               // of a simulated device
  Bytes beyond = {};                   // bytes mapped past the arena's end, for the audit
};

class Place {
 public:
  // Program and plan outlive this. Throws the errors of Arena, Stores, load_cuda and CudaDevice.
  Place(const Program& program, const Plan& plan, const PlaceRequest& request);

  Device& device() { return *device_; }
  Bytes mapped() const { return mapped_; }
  // The arena's address; absent if the arena is not in this process.
  std::optional<std::uintptr_t> base() const {
    return arena_ ? std::optional(reinterpret_cast<std::uintptr_t>(arena_->base())) : std::nullopt;
  }

 private:
  Bytes mapped_;
  std::optional<Arena> arena_;
  std::optional<Stores> stores_;
  std::unique_ptr<Device> device_;
};

}  // namespace plimsoll
