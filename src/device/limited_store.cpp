#include "device/limited_store.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"

namespace plimsoll {

void LimitedStore::pass(std::uint32_t event, std::size_t lane, std::size_t bytes) {
  const double now = seconds_now();
  due_.at(event) = now;
  for (const std::shared_ptr<LinkLimit>& link : links_) {
    double& free = link->free_seconds[lane];
    free = std::max(free, now) + static_cast<double>(bytes) / link->bytes_per_second;
    due_[event] = std::max(due_[event], free);
  }
}

void LimitedStore::start_read(std::uint32_t event, Bytes offset, std::span<std::byte> to) {
  pass(event, 0, to.size());
  store_->start_read(event, offset, to);
}

void LimitedStore::start_write(std::uint32_t event, Bytes offset, std::span<const std::byte> from) {
  pass(event, 1, from.size());
  store_->start_write(event, offset, from);
}

void LimitedStore::wait(std::uint32_t event) {
  store_->wait(event);
  const double left = due_.at(event) - seconds_now();
  if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
}

}  // namespace plimsoll
