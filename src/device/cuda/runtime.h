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
  int driver = 0, runtime = 0;  // newest CUDA of the driver, CUDA of this module's build; 13000: CUDA 13.0
};

// Makes the device's context with the least memory that the driver allows. Throws E-CUDA-DEVICE (exit 2) if there is no device,
// or none for these kernels.
DeviceFacts open_device();
// Memory of the whole device, over all processes.
Bytes free_memory(), used_memory();
// Memory of this process with its context, as the driver counts it (driver_memory.h); of all processes if the driver gives no
// figure.
Bytes process_memory();
void synchronize_device();

// Memory of the device, in multiples of 512 bytes. Throws E-MEM-ARENA (exit 3) if the device has too little.
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

// Pins memory of the host, so that copies reach the link's full rate. The memory belongs to the caller and outlives this.
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

  // Marks the end of all work given to the stream so far.
  void record(const Stream& stream);
  // Blocks until the work before the latest record is over; returns at once without a record.
  void wait() const;

 private:
  friend class Stream;
  void* handle_ = nullptr;
};

// A point in the work of a stream with its time.
class TimedEvent {
 public:
  TimedEvent();
  ~TimedEvent();
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;

  void record(const Stream& stream);
  // Waits for both points.
  double seconds_since(const TimedEvent& other) const;

 private:
  void* handle_ = nullptr;
  double reached_ = 0;  // seconds, in the emulation
};

// A stream runs its work in order, concurrently with other streams.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void* handle() const { return handle_; }
  // Copies between memories of device and host; memory of the host is pinned.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const;
  // Later work of this stream begins after the latest record of the event.
  void wait(const Event& event) const;
  // Delays later work by at least these seconds, so that the host can submit it ahead of the device.
  void hold(double seconds) const;
  void synchronize() const;

 private:
  void* handle_ = nullptr;
};

// Stream::copy for a kernel, which has the handle of its stream.
void copy(void* stream, std::byte* to, const std::byte* from, std::size_t bytes);

// Captured work of streams that is launched as a whole. It begins on `stream`, which waits for all of it at the end; nothing in
// it waits on the host or allocates.
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
