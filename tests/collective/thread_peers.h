// Ranks as threads of one process, for tests: a world of n ranks, each with its Peers.
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collective/peers.h"

namespace plimsoll {

class ThreadWorld {
 public:
  explicit ThreadWorld(int count) : queues_(static_cast<std::size_t>(count * count)) {
    for (int rank = 0; rank < count; ++rank) ranks_.push_back(std::make_unique<Rank>(*this, rank));
  }

  int count() const { return static_cast<int>(ranks_.size()); }
  Peers& peers(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  // Runs `work` for each rank in a thread of its own. An error of one rank fails the others and is thrown here.
  void run(const std::function<void(Peers&)>& work) {
    std::vector<std::thread> threads;
    std::exception_ptr first;
    for (const auto& rank : ranks_) {
      threads.emplace_back([&, peers = rank.get()] {
        try {
          work(*peers);
        } catch (const std::exception& error) {
          {
            const std::lock_guard lock(mutex_);
            if (!first) first = std::current_exception();
          }
          const auto* known = dynamic_cast<const Error*>(&error);
          peers->fail(known != nullptr ? *known : internal_error("rank", error.what()));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (first) std::rethrow_exception(first);
  }

 private:
  struct Transfer {
    std::span<const std::byte> from;
    std::span<std::byte> to;
    std::size_t* sender = nullptr;  // the open parts of both ends
    std::size_t* receiver = nullptr;
  };
  // The parts on the way from one rank to another, until both ends have started them.
  struct Queue {
    std::deque<Transfer> sent, received;
  };

  class Rank final : public Peers {
   public:
    Rank(ThreadWorld& world, int rank) : world_(world), rank_(rank) {}

    int rank() const override { return rank_; }
    int count() const override { return world_.count(); }
    std::string host(int rank) const override { return "thread " + std::to_string(rank); }
    void limit(double, bool) override {}
    void reserve(std::uint32_t events, std::size_t parts) override {
      open_.resize(std::max<std::size_t>(open_.size(), events), 0);
      parts_ = std::max(parts_, parts);
    }

    void start(std::uint32_t event, const Exchange& exchange) override {
      const std::lock_guard lock(world_.mutex_);
      ensure(event < open_.size() && exchange.sends.size() + exchange.receives.size() <= parts_, "peers", "there is no room");
      ensure(open_[event] == 0, "peers", "the event is in use");
      open_[event] = exchange.sends.size() + exchange.receives.size();
      for (const Send& send : exchange.sends) {
        ensure(send.to != rank_, "peers", "a rank sends to itself");
        sent_ += Bytes{static_cast<std::int64_t>(send.bytes.size())};
        world_.queue(rank_, send.to).sent.push_back({.from = send.bytes, .sender = &open_[event]});
        world_.match(rank_, send.to);
      }
      for (const Receive& receive : exchange.receives) {
        ensure(receive.from != rank_, "peers", "a rank receives from itself");
        world_.queue(receive.from, rank_).received.push_back({.to = receive.bytes, .receiver = &open_[event]});
        world_.match(receive.from, rank_);
      }
      world_.changed_.notify_all();
    }

    void wait(std::uint32_t event) override {
      std::unique_lock lock(world_.mutex_);
      world_.changed_.wait(lock, [&] { return open_[event] == 0 || world_.error_; });
      if (world_.error_) throw *world_.error_;
    }

    void fail(const Error& error) override {
      const std::lock_guard lock(world_.mutex_);
      if (!world_.error_) world_.error_.emplace(error);
      world_.changed_.notify_all();
    }
    Bytes sent() const override { return sent_; }

   private:
    ThreadWorld& world_;
    int rank_;
    std::size_t parts_ = 0;
    std::vector<std::size_t> open_;  // parts in flight, by event
    Bytes sent_;
  };

  Queue& queue(int from, int to) { return queues_[static_cast<std::size_t>(from * count() + to)]; }
  void match(int from, int to) {
    Queue& queue = this->queue(from, to);
    while (!queue.sent.empty() && !queue.received.empty()) {
      const Transfer &sent = queue.sent.front(), &received = queue.received.front();
      ensure(sent.from.size() == received.to.size(), "peers", "the two ends of a part differ in size");
      if (!sent.from.empty()) std::memcpy(received.to.data(), sent.from.data(), sent.from.size());
      --*sent.sender;
      --*received.receiver;
      queue.sent.pop_front();
      queue.received.pop_front();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Queue> queues_;  // by sender and receiver
  std::optional<Error> error_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace plimsoll
