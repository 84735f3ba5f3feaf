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
  for (const NodeId id : graph.order) {
    const Node& node = graph.nodes[id];
    if (node.op->exchange != Exchange::fetch_shards) continue;
    std::vector<std::int64_t> cuts = node.attributes.as<ExchangeAttributes>().cuts;
    for (std::int64_t& cut : cuts) cut *= size_of(graph.values[node.inputs[0]].type.dtype);
    const ValueId value = origin_of(graph, node.inputs[0]);
    cuts_.emplace(value, std::move(cuts));
    if (node.op != &kRefreshShards) continue;
    const ValueId copy = origin_of(graph, node.inputs[1]);
    copies_[value] = {copy, graph.values[copy].type.dtype};
  }
}

Bytes SharedValues::bytes_of(ValueId value, int rank) const {
  const std::vector<std::int64_t>& cuts = cuts_.at(value);
  return Bytes{cuts[static_cast<std::size_t>(rank) + 1] - cuts[static_cast<std::size_t>(rank)]};
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
  device_.read(program_.operands[value], take);
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
    device_.read(program_.operands[value], [&](std::span<const std::byte> bytes) {
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
  device_.write(program_.operands[value], [&](std::span<std::byte> own) {
    const std::vector<std::int64_t>& cuts = cuts_.at(value);
    const int rank = peers_ == nullptr ? 0 : peers_->rank();
    const std::int64_t begin = cuts[static_cast<std::size_t>(rank)], end = begin + std::ssize(own);
    for (std::int64_t at = 0; at < cuts.back();) {
      // Parts end at the bounds of the own shard, which gets its bytes at once.
      const std::int64_t next = at < begin ? begin : at < end ? end : cuts.back();
      const std::int64_t bytes = std::min(next - at, static_cast<std::int64_t>(kPiece));
      const bool mine = at >= begin && at < end;
      const std::span<std::byte> part = mine ? own.subspan(static_cast<std::size_t>(at - begin), static_cast<std::size_t>(bytes))
                                             : std::span(piece).first(static_cast<std::size_t>(bytes));
      source(part);
      hasher.add(part);
      if (copy != copies_.end()) {
        const std::span numbers(reinterpret_cast<const float*>(part.data()), part.size() / sizeof(float));
        narrow(copy->second.dtype, numbers, whole + at / kWidths);
      }
      at += bytes;
    }
  });
  hashes_[value] = hasher.hex();
}

const std::string* SharedValues::written_hash(ValueId value) const {
  const auto found = hashes_.find(value);
  return found == hashes_.end() ? nullptr : &found->second;
}

}  // namespace plimsoll
