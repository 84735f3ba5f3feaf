// The kernels of the op cases on a GPU. Buffers and their guards are copied to the device before the run, and back after it.
#pragma once

namespace plimsoll::test {

struct DeviceOptions {
  // Each buffer has an allocation of exactly its size, without guards, and unwritten bytes stay as allocated: for tools that
  // check the device's memory.
  bool apart = false;
  // Kernels run once, so that they are loaded, and then as a graph on the original content.
  bool captured = false;
};
// Must precede the first case.
void set_device_options(const DeviceOptions& options);

}  // namespace plimsoll::test
