#include "program/exchanges.h"

#include <algorithm>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"
#include "graph/exchange.h"

namespace plimsoll {
namespace {

// Longer parts are cut: a message has at most 1 GiB.
constexpr std::int64_t kMostPart = 1 << 28;

class Exchanges {
 public:
  Exchanges(const Graph& graph, const RunKernel& whole, std::vector<Instruction>& to)
      : whole_(whole),
        node_(graph.nodes[whole.node]),
        a_(node_.attributes.as<ExchangeAttributes>()),
        size_(size_of(graph.values[node_.outputs[0]].type.dtype)),
        to_(to) {}

  void append() {
    switch (node_.op->exchange) {
      case Exchange::none: break;
      case Exchange::sum_shards: return sum_shards();
      case Exchange::gather_shards: return gather(whole_.outputs[0]);
      case Exchange::fetch_shards:
      case Exchange::gather_values: return gather_own();
      case Exchange::sum_all: return sum_all();
    }
    throw internal_error("lower", "an exchange of no kind");
  }

 private:
  static Operand part_of(const Operand& operand, Bytes begin, Bytes bytes) {
    return {operand.tier, operand.arena, operand.offset + begin, bytes, operand.value};
  }
  Operand elements_of(const Operand& operand, std::int64_t begin, std::int64_t end) const {
    return part_of(operand, Bytes{begin * size_}, Bytes{(end - begin) * size_});
  }

  static void add(std::vector<StartExchange::Part>& parts, std::int64_t rank, const Operand& memory) {
    for (std::int64_t begin = 0; begin < memory.bytes.n; begin += kMostPart) {
      const Bytes bytes{std::min(kMostPart, memory.bytes.n - begin)};
      parts.push_back({static_cast<int>(rank), part_of(memory, Bytes{begin}, bytes)});
    }
  }

  template <class Body>
  void for_others(Body&& body) const {
    for (std::int64_t rank = 0; rank < a_.ranks(); ++rank) {
      if (rank != a_.rank) body(rank);
    }
  }

  // The sum itself is not held: it may be empty until the first addition of a window.
  std::vector<Operand> held() const {
    return node_.op->exchange == Exchange::sum_shards ? std::vector{whole_.inputs.front()} : whole_.inputs;
  }

  StartExchange begin(std::int64_t number) const {
    StartExchange start;
    start.node = whole_.node;
    start.event = static_cast<std::uint32_t>(number % 2);
    start.holds = held();
    start.room = whole_.scratch;
    start.begins = number == 0;
    return start;
  }
  void wait(std::int64_t number) {
    to_.push_back(WaitExchange{whole_.node, static_cast<std::uint32_t>(number % 2), held(), whole_.scratch});
  }

  // True if the sum has a place of its own, which holds the own shard.
  bool reduces() const { return whole_.inputs.size() == 2; }

  // The place of the numbers of another rank in a chunk's staging.
  std::int64_t slot(std::int64_t rank) const { return rank < a_.rank ? rank : rank - 1; }

  // Elements of a chunk of a shard, relative to the tensor.
  std::pair<std::int64_t, std::int64_t> chunk(std::int64_t rank, std::int64_t number) const {
    const std::int64_t begin = std::min(a_.begin(rank) + number * kExchangeChunk, a_.end(rank));
    return {begin, std::min(begin + kExchangeChunk, a_.end(rank))};
  }

  StartExchange start_chunk(std::int64_t number) const {
    StartExchange start = begin(number);
    const Operand& x = whole_.inputs[0];
    for_others([&](std::int64_t rank) {
      const auto [from, to] = chunk(rank, number);
      add(start.sends, rank, elements_of(x, from, to));
    });
    const auto [from, to] = chunk(a_.rank, number);
    if (from == to) return start;
    const Bytes all{whole_.scratch.bytes.n / staged_chunks(a_)};
    const Bytes each{all.n / (a_.ranks() - 1)};
    for_others([&](std::int64_t rank) {
      const Bytes place = all * (number % 2) + each * slot(rank);
      add(start.receives, rank, part_of(whole_.scratch, place, Bytes{(to - from) * size_}));
    });
    return start;
  }

  // A chunk is received while the one before it is added.
  void sum_shards() {
    std::int64_t chunks = 0;
    for (std::int64_t rank = 0; rank < a_.ranks(); ++rank) {
      chunks = std::max(chunks, ceil_div(a_.elements(rank), kExchangeChunk));
    }
    for (std::int64_t number = 0; number <= chunks; ++number) {
      if (number < chunks) to_.push_back(start_chunk(number));
      if (number == 0) continue;
      wait(number - 1);
      const auto [from, to] = chunk(a_.rank, number - 1);
      if (from == to) continue;
      RunKernel run = whole_;
      if (reduces()) {  // all of x is held until the last addition
        const std::int64_t own = a_.begin(a_.rank);
        run.inputs[1] = elements_of(whole_.inputs[1], from - own, to - own);
        run.outputs[0] = elements_of(whole_.outputs[0], from - own, to - own);
      } else {
        run.inputs[0] = run.outputs[0] = elements_of(whole_.inputs[0], from, to);
      }
      run.range = {from - a_.begin(a_.rank), to - from, 0};
      to_.push_back(std::move(run));
    }
    if (reduces() && a_.elements(a_.rank) == 0) to_.push_back(whole_);
  }

  // The own shard of x goes to all, theirs come in.
  void gather(const Operand& x) {
    StartExchange start = begin(0);
    for_others([&](std::int64_t rank) {
      add(start.sends, rank, elements_of(x, a_.begin(a_.rank), a_.end(a_.rank)));
      add(start.receives, rank, elements_of(x, a_.begin(rank), a_.end(rank)));
    });
    to_.push_back(std::move(start));
    wait(0);
  }

  // The kernel writes the own shard first.
  void gather_own() {
    if (a_.elements(a_.rank) > 0) {
      RunKernel run = whole_;
      run.outputs[0] = elements_of(whole_.outputs[0], a_.begin(a_.rank), a_.end(a_.rank));
      for (const Alias& alias : aliases_of(*node_.op, node_.attributes)) run.inputs[alias.input] = run.outputs[0];
      to_.push_back(std::move(run));
    }
    gather(whole_.outputs[0]);
  }

  void sum_all() {
    StartExchange start = begin(0);
    const Operand& x = whole_.inputs[0];
    const Bytes each = align_up(x.bytes, kAlignment);
    for_others([&](std::int64_t rank) {
      add(start.sends, rank, x);
      add(start.receives, rank, part_of(whole_.scratch, each * slot(rank), x.bytes));
    });
    to_.push_back(std::move(start));
    wait(0);
    to_.push_back(whole_);
  }

  const RunKernel& whole_;
  const Node& node_;
  const ExchangeAttributes& a_;
  std::int64_t size_;  // bytes of an element
  std::vector<Instruction>& to_;
};

}  // namespace

void append_exchange(const Graph& graph, const RunKernel& whole, std::vector<Instruction>& to) {
  Exchanges(graph, whole, to).append();
}

ExchangeDemand exchange_demand(const Program& program, int ranks) {
  ExchangeDemand demand{0, 2 * static_cast<std::size_t>(ranks)};
  for (const std::vector<Instruction>* section : program.sections()) {
    for (const Instruction& instruction : *section) {
      const auto* start = std::get_if<StartExchange>(&instruction);
      if (start == nullptr) continue;
      demand.events = std::max(demand.events, start->event + 1);
      demand.parts = std::max(demand.parts, start->sends.size() + start->receives.size());
    }
  }
  ++demand.events;
  return demand;
}

}  // namespace plimsoll
