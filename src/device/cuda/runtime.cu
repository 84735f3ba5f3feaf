#include "device/cuda/runtime.h"

#include "base/clock.h"
#include "base/error.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>

#include <cstdint>
#include <optional>

#include "device/cuda/driver_memory.h"
#include "device/cuda/errors.cuh"
#else
#include <cstdlib>
#include <cstring>

#include "device/cuda/emulation_streams.h"
#endif

namespace plimsoll::cuda {

#ifdef __CUDACC__

namespace {

cudaStream_t stream_of(void* handle) { return static_cast<cudaStream_t>(handle); }
cudaEvent_t event_of(void* handle) { return static_cast<cudaEvent_t>(handle); }

std::string version_text(int version) {
  return version == 0 ? "none" : std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// A waiting thread sleeps. The flag of the device covers streams alone; events need their own.
constexpr unsigned kSleepingEvent = cudaEventBlockingSync;

constexpr int kOldest = 90;  // Hopper
std::string capability_text(int capability) { return std::to_string(capability / 10) + "." + std::to_string(capability % 10); }

Error no_device(const std::string& why, int driver, int runtime) {
  return {ErrorKind::environment,
          ExitCode::configuration,
          "E-CUDA-DEVICE",
          "device cuda",
          "no GPU can be used: " + why + "; CUDA of the driver: " + version_text(driver) +
              ", of this module: " + version_text(runtime),
          "a GPU of NVIDIA's whose driver knows CUDA " + version_text(runtime),
          {"nvidia-smi", Remedy::of_command("train CONFIG", {{"machine.device", "cpu"}})}};
}

// Ignores errors in destructors; the next call reports them again.
template <class... Results>
void forget(Results...) {}

// Made at the first call, before there is a context.
const std::optional<DriverMemory>& driver_memory() {
  static const std::optional<DriverMemory> memory = []() -> std::optional<DriverMemory> {
    char bus[32] = {};
    const std::optional<Nvml> nvml = load_nvml();
    if (!nvml || cudaDeviceGetPCIBusId(bus, sizeof bus, 0) != cudaSuccess) return {};
    return DriverMemory(*nvml, bus);
  }();
  return memory;
}

}  // namespace

DeviceFacts open_device() {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t first = cudaGetDeviceCount(&count);
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (first != cudaSuccess || count == 0) {
    throw no_device(first == cudaSuccess ? "there is none" : cudaGetErrorString(first), driver, runtime);
  }
  driver_memory();
  forget(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));  // a waiting thread sleeps
  check(cudaSetDevice(0), "the device's context");
  // Our kernels use neither malloc nor printf, so the driver reserves the least for them.
  forget(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 10), cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 10));
  forget(cudaGetLastError());
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "what the device is");
  DeviceFacts facts;
  facts.name = properties.name;
  facts.capability = 10 * properties.major + properties.minor;
  facts.multiprocessors = properties.multiProcessorCount;
  facts.memory = Bytes{static_cast<std::int64_t>(properties.totalGlobalMem)};
  if (facts.capability < kOldest) {
    throw no_device(facts.name + " is of compute capability " + capability_text(facts.capability) + ", kernels are for " +
                        capability_text(kOldest) + " and newer",
                    driver, runtime);
  }
  facts.driver = driver;
  facts.runtime = runtime;
  return facts;
}

namespace {

struct Memory {
  std::size_t free = 0, all = 0;
};
Memory memory_now() {
  Memory memory;
  check(cudaMemGetInfo(&memory.free, &memory.all), "how much memory is free");
  return memory;
}

}  // namespace

Bytes free_memory() { return Bytes{static_cast<std::int64_t>(memory_now().free)}; }
Bytes used_memory() {
  const Memory memory = memory_now();
  return Bytes{static_cast<std::int64_t>(memory.all - memory.free)};
}

Bytes process_memory() {
  const std::optional<Bytes> held = driver_memory() ? driver_memory()->held() : std::nullopt;
  return held ? *held : used_memory();
}

void synchronize_device() { check(cudaDeviceSynchronize(), "waiting for the device"); }

DeviceMemory::DeviceMemory(Bytes size) : size_(size) {
  void* memory = nullptr;
  const cudaError_t result = cudaMalloc(&memory, static_cast<std::size_t>(size.n));
  if (result == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Error(ErrorKind::environment, ExitCode::does_not_fit, "E-MEM-ARENA", "device cuda",
                "the arena takes " + to_text(size) + ", the device has " + to_text(free_memory()) + " left",
                "memory that other processes leave free", {"a budget within the free memory"});
  }
  check(result, "the arena");
  data_ = static_cast<std::byte*>(memory);
}
DeviceMemory::~DeviceMemory() { forget(cudaFree(data_)); }
void DeviceMemory::fill_with_zeros() const {
  check(cudaMemset(data_, 0, static_cast<std::size_t>(size_.n)), "the arena");
  synchronize_device();
}

PinnedMemory::PinnedMemory(std::span<std::byte> memory) : memory_(memory) {
  if (!memory.empty())
    check(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault), "pinning memory of the host");
}
PinnedMemory::~PinnedMemory() {
  if (!memory_.empty()) forget(cudaHostUnregister(memory_.data()));
}

Event::Event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, kSleepingEvent | cudaEventDisableTiming), "an event");
  handle_ = event;
}
Event::~Event() { forget(cudaEventDestroy(event_of(handle_))); }
void Event::record(const Stream& stream) { check(cudaEventRecord(event_of(handle_), stream_of(stream.handle())), "an event"); }
void Event::wait() const { check(cudaEventSynchronize(event_of(handle_)), "work on the device"); }

TimedEvent::TimedEvent() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, kSleepingEvent), "an event");
  handle_ = event;
}
TimedEvent::~TimedEvent() { forget(cudaEventDestroy(event_of(handle_))); }
void TimedEvent::record(const Stream& stream) {
  check(cudaEventRecord(event_of(handle_), stream_of(stream.handle())), "an event");
}
double TimedEvent::seconds_since(const TimedEvent& other) const {
  float milliseconds = 0;
  check(cudaEventSynchronize(event_of(handle_)), "work on the device");
  check(cudaEventElapsedTime(&milliseconds, event_of(other.handle_), event_of(handle_)), "the time between two events");
  return 1e-3 * milliseconds;
}

Stream::Stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  handle_ = stream;
}
Stream::~Stream() { forget(cudaStreamDestroy(stream_of(handle_))); }
void copy(void* stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)), "a copy");
}
void Stream::copy(std::byte* to, const std::byte* from, std::size_t bytes) const { cuda::copy(handle_, to, from, bytes); }
void Stream::wait(const Event& event) const {
  check(cudaStreamWaitEvent(stream_of(handle_), event_of(event.handle_), 0), "waiting for an event");
}
__global__ void hold_kernel(std::uint64_t nanoseconds) {
  const auto now = [] {
    std::uint64_t time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
  };
  for (const std::uint64_t begin = now(); now() - begin < nanoseconds;) __nanosleep(1000);
}
void Stream::hold(double seconds) const {
  hold_kernel<<<1, 1, 0, stream_of(handle_)>>>(static_cast<std::uint64_t>(seconds * 1e9));
  check(cudaGetLastError(), "a pause");
}
void Stream::synchronize() const { check(cudaStreamSynchronize(stream_of(handle_)), "work on the device"); }

Graph::Graph(const Stream& stream, const std::function<void()>& work) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream_of(stream.handle()), cudaStreamCaptureModeThreadLocal), "a graph");
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream_of(stream.handle()), &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream_of(stream.handle()), &graph), "a graph");
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphGetNodes(graph, nullptr, &nodes_), "a graph");
  check(cudaGraphInstantiate(&executable, graph, 0), "a graph");
  check(cudaGraphDestroy(graph), "a graph");
  check(cudaGraphUpload(executable, stream_of(stream.handle())), "a graph");
  handle_ = executable;
}
Graph::~Graph() { forget(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(handle_))); }
void Graph::launch(const Stream& stream) const {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(handle_), stream_of(stream.handle())), "launch of a graph");
}

#else

// Room for small models beside the workspace of the products.
constexpr Bytes kMemory{4LL << 30};

DeviceFacts open_device() { return {"emulation", 90, 1, kMemory, 0, 0}; }
Bytes free_memory() { return kMemory; }
Bytes used_memory() { return {}; }
Bytes process_memory() { return {}; }
void synchronize_device() { emulation::synchronize_all(); }

// An allocation of its own, so that memory tools of the host detect accesses outside of it.
DeviceMemory::DeviceMemory(Bytes size)
    : size_(size),
      data_(static_cast<std::byte*>(std::aligned_alloc(512, static_cast<std::size_t>(align_up(size, Bytes{512}).n)))) {}
DeviceMemory::~DeviceMemory() { std::free(data_); }
void DeviceMemory::fill_with_zeros() const { std::memset(data_, 0, static_cast<std::size_t>(size_.n)); }

PinnedMemory::PinnedMemory(std::span<std::byte> memory) : memory_(memory) {}
PinnedMemory::~PinnedMemory() = default;

Event::Event() : handle_(emulation::make_event()) {}
Event::~Event() { emulation::destroy_event(handle_); }
void Event::record(const Stream& stream) { emulation::record(handle_, stream.handle()); }
void Event::wait() const { emulation::wait_on_host(handle_); }

TimedEvent::TimedEvent() = default;
TimedEvent::~TimedEvent() = default;
void TimedEvent::record(const Stream& stream) {
  handle_ = stream.handle();
  emulation::submit(handle_, [this] { reached_ = seconds_now(); });
}
double TimedEvent::seconds_since(const TimedEvent& other) const {
  emulation::synchronize(handle_);
  return reached_ - other.reached_;
}

Stream::Stream() : handle_(emulation::make_stream()) {}
Stream::~Stream() { emulation::destroy_stream(handle_); }
void copy(void* stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  emulation::submit(stream, [=] { std::memcpy(to, from, bytes); });
}
void Stream::copy(std::byte* to, const std::byte* from, std::size_t bytes) const { cuda::copy(handle_, to, from, bytes); }
void Stream::wait(const Event& event) const { emulation::wait(handle_, event.handle_); }
void Stream::hold(double) const {}
void Stream::synchronize() const { emulation::synchronize(handle_); }

Graph::Graph(const Stream& stream, const std::function<void()>& work)
    : handle_(emulation::capture(stream.handle(), work)), nodes_(emulation::captured(handle_)) {}
Graph::~Graph() { emulation::destroy_graph(handle_); }
void Graph::launch(const Stream&) const { emulation::launch(handle_); }

#endif

}  // namespace plimsoll::cuda
