#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/visit.h"
#include "program/program.h"

namespace plimsoll {
namespace {

bool overlap(const Operand& a, const Operand& b) {
  return a.bytes.n > 0 && b.bytes.n > 0 && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

std::string range_text(const Operand& operand) {
  return fmt::format("[{:#x}, {:#x})", operand.offset.n, (operand.offset + operand.bytes).n);
}

class Verifier {
 public:
  Verifier(const Program& program, const Graph& graph) : program_(program), graph_(graph) {}

  void run(const std::vector<Instruction>& section) {
    for (const Instruction& instruction : section) {
      who_ = describe(instruction, graph_);
      match(
          instruction, [&](const RunKernel& kernel) { check(kernel); },
          [&](const Feed& feed) {
            check_places(feed.reads, Use::reads);
            check_places(feed.writes, Use::writes);
          },
          [&](const Fetch& fetch) { check_places(fetch.reads, Use::reads); }, [&](const StartCopy& copy) { start(copy); },
          [&](const WaitCopy& wait) { end(wait); }, [&](const StartExchange& exchange) { start(exchange); },
          [&](const WaitExchange& wait) {
            if (exchanges_.erase(wait.event) == 0) fail(fmt::format("exchange {} has not begun", wait.event));
          },
          [&](const LoadState& load) { check_places(load.writes, Use::writes); },
          [&](const SaveState& save) { check_places(save.reads, Use::reads); });
    }
    if (!exchanges_.empty()) fail(fmt::format("the section ends before exchange {} was waited for", exchanges_.begin()->first));
    if (!in_flight_.empty()) fail(fmt::format("the section ends before copy {} was waited for", in_flight_.begin()->first));
  }

 private:
  enum class Use : std::uint8_t { reads, writes };
  struct Flight {
    Operand room;
    bool in = false;        // a copy into tier 0, which writes the room
    std::uint8_t tier = 0;  // the other tier
    Operand there;          // the range on that tier
  };

  [[noreturn]] void fail(const std::string& what) const { throw internal_error("program", who_ + ": " + what); }

  void check_place(const Operand& operand, Use use) const {
    if (operand.tier != 0 || operand.arena != 0) fail("an operand that is not where kernels run");
    if (operand.offset.n % kAlignment.n != 0) fail(range_text(operand) + " is not aligned");
    if (operand.offset.n < 0 || operand.offset + operand.bytes > program_.arena) fail(range_text(operand) + " leaves the arena");
    for (const auto& [event, flight] : in_flight_) {
      if (overlap(operand, flight.room) && (flight.in || use == Use::writes)) {
        fail(fmt::format("{} is in the room of copy {}, which nothing has waited for", range_text(operand), event));
      }
    }
    for (const auto& [event, exchange] : exchanges_) {
      const auto touches = [&](const StartExchange::Part& part) { return overlap(operand, part.memory); };
      if (std::ranges::any_of(exchange->receives, touches) ||
          (use == Use::writes && std::ranges::any_of(exchange->sends, touches))) {
        fail(fmt::format("{} is a part of exchange {}, which nothing has waited for", range_text(operand), event));
      }
    }
  }

  void start(const StartExchange& exchange) {
    for (const auto& part : exchange.sends) check_place(part.memory, Use::reads);
    for (const auto& part : exchange.receives) check_place(part.memory, Use::writes);
    for (std::size_t i = 0; i < exchange.receives.size(); ++i) {
      const auto overlaps = [&](const StartExchange::Part& part) { return overlap(part.memory, exchange.receives[i].memory); };
      if (std::ranges::any_of(std::span(exchange.receives).first(i), overlaps) || std::ranges::any_of(exchange.sends, overlaps)) {
        fail(range_text(exchange.receives[i].memory) + " is received while another part uses it");
      }
    }
    if (!exchanges_.emplace(exchange.event, &exchange).second) fail(fmt::format("exchange {} is under way", exchange.event));
  }

  // State of another tier is loaded and saved through the executor, not through an operand here.
  void check_places(const std::vector<Operand>& operands, Use use) const {
    for (const Operand& operand : operands) check_place(operand, use);
  }

  void start(const StartCopy& copy) {
    const bool in = copy.from.tier != 0;
    const Operand &here = in ? copy.to : copy.from, &there = in ? copy.from : copy.to;
    if (here.tier != 0 || there.tier == 0) fail("a copy that is not between tier 0 and another one");
    check_place(copy.room, in ? Use::writes : Use::reads);
    if (here.offset != copy.room.offset || here.bytes > copy.room.bytes) fail(range_text(here) + " leaves its room");
    if (here.bytes != there.bytes) fail("a copy of unequal sizes");
    if (there.offset.n < 0 || there.offset + there.bytes > program_.stored[there.tier]) {
      fail(fmt::format("{} leaves tier {}", range_text(there), there.tier));
    }
    for (const auto& [event, other] : in_flight_) {
      if (other.tier == there.tier && !(in && other.in) && overlap(other.there, there)) {
        fail(fmt::format("tier {} {} is that of copy {}, which nothing has waited for", there.tier, range_text(there), event));
      }
    }
    if (!in_flight_.emplace(copy.event, Flight{copy.room, in, there.tier, there}).second)
      fail(fmt::format("copy {} is under way", copy.event));
  }

  void end(const WaitCopy& wait) {
    const auto flight = in_flight_.find(wait.event);
    if (flight == in_flight_.end()) fail(fmt::format("copy {} has not begun", wait.event));
    if (flight->second.room.offset != wait.room.offset || flight->second.room.bytes != wait.room.bytes) {
      fail(range_text(wait.room) + " is not the room of what is waited for");
    }
    if (flight->second.tier != wait.tier) fail(fmt::format("copy {} is not on tier {}", wait.event, wait.tier));
    in_flight_.erase(flight);
  }

  // An output may share its bytes with an input only as a whole and only by an alias of the op.
  void check(const RunKernel& kernel) const {
    const Node& node = graph_.nodes[kernel.node];
    const std::vector<Alias> aliases = aliases_of(*node.op, node.attributes);
    check_places(kernel.inputs, Use::reads);
    check_places(kernel.outputs, Use::writes);
    for (const auto* operands : {&kernel.inputs, &kernel.outputs}) {
      for (const Operand& operand : *operands) {
        if (overlap(operand, kernel.scratch)) fail("scratch overlaps operand " + range_text(operand));
      }
    }
    // The staging of a sum holds the next chunk, too, which may be under way.
    const bool exchanges = node.op->exchange != Exchange::none;
    if (kernel.scratch.bytes.n > 0 && !exchanges) check_place(kernel.scratch, Use::writes);
    for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
      for (std::size_t other = 0; other < o; ++other) {
        if (overlap(kernel.outputs[o], kernel.outputs[other])) fail("two outputs overlap");
      }
      for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
        if (!overlap(kernel.outputs[o], kernel.inputs[i])) continue;
        bool allowed = false;
        for (const Alias& alias : aliases) allowed = allowed || (alias.input == i && alias.output == o);
        const bool whole =
            kernel.inputs[i].offset == kernel.outputs[o].offset && kernel.inputs[i].bytes == kernel.outputs[o].bytes;
        if (!allowed || !whole) {
          fail(fmt::format("output {} overlaps input {}", range_text(kernel.outputs[o]), range_text(kernel.inputs[i])));
        }
      }
    }
  }

  const Program& program_;
  const Graph& graph_;
  std::string who_;                            // the present instruction
  std::map<std::uint32_t, Flight> in_flight_;  // by event
  std::map<std::uint32_t, const StartExchange*> exchanges_;
};

std::string operands_text(const char* label, const std::vector<Operand>& operands) {
  std::string text;
  for (const Operand& operand : operands) text += fmt::format(" {}{}", label, range_text(operand));
  return text;
}

std::string to_text(const Instruction& instruction) {
  return match(
      instruction,
      [](const RunKernel& kernel) {
        std::string text = operands_text("r", kernel.inputs) + operands_text("w", kernel.outputs);
        if (kernel.scratch.bytes.n > 0) text += " s" + range_text(kernel.scratch);
        return text;
      },
      [](const Feed& feed) { return operands_text("r", feed.reads) + operands_text("w", feed.writes); },
      [](const Fetch& fetch) { return operands_text("r", fetch.reads); },
      [](const StartCopy& copy) {
        return fmt::format(" {}:{} to {}:{} as {}", copy.from.tier, range_text(copy.from), copy.to.tier, range_text(copy.to),
                           copy.event);
      },
      [](const WaitCopy& wait) { return fmt::format(" {} in {}", wait.event, range_text(wait.room)); },
      [](const StartExchange& exchange) {
        std::string text;
        for (const auto& part : exchange.sends) text += fmt::format(" {} to rank {}", range_text(part.memory), part.rank);
        for (const auto& part : exchange.receives) text += fmt::format(" {} from rank {}", range_text(part.memory), part.rank);
        return text + fmt::format(" as {}", exchange.event);
      },
      [](const WaitExchange& wait) { return fmt::format(" {}", wait.event); },
      [](const LoadState& load) { return operands_text("w", load.writes); },
      [](const SaveState& save) { return operands_text("r", save.reads); });
}

void append(std::string& text, std::string_view section, const std::vector<Instruction>& instructions, const Graph& graph) {
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    text += fmt::format("{} {}: {}{}\n", section, i, describe(instructions[i], graph), to_text(instructions[i]));
  }
}

}  // namespace

std::string describe(const Instruction& instruction, const Graph& graph) {
  const auto copied = [&](const char* what, const Operand& operand) {
    return operand.value.valid() ? fmt::format("{} of {}", what, graph.values[operand.value].name.text()) : std::string(what);
  };
  return match(
      instruction,
      [&](const RunKernel& kernel) {
        const Node& node = graph.nodes[kernel.node];
        return fmt::format("{} ({})", node.line.text(), node.op->name);
      },
      [](const Feed&) { return std::string("feed"); }, [](const Fetch&) { return std::string("fetch"); },
      [&](const StartCopy& copy) { return copied("copy", copy.room); },
      [&](const WaitCopy& wait) { return copied("waiting for the copy", wait.room); },
      [&](const StartExchange& exchange) { return "exchange of " + graph.nodes[exchange.node].line.text(); },
      [&](const WaitExchange& wait) { return "waiting for the exchange of " + graph.nodes[wait.node].line.text(); },
      [](const LoadState&) { return std::string("load"); }, [](const SaveState&) { return std::string("save"); });
}

void verify(const Program& program, const Graph& graph) {
  Verifier verifier(program, graph);
  for (const Section section : graph.sections()) verifier.run(program.of(section));
  verifier.run(program.load);
  verifier.run(program.save);
  verifier.run(program.clear);
}

std::string to_text(const Program& program, const Graph& graph) {
  std::string text;
  append(text, "load", program.load, graph);
  for (const Section section : graph.sections()) append(text, graph.name(section), program.of(section), graph);
  append(text, "save", program.save, graph);
  append(text, "clear", program.clear, graph);
  return text;
}

}  // namespace plimsoll
