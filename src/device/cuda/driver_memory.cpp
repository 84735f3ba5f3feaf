#include "device/cuda/driver_memory.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace plimsoll::cuda {
namespace {

Bytes bytes(unsigned long long number) { return Bytes{static_cast<std::int64_t>(number)}; }

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::optional<Nvml> load_nvml(const char* library) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  Nvml nvml;
  if (handle == nullptr || !find(handle, "nvmlInit_v2", nvml.init) ||
      !find(handle, "nvmlDeviceGetHandleByPciBusId_v2", nvml.device_at) ||
      !find(handle, "nvmlDeviceGetMemoryInfo_v2", nvml.memory) ||
      !find(handle, "nvmlDeviceGetComputeRunningProcesses_v3", nvml.processes)) {
    return {};
  }
  return nvml;
}

DriverMemory::DriverMemory(const Nvml& nvml, const std::string& bus) : nvml_(nvml) {
  if (nvml_.init() != 0 || nvml_.device_at(bus.c_str(), &device_) != 0) device_ = nullptr;
  before_ = used();
}

std::optional<Bytes> DriverMemory::used() const {
  Nvml::Memory memory{.version = static_cast<unsigned>(sizeof(Nvml::Memory)) | 2U << 24};
  if (device_ == nullptr || nvml_.memory(device_, &memory) != 0) return {};
  return bytes(memory.used);
}

std::optional<Bytes> DriverMemory::listed() const {
  std::vector<Nvml::Process> processes(64);
  auto count = static_cast<unsigned>(processes.size());
  if (device_ == nullptr || nvml_.processes(device_, &count, processes.data()) != 0) return {};
  processes.resize(std::min<std::size_t>(count, processes.size()));
  for (const Nvml::Process& process : processes) {
    if (process.pid == static_cast<unsigned>(::getpid()) && process.used != ~0ULL) return bytes(process.used);
  }
  return {};
}

std::optional<Bytes> DriverMemory::held() const {
  if (const std::optional<Bytes> own = listed()) return own;
  const std::optional<Bytes> now = used();
  if (!now || !before_) return {};
  return std::max(Bytes{0}, *now - *before_);
}

}  // namespace plimsoll::cuda
