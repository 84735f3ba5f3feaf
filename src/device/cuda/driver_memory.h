// The memory of a GPU that this process holds, as the driver counts it. The source is NVML, which belongs to the driver and is
// loaded if present. It needs no context on the device.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"

namespace plimsoll::cuda {

// Functions of NVML's C interface, in its layouts (nvml.h of CUDA 13). All return 0 on success.
struct Nvml {
  struct Memory {
    unsigned version;  // the structure's size and 2 << 24
    unsigned long long total, reserved, free, used;
  };
  struct Process {
    unsigned pid;
    unsigned long long used;  // all ones: not known
    unsigned gpu_instance, compute_instance;
  };
  using Device = void*;

  int (*init)() = nullptr;
  int (*device_at)(const char* bus, Device* device) = nullptr;
  int (*memory)(Device device, Memory* memory) = nullptr;
  int (*processes)(Device device, unsigned* count, Process* processes) = nullptr;
};

// Absent if there is no such library, or an older one.
std::optional<Nvml> load_nvml(const char* library = "libnvidia-ml.so.1");

class DriverMemory {
 public:
  // The device at this PCI address, "0000:3b:00.0"; made before the process has a context there.
  DriverMemory(const Nvml& nvml, const std::string& bus);

  // The driver's figure for this process. In a container the driver knows the process by another number; the result is then the
  // growth of the memory of all processes since the construction of this. Absent if the driver reports neither.
  std::optional<Bytes> held() const;

 private:
  std::optional<Bytes> used() const;
  std::optional<Bytes> listed() const;

  Nvml nvml_;
  Nvml::Device device_ = nullptr;
  std::optional<Bytes> before_;
};

}  // namespace plimsoll::cuda
