#include "run/shared_values.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <span>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "collective/broadcast.h"
#include "graph/exchange.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

constexpr std::size_t kPiece = 64 << 10;  // bytes

template <class Byte, class Work>
void in_pieces(std::span<Byte> bytes, const Work& work) {
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) work(bytes.subspan(at, std::min(kPiece, bytes.size() - at)));
}

}  // namespace

SharedValues::SharedValues(const Graph& graph, const Program& program, Device& device, Peers* peers, std::uint32_t event)
    : program_(program), device_(device), peers_(peers), event_(event) {
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[ValueId{i}];
    if (!value.shard || value.shard->cuts.empty()) continue;
    std::vector<std::int64_t>& cuts = cuts_[ValueId{i}] = value.shard->cuts;
    for (std::int64_t& cut : cuts) cut *= size_of(value.type.dtype);
  }
  for (const NodeId id : graph.order) {
    const Node& node = graph.nodes[id];
    if (node.op != &kRefreshShards) continue;
    const ValueId copy = origin_of(graph, node.inputs[1]);
    copies_[origin_of(graph, node.inputs[0])] = {copy, graph.values[copy].type.dtype};
  }
}

Bytes SharedValues::bytes_of(ValueId value, int rank) const {
  const std::vector<std::int64_t>& cuts = cuts_.at(value);
  return Bytes{cuts[static_cast<std::size_t>(rank) + 1] - cuts[static_cast<std::size_t>(rank)]};
}

void SharedValues::read_own(ValueId value, const Device::Sink& sink) const {
  if (bytes_of(value, peers_->rank()).n > 0) device_.read(program_.operands[value], sink);
}

// A sink that fails still takes all parts from the others, so that all ranks remain at the same message.
void SharedValues::read(ValueId value, const Device::Sink& sink) const {
  ensure(peers_ != nullptr && peers_->rank() == 0, "executor", "another rank than the first reads a value of all ranks");
  std::exception_ptr failure;
  const auto take = [&](std::span<const std::byte> part) {
    if (failure) return;
    try {
      sink(part);
    } catch (...) {
      failure = std::current_exception();
    }
  };
  read_own(value, take);
  broadcast(*peers_, event_, 0, std::to_string(value.index));
  std::vector<std::byte> piece(kPiece);
  for (int rank = 1; rank < peers_->count(); ++rank) {
    for (auto left = static_cast<std::size_t>(bytes_of(value, rank).n); left > 0;) {
      const std::span<std::byte> part = std::span(piece).first(std::min(left, kPiece));
      const Peers::Receive receive{rank, part};
      peers_->start(event_, {{}, std::span(&receive, 1)});
      peers_->wait(event_);
      take(part);
      left -= part.size();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void SharedValues::serve() const {
  if (cuts_.empty()) return;
  while (true) {
    const std::string asked = broadcast(*peers_, event_, 0, {});
    if (asked.empty()) return;
    const ValueId value{static_cast<std::size_t>(std::stoull(asked))};
    read_own(value, [&](std::span<const std::byte> bytes) {
      in_pieces(bytes, [&](std::span<const std::byte> part) {
        const Peers::Send send{0, part};
        peers_->start(event_, {std::span(&send, 1), {}});
        peers_->wait(event_);
      });
    });
  }
}

void SharedValues::end() const {
  if (!cuts_.empty()) broadcast(*peers_, event_, 0, {});
}

void SharedValues::write(ValueId value, const Device::Source& source) {
  std::vector<std::byte> piece(kPiece);
  Hasher hasher;
  constexpr std::int64_t kWidths = sizeof(float) / 2;  // bytes of a number for one of its copy
  const auto copy = copies_.find(value);
  std::byte* const whole = copy == copies_.end() ? nullptr : device_.host(program_.operands[copy->second.value]);
  const std::vector<std::int64_t>& cuts = cuts_.at(value);
  const auto rank = static_cast<std::size_t>(peers_ == nullptr ? 0 : peers_->rank());
  std::int64_t at = 0;
  const auto take = [&](std::span<std::byte> part) {
    source(part);
    hasher.add(part);
    if (copy != copies_.end()) {
      const std::span numbers(reinterpret_cast<const float*>(part.data()), part.size() / sizeof(float));
      narrow(copy->second.dtype, numbers, whole + at / kWidths);
    }
    at += std::ssize(part);
  };
  const auto pass = [&](std::int64_t end) {
    while (at < end) take(std::span(piece).first(std::min(kPiece, static_cast<std::size_t>(end - at))));
  };
  pass(cuts[rank]);
  if (at < cuts[rank + 1]) {
    device_.write(program_.operands[value], [&](std::span<std::byte> own) { in_pieces(own, take); });
  }
  pass(cuts.back());
  hashes_[value] = hasher.hex();
}

const std::string* SharedValues::written_hash(ValueId value) const {
  const auto found = hashes_.find(value);
  return found == hashes_.end() ? nullptr : &found->second;
}

}  // namespace plimsoll
