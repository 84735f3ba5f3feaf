// The host's calls to a GPU: memory, streams, events, copies, graphs. Each failure names the call (errors.cuh). Over the
// emulation the same calls act on the host's memory (emulation_streams.h).
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace plimsoll::cuda {

struct DeviceFacts {
  std::string name;
  int capability = 0;  // 90: Hopper
  int multiprocessors = 0;
  Bytes memory;
  int driver = 0, runtime = 0;  // 13000: CUDA 13.0; the newest that the driver knows, and what this module was built with
};

// Makes the device's context with as little beside it as the driver allows. Throws E-CUDA-DEVICE (exit 2) where there is no
// device, or none that these kernels are for.
DeviceFacts open_device();
// Memory of the whole device, by whatever processes.
Bytes free_memory(), used_memory();
// Memory of this process, as the driver counts it (driver_memory.h), its context included; of all processes if the driver does
// not tell.
Bytes process_memory();
void synchronize_device();

// Memory of the device, multiples of 512 bytes. Throws E-MEM-ARENA (exit 3) where the device has not so much.
class DeviceMemory {
 public:
  explicit DeviceMemory(Bytes size);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::byte* data() const { return data_; }
  std::span<std::byte> all() const { return {data_, static_cast<std::size_t>(size_.n)}; }
  void fill_with_zeros() const;

 private:
  Bytes size_;
  std::byte* data_ = nullptr;
};

// Memory of the host that copies reach at the link's full rate. It belongs to the caller and outlives this.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::span<std::byte> memory);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

 private:
  std::span<std::byte> memory_;
};

class Stream;

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // After all that the stream has been given so far.
  void record(const Stream& stream);
  // Until what was recorded last is over; at once where nothing was.
  void wait() const;

 private:
  friend class Stream;
  void* handle_ = nullptr;
};

// A point in the work of a stream whose time is taken.
class TimedEvent {
 public:
  TimedEvent();
  ~TimedEvent();
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;

  void record(const Stream& stream);
  // Waits for both.
  double seconds_since(const TimedEvent& other) const;

 private:
  void* handle_ = nullptr;
  double reached_ = 0;  // of the emulation
};

// Work of a stream runs in its order, beside that of the others.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void* handle() const { return handle_; }
  // Between any two memories; memory of the host is pinned.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const;
  // Later work begins behind what was recorded last.
  void wait(const Event& event) const;
  // Later work begins no earlier than so much later: whoever gives it meanwhile is ahead of the device.
  void hold(double seconds) const;
  void synchronize() const;

 private:
  void* handle_ = nullptr;
};

// Work that is given to streams once and launched as a whole from then on. It begins on `stream` and has come back to it at its
// end; nothing in it waits on the host or allocates.
class Graph {
 public:
  Graph(const Stream& stream, const std::function<void()>& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(const Stream& stream) const;
  std::size_t nodes() const { return nodes_; }

 private:
  void* handle_ = nullptr;
  std::size_t nodes_ = 0;
};

}  // namespace plimsoll::cuda
