// The op cases' kernels on a GPU: buffers are copied there, guards and all, and back behind the run.
#pragma once

namespace plimsoll::test {

struct DeviceOptions {
  // Each buffer in memory of its own, without guards, of exactly its size, and what nothing has been written to comes as the
  // driver gives it: for tools that watch over the device's memory.
  bool apart = false;
  // Kernels run once, so that they are loaded, and then as a graph on what was there before.
  bool captured = false;
};
// Before the first case.
void set_device_options(const DeviceOptions& options);

}  // namespace plimsoll::test
