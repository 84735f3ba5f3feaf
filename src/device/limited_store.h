// A tier over links of a given rate, which shows on this machine how another one would wait. A transfer ends no sooner than the
// links allow. Each link has one lane in and one out; a lane works in the order of its starts.
#pragma once

#include <memory>
#include <vector>

#include "device/tier_store.h"

namespace plimsoll {

// Shared by the tiers that the link leads to.
struct LinkLimit {
  double bytes_per_second = 0;   // per direction, above 0
  double free_seconds[2]{0, 0};  // seconds_now() at which the lanes in and out become free
};

class LimitedStore final : public TierStore {
 public:
  // A transfer passes every link.
  LimitedStore(std::unique_ptr<TierStore> store, std::vector<std::shared_ptr<LinkLimit>> links, std::size_t events)
      : store_(std::move(store)), links_(std::move(links)), due_(events, 0) {}

  void start_read(std::uint32_t event, Bytes offset, std::span<std::byte> to) override;
  void start_write(std::uint32_t event, Bytes offset, std::span<const std::byte> from) override;
  void wait(std::uint32_t event) override;
  void read(Bytes offset, Bytes bytes, const std::function<void(std::span<const std::byte>)>& sink) override {
    store_->read(offset, bytes, sink);
  }
  void write(Bytes offset, Bytes bytes, const std::function<void(std::span<std::byte>)>& source) override {
    store_->write(offset, bytes, source);
  }
  Bytes height() const override { return store_->height(); }
  Bytes written() const override { return store_->written(); }
  Bytes wear() const override { return store_->wear(); }
  std::optional<TransferEngine> transfers() const override { return store_->transfers(); }

 private:
  void pass(std::uint32_t event, std::size_t lane, std::size_t bytes);

  std::unique_ptr<TierStore> store_;
  std::vector<std::shared_ptr<LinkLimit>> links_;
  std::vector<double> due_;  // by event
};

}  // namespace plimsoll
