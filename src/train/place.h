// Where a plan runs: the processor with its arena and the tiers past it, or a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "device/arena.h"
#include "run/cuda_backend.h"
#include "run/device.h"
#include "run/stores.h"
#include "train/config.h"

namespace plimsoll {

class Place {
 public:
  // Program and plan outlive it. `beyond`: bytes past the arena's end, for the audit. Throws what Arena, Stores, load_cuda and
  // CudaDevice do.
  Place(const Config& config, const Program& program, const Plan& plan, CudaPace pace, Bytes beyond = {});

  Device& device() { return *device_; }
  Bytes mapped() const { return mapped_; }
  // Of the arena; nothing where it is not in this process.
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
